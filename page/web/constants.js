/* constants.js: the part `constants`: the numbers of the machine file and where they come from.
 */
(function (parc) {
    'use strict';

    function valueText(c) {
        const form = {'bytes/s': 'byteRate', 'flop/s': 'flopRate', bytes: 'bytes', s: 'seconds'}[c.unit];
        return parc.format[form || (c.value >= 1e5 ? 'count' : 'number')](c.value);
    }

    parc.constants = function (plan, box) {
        if (!plan.machine) {
            box.append(parc.note('This plan is for no machine. Add --machine h100-sxm to forecast times from the constants of a machine.'));
            return;
        }
        box.append(parc.el('p', {class: 'quiet'}, plan.machine.name + ': ' + plan.machine.description));
        box.append(parc.table({plan: plan, name: 'Constants', rows: plan.machine.constants, id: c => c.name, class: 'wide',
            search: c => [c.name, c.meaning, c.from].join(' ').toLowerCase(), columns: [
                {key: 'name', name: 'Name', value: c => c.name, class: 'id'},
                {key: 'value', name: 'Value', form: 'text', value: c => c.value, show: valueText},
                {key: 'unit', name: 'Unit', value: c => c.unit},
                {key: 'spread', name: 'Spread', form: 'percent', value: c => c.spread, title: 'The part of the value by which it may be wrong'},
                {key: 'meaning', name: 'Meaning', value: c => c.meaning, class: 'text'},
                {key: 'from', name: 'From', value: c => c.from, class: 'text'},
                {key: 'date', name: 'Date', value: c => c.date, class: 'nowrap'}]}));
    };
})(window.parc);
