/* inspector.js: a bar at the bottom of the window that describes the selection.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;
    const MOST = 8; /* statements of a line that are listed */

    function ids(statements) {
        return statements.slice(0, MOST).flatMap((s, i) => [i ? ', ' : '', parc.pick('statement', s.id)])
            .concat(statements.length > MOST ? ' and ' + (statements.length - MOST) + ' more' : '');
    }

    function timeText(plan, statements) {
        const t = parc.sum(statements, s => s.exposed || 0);
        return plan.time ? format.seconds(t) + ' (' + format.percent(t / plan.step) + ' of the step)' : '';
    }

    function aboutStatement(plan, s) {
        const c = s.collective, facts = [s.class + (s.detail ? ': ' + s.detail : ''), s.phase, s.count + ' × ' + format.bytes(s.bytes)];
        if (s.flops)
            facts.push(format.flops(s.flops) + ' a call');
        if (plan.time)
            facts.push((s.computes ? '' : 'exposed ') + format.seconds(s.exposed) + (s.computes ? '' : ' of ' + format.seconds(s.run)) + ' per step');
        return [el('div', {}, facts.join(' · ')), c ? el('div', {}, 'Why: ' + c.why.replace(/ -> /g, ' \u2192 ')) : null,
            el('div', {}, s.path ? ['in ', parc.pick('module', s.path), ' · '] : '', s.after.length ? ['after ', s.after.flatMap((id, i) =>
                [i ? ', ' : '', parc.pick('statement', id)]), ' · '] : '', parc.sourceLink(s.source))];
    }

    function aboutModule(plan, path) {
        const statements = plan.statements.filter(s => parc.isInside(s.path, path));
        const bytes = parc.sum(parc.liveAt(plan, plan.page.memory.peak).filter(b => parc.isInside(b.path, path)), b => b.bytes);
        return [el('div', {}, [statements.length + ' statements', timeText(plan, statements), format.bytes(bytes) + ' at the memory peak',
            format.flops(parc.sum(statements, s => s.flops * s.count)) + ' per step'].filter(Boolean).join(' · '))];
    }

    function aboutLine(plan, key) {
        const statements = plan.byLine.get(key) || [], at = key.lastIndexOf(':');
        const source = plan.page.sources.find(s => s.name === key.slice(0, at));
        const text = source ? source.text.split('\n')[+key.slice(at + 1) - 1] || '' : '';
        return [el('div', {}, el('code', {}, text.trim())), statements.length ? el('div', {}, [statements.length + (statements.length === 1 ?
            ' statement' : ' statements'), timeText(plan, statements)].filter(Boolean).join(' · '), ': ', ids(statements)) : el('div', {}, 'No statement has this line.')];
    }

    function aboutTensor(plan, name) {
        return (plan.blocksByName.get(name) || []).slice(0, 3).map(b => el('div', {}, [b.class, format.bytes(b.bytes), b.type,
            'live from moment ' + (b.first + 1) + ' to ' + (b.last + 1)].filter(Boolean).join(' · '), ' ', b.path ? ['in ', parc.pick('module', b.path), ' '] : '',
        parc.sourceLink(b.source)));
    }

    function about(plan, s) {
        if (s.kind === 'statement')
            return s.plan === plan.label && plan.byId.has(s.key) ? aboutStatement(plan, plan.byId.get(s.key)) : [];
        return {module: aboutModule, line: aboutLine, tensor: aboutTensor}[s.kind](plan, s.key);
    }

    /* Parts in which the selection is marked. */
    function places(s) {
        const parts = {statement: ['timeline', 'memory', s.key.match(/^(ag|rs|ar|aa|bc|sd|rc)\d/) ? 'collectives' : 'kernels', 'source'],
            module: ['modules', 'timeline', 'kernels', 'source'], line: ['source', 'timeline', 'kernels', 'memory'], tensor: ['memory', 'source']}[s.kind];
        return el('div', {class: 'places'}, 'Show in ', parts.map(p => el('button', {type: 'button', class: 'small', on: {click: () => parc.show(p)}}, p)));
    }

    parc.inspector = function () {
        const box = document.getElementById('selection');
        parc.onSelect(function (s) {
            box.hidden = s === null;
            document.body.classList.toggle('selecting', s !== null);
            parc.clear(box);
            if (!s)
                return;
            const name = s.kind === 'module' && s.key === '' ? 'the model' : s.key;
            const bodies = parc.plans.map(p => ({plan: p, lines: about(p, s).filter(Boolean)})).filter(b => b.lines.length);
            box.append(el('div', {class: 'title'}, el('span', {class: 'quiet'}, s.kind + ' '), el('b', {}, name), places(s),
                el('button', {type: 'button', class: 'close', 'aria-label': 'Clear the selection (Esc)', title: 'Clear the selection (Esc)',
                    on: {click: () => parc.select(null)}}, '×')));
            for (const b of bodies)
                box.append(el('div', {class: 'what', 'data-plan': b.plan.label}, b.plan.label ? el('span', {class: 'tag'}, b.plan.label) : null, el('div', {}, b.lines)));
            if (!bodies.length)
                box.append(el('div', {class: 'what'}, 'Not in this plan.'));
            parc.say(s.kind + ' ' + name + ' is selected');
        });
    };
})(window.parc);
