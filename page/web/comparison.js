/* comparison.js: the part `comparison`: what differs between the plans a and b.
 *
 * The rows are those of `parc compare --json`; rows that are equal in both plans are not
 * listed.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;
    const LISTS = [['totals', 'Totals'], ['time_by_class', 'Time by class'], ['time_by_module', 'Time by module'],
        ['collectives', 'Collectives: bytes that a rank sends in a step'], ['memory_by_class', 'Memory at the peak by class'],
        ['memory_by_name', 'Memory at the peak by tensor']];
    const FEW = 20; /* lists with more differences are closed */

    function shown(row, value) {
        const part = row.unit === '1';
        return value === null || value === undefined ? '–' : part ? format.percent(value) : format[parc.formOf(row.unit)](value);
    }

    function changeText(row) {
        if (row.change === 0)
            return 'equal';
        const text = row.unit === '1' ? (row.change > 0 ? '+' : '−') + format.percent(Math.abs(row.change)) : parc.signed(parc.formOf(row.unit), row.change);
        return row.a ? text + ' (' + (row.change > 0 ? '+' : '−') + (100 * Math.abs(row.change / row.a)).toFixed(1) + '%)' : text;
    }

    function note(row) {
        return row.note_a === row.note_b || !row.note_b ? row.note_a || '' : !row.note_a ? row.note_b : 'a: ' + row.note_a + '; b: ' + row.note_b;
    }

    function list(key, name, rows) {
        const different = rows.filter(r => r.change !== 0), equal = rows.length - different.length;
        const table = parc.table({plan: null, name: name, rows: key === 'totals' ? rows : different, id: r => r.name, search: r => (r.name + ' ' + note(r)).toLowerCase(),
            class: 'compared', columns: [
                {key: 'name', name: 'Name', value: r => r.name, class: 'text'},
                {key: 'a', name: 'a', form: 'text', value: r => r.a, show: r => shown(r, r.a)},
                {key: 'b', name: 'b', form: 'text', value: r => r.b, show: r => shown(r, r.b)},
                {key: 'change', name: 'b − a', form: 'text', value: r => r.change, show: changeText},
                {key: 'note', name: 'Why', value: note, class: 'text', without: rows.every(r => !note(r))}]});
        const title = name + (key !== 'totals' && equal ? ' (' + different.length + ' differ, ' + equal + ' equal)' : '');
        return el('details', {class: rows.some(note) ? 'broad' : null, open: different.length <= FEW || key === 'totals'}, el('summary', {}, title), table);
    }

    /* One sentence: which plan is faster, by what, and which needs less memory. */
    function summary(c) {
        const get = name => c.totals.find(r => r.name === name), step = get('step'), memory = get('memory of a rank'), parts = [];
        if (step && step.a && step.b)
            parts.push(step.change === 0 ? 'Both steps take ' + format.seconds(step.a) : 'Plan ' + (step.change < 0 ? 'b' : 'a') + ' is ' +
                (Math.max(step.a, step.b) / Math.min(step.a, step.b)).toFixed(2) + ' times as fast: ' + format.seconds(step.a) + ' and ' + format.seconds(step.b));
        if (memory)
            parts.push(memory.change === 0 ? 'both need ' + format.bytes(memory.a) + ' per rank' : 'plan b needs ' + format.bytes(Math.abs(memory.change)) +
                (memory.change > 0 ? ' more' : ' less') + ' memory per rank');
        const text = parts.join('; ');
        return text ? el('p', {class: 'lead'}, text[0].toUpperCase() + text.slice(1) + '.') : null;
    }

    parc.comparisonPart = function (c, box) {
        box.append(el('dl', {class: 'facts'}, ['a', 'b'].map(k => el('div', {}, el('dt', {}, el('span', {class: 'tag'}, k)), el('dd', {}, c[k])))));
        const sentence = summary(c);
        if (sentence)
            box.append(sentence);
        const lists = el('div', {class: 'lists'});
        box.append(lists);
        for (const [key, name] of LISTS) {
            const rows = (c[key] || []).slice();
            if (key !== 'totals')
                rows.sort((x, y) => Math.abs(y.change) - Math.abs(x.change));
            if (rows.some(r => r.change !== 0) || (key === 'totals' && rows.length))
                lists.append(list(key, name, rows));
        }
    };
})(window.parc);
