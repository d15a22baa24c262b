"""look.py: checks how a page looks: dark mode, print, narrow screens, no scripts, and
that it is safe: names that are HTML, and the content security policy."""
from report import equal

from contents import PARTS

# The visible texts with the smallest contrast to their background: [ratio, text, colors].
CONTRAST = r"""(() => {
    const context = document.createElement('canvas').getContext('2d',
        {willReadFrequently: true});
    context.canvas.width = context.canvas.height = 1;
    const cache = {};
    const rgba = color => cache[color] = cache[color] || (() => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    })();
    const over = (a, b) => [0, 1, 2].map(i => (a[i] * a[3] + b[i] * (255 - a[3])) / 255)
        .concat(255);
    const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const v = c[i] / 255;
        return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
    const background = e => {
        if (!e) return [...rgba('Canvas')];
        const own = rgba(getComputedStyle(e).backgroundColor);
        return own[3] === 255 ? own : over(own, background(e.parentElement));
    };
    const found = [];
    for (const e of document.body.querySelectorAll('*')) {
        if (e.closest('svg, noscript, script, style, [disabled], [aria-disabled="true"]')) continue;
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        if (!e.getClientRects().length || e.getBoundingClientRect().width < 2) continue;
        const back = background(e);
        const front = over(rgba(getComputedStyle(e).color), back);
        const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
        found.push([(a + 0.05) / (b + 0.05), e.textContent.trim().slice(0, 40),
            (e.closest('[id]') || e).id, e.tagName + '.' + e.className,
            [front, back].map(c => c.slice(0, 3).map(Math.round).join()).join(' on ')]);
    }
    return found.sort((x, y) => x[0] - y[0]).slice(0, 5);
})()"""

# Elements that are wider than the window and are not in a part that scrolls by itself.
WIDE = """(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    return [...document.body.querySelectorAll('*')].filter(e => {
        if (e.getBoundingClientRect().right <= innerWidth + 0.5) return false;
        for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
            if (getComputedStyle(p).overflowX !== 'visible') return false;
        return true;
    }).slice(0, 8).map(e => (e.closest('[id]') || e).id + ': ' + e.tagName + '.' +
        e.getAttribute('class') + ' ' + Math.round(e.getBoundingClientRect().right) + ' px')
        .concat(['the page is ' + document.documentElement.scrollWidth + ' px wide']);
})()"""


def check_width(report, page, widths=(1280, 400)):
    for width in widths:
        with report.check(f'no horizontal scrolling at {width} pixels'):
            page.viewport(width)
            page.frames()
            equal(page.evaluate('innerWidth'), width, 'width')
            equal(page.evaluate(WIDE), [], 'wide elements')
    page.viewport(1280)
    page.frames()


def check_colors(report, browser, path):
    body = '(s => s.backgroundColor + s.color)(getComputedStyle(document.body))'
    have = {}
    for scheme in ('light', 'dark'):
        with browser.open(path, features={'prefers-color-scheme': scheme}) as page:
            with report.check(f'contrast of text, {scheme}'):
                have[scheme] = page.evaluate(body)
                worst = page.evaluate(CONTRAST)
                assert worst, 'no text'
                assert worst[0][0] >= 4.5, f'a contrast below 4.5: {worst}'
    with report.check('dark mode changes the colors'):
        assert have['light'] != have['dark'], f'both {have["light"]}'
    with report.check('a change of the scheme changes the drawings'):
        with browser.open(path, features={'prefers-color-scheme': 'light'}) as page:
            pixels = "document.querySelector('#timeline canvas').toDataURL()"
            page.evaluate("document.querySelector('#timeline').scrollIntoView()")
            page.frames()
            before = page.evaluate(pixels)
            page.media(None, {'prefers-color-scheme': 'dark'})
            page.until(f'{pixels} !== $before', 'other pixels', limit=3, before=before)
    with report.check('no motion if the reader wants none'):
        with browser.open(path, features={'prefers-reduced-motion': 'reduce'}) as page:
            moving = page.evaluate("""[...document.querySelectorAll('*')].filter(e => {
                const s = getComputedStyle(e);
                return parseFloat(s.transitionDuration) > 0.01 || s.scrollBehavior === 'smooth' ||
                    (s.animationName !== 'none' && parseFloat(s.animationDuration) > 0.01);
                }).map(e => e.tagName + '.' + e.className).slice(0, 5)""")
            equal(moving, [], 'elements that move')


def check_print(report, browser, path):
    with browser.open(path) as page:
        page.media('print')
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.frames()
        with report.check('print shows all parts'):
            for part in PARTS:
                height = page.evaluate(
                    "document.getElementById($part).getBoundingClientRect().height", part=part)
                assert height > 30, f'section {part} is {height} pixels high'
            closed = page.evaluate("""[...document.querySelectorAll('details:not([open], .spans)')]
                .filter(e => e.getClientRects().length).map(e => e.textContent.slice(0, 40))""")
            equal(closed, [], 'closed details')
            closed = page.evaluate("""[...document.querySelectorAll(
                '#modules [aria-expanded="false"]')].length""")
            equal(closed, 0, 'closed modules')
        with report.check('print has no controls and nothing sticky'):
            shown = page.evaluate("""[...document.querySelectorAll(
                'button, input, select, nav')].filter(e => e.getClientRects().length &&
                !e.closest('th, [data-kind]'))
                .map(e => e.tagName + ' ' + (e.closest('[id]') || e).id).slice(0, 8)""")
            equal(shown, [], 'controls')
            sticky = page.evaluate("""[...document.querySelectorAll('*')].filter(e =>
                ['sticky', 'fixed'].includes(getComputedStyle(e).position) &&
                e.getClientRects().length).map(e => e.tagName + '.' + e.className).slice(0, 8)""")
            equal(sticky, [], 'sticky elements')
        with report.check('print cuts no table off'):
            cut = page.evaluate("""[...document.querySelectorAll('section *')].filter(e =>
                getComputedStyle(e).overflowY !== 'visible' && e.tagName !== 'CANVAS' &&
                !e.closest('svg') && e.scrollHeight > e.clientHeight + 2 && e.clientHeight > 2)
                .map(e => (e.closest('[id]') || e).id + ' ' + e.tagName + '.' + e.className)
                .slice(0, 8)""")
            equal(cut, [], 'elements that scroll')
        with report.check('the page prints'):
            page.media()
            assert page.pdf().startswith(b'%PDF-'), 'no PDF'
            page.frames()
            equal(page.problems(), [], 'errors')


def check_policy(report, browser, path):
    with browser.open(path) as page:
        with report.check('the policy refuses requests and eval'):
            for expression, directive in (
                    ("fetch('https://example.com/x')", 'connect-src'),
                    ("fetch('data:text/plain,x')", 'connect-src'),
                    ("new Promise((yes, no) => Object.assign(new Image(), {onload: yes, "
                     "onerror: no, src: 'https://example.com/x.png'}))", 'img-src'),
                    ("new Promise((yes, no) => document.head.append(Object.assign("
                     "document.createElement('script'), {onload: yes, onerror: no, "
                     "src: 'https://example.com/x.js'})))", 'script-src')):
                page.evaluate('void (window.violations.length = 0)')
                result = page.evaluate(f"({expression}).then(() => 'sent', () => 'refused')")
                equal(result, 'refused', expression)
                page.until('window.violations.length > 0', f'a violation by {expression}', limit=3)
                assert directive in page.evaluate('window.violations.join()'), expression
            # A later task: the protocol permits eval while it evaluates an expression.
            page.evaluate("""new Promise(done => setTimeout(() => {
                try { eval('window.evaluated = 1'); } catch (error) { window.refused = 1; }
                done(); }))""")
            equal(page.evaluate('[window.evaluated || 0, window.refused]'), [0, 1], 'eval')
    with report.check('without scripts the page says what it needs'):
        with browser.open(path, scripts=False) as page:
            text = page.visible_text()
            assert 'JavaScript' in text, f'the page shows {text[:300]!r}'
            assert 'JSON' in text or '--emit' in text, f'no other way to see the plan: {text!r}'
    with report.check('an error in a script is shown'):
        with browser.open(path) as page:
            page.evaluate("void setTimeout(() => { throw new Error('made by the test'); })")
            page.until("(window.parcPage.errors || []).length > 0", 'an error', limit=3)
            text = page.evaluate("document.querySelector('#errors').innerText")
            assert 'made by the test' in text, f'#errors shows {text!r}'


def check_hostile(report, browser, path, plan, texts):
    """texts: parts of the model's source, which contain HTML."""
    with browser.open(path) as page:
        with report.check('names that are HTML run no script'):
            equal(page.problems(), [], 'errors')
            equal(page.evaluate('window.hacked || 0'), 0, 'window.hacked')
            made = page.evaluate("""[...document.querySelectorAll(
                'img, iframe, object, embed, base, link[rel=stylesheet], [onerror], [onmouseover]')]
                .map(e => e.outerHTML.slice(0, 80))""")
            equal(made, [], 'elements')
            equal(page.evaluate("document.querySelectorAll('script:not([type])').length"), 1,
                  'scripts')
        with report.check('names that are HTML are shown as text'):
            shown = page.evaluate("document.querySelector('#source').textContent")
            for text in texts:
                assert text in shown, f'the source does not show {text!r}'
            name = plan['collectives'][0]['source'].rsplit(':', 2)[0]
            assert '<img' in name, f'the test expects HTML in {name!r}'
            row = page.evaluate("document.querySelector('#collectives tr[data-id]').textContent")
            assert name in row, f'no {name!r} in {row!r}'
        with report.check('a source reference with colons in the name selects its line'):
            first = plan['collectives'][0]
            page.click(f'#collectives tr[data-id="{first["id"]}"] [data-show=source]')
            equal(page.evaluate("""[...document.querySelectorAll('#source [data-mark="2"]')]
                .map(e => e.dataset.line)"""), [first['source'].rsplit(':', 1)[0]], 'lines')
            equal(page.problems(), [], 'errors')


def check_look(report, browser, path):
    check_colors(report, browser, path)
    check_print(report, browser, path)
    check_policy(report, browser, path)
