/* roofline.js: the part `roofline`: rate against intensity, with the bounds of the machine.
 *
 * A point is a call of a statement on an idle device: x = flops / bytes, y = flops / time.
 * Both axes are logarithmic. The bounds are x times the datasheet bandwidth and the
 * datasheet peak of the precision. Statements without counted flops cannot be points:
 * a strip shows the part of the bandwidth that they reach.
 */
(function (parc) {
    'use strict';
    const el = parc.el, svg = parc.svg, format = parc.format;
    const WIDTH = 640, HEIGHT = 320, LEFT = 74, RIGHT = 16, TOP = 12, BOTTOM = 36;

    /* A shape for each class, so that colors alone do not carry it. */
    const SHAPES = {matmul: 'M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z', attention: 'M-5,-5H5V5H-5Z', kernel: 'M0,-6L6,5H-6Z',
        lookup: 'M0,-6L6,0L0,6L-6,0Z', copy: 'M-5,-2H5V2H-5Z'};

    /* 1, 10, 100, …; 1, 2, 5, 10, … if there are few of them. */
    function decades(low, high) {
        const all = [];
        for (let e = Math.floor(Math.log10(low)); e <= Math.floor(Math.log10(high)); e++)
            for (const m of high / low < 300 ? [1, 2, 5] : [1])
                all.push(m * Math.pow(10, e));
        return all.filter(v => v >= low && v <= high);
    }

    function axes(points, bandwidth, peak) {
        const xs = points.map(p => p.x).concat(peak / bandwidth), ys = points.map(p => p.y).concat(peak);
        const x0 = Math.min(...xs) / 2, x1 = Math.max(...xs) * 3, y0 = Math.min(...ys) / 2, y1 = Math.max(...ys) * 2;
        return {x0: x0, x1: x1, y0: y0, y1: y1,
            x: v => LEFT + Math.log(v / x0) / Math.log(x1 / x0) * (WIDTH - LEFT - RIGHT),
            y: v => HEIGHT - BOTTOM - Math.log(v / y0) / Math.log(y1 / y0) * (HEIGHT - TOP - BOTTOM)};
    }

    function frame(picture, a) {
        for (const v of decades(a.x0, a.x1))
            picture.append(svg('line', {class: 'grid', x1: a.x(v), x2: a.x(v), y1: TOP, y2: HEIGHT - BOTTOM}),
                svg('text', {class: 'tick', x: a.x(v), y: HEIGHT - BOTTOM + 14, 'text-anchor': 'middle'}, format.count(v)));
        for (const v of decades(a.y0, a.y1))
            picture.append(svg('line', {class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: a.y(v), y2: a.y(v)}),
                svg('text', {class: 'tick', x: LEFT - 6, y: a.y(v) + 4, 'text-anchor': 'end'}, format.flopRate(v)));
        picture.append(svg('text', {class: 'tick', x: WIDTH - RIGHT, y: HEIGHT - 6, 'text-anchor': 'end'}, 'flop / byte'));
    }

    function bounds(picture, a, bandwidth, peak, names) {
        const corner = peak / bandwidth, low = Math.max(a.x0, a.y0 / bandwidth);
        picture.append(svg('path', {class: 'bound', d: 'M' + a.x(low) + ',' + a.y(low * bandwidth) + 'L' + a.x(corner) + ',' + a.y(peak) +
            'L' + a.x(a.x1) + ',' + a.y(peak)}));
        const middle = Math.sqrt(low * corner);
        picture.append(svg('text', {class: 'tick', x: a.x(a.x1) - 4, y: a.y(peak) - 5, 'text-anchor': 'end'}, names[1]),
            svg('text', {class: 'tick', x: a.x(middle) - 6, y: a.y(middle * bandwidth) - 6, 'text-anchor': 'end'}, names[0]));
    }

    function point(plan, a, p) {
        const s = p.statement, text = s.id + ': ' + format.flopRate(p.y) + ' at ' + format.number(p.x) + ' flop/byte, ' +
            format.seconds(s.exposed) + ' per step';
        const choose = () => parc.select({kind: 'statement', key: s.id, plan: plan.label});
        const mark = svg('path', {class: 'point', d: SHAPES[s.class] || SHAPES.copy, transform: 'translate(' + a.x(p.x) + ',' + a.y(p.y) + ')',
            style: 'fill:var(--' + parc.colorName(s.class) + ')', tabindex: '0', role: 'button', 'aria-label': text, 'data-id': s.id,
            on: {click: choose, keydown: e => { if (e.key === 'Enter') choose(); }}}, svg('title', {}, text));
        return parc.mark(mark, plan, 'statement', s.id);
    }

    function chart(plan, points, bandwidth, peak) {
        const a = axes(points, bandwidth.value, peak.value);
        const picture = svg('svg', {class: 'roofline', viewBox: '0 0 ' + WIDTH + ' ' + HEIGHT, role: 'group', 'aria-label': 'Roofline: ' + points.length + ' statements'});
        frame(picture, a);
        bounds(picture, a, bandwidth.value, peak.value, [bandwidth.name + ' ' + format.byteRate(bandwidth.value), peak.name + ' ' + format.flopRate(peak.value)]);
        for (const p of points.slice().sort((p, q) => q.statement.exposed - p.statement.exposed))
            picture.append(point(plan, a, p));
        return el('div', {class: 'chart framed'}, picture);
    }

    /* The statements without flops: the part of the bandwidth that a call reaches. */
    function strip(plan, rows, bandwidth) {
        const list = el('div', {class: 'strip'});
        for (const s of rows.sort((a, b) => b.exposed - a.exposed).slice(0, 12)) {
            const part = s.bytes / s.alone / bandwidth.value;
            const row = el('div', {class: 'striprow', 'data-id': s.id}, parc.pick('statement', s.id),
                el('span', {class: 'meter', title: format.byteRate(s.bytes / s.alone), 'data-value': part},
                    el('i', {style: 'width:' + Math.min(100, 100 * part) + '%'}), el('span', {}, format.percent(part))),
                el('span', {class: 'num'}, parc.value('seconds', s.exposed)));
            list.append(parc.mark(row, plan, 'statement', s.id));
        }
        return el('div', {}, el('h3', {}, 'Without counted flops: part of the bandwidth, and time per step' + (rows.length > 12 ?
            ' (12 of ' + rows.length + '; the others are in Kernels)' : '')), list);
    }

    parc.roofline = function (plan, box) {
        const bandwidth = plan.constants.get('hbm.rate');
        const peak = plan.constants.get(plan.precision === 'f32' ? 'peak.f32' : 'peak.bf16') || plan.constants.get('peak.f32');
        if (!plan.time || !bandwidth || !peak) {
            box.append(parc.note('The roofline needs the rates of a machine. ' + parc.NO_MACHINE));
            return;
        }
        const all = plan.statements.filter(s => s.computes && s.alone > 0 && s.bytes > 0);
        const points = all.filter(s => s.flops > 0).map(s => ({statement: s, x: s.flops / s.bytes, y: s.flops / s.alone}));
        const rest = all.filter(s => !(s.flops > 0));
        const classes = Array.from(new Set(points.map(p => p.statement.class)));
        box.append(el('div', {class: 'two'},
            el('div', {}, el('ul', {class: 'legend'}, classes.map(c => el('li', {}, svg('svg', {class: 'shape', viewBox: '-7 -7 14 14', 'aria-hidden': 'true'},
                svg('path', {d: SHAPES[c] || SHAPES.copy, style: 'fill:var(--' + parc.colorName(c) + ')'})), c))), chart(plan, points, bandwidth, peak)),
            rest.length ? strip(plan, rest, bandwidth) : null));
    };
})(window.parc);
