"""views.py: checks what a reader does with a page: selects, filters, sorts, copies,
moves with keys and zooms. The page is that of examples/llama.pdl on 8x8 with times."""
import csv
import io

from report import equal

# data-mark is 2 at the element that is selected, 1 at those that belong to it.
CHOSEN = '[data-mark="2"]'
MARKED = '[data-mark]'
SHOWN = """[...document.querySelectorAll($selector)].filter(e => e.getClientRects().length)"""


def chosen(page, selector, mark=CHOSEN):
    """The ids, lines, paths or names of the selected elements among `selector`."""
    return page.evaluate("""[...document.querySelectorAll($selector)].map(e => e.dataset.id ||
        e.dataset.line || e.dataset.path || e.dataset.name || '')""", selector=selector + mark)


def marked(page, selector):
    return chosen(page, selector, MARKED)


def shown(page, selector, what='dataset.id'):
    return page.evaluate(f'{SHOWN}.map(e => e.{what})', selector=selector)


def line_of(source):
    """The file and line of a source reference."""
    return source.rsplit(':', 1)[0]


def picture(page):
    """The pixels of the timeline."""
    page.frames()
    return page.evaluate("document.querySelector('#timeline canvas').toDataURL()")



def check_selection(report, browser, path, plan):
    work = {w['id']: w for w in plan['work']}
    name = next(c['id'] for c in plan['collectives'] if c['count'] > 1)
    row = f'#collectives tr[data-id="{name}"]'
    with browser.open(path) as page:
        with report.check('a row of a collective selects it everywhere'):
            page.click('#timeline details.spans > summary')
            page.click(f'{row} td')
            equal(chosen(page, '#collectives tr'), [name], 'selected rows')
            assert shown(page, f'#timeline tr[data-id="{name}"]'), 'no list of its spans'
            line = line_of(work[name]['source'])
            equal(marked(page, '#source [data-line]'), [line], 'lines')
            assert name in page.evaluate("document.querySelector('#memory').innerText"), \
                f'memory does not name {name}'
            assert name in page.evaluate('location.hash'), 'the address does not name it'
        with report.check('Esc ends the selection'):
            page.press('Escape')
            equal(marked(page, '') + shown(page, '#selection', 'id'), [], 'selected elements')
            assert name not in page.evaluate('location.hash'), 'the address still names it'
        kernel = next(w for w in plan['work'] if w['kind'] == 'matmul' and w['count'] > 1)
        line = line_of(kernel['source'])
        with report.check('a source reference selects and shows the line'):
            page.evaluate('scrollTo(0, 0)')
            page.click(f'#kernels tr[data-id="{kernel["id"]}"] [data-show=source]')
            page.until(f"""(e => {{ const r = e.getBoundingClientRect();
                return r.top >= 0 && r.bottom <= innerHeight; }})(
                document.querySelector('#source [data-line="{line}"]'))""",
                f'line {line} in view', limit=3)
            equal(chosen(page, '#source [data-line]'), [line], 'selected lines')
        with report.check('a line selects its statements'):
            page.press('Escape')
            page.click(f'#source [data-line="{line}"] .number')
            wanted = sorted(w['id'] for w in plan['work']
                            if w['kind'] == 'matmul' and line_of(w['source']) == line)
            have = marked(page, '#kernels tr')
            assert set(wanted) <= set(have), f'{have}, not {wanted}'
            others = [w for w in have if line_of(work[w]['source']) != line]
            equal(others, [], 'selected statements of other lines')
        with report.check('a module selects its statements'):
            page.press('Escape')
            module = kernel['path']
            page.evaluate("document.querySelector($item).focus()",
                          item=f'#modules [data-path="{module}"]')
            page.press('Enter')
            assert module in chosen(page, '#modules [data-path]'), 'the module is not selected'
            assert kernel['id'] in marked(page, '#kernels tr'), 'its kernel is not selected'
        with report.check('a tensor in memory selects its source'):
            page.press('Escape')
            tensor = page.evaluate("document.querySelector('#memory tr[data-name]').dataset.name")
            page.click('#memory tr[data-name] td')
            assert tensor in chosen(page, '#memory tr[data-name]'), f'{tensor} is not selected'
            assert marked(page, '#source [data-line]'), 'no line is selected'
        with report.check('no errors after selections'):
            equal(page.problems(), [], 'errors')


def check_filter(report, browser, path, plan):
    ids = [c['id'] for c in plan['collectives']]
    with browser.open(path) as page:
        with report.check("'/' and a text filter the tables and the tree"):
            page.press('/')
            equal(page.evaluate('document.activeElement.id'), 'filter', 'focus')
            page.type('rs')
            page.until('document.querySelector("#filter").value === "rs"', 'the text', limit=3)
            wanted = [c for c in plan['collectives']
                      if 'rs' in ' '.join(map(str, c.values())).lower()]
            page.until(f'{SHOWN}.length < $count', 'fewer rows', limit=3,
                       selector='#collectives tr[data-id]', count=len(ids))
            have = shown(page, '#collectives tr[data-id]')
            missing = {i for i in ids if i.startswith('rs')} - set(have)
            assert not missing, f'rows that are hidden: {missing}'
            assert set(have) <= {c['id'] for c in wanted} | {
                w['id'] for w in plan['work'] if 'rs' in (w['path'] + w['detail']).lower()}, have
            page.evaluate("""(e => { e.value = 'feed_forward.w2';
                e.dispatchEvent(new Event('input', {bubbles: true})); })(
                document.querySelector('#filter'))""")
            page.until(f"""{SHOWN}.every(e => e.dataset.path.includes('w2') ||
                'layers.*.feed_forward.w2'.startsWith(e.dataset.path))""", 'a filtered tree',
                limit=3, selector='#modules [data-path]')
            assert 'layers.*.feed_forward.w2' in shown(
                page, '#modules [data-path]', 'dataset.path'), 'the module is hidden'
        with report.check('the address has the filter'):
            page.until('decodeURIComponent(location.hash).includes("feed_forward.w2")',
                       'filter in the address', limit=3)
        with report.check('a text that nothing contains, and no text'):
            page.evaluate("""(e => { e.value = 'no such \\\\ [ text';
                e.dispatchEvent(new Event('input', {bubbles: true})); })(
                document.querySelector('#filter'))""")
            page.until(f'{SHOWN}.length === 0', 'no rows', limit=3,
                       selector='#collectives tr[data-id]')
            page.evaluate("""(e => { e.value = '';
                e.dispatchEvent(new Event('input', {bubbles: true})); })(
                document.querySelector('#filter'))""")
            page.until(f'{SHOWN}.length === $count', 'all rows', limit=3,
                       selector='#collectives tr[data-id]', count=len(ids))
            equal(page.problems(), [], 'errors')


def check_tables(report, browser, path, plan):
    size = {c['id']: c['bytes'] for c in plan['collectives']}
    mark = """(() => { const h = [...document.querySelectorAll('#collectives th')]
        .find(e => e.textContent.toLowerCase().includes('bytes'));
        h.id = h.id || 'bytes-heading'; return '#' + CSS.escape(h.id); })()"""
    with browser.open(path) as page:
        heading = page.evaluate(mark)
        direction = 'document.querySelector($h).getAttribute("aria-sort")'

        def order():
            return [size[i] for i in shown(page, '#collectives tr[data-id]')]

        with report.check('a heading sorts, and sorts the other way'):
            orders = []
            for _ in range(2):
                page.click(heading)
                sort = page.evaluate(direction, h=heading)
                assert sort in ('ascending', 'descending'), f'aria-sort is {sort}'
                equal(order(), sorted(order(), reverse=sort == 'descending'), sort)
                orders.append(sort)
            assert orders[0] != orders[1], f'both times {orders[0]}'
        with report.check('Enter at a heading sorts'):
            page.evaluate("""(h => (h.querySelector('button') || h).focus())(
                document.querySelector($h))""", h=heading)
            page.press('Enter')
            sort = page.evaluate(direction, h=heading)
            assert sort != orders[1], f'still {sort}'
        with report.check('a table is copied as CSV'):
            browser.call('Browser.grantPermissions', {
                'permissions': ['clipboardReadWrite', 'clipboardSanitizedWrite']})
            page.evaluate("""[...document.querySelectorAll('#collectives button')]
                .find(b => b.textContent.trim() === 'Copy as CSV').id = 'copy-here'""")
            page.click('#copy-here')
            text = page.until("""navigator.clipboard.readText().then(
                t => t.includes('ag0') ? t : '')""", 'a text on the clipboard', limit=3)
            rows = list(csv.reader(io.StringIO(text)))
            equal(len(rows), len(plan['collectives']) + 1, 'lines')
            assert all(len(r) == len(rows[0]) for r in rows), f'columns: {[len(r) for r in rows]}'
            at = next(i for i, h in enumerate(rows[0]) if 'bytes' in h.lower())
            equal({r[0]: float(r[at]) for r in rows[1:]}, size, 'bytes')
            equal(page.problems(), [], 'errors')


def check_keys(report, browser, path):
    with browser.open(path) as page:
        with report.check("'?' lists the keys, Esc closes the list"):
            page.press('?')
            dialog = '[role=dialog], dialog[open]'
            page.until(f'{SHOWN}.length', 'a list of keys', limit=3, selector=dialog)
            page.press('Escape')
            page.until(f'{SHOWN}.length === 0', 'no list', limit=3, selector=dialog)
        with report.check('arrow keys in the tree'):
            first = '#modules [role=treeitem]'
            page.evaluate('document.querySelector($first).focus()', first=first)
            now = """(e => [e.dataset.path || e.closest('[data-path]').dataset.path,
                e.getAttribute('aria-expanded')])(document.activeElement)"""
            if page.evaluate(now)[1] == 'false':
                page.press('ArrowRight')
            path_of_first, state = page.evaluate(now)
            equal(state, 'true', 'aria-expanded of the first item')
            page.press('ArrowDown')
            assert page.evaluate(now)[0] != path_of_first, 'the focus does not move'
            page.press('ArrowUp')
            equal(page.evaluate(now)[0], path_of_first, 'focus')
            page.press('ArrowLeft')
            equal(page.evaluate(now)[1], 'false', 'aria-expanded after Left')
        with report.check('no errors after keys'):
            equal(page.problems(), [], 'errors')
    with browser.open(path) as page:
        with report.check('Tab reaches every part'):
            wanted = {'bar', 'modules', 'timeline', 'memory', 'collectives', 'kernels', 'whatif',
                      'source'}
            reached = set()
            stops = page.evaluate("""document.querySelectorAll(
                'a[href], button, input, select, summary, [tabindex]').length""")
            for _ in range(min(stops, 1500) + 5):
                page.call('Input.dispatchKeyEvent', {
                    'type': 'rawKeyDown', 'key': 'Tab', 'code': 'Tab', 'windowsVirtualKeyCode': 9})
                part = page.evaluate("""(e => e && e !== document.body
                    ? (e.closest('section[id]') || {id: 'bar'}).id : '')(document.activeElement)""")
                if part:
                    reached.add(part)
                if wanted <= reached:
                    break
            assert wanted <= reached, f'Tab does not reach {sorted(wanted - reached)}'


def check_timeline(report, browser, path, plan):
    canvas = '#timeline canvas'
    ids = [w['id'] for w in plan['work']]
    with browser.open(path) as page:
        with report.check('timeline: a point shows its statement'):
            seen = []
            text_of = "document.querySelector('#timeline').innerText"
            before = page.evaluate(text_of)
            for y in range(5, 100, 6):
                page.hover(canvas, 0.5, y / 100)
                text = page.evaluate(text_of)
                seen += [i for i in ids if i in text and i not in before]
                if seen:
                    break
            assert seen, 'no point of the canvas names a statement'
        with report.check('timeline: the wheel zooms, dragging pans'):
            page.mouse('mouseMoved', 1, 1)
            pictures = [picture(page)]
            page.wheel(canvas, -300, control=True)
            if picture(page) == pictures[0]:
                page.wheel(canvas, -300)
            page.mouse('mouseMoved', 1, 1)
            pictures.append(picture(page))
            assert pictures[0] != pictures[1], 'the wheel does not zoom'
            page.drag(canvas, (0.6, 0.5), (0.3, 0.5))
            page.mouse('mouseMoved', 1, 1)
            assert picture(page) != pictures[1], 'dragging does not pan'
        with report.check('timeline: keys zoom and pan'):
            page.evaluate("(e => (e.tabIndex >= 0 ? e : e.closest('[tabindex]')).focus())("
                          "document.querySelector('#timeline canvas'))")
            for key in ('+', 'ArrowRight', '-'):
                old = picture(page)
                page.press(key)
                assert picture(page) != old, f'{key} changes nothing'
        with report.check('no errors after zooming'):
            equal(page.problems(), [], 'errors')


def check_memory(report, browser, path):
    cursor = '#memory [role=slider]'
    now = 'Number(document.querySelector($cursor).getAttribute("aria-valuenow"))'
    names = """[...document.querySelectorAll('#memory tr[data-name]')]
        .map(r => r.dataset.name)"""
    with browser.open(path) as page:
        memory = page.evaluate("""JSON.parse(document.querySelector('script.plan')
            .textContent).page.memory""")
        with report.check('memory: the cursor starts at the peak, arrow keys move it'):
            page.evaluate('document.querySelector($cursor).focus()', cursor=cursor)
            equal(page.evaluate(now, cursor=cursor), memory['peak'], 'moment')
            page.press('ArrowLeft')
            equal(page.evaluate(now, cursor=cursor), memory['peak'] - 1, 'moment after Left')
            page.press('Home')
            equal(page.evaluate(now, cursor=cursor), 0, 'moment after Home')
        with report.check('memory: the list is that of the moment'):
            page.press('ArrowRight')
            at = page.evaluate(now, cursor=cursor)
            live = [b for b in memory['blocks'] if b[3] <= at <= b[4]]
            equal(sorted(page.evaluate(names)), sorted(b[0] for b in live), 'tensors')
        with report.check('memory: a click moves the cursor'):
            page.click('#memory :is(svg, canvas)', 0.8, 0.5)
            assert page.evaluate(now, cursor=cursor) != at, 'the cursor does not move'
            equal(page.problems(), [], 'errors')


def check_address(report, browser, path, plan):
    name = next(c['id'] for c in plan['collectives'] if c['count'] > 1)
    with report.check('the address restores part, selection and filter'):
        with browser.open(path, fragment=f'part=collectives&select={name}&filter={name}') as page:
            equal(chosen(page, '#collectives tr'), [name], 'selected rows')
            equal(page.evaluate('document.querySelector("#filter").value'), name, 'filter')
            page.until("""(r => r.top < innerHeight && r.bottom > 0)(
                document.querySelector('#collectives').getBoundingClientRect())""",
                'the part in view', limit=3)
            state = page.evaluate('location.hash')
        with browser.open(path, fragment=state[1:]) as page:
            equal(chosen(page, '#collectives tr'), [name], 'selected rows of its own address')
    with report.check('an address that names nothing is no error'):
        for fragment in ('part=none&select=none&filter=%', '%E0%A4%A', 'select=__proto__',
                         'select=&filter=&part=', 'source', 'x=<img src=x onerror=alert(1)>'):
            with browser.open(path, fragment=fragment) as page:
                equal(page.problems(), [], fragment)


def check_views(report, browser, path, plan):
    check_selection(report, browser, path, plan)
    check_filter(report, browser, path, plan)
    check_tables(report, browser, path, plan)
    check_keys(report, browser, path)
    check_timeline(report, browser, path, plan)
    check_memory(report, browser, path)
    check_address(report, browser, path, plan)
