"""plans.py: checks pages of two plans, of a pipeline, and the sliders of `whatif`."""
import json

from contents import PARTS
from report import equal

SHOWN = """[...document.querySelectorAll($selector)].filter(e => e.getClientRects().length)"""
FIELD = "Number(document.querySelector('#whatif [data-field=' + $name + ']').dataset.value)"


def check_comparison(report, browser, path, plans):
    with browser.open(path) as page:
        with report.check('the comparison is first, with its numbers'):
            equal(page.evaluate('document.querySelector("section[id]").id'), 'comparison', 'part')
            difference = json.loads(path.with_suffix('.comparison.json').read_text())
            values = set(page.evaluate("""[...document.querySelectorAll(
                'section#comparison [data-value]')].map(e => Number(e.dataset.value))"""))
            for total in difference['totals']:
                for side in 'ab':
                    assert not total[side] or total[side] in values, \
                        f'no {total["name"]} of plan {side}: {total[side]}'
            for side, plan in zip('ab', plans):
                step = plan.get('time', {}).get('step_seconds')
                assert not step or step in values, f'no step of plan {side}: {step}'
        with report.check('every part shows both plans, side by side'):
            for part in PARTS:
                shown = page.evaluate(f"""{SHOWN}.map(e => {{
                    const r = e.getBoundingClientRect();
                    return [e.dataset.plan, r.left, r.top, r.width]; }})""",
                    selector=f'#{part} [data-plan]')
                sides = {b[0] for b in shown}
                equal(sides, {'a', 'b'}, f'plans of {part}')
                left = min(b[1] for b in shown if b[0] == 'b')
                assert left > min(b[1] for b in shown if b[0] == 'a'), \
                    f'{part}: b is not to the right of a: {shown}'
        with report.check('on a narrow screen the plans are one below the other'):
            page.viewport(400)
            page.frames()
            tops = page.evaluate("""['a', 'b'].map(p => document.querySelector(
                '#verdict [data-plan="' + p + '"]').getBoundingClientRect())
                .map(r => [r.left, r.top])""")
            assert tops[0][0] == tops[1][0] and tops[0][1] < tops[1][1], f'places {tops}'
            page.viewport(1280)
        with report.check('a module is selected in both plans, a statement in its own'):
            name = next(c['id'] for c in plans[0]['collectives']
                        if c['id'] in {d['id'] for d in plans[1]['collectives']})
            page.click(f'#collectives [data-plan="a"] tr[data-id="{name}"] td')
            marked = page.evaluate("""[...document.querySelectorAll('#collectives [data-mark]')]
                .map(e => e.closest('[data-plan]').dataset.plan + ' ' + e.dataset.id)""")
            assert f'a {name}' in marked, f'selected: {marked}'
            page.click('#modules [data-plan="b"] [data-path="layers.*.attention"]')
            paths = page.evaluate("""[...document.querySelectorAll('#modules [data-mark="2"]')]
                .map(e => e.closest('[data-plan]').dataset.plan + ' ' + e.dataset.path)""")
            equal(sorted(paths), ['a layers.*.attention', 'b layers.*.attention'], 'modules')
            equal(page.problems(), [], 'errors')


def check_pipeline(report, browser, path, plan):
    canvas = '#timeline canvas'
    with browser.open(path) as page:
        def text(selector):
            return page.evaluate("document.querySelector($selector).innerText", selector=selector)
        with report.check('the timeline names the bubble'):
            assert 'bubble' in text('#timeline').lower(), 'no bubble'
        with report.check('a point of the timeline shows an action, a click opens it'):
            before, inside = text('#timeline .readout'), text('#timeline .inside')
            for i in range(60):
                at = 0.3 + 0.04 * (i % 5), 0.04 + 0.08 * (i // 5)
                page.hover(canvas, *at)
                now = text('#timeline .readout')
                if now == before or 'backward' not in now:
                    continue
                page.click(canvas, *at)
                if text('#timeline .inside') != inside:
                    break
            assert now != before, 'no point of the canvas shows an action'
            opened = text('#timeline .inside')
            assert opened != inside, 'no click opens an action'
            assert 'backward' in opened, f'not the action of the click: {opened[:200]!r}'
            equal(page.problems(), [], 'errors')


def check_whatif(report, browser, path, plan):
    step = plan['time']['step_seconds']
    with browser.open(path) as page:
        page.evaluate("document.querySelector('#whatif').scrollIntoView()")
        with report.check('whatif: unchanged sliders leave the step'):
            before = page.evaluate(FIELD, name='before')
            assert abs(before / step - 1) < 1e-9, f'{before} s before, not {step} s'
            after = page.evaluate(FIELD, name='after')
            assert abs(after / step - 1) < 1e-3, f'{after} s without a change, not {step} s'
        with report.check('whatif: every slider changes the step as it should'):
            count = page.evaluate("document.querySelectorAll('#whatif input[type=range]').length")
            equal(count, 4, 'sliders')
            changes = []
            for i in range(count):
                for end in ('max', 'min'):
                    page.evaluate("""(e => { e.value = e[$end];
                        e.dispatchEvent(new Event('input', {bubbles: true}));
                        e.dispatchEvent(new Event('change', {bubbles: true})); })(
                        document.querySelectorAll('#whatif input[type=range]')[$i])""",
                        i=i, end=end)
                    page.frames()
                    changes.append(page.evaluate(FIELD, name='after') / step)
                page.evaluate("""(e => { e.value = e.defaultValue;
                    e.dispatchEvent(new Event('input', {bubbles: true}));
                    e.dispatchEvent(new Event('change', {bubbles: true})); })(
                    document.querySelectorAll('#whatif input[type=range]')[$i])""", i=i)
                page.frames()
            assert all(f <= 1.001 for f in changes[::2]), f'four times the rate: {changes[::2]}'
            assert all(f >= 0.999 for f in changes[1::2]), f'a quarter of it: {changes[1::2]}'
            assert sum(abs(f - 1) > 1e-3 for f in changes) >= 4, f'{changes}'
            after = page.evaluate(FIELD, name='after')
            assert abs(after / step - 1) < 1e-9, f'{after} s after all sliders are reset'
            equal(page.problems(), [], 'errors')
