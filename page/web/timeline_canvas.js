/* timeline_canvas.js: draws the lanes of a timeline, and moves the view.
 *
 *   const view = parc.timelineView(canvas, model, {onPoint(item), onPick(item), level(item)});
 *   view.draw()  view.zoom(2)  view.pan(0.2)  view.fit()  view.step(1)
 *
 * One canvas, redrawn in one animation frame after a change. An item shorter than a
 * pixel is drawn a pixel wide, and of several in one pixel only the first: the cost of
 * a frame is linear in the items.
 */
(function (parc) {
    'use strict';
    const RULER = 20, BREAKS = 18, LANE = 34, SPACE = 6, MOST_ZOOM = 5e4;

    function colors(canvas) {
        const style = getComputedStyle(canvas), cache = new Map();
        return function (name) {
            if (!cache.has(name))
                cache.set(name, style.getPropertyValue('--' + name).trim() || '#888');
            return cache.get(name);
        };
    }

    /* Black or white, whichever differs more from '#rrggbb'. */
    function inkOn(color) {
        const n = parseInt(color.slice(1), 16);
        const part = shift => Math.pow((n >> shift & 255) / 255, 2.2);
        return 0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0) > 0.18 ? '#000' : '#fff';
    }

    function hatch(c, color) {
        const tile = document.createElement('canvas');
        tile.width = tile.height = 8;
        const t = tile.getContext('2d');
        t.strokeStyle = color;
        t.lineWidth = 2;
        for (const x of [-8, 0, 8]) {
            t.moveTo(x - 1, 9);
            t.lineTo(x + 9, -1);
        }
        t.stroke();
        return c.createPattern(tile, 'repeat');
    }

    /* Tick labels of one axis share a unit. */
    function tickText(t, step) {
        const [unit, size] = step >= 0.5 ? ['s', 1] : step >= 5e-4 ? ['ms', 1e-3] : ['us', 1e-6];
        return (t / size).toFixed(Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9))) + ' ' + unit;
    }

    function drawRuler(c, v, color) {
        const step = parc.niceStep(Math.max((v.u1 - v.u0) * 90 / v.width, 1e-9));
        c.textAlign = 'left';
        let free = v.left;
        for (let t = Math.ceil(v.scale.t(v.u0) / step) * step; v.scale.u(t) <= v.u1; t += step) {
            const inside = v.scale.breaks.find(b => t > b.t0 && t < b.t1);
            if (inside) {
                t = Math.floor(inside.t1 / step) * step;
                continue;
            }
            const x = v.x(t), text = tickText(t, step);
            c.fillStyle = color('line');
            c.fillRect(x, RULER - 5, 1, v.height - RULER + 5);
            if (x < free)
                continue;
            c.fillStyle = color('quiet');
            c.fillText(text, x + 3, RULER - 8);
            free = x + c.measureText(text).width + 14;
        }
    }

    function drawBreaks(c, v, color) {
        let free = v.left;
        c.textAlign = 'center';
        for (const b of v.scale.breaks) {
            const x0 = v.left + (b.u0 - v.u0) * v.perU, x1 = Math.max(x0 + 3, v.left + (b.u1 - v.u0) * v.perU);
            if (x1 < v.left || x0 > v.left + v.width)
                continue;
            c.fillStyle = color('paper');
            c.fillRect(x0, RULER, x1 - x0, v.height - RULER);
            c.strokeStyle = color('quiet');
            c.setLineDash([3, 3]);
            c.beginPath();
            for (const x of [x0, x1]) {
                c.moveTo(Math.round(x) + 0.5, RULER);
                c.lineTo(Math.round(x) + 0.5, v.height);
            }
            c.stroke();
            c.setLineDash([]);
            const texts = ['× ' + b.iterations + ' iterations, ' + parc.format.seconds(b.seconds), '× ' + b.iterations];
            for (const text of texts) {
                const half = c.measureText(text).width / 2, x = Math.min(Math.max((x0 + x1) / 2, v.left + half), v.left + v.width - half);
                if (x - half < free)
                    continue;
                c.fillStyle = color('paper');
                c.fillRect(x - half - 3, RULER + 1, 2 * half + 6, BREAKS - 2);
                c.fillStyle = color('ink');
                c.fillText(text, x, RULER + BREAKS - 5);
                free = x + half + 8;
                break;
            }
        }
    }

    function drawItem(c, v, item, level, some, color) {
        const x0 = Math.max(v.x(item.begin), v.left - 2), x1 = Math.min(v.x(item.end), v.left + v.width + 2);
        if (x1 < v.left || x0 > v.left + v.width)
            return;
        const wide = Math.max(x1 - x0 - (x1 - x0 > 4 ? 0.75 : 0), 1), pixel = Math.floor(x0 * 2);
        if (wide <= 1 && v.last[item.lane] === pixel && !level)
            return;
        v.last[item.lane] = pixel;
        const y = v.y(item.lane) + (item.thin ? LANE - 10 : 0), high = item.thin ? 10 : LANE;
        c.globalAlpha = some && !level ? 0.35 : 1;
        const back = color(parc.colorName(item.color));
        c.fillStyle = back;
        c.fillRect(x0, y, wide, high);
        for (const [b, e] of item.exposed) {
            const h0 = Math.max(v.x(b), x0), h1 = Math.min(v.x(e), x0 + wide);
            if (h1 - h0 > 0.5) {
                c.fillStyle = v.hatch;
                c.fillRect(h0, y, h1 - h0, high);
            }
        }
        if (wide > 16 && !item.thin)
            drawLabel(c, item, Math.max(x0, v.left), Math.min(x1, v.left + v.width), y, back);
        c.globalAlpha = 1;
        if (level || item === v.pointed) {
            c.lineWidth = 2;
            c.strokeStyle = color(level === 2 || item === v.pointed ? 'ink' : 'quiet');
            c.strokeRect(x0 + 1, y + 1, Math.max(wide - 2, 1), high - 2);
            c.lineWidth = 1;
        }
    }

    /* The label, on a plate of its own where the item is hatched. */
    function drawLabel(c, item, x0, x1, y, back) {
        const space = x1 - x0 - 6;
        let text = item.label, width = c.measureText(text).width;
        if (width > space) {
            const letters = Math.floor(text.length * space / width) - 1;
            if (letters < 2)
                return;
            text = text.slice(0, letters) + '…';
            width = c.measureText(text).width;
        }
        if (item.exposed.length) {
            c.fillStyle = back;
            c.fillRect(x0 + 2, y + LANE / 2 - 8, width + 4, 16);
        }
        c.fillStyle = inkOn(back);
        c.textAlign = 'left';
        c.fillText(text, x0 + 4, y + LANE / 2 + 4);
    }

    function drawLanes(c, v, model, color) {
        c.textAlign = 'left';
        model.lanes.forEach(function (name, lane) {
            c.fillStyle = color('lane');
            c.fillRect(v.left, v.y(lane), v.width, LANE);
            c.fillStyle = color('ink');
            c.fillText(name, 2, v.y(lane) + LANE / 2 + 4, v.left - 8);
        });
        for (const [b, e] of model.gaps) {
            const x0 = Math.max(v.x(b), v.left), x1 = Math.min(v.x(e), v.left + v.width);
            if (x1 - x0 > 0.5) {
                c.fillStyle = v.gapHatch;
                c.fillRect(x0, v.y(model.gapLane), x1 - x0, LANE);
            }
        }
    }

    function frame(canvas, model, v, hooks) {
        const c = canvas.getContext('2d'), ratio = window.devicePixelRatio || 1;
        const full = canvas.clientWidth;
        if (!full)
            return;
        v.left = Math.min(76, full * 0.18);
        v.width = full - v.left;
        canvas.width = Math.round(full * ratio);
        canvas.height = Math.round(v.height * ratio);
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.font = '12px system-ui, sans-serif';
        const color = colors(canvas);
        v.perU = v.width / (v.u1 - v.u0);
        v.last = [];
        v.hatch = hatch(c, color('hatch'));
        v.gapHatch = hatch(c, color('line'));
        drawLanes(c, v, model, color);
        drawRuler(c, v, color);
        c.save();
        c.beginPath();
        c.rect(v.left, 0, v.width, v.height);
        c.clip();
        const levels = model.items.map(hooks.level), some = levels.some(l => l > 0);
        model.items.forEach((item, i) => levels[i] || drawItem(c, v, item, 0, some, color));
        model.items.forEach((item, i) => levels[i] && drawItem(c, v, item, levels[i], some, color));
        if (v.pointed)
            drawItem(c, v, v.pointed, hooks.level(v.pointed), some, color);
        drawBreaks(c, v, color);
        c.restore();
    }

    /* The moves of the keyboard: along the items of a lane, and between lanes. */
    function moves(view, model, set) {
        const v = view.state, scale = v.scale;
        /* Moves to the next or previous item of the lane, and the view with it. */
        view.step = function (by) {
            const lane = v.pointed ? v.pointed.lane : 0;
            const items = model.items.filter(i => i.lane === lane);
            const at = v.pointed ? items.indexOf(v.pointed) + by : items.findIndex(i => scale.u(i.end) > v.u0);
            view.reveal(items[Math.min(Math.max(at, 0), items.length - 1)]);
        };
        view.lane = function (by) {
            const at = v.pointed || model.items[0], lane = Math.min(Math.max(at.lane + by, 0), model.lanes.length - 1);
            const items = model.items.filter(i => i.lane === lane);
            view.reveal(items.find(i => i.end > at.begin) || items[items.length - 1]);
        };
        view.reveal = function (item) {
            if (!item)
                return;
            const b = scale.u(item.begin), e = scale.u(item.end), size = v.u1 - v.u0;
            if (b < v.u0 || e > v.u1)
                set((b + e) / 2 - size / 2, size);
            view.point(item);
        };
    }

    parc.timelineView = function (canvas, model, hooks) {
        const scale = parc.scale(model.skips, model.end);
        const top = RULER + (scale.breaks.length ? BREAKS : 0);
        const v = {scale: scale, u0: 0, u1: scale.end, pointed: null, left: 0, width: 1, perU: 1,
            x: t => v.left + (scale.u(t) - v.u0) * v.perU, y: lane => top + lane * (LANE + SPACE)};
        v.height = v.y(model.lanes.length);
        canvas.style.height = v.height + 'px'; /* now, so that nothing moves when it is drawn */
        let waiting = false;
        const draw = function () {
            if (!waiting) {
                waiting = true;
                requestAnimationFrame(function () {
                    waiting = false;
                    frame(canvas, model, v, hooks);
                });
            }
        };
        const set = function (u0, size) {
            size = Math.min(Math.max(size, scale.end / MOST_ZOOM), scale.end);
            v.u0 = Math.min(Math.max(u0, 0), scale.end - size);
            v.u1 = v.u0 + size;
            draw();
        };
        const view = {
            draw: draw, state: v, now: () => frame(canvas, model, v, hooks),
            fit: () => set(0, scale.end),
            pan: part => set(v.u0 + part * (v.u1 - v.u0), v.u1 - v.u0),
            zoom: function (factor, at) {
                const center = at === undefined ? (v.u0 + v.u1) / 2 : at, size = (v.u1 - v.u0) / factor;
                set(center - (center - v.u0) / factor, size);
            },
            uAt: x => v.u0 + (x - v.left) / v.perU,
            itemAt: function (x, y) {
                const t0 = scale.t(view.uAt(x - 2)), t1 = scale.t(view.uAt(x + 2));
                let best = null;
                for (const item of model.items) {
                    const from = v.y(item.lane) + (item.thin ? LANE - 10 : 0);
                    if (y >= from && y <= v.y(item.lane) + LANE && item.begin <= t1 && item.end >= t0 &&
                        (!best || item.thin || item.end - item.begin < best.end - best.begin))
                        best = item;
                }
                return best;
            },
            point: function (item) {
                if (item === v.pointed)
                    return;
                v.pointed = item;
                hooks.onPoint(item);
                draw();
            },
        };
        moves(view, model, set);
        return view;
    };
})(window.parc);
