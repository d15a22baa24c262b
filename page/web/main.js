/* main.js: draws all parts and connects them.
 *
 * A part is a function (plan, box) that fills a box. Two plans have a box each, side by
 * side. The part `whatif` exists if a script defines parc.whatif.
 */
(function (parc) {
    'use strict';
    const el = parc.el;
    const PARTS = ['verdict', 'mesh', 'modules', 'timeline', 'memory', 'collectives', 'roofline', 'kernels', 'constants', 'whatif', 'source'];

    function bodyOf(part) {
        return document.querySelector('#' + part + ' > .body');
    }

    /* An error in a part is shown; the other parts are drawn. */
    function attempt(name, draw) {
        try {
            draw();
        } catch (error) {
            parc.report(name + ': ' + (error.stack || error));
        }
    }

    function drawPart(part) {
        const body = bodyOf(part), both = parc.plans.length > 1;
        body.classList.add('plans');
        body.classList.toggle('both', both);
        for (const plan of parc.plans) {
            const box = el('div', {class: 'plan', 'data-plan': plan.label});
            body.append(box);
            if (both)
                box.append(el('p', {class: 'which'}, el('span', {class: 'tag'}, plan.label), ' ' + plan.json.plan + ' on ' + plan.meshText));
            attempt(part, () => parc[part](plan, box));
        }
    }

    function heading() {
        const first = parc.plans[0], names = Array.from(new Set(parc.plans.map(p => p.json.model)));
        document.querySelector('h1').textContent = names.join(' and ');
        const one = p => (p.label ? p.label + ': ' : '') + 'plan ' + p.json.plan + ' on ' + p.meshText + ' (' + p.ranks + (p.ranks === 1 ? ' rank)' : ' ranks)') +
            (p.precision ? ', ' + p.precision : '') + (p.machine ? ', ' + p.machine.name : '');
        document.querySelector('header .lead').textContent = parc.plans.map(one).join('   ');
        document.title = names.join(' and ') + ' on ' + parc.plans.map(p => p.meshText).join(' and ') + ': execution plan';
        document.querySelector('header').append(el('p', {class: 'version'}, 'parc ' + first.json.parc));
    }

    function navigation() {
        const nav = document.querySelector('nav'), links = new Map();
        for (const section of document.querySelectorAll('main > section')) {
            if (section.hidden)
                continue;
            const link = el('a', {href: '#' + section.id, 'data-part': section.id}, section.querySelector('h2').textContent);
            link.addEventListener('click', function (event) {
                event.preventDefault();
                parc.show(section.id);
            });
            links.set(section, link);
            nav.append(link);
        }
        /* The link of the part at the top of the window is marked. */
        const seen = new IntersectionObserver(function (entries) {
            for (const entry of entries)
                if (entry.isIntersecting)
                    for (const [section, link] of links)
                        if (section === entry.target)
                            link.setAttribute('aria-current', 'true');
                        else
                            link.removeAttribute('aria-current');
        }, {rootMargin: '-15% 0px -80% 0px'});
        for (const section of links.keys())
            seen.observe(section);
    }

    /* One handler for everything that selects: references, rows and lines. */
    function clicks() {
        document.addEventListener('click', function (event) {
            const target = event.target.closest('[data-kind]');
            if (!target || (event.target.closest('button, a, input, summary') && !target.contains(event.target.closest('button, a, input, summary'))))
                return;
            if (window.getSelection().toString() && !event.target.closest('button'))
                return; /* the reader marks text */
            const side = target.closest('[data-plan]');
            parc.select({kind: target.dataset.kind, key: target.dataset.key, plan: side ? side.dataset.plan : parc.plans[0].label});
            if (target.dataset.show)
                parc.show(target.dataset.show);
        });
    }

    function colors() {
        window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', parc.redrawTimelines);
        const print = window.matchMedia('print');
        print.addEventListener('change', parc.redrawTimelines);
        window.addEventListener('beforeprint', function () {
            for (const box of document.querySelectorAll('details:not(.spans)'))
                box.open = true;
        });
    }

    function start() {
        parc.read();
        heading();
        if (parc.comparison) {
            document.getElementById('comparison').hidden = false;
            attempt('comparison', () => parc.comparisonPart(parc.comparison, bodyOf('comparison')));
        }
        document.getElementById('whatif').hidden = !parc.whatif;
        for (const part of PARTS)
            if (parc[part])
                drawPart(part);
        navigation();
        parc.inspector();
        parc.keys();
        clicks();
        colors();
        parc.readFragment();
        window.addEventListener('hashchange', parc.readFragment);
        window.parcPage.ready = true;
    }

    attempt('page', start);
})(window.parc);
