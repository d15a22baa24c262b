/* timeline.js: the part `timeline`: what the streams of a rank, or the ranks of a pipeline, do.
 *
 * A panel has a canvas, buttons, a line about the item at the pointer, and a table of the
 * spans for readers who cannot see the canvas. In a pipeline a click on an action opens
 * a second panel: the streams inside the action.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;
    const MOST_ROWS = 400;
    const views = [];

    function times(item) {
        return format.seconds(item.begin) + ' to ' + format.seconds(item.end) + ' (' + format.seconds(item.end - item.begin) + ')';
    }

    function useText(use) {
        const names = ['memory', 'links in the node', 'NIC', 'copies to the device', 'copies to the host'];
        const parts = use.use.map((x, i) => x > 0 ? names[i] + ' ' + format.percent(x) : '').filter(Boolean);
        return (parts.length ? 'uses ' + parts.join(', ') : '') + (use.blocks ? (parts.length ? '; ' : '') + 'keeps ' + use.blocks + ' multiprocessors' : '');
    }

    /* The lines about a statement's span. */
    function aboutStatement(plan, item) {
        const w = item.statement, more = [];
        if (w.exposed !== null && !w.computes)
            more.push('exposed ' + format.seconds(w.exposed) + ' of ' + format.seconds(w.run) + ' per step');
        if (w.slowed > 0)
            more.push('slowed by ' + format.seconds(w.slowed) + ' per step');
        if (w.use)
            more.push(useText(w.use));
        return [
            el('div', {}, el('b', {}, w.id), ' ', w.class, w.detail ? ': ' + w.detail : '', w.path ? ' in ' + w.path : '', ' (', parc.sourceLink(w.source), ')'),
            el('div', {}, times(item) + '; alone ' + format.seconds(w.alone) + '; ' + w.count + (w.count === 1 ? ' call' : ' calls') + ' per step'),
            el('div', {}, more.filter(Boolean).join('; ')),
            w.after.length ? el('div', {}, 'after ', w.after.flatMap((id, i) => [i ? ', ' : '', parc.pick('statement', id)])) : null];
    }

    function aboutAction(plan, item) {
        const a = item.action;
        return [el('div', {}, el('b', {}, item.label), ' ' + a.kind + ' of microbatch ' + a.micro + ', stage ' + a.stage + ', ' +
            plan.json.pipeline.axis + ' coordinate ' + a.rank), el('div', {}, times(item))];
    }

    function about(plan, item) {
        return item.statement ? aboutStatement(plan, item) : aboutAction(plan, item);
    }

    function spokenText(item) {
        return item.label + ', ' + (item.statement ? item.statement.class : item.action.kind) + ', ' + times(item);
    }

    /* ---- input ------------------------------------------------------------------ */

    function onKeys(canvas, view, pick) {
        canvas.addEventListener('keydown', function (event) {
            if (event.ctrlKey || event.altKey || event.metaKey)
                return;
            const act = {'+': () => view.zoom(1.6), '=': () => view.zoom(1.6), '-': () => view.zoom(1 / 1.6), '0': view.fit,
                ArrowLeft: () => event.shiftKey ? view.step(-1) : view.pan(-0.15), ArrowRight: () => event.shiftKey ? view.step(1) : view.pan(0.15),
                ArrowUp: () => view.lane(-1), ArrowDown: () => view.lane(1), ',': () => view.step(-1), '.': () => view.step(1),
                Enter: () => view.state.pointed && pick(view.state.pointed)}[event.key];
            if (act) {
                event.preventDefault();
                act();
            }
        });
    }

    function onPointer(canvas, view, pick) {
        let drag = null;
        const position = function (event) {
            const box = canvas.getBoundingClientRect();
            return [event.clientX - box.left, event.clientY - box.top];
        };
        canvas.addEventListener('pointerdown', function (event) {
            drag = {x: event.clientX, moved: false};
        });
        canvas.addEventListener('pointermove', function (event) {
            if (!drag || event.buttons === 0) {
                view.point(view.itemAt(...position(event)));
                return;
            }
            const by = event.clientX - drag.x;
            if (!drag.moved && Math.abs(by) < 4)
                return;
            if (!drag.moved)
                canvas.setPointerCapture(event.pointerId);
            drag.moved = true;
            drag.x = event.clientX;
            view.pan(-by / view.state.width);
        });
        canvas.addEventListener('pointerup', function (event) {
            if (drag && !drag.moved) {
                const item = view.itemAt(...position(event));
                view.point(item);
                if (item)
                    pick(item);
            }
            drag = null;
        });
        canvas.addEventListener('pointerleave', () => view.point(null));
        /* The wheel scrolls the page until the timeline has the focus. */
        canvas.addEventListener('wheel', function (event) {
            if (!event.ctrlKey && document.activeElement !== canvas)
                return;
            event.preventDefault();
            if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
                view.pan(event.deltaX / view.state.width);
            else
                view.zoom(Math.exp(-event.deltaY * 0.002), view.uAt(position(event)[0]));
        }, {passive: false});
    }

    /* ---- a panel ------------------------------------------------------------------ */

    function buttons(view) {
        const one = (text, label, act) => el('button', {type: 'button', class: 'small', 'aria-label': label, title: label, on: {click: act}}, text);
        return el('div', {class: 'tools'}, one('+', 'Zoom in (+)', () => view.zoom(1.6)), one('−', 'Zoom out (-)', () => view.zoom(1 / 1.6)),
            one('←', 'Pan left (Left)', () => view.pan(-0.25)), one('→', 'Pan right (Right)', () => view.pan(0.25)), one('Fit', 'Show all (0)', view.fit));
    }

    function legend(model) {
        const names = Array.from(new Set(model.items.map(i => i.color)));
        return el('ul', {class: 'legend'}, names.map(n => el('li', {}, parc.swatch(n), n)),
            model.items.some(i => i.exposed.length) ? el('li', {}, el('i', {class: 'swatch hatched', 'aria-hidden': 'true'}), 'exposed') : null,
            model.pipeline ? el('li', {}, el('i', {class: 'swatch', style: 'background:var(--lane)', 'aria-hidden': 'true'}), 'waits (bubble)') : null,
            model.skips.length ? el('li', {class: 'quiet'}, '× n: iterations that repeat the ones before') : null);
    }

    function spansTable(plan, model, some) {
        const rows = model.items.filter(i => !some || levelOf(plan, i)).slice(0, MOST_ROWS);
        return parc.table({plan: plan, name: 'Spans', rows: rows, id: i => i.label, columns: [
            {key: 'id', name: 'Id', value: i => i.label, show: i => i.statement ? parc.pick('statement', i.label) : i.label},
            {key: 'lane', name: 'Lane', value: i => model.lanes[i.lane]},
            {key: 'class', name: 'Class', value: i => i.color},
            {key: 'begin', name: 'Begin', form: 'seconds', value: i => i.begin},
            {key: 'end', name: 'End', form: 'seconds', value: i => i.end},
            {key: 'length', name: 'Length', form: 'seconds', value: i => i.end - i.begin},
            {key: 'exposed', name: 'Exposed', form: 'seconds', value: i => parc.sum(i.exposed, e => e[1] - e[0]), without: model.pipeline}]});
    }

    function tableBox(plan, model) {
        const inner = el('div', {});
        const box = el('details', {class: 'spans', on: {toggle: () => fill()}}, el('summary', {}, 'Spans as a table'), inner);
        const fill = function () {
            parc.clear(inner);
            if (!box.open)
                return;
            const some = model.items.some(i => levelOf(plan, i) > 0);
            inner.append(el('p', {class: 'quiet'}, (some ? 'The spans of the selection' : 'All spans; select something to list only its spans') +
                (model.items.length > MOST_ROWS ? ', at most ' + MOST_ROWS : '') + '.'));
            inner.append(spansTable(plan, model, some));
        };
        if (model.skips.length)
            box.append(el('ul', {class: 'quiet'}, model.skips.map(s => el('li', {}, 'At ' + format.seconds(s[0]) + ' the timeline leaves out ' +
                s[2] + ' iterations of ' + s[3] + ', ' + format.seconds(s[1]) + ', which repeat the ones before.'))));
        return {box: box, fill: fill};
    }

    function levelOf(plan, item) {
        return item.statement && parc.state.selection ? parc.level(plan, 'statement', item.statement.id) : 0;
    }

    function panel(plan, model, label, onAction) {
        const readout = el('div', {class: 'readout'}, el('p', {class: 'quiet'}, 'Point at a span to read about it; click to select it.'));
        const canvas = el('canvas', {class: 'lanes', tabindex: '0', role: 'application', 'aria-roledescription': 'timeline', 'aria-label': label +
            ': plus and minus zoom, arrows pan and change the lane, comma and period step through the spans, Enter selects. A table of the spans follows.'});
        const pick = item => item.statement ? parc.select({kind: 'statement', key: item.statement.id, plan: plan.label}) : onAction(item);
        const view = parc.timelineView(canvas, model, {
            level: item => levelOf(plan, item),
            onPoint: function (item) {
                canvas.style.cursor = item ? 'pointer' : '';
                if (!item)
                    return;
                parc.clear(readout).append(...about(plan, item).filter(Boolean));
                if (document.activeElement === canvas)
                    parc.say(spokenText(item));
            }});
        onKeys(canvas, view, pick);
        onPointer(canvas, view, pick);
        const table = tableBox(plan, model);
        views.push(view);
        parc.onSelect(function () {
            view.draw();
            table.fill();
        });
        new ResizeObserver(view.draw).observe(canvas);
        view.now();
        return el('div', {class: 'panel'}, el('div', {class: 'panelhead'}, legend(model), buttons(view)), canvas, readout, table.box);
    }

    /* ---- the part ----------------------------------------------------------------- */

    function insideOf(plan, action) {
        return plan.page.timeline.inside.find(i => i.moment === action.kind && (i.stages || [i.stage]).includes(action.stage));
    }

    /* panelOf(inside, title): its panel, made once. */
    function openInside(plan, box, item, panelOf) {
        const inside = insideOf(plan, item.action);
        parc.clear(box);
        if (!inside) {
            box.append(parc.note('A ' + item.action.kind + ' has no statements inside.'));
            return;
        }
        const stages = inside.stages || [inside.stage];
        const title = 'Inside a ' + inside.moment + ' action of stage ' + item.action.stage;
        box.append(el('h3', {}, title + ', ' + format.seconds(inside.seconds) + (stages.length > 1 ?
            ' (stages ' + stages.join(', ') + ' are the same)' : '')));
        box.append(panelOf(inside, title));
    }

    parc.timeline = function (plan, box) {
        const t = plan.page.timeline;
        if (!t) {
            box.append(parc.note('This plan has no times. ' + parc.NO_MACHINE));
            return;
        }
        const pipelined = t.actions && t.actions.length > 0;
        const inside = el('div', {class: 'inside'});
        const panels = new Map();
        const panelOf = function (action, title) {
            if (!panels.has(action))
                panels.set(action, panel(plan, parc.streamItems(plan, action, action.seconds), title));
            return panels.get(action);
        };
        if (!pipelined) {
            box.append(panel(plan, parc.streamItems(plan, t, plan.step), 'Timeline of the streams of a rank'));
            return;
        }
        const model = parc.actionItems(plan);
        box.append(panel(plan, model, 'Timeline of the ranks of ' + plan.json.pipeline.axis, item => openInside(plan, inside, item, panelOf)), inside);
        openInside(plan, inside, model.items.find(i => insideOf(plan, i.action)) || model.items[0], panelOf);
    };

    /* Draws all canvases, for example with other colors. */
    parc.redrawTimelines = function () {
        for (const view of views)
            view.now();
    };
})(window.parc);
