/* memory.js: the part `memory`: the chart over the step, and the tensors live at the cursor.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;

    function momentText(plan, moment) {
        const index = plan.page.memory.moments[moment], s = index >= 0 ? plan.statements[index] : null;
        return s ? s.id + ' (' + s.phase + ')' : 'an operation without a statement';
    }

    function readout(plan, model, moment) {
        const index = plan.page.memory.moments[moment], s = index >= 0 ? plan.statements[index] : null;
        const total = model.total[moment], under = model.total[model.peak] - total;
        const classes = parc.MEMORY_CLASSES.map((name, k) => ({name: name, bytes: model.byClass[k][moment]}));
        return [el('div', {}, 'Moment ' + (moment + 1) + ' of ' + model.n + (moment === model.peak ? ', the peak' : '') + ': ',
            s ? parc.pick('statement', s.id) : 'an operation without a statement', s ? ' (' + s.phase + (s.path ? ', ' + s.path : '') + ')' : '',
            '; live ', el('b', {'data-field': 'live', 'data-value': total}, format.bytes(total)), under > 0 ? ', ' + format.bytes(under) + ' under the peak' : ''),
        el('ul', {class: 'legend'}, classes.map(c => el('li', {}, parc.swatch(c.name), c.name + ' ', el('b', {'data-value': c.bytes}, format.bytes(c.bytes)))))];
    }

    function row(plan, b, largest) {
        const tr = el('tr', {'data-name': b.name, 'data-kind': 'tensor', 'data-key': b.name, 'data-mark': parc.level(plan, 'tensor', b.name) || null},
            el('td', {}, parc.pick('tensor', b.name)),
            el('td', {}, parc.swatch(b.class), b.class),
            el('td', {class: 'num barred', 'data-value': b.bytes, title: b.bytes + ' bytes'}, format.bytes(b.bytes),
                el('i', {class: 'bar', style: 'width:' + 100 * b.bytes / largest + '%'})),
            el('td', {class: 'mono'}, b.type),
            el('td', {}, b.path),
            el('td', {}, parc.sourceLink(b.source)));
        return tr;
    }

    /* The list of live tensors; the filter applies to it too. */
    function liveList(plan) {
        const body = el('tbody', {}), count = el('span', {class: 'count'});
        const heads = ['Tensor', 'Class', 'Bytes', 'Type', 'Module', 'Source'].map((n, i) => el('th', {scope: 'col', class: i === 2 ? 'num' : null}, n));
        const box = el('div', {class: 'table'}, el('div', {class: 'tools'}, count), el('div', {class: 'scroll tall', tabindex: '0', role: 'region',
            'aria-label': 'Live tensors, table'}, el('table', {}, el('caption', {class: 'unseen'}, 'Tensors that are live at the cursor, largest first'),
            el('thead', {}, el('tr', {}, heads)), body)));
        let moment = -1, words = '';
        const fill = function () {
            const live = parc.liveAt(plan, moment);
            const shown = live.filter(b => !words || (b.name + ' ' + b.path + ' ' + b.source + ' ' + b.class).toLowerCase().includes(words));
            parc.clear(body).append(...shown.map(b => row(plan, b, live[0].bytes)));
            count.textContent = 'Live tensors, largest first: ' + (shown.length < live.length ? shown.length + ' of ' : '') + live.length;
        };
        parc.onFilter(function (text) {
            words = text;
            if (moment >= 0)
                fill();
        });
        parc.onSelect(function () {
            for (const tr of body.rows) {
                const level = parc.level(plan, 'tensor', tr.dataset.name);
                if (level)
                    tr.dataset.mark = level;
                else
                    delete tr.dataset.mark;
            }
        });
        return {element: box, show: function (at) {
            if (at !== moment) {
                moment = at;
                fill();
            }
        }};
    }

    parc.memory = function (plan, box) {
        const model = parc.memoryModel(plan);
        if (!model.n) {
            box.append(parc.note('This plan lists no moments of the step.'));
            return;
        }
        const text = el('div', {class: 'readout short'}), list = liveList(plan);
        const chart = parc.memoryChart(plan, model, function (moment) {
            parc.clear(text).append(...readout(plan, model, moment));
            list.show(moment);
            chart.element.setAttribute('aria-valuenow', moment);
            chart.element.setAttribute('aria-valuetext', momentText(plan, moment) + ', ' + format.bytes(model.total[moment]) + ' live');
        });
        const even = el('input', {type: 'checkbox', on: {change: event => chart.setEven(event.target.checked)}});
        const buttons = el('div', {class: 'tools'}, plan.time ? el('label', {}, even, ' equally wide moments') :
            el('span', {class: 'quiet'}, 'Moments are equally wide. ' + parc.NO_MACHINE),
        el('button', {type: 'button', class: 'small', on: {click: () => chart.cursor(model.peak, true)}}, 'Go to the peak'));
        box.append(buttons, el('div', {class: 'chart'}, chart.element), text, list.element);
        new ResizeObserver(function () {
            if (chart.element.clientWidth !== chart.state.width)
                chart.draw(chart.element.clientWidth);
        }).observe(chart.element);
        chart.draw(chart.element.clientWidth || 600);
        parc.onSelect(function (s) {
            const index = s && s.kind === 'statement' && s.plan === plan.label && plan.byId.has(s.key) ? plan.byId.get(s.key).index : -1;
            const moment = index < 0 ? -1 : plan.page.memory.moments.indexOf(index);
            if (moment >= 0)
                chart.cursor(moment, true);
        });
    };
})(window.parc);
