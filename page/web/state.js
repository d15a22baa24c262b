/* state.js: the selection, the filter and the part that is shown; kept in the URL.
 *
 * The page has one selection {kind, key, plan}: a 'statement' by id, a 'module' by
 * path, a 'line' as 'llama.pdl:25', or a 'tensor' by name. Only the id of a
 * statement belongs to one plan; the other keys mean the same in both.
 *
 * Parts ask with parc.level how an element belongs to the selection:
 * 2: it is the selection, 1: it is related, 0: it is not. Elements that
 * parc.mark registers get the level as data-mark.
 *
 *   #part=memory&select=ag3&filter=feed    #select=module:layers.*   #select=line:llama.pdl:25
 */
(function (parc) {
    'use strict';
    const state = {selection: null, filter: '', part: ''};
    const onSelect = [], onFilter = [], marks = [];
    let related = null;
    parc.state = state;

    /* What belongs to the selection, for each plan. */
    function relatedIn(plan, s) {
        const r = {ids: new Set(), paths: new Set(), lines: new Set(), tensors: new Set()};
        let statements = [], blocks = [];
        if (s.kind === 'statement') {
            const one = s.plan === plan.label ? plan.byId.get(s.key) : null;
            statements = one ? [one] : [];
            blocks = one ? plan.blocksByName.get(one.collective ? one.collective.tensor : one.id) || [] : [];
        } else if (s.kind === 'module') {
            statements = plan.statements.filter(w => parc.isInside(w.path, s.key));
            blocks = plan.blocks.filter(b => parc.isInside(b.path, s.key));
            r.paths.add(s.key);
        } else if (s.kind === 'line') {
            statements = plan.byLine.get(s.key) || [];
            blocks = plan.blocks.filter(b => b.line === s.key);
            r.lines.add(s.key);
        } else {
            blocks = plan.blocksByName.get(s.key) || [];
            statements = plan.statements.filter(w => w.id === s.key || (w.collective && w.collective.tensor === s.key));
        }
        for (const w of statements) {
            r.ids.add(w.id);
            r.lines.add(w.line);
            if (w.path && s.kind !== 'module')
                r.paths.add(w.path);
        }
        for (const b of blocks) {
            r.tensors.add(b.name);
            r.lines.add(b.line);
            if (b.path && s.kind === 'tensor')
                r.paths.add(b.path);
        }
        return r;
    }

    parc.level = function (plan, kind, key) {
        const s = state.selection;
        if (!s)
            return 0;
        if (s.kind === kind && s.key === key)
            return kind === 'statement' && s.plan !== plan.label ? 0 : 2;
        const r = related.get(plan);
        const set = {statement: r.ids, module: r.paths, line: r.lines, tensor: r.tensors}[kind];
        return set.has(key) ? 1 : 0;
    };

    parc.mark = function (element, plan, kind, key) {
        marks.push({element: element, plan: plan, kind: kind, key: key});
        return element;
    };

    parc.onSelect = f => onSelect.push(f);
    parc.onFilter = f => onFilter.push(f);

    parc.select = function (selection) {
        state.selection = selection;
        related = selection ? new Map(parc.plans.map(p => [p, relatedIn(p, selection)])) : null;
        for (const m of marks) {
            const level = parc.level(m.plan, m.kind, m.key);
            if (level)
                m.element.dataset.mark = level;
            else if (m.element.dataset.mark)
                delete m.element.dataset.mark;
        }
        for (const f of onSelect)
            f(selection);
        write();
    };

    parc.setFilter = function (text) {
        state.filter = text;
        const words = text.trim().toLowerCase();
        for (const f of onFilter)
            f(words);
        write();
    };

    /* Scrolls to a part. */
    parc.show = function (part, quiet) {
        const section = document.getElementById(part);
        if (!section || section.hidden)
            return;
        state.part = part;
        section.scrollIntoView({block: 'start'});
        if (!quiet) {
            const heading = section.querySelector('h2');
            heading.setAttribute('tabindex', '-1');
            heading.focus({preventScroll: true});
        }
        write();
    };

    /* ---- the fragment of the URL ------------------------------------------------ */

    function selectionText(s) {
        return s.kind === 'statement' ? s.key : s.kind + ':' + s.key;
    }

    function write() {
        const parts = [];
        const put = (name, value) => value && parts.push(name + '=' + encodeURIComponent(value).replace(/%3A/g, ':').replace(/%2F/g, '/'));
        put('part', state.part);
        if (state.selection) {
            put('select', selectionText(state.selection));
            put('plan', state.selection.kind === 'statement' ? state.selection.plan : '');
        }
        put('filter', state.filter);
        try {
            window.history.replaceState(null, '', '#' + parts.join('&'));
        } catch (error) {
            /* a viewer of attachments may forbid it: the page works without */
        }
    }

    function decoded(text) {
        try {
            return decodeURIComponent(text);
        } catch (error) {
            return text;
        }
    }

    /* Reads the fragment; a bare '#memory' names a part. */
    parc.readFragment = function () {
        const text = window.location.hash.slice(1);
        const fields = new Map();
        for (const part of text.split('&')) {
            const at = part.indexOf('=');
            fields.set(at < 0 ? 'part' : part.slice(0, at), decoded(part.slice(at + 1)));
        }
        const chosen = fields.get('select') || '';
        const m = /^(module|line|tensor):(.*)$/.exec(chosen);
        const filter = fields.get('filter') || '';
        document.getElementById('filter').value = filter;
        parc.setFilter(filter);
        if (m)
            parc.select({kind: m[1], key: m[2]});
        else
            parc.select(chosen ? {kind: 'statement', key: chosen, plan: fields.get('plan') || parc.plans[0].label} : null);
        if (fields.get('part'))
            parc.show(fields.get('part'), true);
    };
})(window.parc);
