/* kernels.js: the part `kernels`: a table of all statements that compute.
 */
(function (parc) {
    'use strict';
    const format = parc.format;

    /* What a call does: flop/s where flops are counted, else bytes/s. */
    function rateText(s) {
        return s.flops > 0 && s.class !== 'kernel' ? format.flopRate(s.flops / s.alone) : format.byteRate(s.bytes / s.alone);
    }

    function detail(s) {
        const sizes = s.m ? (s.batch > 1 ? s.batch + ' x ' : '') + s.m + ' x ' + s.n + ' x ' + s.k : '';
        return [sizes, s.epilogue ? 'with ' + s.epilogue : '', s.m ? '' : s.detail].filter(Boolean).join(' ');
    }

    parc.kernels = function (plan, box) {
        const timed = !plan.time;
        box.append(parc.table({plan: plan, name: 'Statements that compute', rows: plan.statements.filter(s => s.computes), id: s => s.id,
            kind: 'statement', search: s => s.search, sort: plan.time ? 'exposed' : 'bytes', descending: true, class: 'wide', columns: [
                parc.statementId,
                {key: 'class', name: 'Kind', value: s => s.class, show: s => [parc.swatch(s.class), s.class]},
                {key: 'module', name: 'Module', value: s => s.path, show: s => s.path ? parc.pick('module', s.path) : 'the model', class: 'id'},
                {key: 'phase', name: 'Phase', value: s => s.phase},
                {key: 'count', name: 'Calls', form: 'number', value: s => s.count, title: 'Calls per step; 0: once, before the first step'},
                {key: 'bytes', name: 'Bytes', form: 'bytes', value: s => s.bytes, title: 'Bytes read and written by a call'},
                {key: 'flops', name: 'Flops', form: 'flops', value: s => s.flops || null, title: 'Flops of a call; parc counts those of matmuls and attention'},
                {key: 'alone', name: 'Alone', form: 'seconds', value: s => s.alone, without: timed, title: 'Time of a call on an idle device'},
                {key: 'exposed', name: 'Per step', form: 'seconds', value: s => s.exposed, bar: true, without: timed,
                    title: 'Time of all calls of a step, with what else runs'},
                {key: 'rate', name: 'Rate', form: 'text', value: s => s.alone > 0 ? s.flops > 0 ? s.flops / s.alone : s.bytes / s.alone : null,
                    show: rateText, without: timed, title: 'Of a call on an idle device: flop/s of matmuls and attention, bytes/s of the others'},
                {key: 'detail', name: 'Sizes', value: detail, class: 'mono', title: 'm x n x k of matmuls'},
                {key: 'source', name: 'Source', value: s => s.source, show: s => parc.sourceLink(s.source)}]}));
    };
})(window.parc);
