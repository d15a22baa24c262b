/* keys.js: the keys of the page, and the dialog that lists them.
 */
(function (parc) {
    'use strict';
    const el = parc.el;
    const KEYS = [['/', 'go to the filter'], ['Esc', 'clear the selection; in the filter, clear the filter'], ['?', 'list the keys'],
        ['1 … 9, 0', 'go to a part'], ['Tab', 'go to the next control'],
        ['Timeline', '+ and − zoom, 0 shows all, ← and → pan, ↑ and ↓ change the lane, comma and period step through the spans, Enter selects; ' +
            'the wheel zooms once the timeline has the focus, or with Ctrl'],
        ['Memory', '← and → move the cursor, Home and End go to the ends, P goes to the peak'],
        ['Modules', '↑ and ↓ move, → opens, ← closes, Enter selects']];

    function dialog() {
        const close = el('button', {type: 'button', class: 'small'}, 'Close');
        const box = el('dialog', {id: 'keys', 'aria-label': 'Keys'}, el('h2', {}, 'Keys'), el('dl', {class: 'keys'}, KEYS.map(k =>
            el('div', {}, el('dt', {}, k[0]), el('dd', {}, k[1])))), close);
        close.addEventListener('click', () => box.close());
        document.body.append(box);
        return box;
    }

    function act(event, filter, help) {
        const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) && document.activeElement.type !== 'radio' &&
            document.activeElement.type !== 'checkbox';
        if (event.key === 'Escape') {
            if (document.activeElement === filter && filter.value) {
                filter.value = '';
                parc.setFilter('');
            } else if (!help.open)
                parc.select(null);
            return false;
        }
        if (typing)
            return false;
        if (event.key === '/')
            filter.focus();
        else if (event.key === '?')
            help.showModal();
        else if (/^[0-9]$/.test(event.key) && !document.activeElement.closest('.lanes')) {
            const links = document.querySelectorAll('nav a');
            const link = links[event.key === '0' ? 9 : +event.key - 1];
            if (link)
                parc.show(link.dataset.part);
        } else
            return false;
        return true;
    }

    parc.keys = function () {
        const filter = document.getElementById('filter'), help = dialog();
        document.getElementById('help').addEventListener('click', () => help.showModal());
        filter.addEventListener('input', () => parc.setFilter(filter.value));
        document.addEventListener('keydown', function (event) {
            if (!event.defaultPrevented && !event.ctrlKey && !event.altKey && !event.metaKey && act(event, filter, help))
                event.preventDefault();
        });
    };
})(window.parc);
