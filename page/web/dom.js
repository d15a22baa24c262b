/* dom.js: makes elements.
 *
 * Names from the model are untrusted text. They enter the document only as text
 * nodes and as values of attributes that run nothing: this file has no other way.
 */
(function (parc) {
    'use strict';
    const SVG = 'http://www.w3.org/2000/svg';
    const PLAIN = /^(class|id|type|role|title|tabindex|hidden|for|name|scope|open|colspan|value|style|checked|disabled|href|placeholder|aria-[a-z]+|data-[a-z]+)$/;

    function fill(node, attributes, children) {
        for (const name of Object.keys(attributes || {})) {
            const value = attributes[name];
            if (value === null || value === undefined || value === false)
                continue;
            if (name === 'on')
                for (const type of Object.keys(value))
                    node.addEventListener(type, value[type]);
            else
                node.setAttribute(name, value === true ? '' : String(value));
        }
        for (const child of children.flat(Infinity))
            if (child !== null && child !== undefined && child !== '')
                node.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
        return node;
    }

    /* el('td', {class: 'num', on: {click: f}}, 'text', node) */
    parc.el = function (tag, attributes, ...children) {
        for (const name of Object.keys(attributes || {}))
            if (name !== 'on' && !PLAIN.test(name))
                throw new Error("attribute '" + name + "' is not permitted");
        return fill(document.createElement(tag), attributes, children);
    };

    parc.svg = function (tag, attributes, ...children) {
        return fill(document.createElementNS(SVG, tag), attributes, children);
    };

    parc.clear = function (node) {
        node.textContent = '';
        return node;
    };

    /* A button that selects something, as state.js describes. */
    parc.pick = function (kind, key, text, more) {
        return parc.el('button', Object.assign({type: 'button', class: 'ref', 'data-kind': kind, 'data-key': key}, more),
            text === undefined ? key : text);
    };

    /* A reference to the source, 'llama.pdl:88:22'; a click shows the line. */
    parc.sourceLink = function (where) {
        const line = parc.lineOf(where);
        return line ? parc.pick('line', line, where, {'data-show': 'source', title: 'Show this line of the source'}) : where || '';
    };

    /* A loss 'waiting for …, most for rs6': the id is a reference. */
    parc.withReferences = function (plan, text) {
        const m = /^(.*, most (?:for |in )?)(\S+)(.*)$/.exec(text);
        return m && plan.byId.has(m[2]) ? [m[1], parc.pick('statement', m[2]), m[3]] : [text];
    };

    /* The swatch of a class of statements or of memory. */
    parc.swatch = function (name) {
        return parc.el('i', {class: 'swatch', style: 'background:var(--' + parc.colorName(name) + ')', 'aria-hidden': 'true'});
    };

    const CLASSES = ['matmul', 'attention', 'kernel', 'lookup', 'copy', 'collective', 'transfer', 'send', 'params', 'grads',
        'optimizer', 'gathered', 'activations', 'workspace', 'forward', 'backward', 'weights', 'receive', 'between', 'bubble'];
    parc.colorName = function (name) {
        return CLASSES.includes(name) ? 'c-' + name : 'c-copy';
    };

    /* A horizontal bar of parts [{name, color, value, text}], and its legend. */
    parc.stackedBar = function (parts, label) {
        const shown = parts.filter(p => p.value > 0);
        const sum = shown.reduce((a, p) => a + p.value, 0);
        const bar = parc.el('div', {class: 'stack', role: 'img', 'aria-label': label + ': ' +
            shown.map(p => p.name + ' ' + p.text).join(', ')});
        const legend = parc.el('ul', {class: 'legend'});
        for (const p of shown) {
            const share = 100 * p.value / sum;
            bar.appendChild(parc.el('i', {style: 'width:' + share + '%;background:var(--' + parc.colorName(p.color || p.name) + ')',
                title: p.name + ' ' + p.text}));
            legend.appendChild(parc.el('li', {}, parc.swatch(p.color || p.name), p.name + ' ',
                parc.el('b', {'data-value': p.value}, p.text), ' ' + parc.format.percent(p.value / sum)));
        }
        return [bar, legend];
    };

    /* Says a text to screen readers. */
    parc.say = function (text) {
        document.getElementById('said').textContent = text;
    };

    /* A paragraph instead of a part that the plan has no data for. */
    parc.note = function (text) {
        return parc.el('p', {class: 'note'}, text);
    };
    parc.NO_MACHINE = 'Add --machine h100-sxm to see times.';
})(window.parc);
