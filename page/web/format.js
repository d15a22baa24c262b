/* format.js: texts of numbers, as parc prints them.
 *
 *   bytes(631901184) = '602.63 MiB'    seconds(0.0931) = '93.1 ms'
 *   count(6.74e9) = '6.74 G'           percent(0.305) = '30.5%'
 */
(function (parc) {
    'use strict';
    const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    const DECIMAL = ['', 'K', 'M', 'G', 'T', 'P', 'E'];

    function threeDigits(x) {
        const size = Math.abs(x);
        return x.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
    }

    function bytes(x) {
        let k = 0;
        for (; Math.abs(x) >= 1024 && k < 4; k++)
            x /= 1024;
        return (k ? x.toFixed(2) : String(Math.round(x))) + ' ' + BINARY[k];
    }

    function seconds(x) {
        if (x === 0)
            return '0';
        const size = Math.abs(x);
        if (size >= 0.9995)
            return threeDigits(x) + ' s';
        if (size >= 0.9995e-3)
            return threeDigits(x * 1e3) + ' ms';
        return size >= 0.9995e-6 ? threeDigits(x * 1e6) + ' us' : threeDigits(x * 1e9) + ' ns';
    }

    function scaled(x, unit) {
        let k = 0;
        for (; Math.abs(x) >= 999.5 && k < 6; k++)
            x /= 1000;
        const text = k || x % 1 ? threeDigits(x) : String(x);
        return DECIMAL[k] || unit ? text + ' ' + DECIMAL[k] + unit : text;
    }

    function percent(x) {
        return (100 * x).toFixed(1) + '%';
    }

    const forms = {
        bytes: bytes,
        seconds: seconds,
        percent: percent,
        count: x => scaled(x, ''),
        flops: x => scaled(x, 'flop'),
        flopRate: x => scaled(x, 'flop/s'),
        byteRate: x => scaled(x, 'B/s'),
        number: x => Number.isInteger(x) ? String(x) : String(+x.toPrecision(4)),
        text: x => String(x),
    };
    parc.format = forms;

    const UNITS = {bytes: ' bytes', seconds: ' s', flops: ' flop', flopRate: ' flop/s', byteRate: ' bytes/s'};
    parc.exact = function (form, x) {
        return x + (UNITS[form] || '');
    };

    /* A number as an element: its text, with the exact value in title and data-value. */
    parc.value = function (form, x, more) {
        if (x === null || x === undefined || Number.isNaN(x))
            return parc.el('span', {class: 'none'}, '–');
        return parc.el('span', Object.assign({class: 'value', 'data-value': x, title: parc.exact(form, x)}, more), forms[form](x));
    };

    /* A difference with its sign: '+4.61 ms'. */
    parc.signed = function (form, x) {
        return (x > 0 ? '+' : '') + forms[form](x).replace(/^-/, '−');
    };

    /* The form of numbers that have this unit in parc's JSON. */
    parc.formOf = function (unit) {
        return {s: 'seconds', bytes: 'bytes', flop: 'flops', 'flop/s': 'flopRate', 'bytes/s': 'byteRate', '1': 'number'}[unit] || 'number';
    };
})(window.parc);
