/* scale.js: time on an axis that shortens the iterations that the forecast leaves out.
 *
 * Each skip [at, seconds, iterations, loop] becomes a break of a constant, small width.
 * `u` is the shown time: u(t) is t minus what the breaks before t save.
 *
 *   const scale = parc.scale(skips, end);   scale.u(t)   scale.t(u)   scale.end
 *   parc.niceStep(0.03) = 0.05
 */
(function (parc) {
    'use strict';

    parc.scale = function (skips, end) {
        const sorted = skips.slice().sort((a, b) => a[0] - b[0]);
        const left = parc.sum(sorted, s => s[1]);
        const width = Math.max(end - left, end * 1e-6) * Math.min(0.03, 0.25 / (sorted.length || 1));
        const breaks = [];
        let saved = 0;
        for (const s of sorted) {
            const shown = Math.min(s[1], width);
            breaks.push({t0: s[0], t1: s[0] + s[1], u0: s[0] - saved, u1: s[0] - saved + shown, seconds: s[1], iterations: s[2], loop: s[3]});
            saved += s[1] - shown;
        }
        /* Maps between time (t0, t1 of a break) and shown time (u0, u1). */
        const map = (from, to) => function (x) {
            let moved = x;
            for (const b of breaks) {
                const length = b[from + '1'] - b[from + '0'];
                if (x <= b[from + '0'])
                    break;
                moved += Math.min(1, (x - b[from + '0']) / length) * (b[to + '1'] - b[to + '0'] - length);
            }
            return moved;
        };
        const u = map('t', 'u'), t = map('u', 't');
        return {u: u, t: t, breaks: breaks, end: u(end), total: end};
    };

    /* The smallest of 1, 2, 5 x 10^n that is at least x. */
    parc.niceStep = function (x) {
        const power = Math.pow(10, Math.floor(Math.log10(x)));
        return power * [1, 2, 5, 10].find(m => m * power >= x * 0.9999);
    };

    /* The parts of the intervals (sorted, disjoint) that are not inside `others`. */
    parc.subtract = function (intervals, others) {
        const out = [];
        for (const [begin, end] of intervals) {
            let at = begin;
            for (const [b, e] of others) {
                if (e <= at || b >= end)
                    continue;
                if (b > at)
                    out.push([at, b]);
                at = Math.max(at, e);
            }
            if (at < end)
                out.push([at, end]);
        }
        return out;
    };
})(window.parc);
