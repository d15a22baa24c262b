/* whatif.js: the part "what if": sliders for the speed of parts of the machine, and the
 * step's time with them, from the walk of walk.js. */
(function (parc) {
    'use strict';
    const el = parc.el;
    const SLIDERS = [
        {key: 'matmul', text: 'Matmuls and attention'},
        {key: 'memory', text: 'Memory bandwidth'},
        {key: 'link', text: 'Links inside a node'},
        {key: 'nic', text: 'Links between nodes'},
    ];
    const STEPS = 8; /* of a slider, each way: to 4 times as fast or slow */

    const factorOf = slider => Math.pow(2, slider.value / (STEPS / 2));
    const factorText = x => (x >= 9.995 ? x.toFixed(1) : x.toFixed(2)) + 'x';

    function sliderRow(row, id, onInput) {
        const input = el('input', {type: 'range', id: id, value: '0', on: {input: onInput}});
        input.min = -STEPS;
        input.max = STEPS;
        input.step = 1;
        input.value = 0;
        const output = el('b', {}, '1.00x');
        const label = el('label', {for: id}, row.text);
        return {key: row.key, input: input, output: output,
            node: el('div', {class: 'slider'}, label, input, output)};
    }

    function changeText(before, after) {
        const change = after - before;
        if (Math.abs(change) < 1e-9 * before)
            return 'no change';
        return (change > 0 ? '+' : '-') + parc.format.seconds(Math.abs(change)) + ' (' +
            (change > 0 ? '+' : '-') + parc.format.percent(Math.abs(change) / before) + ')';
    }

    function resultRow(name, before, after, color) {
        const cell = (field, x) => el('td', {class: 'num', 'data-value': x, 'data-field': field,
            title: x + ' s'}, parc.format.seconds(x));
        return el('tr', {}, el('th', {scope: 'row'}, color ? parc.swatch(color) : '', name),
            cell(name === 'Step' ? 'before' : null, before), cell(name === 'Step' ? 'after' : null, after),
            el('td', {class: 'num'}, changeText(before, after)));
    }

    function results(before, after) {
        const rows = [resultRow('Step', before.seconds, after.seconds)];
        for (const name of Object.keys(before.byClass))
            if (before.byClass[name] > 0 || after.byClass[name] > 0)
                rows.push(resultRow(name, before.byClass[name], after.byClass[name], name));
        if (before.bubble > 0)
            rows.push(resultRow('waiting for other stages', before.bubble, after.bubble, 'bubble'));
        const head = el('tr', {}, el('th', {scope: 'col'}, 'Time of a step'), el('th', {scope: 'col', class: 'num'}, 'Plan'),
            el('th', {scope: 'col', class: 'num'}, 'With these speeds'), el('th', {scope: 'col', class: 'num'}, 'Change'));
        return el('div', {class: 'scroll'}, el('table', {class: 'plain', 'aria-label': 'The time of a step with these speeds'}, el('thead', {}, head), el('tbody', {}, rows)));
    }

    parc.whatif = function (plan, box) {
        if (!plan.json.page.walk) {
            box.append(parc.note(parc.NO_MACHINE));
            return;
        }
        const time = plan.json.time, out = el('div', {});
        const before = {seconds: time.step_seconds, byClass: time.by_class, bubble: time.bubble_seconds};
        let pending = false;
        function run() {
            pending = false;
            const scale = {};
            for (const s of sliders) {
                scale[s.key] = factorOf(s.input);
                s.output.textContent = factorText(scale[s.key]);
                s.input.setAttribute('aria-valuetext', s.output.textContent);
            }
            parc.clear(out).append(results(before, parc.walk(plan.json, scale)));
        }
        function later() {
            if (!pending)
                requestAnimationFrame(run);
            pending = true;
        }
        const sliders = SLIDERS.map(row => sliderRow(row, 'whatif-' + row.key + (plan.label || ''), later));
        const reset = el('button', {type: 'button', on: {click: function () {
            for (const s of sliders)
                s.input.value = 0;
            later();
        }}}, 'Reset');
        box.append(el('div', {class: 'sliders'}, sliders.map(s => s.node), reset), out);
        out.append(results(before, before)); /* the walk runs when a slider moves */
    };
})(window.parc);
