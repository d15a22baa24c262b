/* mesh.js: the part `mesh`: the ranks on their nodes, and what they send on each axis.
 *
 * A group of an axis has the ranks that differ only in the axis' coordinates: the
 * first rank of a rank's group is the rank minus coordinate x stride of each of the
 * axis' parts. Large meshes show one node only.
 */
(function (parc) {
    'use strict';
    const el = parc.el, svg = parc.svg;
    const CELL = 26, GAP = 3, PAD = 8, TITLE = 16, MOST = 256, HUES = 8;

    function firstOfGroup(group, rank) {
        return group.axes.reduce((first, a) => first - Math.floor(rank / a.stride) % a.size * a.stride, rank);
    }

    function nodesOf(plan) {
        const size = plan.nodeRanks && plan.nodeRanks < plan.ranks ? plan.nodeRanks : plan.ranks;
        const count = Math.ceil(plan.ranks / size);
        const shown = plan.ranks <= MOST ? count : 1;
        return {size: size, count: count, shown: shown, named: plan.nodeRanks > 0, cells: Math.min(size, MOST)};
    }

    /* Columns of ranks in a node: 2 rows for 8 ranks of a GPU node, else as wide as high. */
    function columnsOf(n) {
        return n <= 4 ? n : n <= 8 ? 4 : Math.min(16, Math.ceil(Math.sqrt(n)));
    }

    function drawRank(plan, rank, x, y) {
        return svg('g', {class: 'rank', 'data-rank': rank, transform: 'translate(' + x + ',' + y + ')'},
            svg('title', {}, 'rank ' + rank + coordinates(plan, rank)),
            svg('rect', {width: CELL, height: CELL, rx: 3}),
            svg('text', {x: CELL / 2, y: CELL / 2 + 4, 'text-anchor': 'middle'}, rank));
    }

    function coordinates(plan, rank) {
        let rest = rank;
        const at = [];
        for (const axis of plan.json.mesh.slice().reverse()) {
            at.unshift(axis.name + ' ' + rest % axis.size);
            rest = Math.floor(rest / axis.size);
        }
        return ': ' + at.join(', ');
    }

    function drawNode(plan, nodes, node) {
        const columns = columnsOf(nodes.cells), first = node * nodes.size;
        const n = Math.min(nodes.cells, plan.ranks - first), rows = Math.ceil(n / columns);
        const width = 2 * PAD + columns * (CELL + GAP) - GAP, height = TITLE + 2 * PAD + rows * (CELL + GAP) - GAP;
        const picture = svg('svg', {class: 'node', width: width, height: height, viewBox: '0 0 ' + width + ' ' + height,
            role: 'img', 'aria-label': (nodes.named ? 'node ' + node + ', ' : '') + 'ranks ' + first + ' to ' + (first + n - 1)});
        picture.append(svg('rect', {class: 'frame', x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 5}),
            svg('text', {class: 'name', x: PAD, y: TITLE}, nodes.named ? 'node ' + node : 'ranks'));
        for (let i = 0; i < n; i++)
            picture.append(drawRank(plan, first + i, PAD + i % columns * (CELL + GAP), TITLE + PAD + Math.floor(i / columns) * (CELL + GAP)));
        return picture;
    }

    /* Colours the groups of an axis. The number of the group tells them apart without colours. */
    function color(plan, picture, group) {
        const numbers = new Map();
        for (let rank = 0; group && rank < plan.ranks; rank++) {
            const first = firstOfGroup(group, rank);
            if (!numbers.has(first))
                numbers.set(first, numbers.size);
        }
        for (const cell of picture.querySelectorAll('.rank')) {
            const rank = +cell.dataset.rank, number = group ? numbers.get(firstOfGroup(group, rank)) : 0;
            cell.setAttribute('class', 'rank hue' + (group ? number % HUES : 'less'));
            cell.dataset.group = number;
            cell.querySelector('title').textContent = 'rank ' + rank + coordinates(plan, rank) +
                (group ? '; group ' + number + ' of ' + numbers.size + ' over ' + group.axis : '');
        }
    }

    /* The pointer on a rank outlines the ranks of its group. */
    function outline(picture) {
        picture.addEventListener('pointerover', function (event) {
            const cell = event.target.closest('.rank');
            for (const other of picture.querySelectorAll('.rank'))
                other.classList.toggle('same', cell !== null && other.dataset.group === cell.dataset.group);
        });
        picture.addEventListener('pointerleave', function () {
            for (const other of picture.querySelectorAll('.same'))
                other.classList.remove('same');
        });
    }

    function chooser(plan, picture, caption) {
        const groups = plan.json.groups;
        const choose = function (group) {
            color(plan, picture, group);
            caption.textContent = group ? group.count + (group.count === 1 ? ' group of ' : ' groups of ') + group.size + ' ranks' +
                (group.nodes ? ', each on ' + group.nodes + (group.nodes === 1 ? ' node' : ' nodes') : '') + ': ' +
                group.first.join(', ') + (group.count > group.first.length ? ', …' : '') +
                (group.count > HUES ? '. Colors repeat after ' + HUES + ' groups; point at a rank to outline its group.' : '') : 'This program has no collectives.';
        };
        choose(groups[0]);
        const name = 'axis' + plan.label;
        return el('fieldset', {class: 'chooser'}, el('legend', {}, 'Groups of'), groups.map((g, i) => el('label', {},
            el('input', {type: 'radio', name: name, value: g.axis, checked: i === 0, on: {change: () => choose(g)}}), ' ' + g.axis)));
    }

    function linkOf(plan, axis) {
        const group = plan.json.groups.find(g => g.axis === axis);
        const one = plan.json.collectives.find(c => c.axis === axis && c.link);
        if (one)
            return one.link;
        if (!group || !plan.nodeRanks)
            return '';
        const nodes = new Set(), first = firstOfGroup(group, 0);
        for (let rank = 0; rank < plan.ranks; rank++)
            if (firstOfGroup(group, rank) === first)
                nodes.add(Math.floor(rank / plan.nodeRanks));
        return nodes.size === 1 ? 'inside a node' : nodes.size === group.size ? 'between nodes' : 'inside and between nodes';
    }

    function trafficTable(plan) {
        const over = axis => plan.statements.filter(s => s.collective && s.collective.axis === axis);
        /* the rank that sends the most may run other statements than those listed: the part counts */
        const between = function (t) {
            const field = name => parc.sum(over(t.axis), s => (s.collective[name] || 0) * s.count), all = field('sent');
            return all > 0 ? Math.round(t.sent * field('sent_between_nodes') / all) : null;
        };
        const size = axis => (plan.json.groups.find(g => g.axis === axis) || {}).size;
        return parc.table({plan: plan, name: 'Traffic by axis', rows: plan.json.traffic, id: t => t.axis, sort: 'sent', descending: true, columns: [
            {key: 'axis', name: 'Axis', value: t => t.axis},
            {key: 'size', name: 'Ranks', form: 'number', value: t => size(t.axis), title: 'Ranks of a group'},
            {key: 'link', name: 'Link', value: t => linkOf(plan, t.axis)},
            {key: 'calls', name: 'Calls', form: 'number', value: t => t.calls, title: 'Calls per step'},
            {key: 'sent', name: 'Sent', form: 'bytes', value: t => t.sent, bar: true, title: 'Bytes that a rank sends in a step'},
            {key: 'between', name: 'Sent between nodes', form: 'bytes', value: between, without: !plan.json.node_size},
            {key: 'run', name: 'Time', form: 'seconds', value: t => parc.sum(over(t.axis), s => s.run), without: !plan.time,
                title: 'Time of the collectives in a step'},
            {key: 'exposed', name: 'Exposed', form: 'seconds', value: t => parc.sum(over(t.axis), s => s.exposed), bar: true,
                without: !plan.time, title: 'Time for which the compute stream waits for them'}]});
    }

    parc.mesh = function (plan, box) {
        const nodes = nodesOf(plan);
        const picture = el('div', {class: 'nodes'});
        for (let i = 0; i < nodes.shown; i++)
            picture.append(drawNode(plan, nodes, i));
        if (nodes.shown < nodes.count)
            picture.append(el('p', {class: 'more'}, '… ' + (nodes.count - nodes.shown) + ' more nodes'));
        else if (nodes.cells < nodes.size)
            picture.append(el('p', {class: 'more'}, '… ' + (nodes.size - nodes.cells) + ' more ranks'));
        const caption = el('p', {class: 'quiet', role: 'status'});
        const choice = chooser(plan, picture, caption);
        outline(picture);
        box.append(choice, picture, caption);
        if (plan.json.traffic.length)
            box.append(trafficTable(plan));
    };
})(window.parc);
