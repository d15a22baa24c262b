/* verdict.js: the part `verdict`: the numbers and the losses that decide about a plan.
 */
(function (parc) {
    'use strict';
    const el = parc.el, format = parc.format;

    function figure(name, value, below) {
        return el('div', {class: 'figure'}, el('dt', {}, name), el('dd', {}, value, el('small', {}, below)));
    }

    function memoryFigure(plan) {
        const m = plan.json.memory, device = plan.constants.get('device.memory');
        const below = [device ? format.percent(m.peak / device.value) + ' of ' + format.bytes(device.value) : 'live tensors ' + format.bytes(m.lower_bound)];
        if (m.host)
            below.push('; ', parc.value('bytes', m.host, {'data-field': 'host'}), ' in host memory');
        return figure('Peak memory per rank', parc.value('bytes', m.peak, {'data-field': 'peak'}), below);
    }

    function figures(plan) {
        const t = plan.time, list = el('dl', {class: 'figures'});
        if (t) {
            list.append(
                figure('Time of a step', parc.value('seconds', t.step_seconds, {'data-field': 'step_seconds'}),
                    ['± ', parc.value('percent', t.spread, {'data-field': 'spread'}), ' on ' + t.machine]),
                figure('MFU', parc.value('percent', t.mfu, {'data-field': 'mfu'}), 'model flops, part of the peak rate'),
                figure('Exposed communication', parc.value('seconds', t.exposed_seconds, {'data-field': 'exposed_seconds'}),
                    format.percent(t.exposed_seconds / t.step_seconds) + ' of the step'));
            if (t.bubble_seconds > 0)
                list.append(figure('Waiting for stages', parc.value('seconds', t.bubble_seconds, {'data-field': 'bubble_seconds'}),
                    format.percent(t.bubble_seconds / t.step_seconds) + ' of the step'));
        }
        list.append(memoryFigure(plan));
        if (!t)
            list.append(figure('Sent by a rank', parc.value('bytes', parc.sum(plan.json.traffic, x => x.sent)), 'in a step, over all axes'),
                figure('Work', parc.value('flops', plan.json.model_flops), 'of the model in a step, on the whole mesh'));
        return list;
    }

    /* By class in the order of their colours; the rest of the step is between statements or waits for stages. */
    function timeBar(plan) {
        const t = plan.time;
        if (!t)
            return parc.note('This plan has no times. ' + parc.NO_MACHINE);
        const parts = Object.keys(t.by_class).map(name => ({name: name === 'collective' ? 'exposed collectives' : name,
            color: name, value: t.by_class[name]}));
        parts.push({name: 'waiting for stages', color: 'bubble', value: t.bubble_seconds || 0},
            {name: 'between statements', color: 'between', value: t.between_seconds});
        return el('div', {class: 'bars'}, el('h3', {}, 'Where the time of a step goes'), bar(parts, 'seconds', 'Time of a step'));
    }

    function memoryBar(plan) {
        const m = plan.json.memory;
        const parts = ['params', 'grads', 'optimizer', 'gathered', 'activations', 'workspace']
            .map(name => ({name: name, color: name, value: m[name] || 0}));
        return el('div', {class: 'bars'}, el('h3', {}, 'What the memory holds at the peak'), bar(parts, 'bytes', 'Memory at the peak'));
    }

    function bar(parts, form, label) {
        return parc.stackedBar(parts.map(p => Object.assign({text: format[form](p.value)}, p)), label);
    }

    function losses(plan) {
        const t = plan.time;
        if (!t || !t.losses.length)
            return null;
        const items = t.losses.slice(0, 3).map(function (loss) {
            const remedy = loss.remedy ? el('div', {class: 'remedy'}, el('b', {}, 'Remedy: '), loss.remedy) : null;
            return el('li', {}, el('div', {class: 'loss'}, parc.value('seconds', loss.seconds, {class: 'value strong'}), ' ',
                el('span', {class: 'share'}, format.percent(loss.seconds / t.step_seconds)), ' ',
                el('span', {}, parc.withReferences(plan, loss.what))), remedy);
        });
        return el('div', {class: 'losses'}, el('h3', {}, items.length > 1 ? 'The ' + ['', '', 'two', 'three'][items.length] +
            ' largest losses' : 'The largest loss'), el('ol', {}, items));
    }

    function warningText(w) {
        const calls = w.calls + (w.calls === 1 ? ' call' : ' calls');
        if (w.kind === 'collective')
            return 'The plan does not ask for ' + w.what + ' over ' + w.axis + ': ' + calls + ', ' + format.bytes(w.bytes) + ' per step';
        return 'All ranks of ' + w.axis + ' repeat ' + w.what + ': ' + calls + ', ' + format.flops(w.redundant_flops) + ' per step';
    }

    function warnings(plan) {
        const all = plan.json.warnings;
        if (!all.length)
            return el('p', {class: 'quiet'}, 'No warnings.');
        return el('div', {class: 'warnings'}, el('h3', {}, all.length === 1 ? '1 warning' : all.length + ' warnings'),
            el('ul', {}, all.map(w => el('li', {}, warningText(w), ' (', parc.sourceLink(w.source), ')',
                (w.help || []).map(h => el('div', {class: 'remedy'}, el('b', {}, 'Help: '), h))))));
    }

    function settings(plan) {
        const train = (plan.json.settings || {}).train || {}, p = plan.json;
        const parameters = parc.sum(p.params, x => x.count * x.shape.reduce((a, b) => a * b, 1));
        const rows = [
            ['Parameters', parc.value('count', parameters, {'data-field': 'parameters'})],
            ['Mesh', plan.meshText + (plan.ranks === 1 ? ' (1 rank)' : ' (' + plan.ranks + ' ranks)')],
            ['Batch', train.batch ? train.batch + ' sequences of ' + train.seq + (train.accumulate > 1 ?
                ' in ' + train.accumulate + ' microbatches' : '') : '–'],
            ['Precision', train.precision || '–'],
            ['Optimizer', train.optimizer ? train.optimizer.name : '–'],
            ['Machine', plan.machine ? plan.machine.description || plan.machine.name : p.cpu ? 'CPU (' + p.cpu + '), no --machine' : 'none given', 'broad'],
        ];
        if (p.pipeline)
            rows.push(['Pipeline', p.pipeline.schedule + ', ' + p.pipeline.stages.length + ' stages over ' + p.pipeline.axis +
                ', ' + p.pipeline.microbatches + ' microbatches']);
        return el('dl', {class: 'facts'}, rows.map(r => el('div', {class: r[2]}, el('dt', {}, r[0]), el('dd', {}, r[1]))));
    }

    parc.verdict = function (plan, box) {
        box.append(figures(plan), el('div', {class: 'two'}, timeBar(plan), memoryBar(plan)));
        const list = losses(plan);
        if (list)
            box.append(list);
        box.append(warnings(plan), settings(plan));
    };
})(window.parc);
