/* source.js: the part `source`: the model's text with the time and bytes of each line.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;

    /* Bytes of a step: read and written, or of the tensor of a collective. */
    function bytesOf(statements) {
        return parc.sum(statements, s => s.bytes * s.count);
    }

    function bar(form, value, most, name) {
        const cell = el('span', {class: 'cost', 'data-value': value, title: value ? name + ' ' + parc.exact(form, value) : null});
        if (value > 0)
            cell.append(el('i', {class: name, style: 'width:' + Math.max(2, 100 * value / most) + '%'}), el('span', {}, format[form](value)));
        return cell;
    }

    function lineRow(plan, key, number, text, most) {
        const statements = plan.byLine.get(key) || [];
        const seconds = parc.sum(statements, s => s.exposed || 0), bytes = bytesOf(statements);
        const choose = parc.pick('line', key, number, {class: 'ref number', 'aria-label': 'line ' + number + (statements.length ?
            ', ' + (plan.time ? format.seconds(seconds) + ', ' : '') + format.bytes(bytes) : '')});
        const row = el('div', {class: 'line', 'data-line': key, 'data-kind': 'line', 'data-key': key}, choose,
            plan.time ? bar('seconds', seconds, most.seconds, 'time') : null, bar('bytes', bytes, most.bytes, 'bytes'), el('code', {}, text || ' '));
        return parc.mark(row, plan, 'line', key);
    }

    function file(plan, source, most, open) {
        const lines = source.text.replace(/\n$/, '').split('\n');
        const head = el('div', {class: 'line head', 'aria-hidden': 'true'}, el('span', {class: 'number'}, 'line'),
            plan.time ? el('span', {class: 'cost'}, 'time') : null, el('span', {class: 'cost'}, 'bytes'), el('code', {}, ''));
        return el('details', {class: 'file', open: open}, el('summary', {}, source.name), el('div', {class: 'scroll tall code' + (plan.time ? '' : ' untimed'), tabindex: '0',
            role: 'region', 'aria-label': source.name}, head, lines.map((text, i) => lineRow(plan, source.name + ':' + (i + 1), i + 1, text, most))));
    }

    parc.source = function (plan, box) {
        const all = Array.from(plan.byLine.values());
        const most = {seconds: Math.max(...all.map(l => parc.sum(l, s => s.exposed || 0)), 1e-12), bytes: Math.max(...all.map(bytesOf), 1)};
        const sources = plan.page.sources;
        if (!sources.length)
            box.append(parc.note('This plan has no source text.'));
        for (const s of sources)
            box.append(file(plan, s, most, sources.length === 1 || s.name !== 'prelude.pdl'));
        parc.onSelect(function () {
            const first = box.querySelector('.line[data-mark="2"]') || box.querySelector('.line[data-mark="1"]');
            if (!first)
                return;
            first.closest('details').open = true;
            const scroller = first.closest('.scroll');
            scroller.scrollTop = first.offsetTop - scroller.clientHeight / 3;
        });
    };
})(window.parc);
