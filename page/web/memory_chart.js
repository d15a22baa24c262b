/* memory_chart.js: draws the live bytes over the moments of a step, stacked by class.
 *
 * A moment is as wide as its statement's time in the step; where that is less than a
 * least width, it has that width, so that every moment can be reached with the
 * pointer. Moments without a statement have no width of their own.
 *
 *   const chart = parc.memoryChart(plan, model, onMoment)
 *   chart.element  chart.draw(width)  chart.cursor(moment, fixed)
 */
(function (parc) {
    'use strict';
    const svg = parc.svg, format = parc.format;
    const HEIGHT = 220, TOP = 18, BOTTOM = 20, LEFT = 72, RIGHT = 6;
    parc.MEMORY_CLASSES = ['params', 'grads', 'optimizer', 'gathered', 'activations', 'workspace'];

    /* Bytes of each class at each moment, and the begin of each moment on the axis, 0 to 1. */
    parc.memoryModel = function (plan) {
        const m = plan.page.memory, n = m.moments.length;
        const byClass = parc.MEMORY_CLASSES.map(() => new Float64Array(n + 1));
        for (const b of plan.blocks) {
            const change = byClass[Math.max(parc.MEMORY_CLASSES.indexOf(b.class), 0)];
            change[Math.max(b.first, 0)] += b.bytes;
            change[Math.min(b.last, n - 1) + 1] -= b.bytes;
        }
        for (const change of byClass)
            for (let i = 1; i <= n; i++)
                change[i] += change[i - 1];
        const total = Array.from({length: n}, (_, i) => byClass.reduce((sum, c) => sum + c[i], 0));
        return {n: n, peak: m.peak, byClass: byClass, total: total, most: total.reduce((a, b) => Math.max(a, b), 1),
            timed: positions(plan, m.moments, true), even: positions(plan, m.moments, false)};
    };

    function positions(plan, moments, timed) {
        const seconds = moments.map(i => timed && plan.time && i >= 0 ? plan.statements[i].exposed : 0);
        const sum = seconds.reduce((a, b) => a + b, 0);
        const widths = moments.map((i, k) => i < 0 && k > 0 ? 0.02 : timed && sum > 0 ? Math.max(0.25, seconds[k] / sum * moments.length) : 1);
        const all = widths.reduce((a, b) => a + b, 0), at = [0];
        for (const w of widths)
            at.push(at[at.length - 1] + w / all);
        return at;
    }

    /* The outline of the classes up to k, from left to right and back along the class under it. */
    function area(model, at, k, x, y) {
        const upTo = (i, classes) => classes < 0 ? 0 : model.byClass.slice(0, classes + 1).reduce((s, c) => s + c[i], 0);
        let there = '', back = '';
        for (let i = 0; i < model.n; i++) {
            const high = y(upTo(i, k)).toFixed(1), low = y(upTo(i, k - 1)).toFixed(1), x0 = x(at[i]).toFixed(1), x1 = x(at[i + 1]).toFixed(1);
            there += (i ? 'L' : 'M') + x0 + ',' + high + 'L' + x1 + ',' + high;
            back = 'L' + x1 + ',' + low + 'L' + x0 + ',' + low + back;
        }
        return there + back + 'Z';
    }

    function axis(picture, model, x, y, width) {
        const unit = Math.pow(1024, Math.floor(Math.log2(model.most) / 10)), step = parc.niceStep(model.most / unit / 6) * unit;
        for (let b = 0; b <= model.most; b += step) {
            picture.append(svg('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(b), y2: y(b)}),
                svg('text', {class: 'tick', x: LEFT - 6, y: y(b) + 4, 'text-anchor': 'end'}, format.bytes(b).replace(/\.00 /, ' ')));
        }
    }

    /* The phases under the axis. */
    function phases(picture, plan, at, x) {
        const moments = plan.page.memory.moments;
        let last = '', free = 0;
        moments.forEach(function (s, i) {
            const phase = s >= 0 ? plan.statements[s].phase : last;
            if (phase === last)
                return;
            last = phase;
            const x0 = x(at[i]);
            picture.append(svg('line', {class: 'phase', x1: x0, x2: x0, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 6}));
            if (x0 >= free) {
                const cut = x0 > x(1) - 60;
                picture.append(svg('text', {class: 'tick', x: cut ? x(1) : x0 + 3, y: HEIGHT - 5, 'text-anchor': cut ? 'end' : 'start'}, phase));
                free = x0 + 62;
            }
        });
    }

    function momentAt(at, part) {
        let low = 0, high = at.length - 2;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (at[middle] <= part)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

    /* The pointer moves the cursor, a click and the keys fix it. */
    function input(plan, model, chart, momentOf) {
        const picture = chart.element, v = chart.state;
        /* The next moment at which a statement runs. */
        const next = function (by) {
            let moment = v.moment + by;
            while (moment > 0 && moment < model.n - 1 && moment !== model.peak && plan.page.memory.moments[moment] < 0)
                moment += by;
            return moment;
        };
        let waiting = null;
        picture.addEventListener('pointermove', function (event) {
            if (waiting === null)
                requestAnimationFrame(function () {
                    if (waiting !== null && waiting !== v.moment)
                        chart.cursor(waiting, false);
                    waiting = null;
                });
            waiting = momentOf(event);
        });
        picture.addEventListener('pointerleave', function () {
            waiting = null;
            chart.cursor(v.fixed, false);
        });
        picture.addEventListener('click', event => chart.cursor(momentOf(event), true));
        picture.addEventListener('keydown', function (event) {
            const to = {ArrowLeft: next(-1), ArrowDown: next(-1), ArrowRight: next(1), ArrowUp: next(1), PageDown: v.moment - 10,
                PageUp: v.moment + 10, Home: 0, End: model.n - 1, p: model.peak, P: model.peak}[event.key];
            if (to === undefined || event.ctrlKey || event.altKey || event.metaKey)
                return;
            event.preventDefault();
            chart.cursor(to, true);
        });
    }

    parc.memoryChart = function (plan, model, onMoment) {
        const picture = svg('svg', {class: 'memorychart', height: HEIGHT, tabindex: '0', role: 'slider', 'aria-label':
            'Moment of the step: arrows move the cursor, Home and End go to the ends, P goes to the peak',
        'aria-valuemin': 0, 'aria-valuemax': model.n - 1});
        const v = {width: 0, at: model.timed, fixed: model.peak, moment: model.peak};
        const x = part => LEFT + part * (v.width - LEFT - RIGHT);
        const y = bytes => HEIGHT - BOTTOM - bytes / model.most * (HEIGHT - TOP - BOTTOM);
        const middle = moment => (x(v.at[moment]) + x(v.at[moment + 1])) / 2;
        let line = null;
        const chart = {element: picture, state: v};
        chart.draw = function (width) {
            if (!width)
                return;
            v.width = width;
            parc.clear(picture).setAttribute('viewBox', '0 0 ' + width + ' ' + HEIGHT);
            axis(picture, model, x, y, width);
            for (let k = 0; k < parc.MEMORY_CLASSES.length; k++)
                picture.append(svg('path', {d: area(model, v.at, k, x, y), style: 'fill:var(--' + parc.colorName(parc.MEMORY_CLASSES[k]) + ')'}));
            phases(picture, plan, v.at, x);
            const peak = middle(model.peak), right = peak > width / 2;
            picture.append(svg('line', {class: 'peak', x1: peak, x2: peak, y1: TOP - 6, y2: HEIGHT - BOTTOM}),
                svg('text', {class: 'tick', x: peak + (right ? -4 : 4), y: TOP - 6, 'text-anchor': right ? 'end' : 'start'}, 'peak'));
            line = svg('line', {class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM});
            picture.append(line);
            chart.cursor(v.moment, false);
        };
        chart.cursor = function (moment, fixed) {
            v.moment = Math.min(Math.max(moment, 0), model.n - 1);
            if (fixed)
                v.fixed = v.moment;
            if (line) {
                line.setAttribute('x1', middle(v.moment));
                line.setAttribute('x2', middle(v.moment));
            }
            onMoment(v.moment);
        };
        chart.setEven = function (even) {
            v.at = even ? model.even : model.timed;
            chart.draw(v.width);
        };
        input(plan, model, chart, event => momentAt(v.at, (event.clientX - picture.getBoundingClientRect().left - LEFT) /
            (v.width - LEFT - RIGHT)));
        return chart;
    };
})(window.parc);
