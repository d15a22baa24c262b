/* collectives.js: the part `collectives`: a table of the collectives, and why each is needed.
 */
(function (parc) {
    'use strict';

    function afterCell(s) {
        return s.after.length ? s.after.flatMap((id, i) => [i ? ', ' : '', parc.pick('statement', id)]) : 'issued immediately';
    }

    function whyText(c) {
        return c.why.replace(/ -> /g, '\u00a0\u2192\u00a0') + (c.in_place ? ' (in place: nothing moves)' : '');
    }

    parc.statementId = {key: 'id', name: 'Id', value: s => s.id, show: s => parc.pick('statement', s.id), class: 'id'};

    parc.collectives = function (plan, box) {
        const rows = plan.statements.filter(s => s.collective);
        if (!rows.length) {
            box.append(parc.note('This program has no collectives.'));
            return;
        }
        const c = s => s.collective, links = plan.json.node_size > 0;
        box.append(parc.table({plan: plan, name: 'Collectives', rows: rows, id: s => s.id, kind: 'statement', search: s => s.search + ' ' +
            (c(s).why + ' ' + c(s).tensor).toLowerCase(), sort: plan.time ? 'exposed' : 'bytes', descending: true, class: 'wide',
        columns: [
            parc.statementId,
            {key: 'kind', name: 'Kind', value: s => c(s).kind, class: 'mono'},
            {key: 'axis', name: 'Axis', value: s => c(s).axis},
            {key: 'tensor', name: 'Tensor', value: s => c(s).tensor, show: s => plan.blocksByName.has(c(s).tensor) ?
                parc.pick('tensor', c(s).tensor) : c(s).tensor, class: 'mono wrap'},
            {key: 'count', name: 'Calls', form: 'number', value: s => c(s).count, title: 'Calls of a rank per step'},
            {key: 'bytes', name: 'Bytes a call', form: 'bytes', value: s => c(s).bytes, title: 'The full tensor, gathered or not yet reduced, on one rank'},
            {key: 'run', name: 'Time', form: 'seconds', value: s => s.run, without: !plan.time, title: 'Time per step'},
            {key: 'exposed', name: 'Exposed', form: 'seconds', value: s => s.exposed, bar: true, without: !plan.time,
                title: 'Time per step for which the compute stream waits for it'},
            {key: 'why', name: 'Why', value: s => c(s).why, class: 'text', show: s => whyText(c(s))},
            {key: 'after', name: 'After', value: s => s.after.join(' '), show: afterCell, title: 'What it waits for', class: 'wrap'},
            {key: 'phase', name: 'Phase', value: s => c(s).phase},
            {key: 'link', name: 'Link', value: s => c(s).link || '', without: !links},
            {key: 'source', name: 'Source', value: s => c(s).source, show: s => parc.sourceLink(c(s).source)}]}));
    };
})(window.parc);
