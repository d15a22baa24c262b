/* modules.js: the part `modules`: the tree of modules with their totals.
 *
 * A path 'layers.*.attention.wq' is the nodes layers.*, attention, wq. The total of a
 * node includes its children; the root is the model. The tree has one tab stop:
 * arrows move, open and close, Enter selects.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;

    function stepsOf(path) {
        const steps = [];
        for (const name of path ? path.split('.') : [])
            if ((name === '*' || /^\d+(-\d+)?$/.test(name)) && steps.length)
                steps[steps.length - 1] += '.' + name;
            else
                steps.push(name);
        return steps;
    }

    function newNode(name, path, level) {
        return {name: name, path: path, level: level, children: new Map(), parameters: 0, bytes: 0, flops: 0, seconds: 0, search: ''};
    }

    /* Adds to the totals of a path and of all above it. */
    function add(root, path, field, value) {
        let node = root;
        node[field] += value;
        for (const step of stepsOf(path)) {
            if (!node.children.has(step))
                node.children.set(step, newNode(step, node.path ? node.path + '.' + step : step, node.level + 1));
            node = node.children.get(step);
            node[field] += value;
        }
        return node;
    }

    parc.moduleTree = function (plan) {
        const root = newNode(plan.json.model, '', 1);
        for (const p of plan.json.params)
            add(root, p.name.replace(/\.?[^.]*$/, ''), 'parameters', p.count * p.shape.reduce((a, b) => a * b, 1)).search += ' ' + p.source;
        for (const b of parc.liveAt(plan, plan.page.memory.peak))
            add(root, b.path, 'bytes', b.bytes);
        for (const s of plan.statements) {
            const node = add(root, s.path, 'flops', s.flops * s.count);
            add(root, s.path, 'seconds', s.exposed || 0);
            node.search += ' ' + s.search;
        }
        return root;
    };

    function totals(plan, root, node) {
        const measure = plan.time ? 'seconds' : 'flops';
        const share = root[measure] > 0 ? node[measure] / root[measure] : 0;
        const shown = (form, x) => el('span', {class: 'num', role: 'presentation'}, x ? parc.value(form, x) : '–');
        return [shown('count', node.parameters), shown('bytes', node.bytes), shown('flops', node.flops),
            plan.time ? shown('seconds', node.seconds) : null,
            el('span', {class: 'meter', title: format.percent(share) + ' of the ' + (plan.time ? 'time' : 'flops'), 'data-value': share},
                el('i', {style: 'width:' + 100 * share + '%'}), el('span', {}, format.percent(share)))];
    }

    function makeItem(plan, root, node, parent) {
        const inner = node.children.size > 0;
        const label = el('span', {class: 'name', style: 'padding-left:' + (node.level - 1) * 1.1 + 'em'},
            el('span', {class: 'twisty', 'aria-hidden': 'true'}, inner ? '▾' : ''), node.name);
        const row = el('div', {role: 'treeitem', class: 'row', 'aria-level': node.level, tabindex: '-1', 'data-path': node.path,
            'aria-expanded': inner ? 'true' : null, 'aria-selected': 'false', title: node.path || node.name},
        label, totals(plan, root, node));
        parc.mark(row, plan, 'module', node.path);
        const item = {node: node, row: row, parent: parent, open: true, inner: inner,
            text: (node.path + ' ' + node.search).toLowerCase(), shown: true};
        return item;
    }

    function itemsOf(plan, root) {
        const items = [], measure = plan.time ? 'seconds' : 'flops';
        const visit = function (node, parent) {
            const item = makeItem(plan, root, node, parent);
            items.push(item);
            for (const child of Array.from(node.children.values()).sort((a, b) => b[measure] - a[measure]))
                visit(child, item);
        };
        visit(root, null);
        return items;
    }

    /* Shows the items whose parents are open; a filter shows matches and what is above them. */
    function refresh(items, words) {
        const matches = new Set();
        for (const item of items)
            if (words && item.text.includes(words))
                for (let i = item; i; i = i.parent)
                    matches.add(i);
        for (const item of items) {
            item.shown = words ? matches.has(item) : !item.parent || (item.parent.shown && item.parent.open);
            item.row.hidden = !item.shown;
            if (item.inner) {
                const open = words !== '' || item.open;
                item.row.setAttribute('aria-expanded', String(open));
                item.row.querySelector('.twisty').textContent = open ? '▾' : '▸';
            }
        }
    }

    function keys(items, tree, setOpen) {
        const go = item => item && item.row.focus();
        const near = (item, step) => {
            const shown = items.filter(i => i.shown);
            return shown[Math.min(Math.max(shown.indexOf(item) + step, 0), shown.length - 1)];
        };
        tree.addEventListener('keydown', function (event) {
            const item = items.find(i => i.row === event.target);
            if (!item || event.ctrlKey || event.altKey || event.metaKey)
                return;
            const act = {
                ArrowDown: () => go(near(item, 1)), ArrowUp: () => go(near(item, -1)),
                Home: () => go(items[0]), End: () => go(items.filter(i => i.shown).pop()),
                ArrowRight: () => item.inner && !item.open ? setOpen(item, true) : item.inner && go(near(item, 1)),
                ArrowLeft: () => item.inner && item.open ? setOpen(item, false) : go(item.parent),
                Enter: () => parc.select({kind: 'module', key: item.node.path}),
                ' ': () => parc.select({kind: 'module', key: item.node.path}),
            }[event.key];
            if (act) {
                event.preventDefault();
                act();
            }
        });
        tree.addEventListener('focusin', function (event) {
            for (const i of items)
                i.row.setAttribute('tabindex', i.row === event.target ? '0' : '-1');
        });
    }

    function headings(plan) {
        const names = ['Module', 'Parameters', 'Memory at the peak', 'Flops of a rank'].concat(plan.time ? ['Time'] : [], ['Share']);
        return el('div', {class: 'row head', 'aria-hidden': 'true'}, names.map((n, i) => el('span', {class: i ? 'num' : 'name'}, n)));
    }

    parc.modules = function (plan, box) {
        const root = parc.moduleTree(plan), items = itemsOf(plan, root);
        const tree = el('div', {role: 'tree', 'aria-label': 'Modules', class: 'tree' + (plan.time ? '' : ' untimed')}, items.map(i => i.row));
        let words = '';
        const setOpen = function (item, open) {
            item.open = open;
            refresh(items, words);
        };
        items[0].row.setAttribute('tabindex', '0');
        keys(items, tree, setOpen);
        tree.addEventListener('click', function (event) {
            const item = items.find(i => i.row.contains(event.target));
            if (!item)
                return;
            if (item.inner && event.target.closest('.twisty'))
                setOpen(item, !item.open);
            else
                parc.select({kind: 'module', key: item.node.path});
        });
        parc.onFilter(function (text) {
            words = text;
            refresh(items, words);
        });
        parc.onSelect(function (s) {
            for (const i of items)
                i.row.setAttribute('aria-selected', String(s !== null && s.kind === 'module' && s.key === i.node.path));
        });
        box.append(el('div', {class: 'scroll tall'}, headings(plan), tree));
    };
})(window.parc);
