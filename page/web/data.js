/* data.js: reads the plans from the JSON in the page.
 *
 * A plan has the JSON and what the parts look up: its statements with their times
 * and collectives, the statements by id and by line of the source, the machine's
 * constants by name, and the ranks of a node.
 */
(function (parc) {
    'use strict';

    /* 'llama.pdl:88:22' -> 'llama.pdl:88' */
    parc.lineOf = function (where) {
        const m = /^(.*:\d+):\d+$/.exec(where || '');
        return m ? m[1] : '';
    };

    const CLASS_OF_KIND = {embedding: 'lookup', fill: 'copy', copy: 'copy', matmul: 'matmul', attention: 'attention',
        collective: 'collective', transfer: 'transfer'};

    function classOf(work, time) {
        if (time)
            return time.class;
        if (/^(send|receive) over /.test(work.detail || ''))
            return 'send';
        return CLASS_OF_KIND[work.kind] || 'kernel';
    }

    function statementsOf(json) {
        const collectives = new Map(json.collectives.map(c => [c.id, c]));
        return json.work.map(function (w, index) {
            const time = json.time ? json.time.statements[index] : null;
            const kind = classOf(w, time);
            return Object.assign({}, w, {
                index: index, class: kind, line: parc.lineOf(w.source), after: w.after || [],
                collective: collectives.get(w.id) || null,
                computes: !['collective', 'send', 'transfer'].includes(kind),
                alone: time ? time.alone_seconds : null, run: time ? time.run_seconds : null,
                exposed: time ? time.exposed_seconds : null, slowed: time ? time.slowed_seconds : null,
                use: json.page.statements ? json.page.statements[index] : null,
                search: [w.id, w.path, w.detail, w.source, w.kind, kind].join(' ').toLowerCase(),
            });
        });
    }

    function grouped(items, keyOf) {
        const map = new Map();
        for (const item of items) {
            const key = keyOf(item);
            if (!map.has(key))
                map.set(key, []);
            map.get(key).push(item);
        }
        return map;
    }

    /* The module of a block: an argument or a stacked tensor of the program has no path of its
     * own; it gets that of its parameter, or of the first statement of its source position. */
    function modulesOf(json) {
        const byName = new Map(json.params.map(p => [p.name, p.name.replace(/\.?[^.]*$/, '')])), bySource = new Map();
        for (const w of json.work)
            if (w.path && !bySource.has(w.source))
                bySource.set(w.source, w.path);
        return b => b[6] || byName.get(b[0]) || byName.get(b[0].replace(/\.bf16$/, '')) || bySource.get(b[5]) || '';
    }

    function blocksOf(json) {
        const moduleOf = modulesOf(json);
        return json.page.memory.blocks.map(function (b, index) {
            return {index: index, name: b[0], class: b[1], bytes: b[2], first: b[3], last: b[4], source: b[5] || '',
                line: parc.lineOf(b[5]), path: moduleOf(b), type: b[7] || ''};
        });
    }

    function makePlan(json, label) {
        const machine = json.page.machine;
        const statements = statementsOf(json);
        const blocks = blocksOf(json);
        const constants = new Map((machine ? machine.constants : []).map(c => [c.name, c]));
        const given = constants.get('node.ranks');
        return {
            json: json, label: label, page: json.page, time: json.time || null, machine: machine, constants: constants,
            statements: statements, blocks: blocks,
            byId: new Map(statements.map(s => [s.id, s])),
            byLine: grouped(statements, s => s.line),
            blocksByName: grouped(blocks, b => b.name),
            step: json.time ? json.time.step_seconds : null,
            ranks: json.mesh.reduce((n, axis) => n * axis.size, 1),
            nodeRanks: json.node_size || (given ? given.value : 0),
            precision: json.settings && json.settings.train ? json.settings.train.precision : '',
            meshText: json.mesh.map(axis => axis.name + '=' + axis.size).join(' × '),
        };
    }

    /* The element of a plan or of the comparison as JSON. */
    function parse(element) {
        return JSON.parse(element.textContent);
    }

    parc.read = function () {
        const elements = Array.from(document.querySelectorAll('script.plan'));
        if (!elements.length)
            throw new Error('this file has no plan');
        parc.plans = elements.map((e, i) => makePlan(parse(e), elements.length > 1 ? 'ab'[i] : ''));
        const comparison = document.querySelector('script#comparison');
        parc.comparison = comparison ? parse(comparison) : null;
        if (comparison)
            comparison.removeAttribute('id'); /* it is also the id of the section */
    };

    /* Is path the module `parent` or inside it? The model itself is ''. */
    parc.isInside = function (path, parent) {
        return parent === '' || path === parent || path.startsWith(parent + '.');
    };

    /* The live blocks at a moment, largest first. */
    parc.liveAt = function (plan, moment) {
        return plan.blocks.filter(b => b.first <= moment && moment <= b.last).sort((a, b) => b.bytes - a.bytes);
    };

    parc.sum = function (items, valueOf) {
        return items.reduce((total, item) => total + valueOf(item), 0);
    };
})(window.parc);
