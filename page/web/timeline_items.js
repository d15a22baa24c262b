/* timeline_items.js: what the lanes of a timeline show.
 *
 * A model is {lanes: [name], items, skips, end}. An item has lane, begin, end, color
 * (a class), label, and either statement or action; `exposed` lists the parts of its
 * span for which the compute stream waits for it.
 */
(function (parc) {
    'use strict';
    const LEAST = 1e-9; /* seconds; shorter gaps are rounding */
    const EDGE = 5e-6;  /* seconds in which another stream sees an event */

    /* The times in which a stream of the compute class runs nothing, without skips. */
    function gapsOf(spans, lane, skips, end) {
        const gaps = [];
        let at = 0;
        for (const s of spans)
            if (s[0] === lane) {
                if (s[2] > at + LEAST)
                    gaps.push([at, s[2]]);
                at = Math.max(at, s[3]);
            }
        if (end > at + LEAST)
            gaps.push([at, end]);
        return parc.subtract(gaps, skips.map(s => [s[0], s[0] + s[1]]));
    }

    /* Which spans a gap waits for: the one that ends with the gap, then, for the time before it
     * began, the one that ends there. Returns the parts of each span, by its index. */
    function waitsOf(plan, spans, lane, gaps) {
        const others = spans.map((s, i) => [s, i]).filter(([s]) => s[0] !== lane);
        const parts = new Map();
        for (const [begin, end] of gaps)
            for (let at = end; at > begin + LEAST;) {
                let best = null;
                for (const [s, i] of others)
                    if (s[2] < at - LEAST && s[3] > begin + LEAST && s[3] <= at + EDGE && (!best || s[3] > best[0][3]))
                        best = [s, i];
                if (!best)
                    break;
                const [s, i] = best;
                parts.set(i, (parts.get(i) || []).concat([[Math.max(s[2], begin), Math.min(s[3], at)]]));
                at = s[2];
            }
        return parts;
    }

    /* The streams that run something as lanes. `end` of a step is its time, of an action its seconds. */
    parc.streamItems = function (plan, part, end) {
        const streams = plan.page.streams, compute = Math.max(streams.indexOf('compute'), 0);
        const used = streams.map((_, i) => i).filter(i => i === compute || part.spans.some(s => s[0] === i));
        const gaps = gapsOf(part.spans, compute, part.skips, end);
        const waits = waitsOf(plan, part.spans, compute, gaps);
        const items = part.spans.map(function (s, i) {
            const w = plan.statements[s[1]];
            const exposed = w.computes ? [] : s[0] === compute ? [[s[2], s[3]]] :
                waits.get(i) || [];
            return {lane: used.indexOf(s[0]), begin: s[2], end: s[3], color: w.class, label: w.id, statement: w, exposed: exposed};
        });
        return {lanes: used.map(i => streams[i]), items: items, skips: part.skips, end: end, gaps: gaps, gapLane: used.indexOf(compute)};
    };

    const LETTERS = {forward: 'F', backward: 'B', weights: 'W', send: 'S', receive: 'R'};

    /* The ranks of the pipeline's axis as lanes. */
    parc.actionItems = function (plan) {
        const actions = plan.page.timeline.actions, pipeline = plan.json.pipeline;
        const ranks = actions.reduce((n, a) => Math.max(n, a[0] + 1), 0);
        const stagesDiffer = pipeline.stages.length > ranks;
        const lanes = Array.from({length: ranks}, (_, i) => pipeline.axis + ' ' + i);
        const end = Math.max(actions.reduce((n, a) => Math.max(n, a[5]), 0), plan.step || 0);
        const items = actions.map(a => ({lane: a[0], begin: a[4], end: a[5], color: a[1], exposed: [],
            label: LETTERS[a[1]] + a[3] + (stagesDiffer ? '/' + a[2] : ''), thin: a[1] === 'send' || a[1] === 'receive',
            action: {rank: a[0], kind: a[1], stage: a[2], micro: a[3]}}));
        return {lanes: lanes, items: items, skips: [], end: end, gaps: [], gapLane: -1, pipeline: true};
    };
})(window.parc);
