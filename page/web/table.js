/* table.js: tables that sort by a click on a heading, filter, and copy as CSV.
 *
 *   parc.table({plan, name, columns, rows, sort: 'exposed', descending: true,
 *               id: row => row.id, kind: 'statement', search: row => '…'})
 *
 * A column has key, name, value(row) (a number or a text), and optionally form (of
 * numbers, see format.js), show(row) (nodes instead of the value), title, bar (a bar
 * as long as the value's part of the largest), and class.
 */
(function (parc) {
    'use strict';
    const el = parc.el;

    function cell(column, row, largest) {
        const value = column.value(row);
        const shown = column.show ? column.show(row) : null;
        if (!column.form)
            return el('td', {class: column.class}, shown === null ? value : shown);
        if (value === null || value === undefined || Number.isNaN(value))
            return el('td', {class: 'num'}, el('span', {class: 'none'}, '–'));
        const td = el('td', {class: 'num' + (column.bar ? ' barred' : ''), 'data-value': value,
            title: parc.exact(column.form, value)}, shown === null ? parc.format[column.form](value) : shown);
        if (column.bar && largest > 0 && value > 0)
            td.appendChild(el('i', {class: 'bar', style: 'width:' + (100 * value / largest) + '%'}));
        return td;
    }

    function compare(a, b) {
        if (typeof a === 'number' && typeof b === 'number')
            return a - b;
        if (a === null || a === undefined || b === null || b === undefined)
            return (a === null || a === undefined ? 0 : 1) - (b === null || b === undefined ? 0 : 1);
        return String(a).localeCompare(String(b), 'en', {numeric: true});
    }

    function csv(columns, rows) {
        const quoted = x => /[",\n]/.test(x) ? '"' + x.replace(/"/g, '""') + '"' : x;
        /* a text that a spreadsheet would take for a formula gets an apostrophe */
        const text = x => x === null || x === undefined ? '' : typeof x === 'number' ? String(x) :
            quoted(String(x).replace(/^[=+\-@\t]/, "'$&"));
        const head = columns.map(c => quoted(c.name + (c.form && c.form !== 'text' ? parc.exact(c.form, '') : '')));
        return [head].concat(rows.map(r => columns.map(c => text(c.value(r))))).map(r => r.join(',')).join('\n') + '\n';
    }

    /* Copies a text; where the clipboard is not permitted, through a text field. */
    parc.copy = async function (text) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch (error) {
            const field = el('textarea', {class: 'unseen'});
            field.value = text;
            document.body.appendChild(field);
            field.select();
            const done = document.execCommand('copy');
            field.remove();
            return done;
        }
    };

    function heading(column, sortBy) {
        const button = el('button', {type: 'button', title: column.title || 'Sort by ' + column.name, on: {click: () => sortBy(column)}},
            column.name);
        return el('th', {scope: 'col', class: column.form ? 'num' : null, 'aria-sort': 'none', title: column.title}, button);
    }

    function makeRow(spec, columns, largest, row) {
        const id = spec.id(row);
        const tr = el('tr', {'data-id': id}, columns.map((c, i) => cell(c, row, largest[i])));
        if (spec.kind) {
            tr.dataset.kind = spec.kind;
            tr.dataset.key = id;
            parc.mark(tr, spec.plan, spec.kind, id);
        }
        return {row: row, tr: tr, text: spec.search ? spec.search(row) : ''};
    }

    function tools(spec, lines, columns) {
        const count = el('span', {class: 'count'});
        const button = el('button', {type: 'button', class: 'small'}, 'Copy as CSV');
        button.addEventListener('click', async function () {
            const shown = lines.filter(l => !l.tr.hidden).map(l => l.row);
            const done = await parc.copy(csv(columns, shown));
            button.textContent = done ? 'Copied' : 'Copying is not permitted here';
            parc.say(button.textContent);
            setTimeout(() => { button.textContent = 'Copy as CSV'; }, 1500);
        });
        return {bar: el('div', {class: 'tools'}, count, button), count: count};
    }

    function sorter(lines, body, heads, columns) {
        let current = '', direction = 1;
        return function (column, descending) {
            direction = descending !== undefined ? (descending ? -1 : 1) :
                current === column.key ? -direction : column.form ? -1 : 1;
            current = column.key;
            lines.sort((a, b) => direction * compare(column.value(a.row), column.value(b.row)));
            for (const line of lines)
                body.appendChild(line.tr);
            columns.forEach((c, i) => heads[i].setAttribute('aria-sort', c !== column ? 'none' : direction > 0 ? 'ascending' : 'descending'));
        };
    }

    parc.table = function (spec) {
        const columns = spec.columns.filter(c => !c.without);
        const largest = columns.map(c => c.bar ? Math.max(...spec.rows.map(r => c.value(r) || 0), 0) : 0);
        const lines = spec.rows.map(row => makeRow(spec, columns, largest, row));
        const body = el('tbody', {}, lines.map(l => l.tr));
        const heads = [];
        const sortBy = sorter(lines, body, heads, columns);
        for (const c of columns)
            heads.push(heading(c, sortBy));
        const parts = tools(spec, lines, columns);
        const box = el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': spec.name + ', table'},
            el('table', {}, el('caption', {class: 'unseen'}, spec.name), el('thead', {}, el('tr', {}, heads)), body));
        if (spec.sort)
            sortBy(columns.find(c => c.key === spec.sort), spec.descending === true);
        const filter = function (words) {
            let n = 0;
            for (const line of lines) {
                line.tr.hidden = words !== '' && !line.text.includes(words);
                n += line.tr.hidden ? 0 : 1;
            }
            parts.count.textContent = n === lines.length ? n + (n === 1 ? ' row' : ' rows') : n + ' of ' + lines.length + ' rows';
        };
        filter('');
        if (spec.search)
            parc.onFilter(filter);
        return el('div', {class: 'table' + (spec.class ? ' ' + spec.class : '')}, parts.bar, box);
    };
})(window.parc);
