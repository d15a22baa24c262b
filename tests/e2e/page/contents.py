"""contents.py: checks that a page has all parts, and that its numbers are those of
`parc --emit json`.

Every check is done for each plan of the page. A page of one plan has no element with
data-plan; one of two plans has data-plan="a" and data-plan="b" in each part.
"""
import math

from report import equal

PARTS = ['verdict', 'mesh', 'modules', 'timeline', 'memory', 'collectives', 'roofline',
         'kernels', 'constants', 'whatif', 'source']
TIMED = ['verdict', 'timeline', 'roofline', 'constants', 'whatif']

# A table as {'heads': [text], 'rows': {id: [[value or null, text] of each cell]}}.
TABLE = """(() => {
    const table = document.querySelector($selector);
    if (!table) throw new Error('no table ' + $selector);
    const rows = {};
    for (const row of table.querySelectorAll('tr[data-id]'))
        rows[row.dataset.id] = [...row.cells].map(cell => {
            const at = cell.matches('[data-value]') ? cell : cell.querySelector('[data-value]');
            return [at ? Number(at.dataset.value) : null, cell.textContent.trim()];
        });
    return {heads: [...table.querySelectorAll('thead th')].map(h => h.textContent.trim()), rows};
})()"""

# For each module the numbers of its item, without those of the items in it.
TREE = """(() => {
    const items = {};
    for (const item of document.querySelectorAll($selector + ' [data-path]'))
        items[item.dataset.path] = [...item.querySelectorAll('[data-value]')]
            .filter(e => e.closest('[data-path]') === item).map(e => Number(e.dataset.value));
    return items;
})()"""


def computes(work):
    """The statements that compute, which the kernels and the roofline show."""
    return [w for w in work if w['kind'] not in ('collective', 'transfer', 'send')]


def column(table, *words):
    """The index of the column whose heading contains one of the words."""
    for word in words:
        for i, head in enumerate(table['heads']):
            if word in head.lower():
                return i
    raise AssertionError(f'no column {words[0]} among {table["heads"]}')


def table_equals(page, selector, wanted):
    """wanted: {id: {words of the heading: value}}; a text is a part of the cell."""
    table = page.evaluate(TABLE, selector=selector)
    equal(sorted(table['rows']), sorted(wanted), f'rows of {selector}')
    for name, fields in wanted.items():
        for words, value in fields.items():
            have = table['rows'][name][column(table, *words)]
            if isinstance(value, str):  # the page has an arrow for `->`
                have[1] = have[1].replace('\xa0\u2192\xa0', ' -> ')
                assert value in have[1], f'{selector} {name} {words[0]}: {have[1]!r}, not {value!r}'
            elif value or have[0]:  # a cell without a number means 0
                equal(have[0], value, f'{selector} {name} {words[0]}')


def check_parts(report, page, plans):
    with report.check('all parts, in their order'):
        wanted = (['comparison'] if len(plans) > 1 else []) + PARTS
        have = page.evaluate('[...document.querySelectorAll("section[id]")].map(s => s.id)')
        equal([p for p in have if p in wanted], wanted, 'parts')
        for part in wanted:
            text = page.evaluate("""(() => { const s = document.getElementById($part);
                return s.getBoundingClientRect().height > 30 && s.querySelector('h2') &&
                    s.querySelector('h2').textContent.trim() && s.innerText; })()""", part=part)
            assert text, f'section {part} has no heading or no height'
            assert len(text.split('\n', 1)[-1]) > 10, f'section {part} is empty: {text!r}'
    with report.check('the bar links all parts'):
        links = page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.href)")
        for part in wanted:
            assert any(part in str(link) for link in links), f'no link to {part}: {links}'
    with report.check('no script errors and no requests'):
        equal(page.problems(), [], 'errors')
        shown = page.evaluate("""(e => e && e.getClientRects().length ? e.innerText : '')(
            document.getElementById('errors'))""")
        equal(shown, '', 'text of #errors')
    with report.check('every id is unique, every control has a name'):
        twice = page.evaluate("""(() => { const seen = {}; const twice = [];
            for (const e of document.querySelectorAll('[id]'))
                if (seen[e.id]) twice.push(e.id); else seen[e.id] = 1;
            return twice; })()""")
        equal(twice, [], 'ids that occur twice')
        nodes = page.call('Accessibility.getFullAXTree')['nodes']
        roles = ('button', 'link', 'textbox', 'searchbox', 'slider', 'combobox', 'radio',
                 'checkbox', 'treeitem', 'table', 'tree', 'Canvas', 'image', 'dialog')
        nameless = [n['role']['value'] for n in nodes if not n['ignored'] and
                    n['role']['value'] in roles and not n.get('name', {}).get('value')]
        equal(nameless, [], 'controls without a name')


def check_data(report, page, plans):
    with report.check('the JSON in the page is that of --emit json'):
        scripts = page.evaluate("""[...document.querySelectorAll('script.plan')]
            .map(s => JSON.parse(s.textContent))""")
        equal(len(scripts), len(plans), 'plans')
        for have, want in zip(scripts, plans):
            assert have.pop('page', None), 'no field page'
            assert have == want, 'another plan: ' + ', '.join(
                k for k in set(have) | set(want) if have.get(k) != want.get(k))


def check_verdict(report, page, plan, inside):
    def field(name):
        values = page.evaluate("""[...document.querySelectorAll(
            $inside + '#verdict [data-field="' + $name + '"], ' +
            '#verdict ' + $inside + '[data-field="' + $name + '"]')]
            .map(e => Number(e.dataset.value))""", name=name, inside=inside)
        assert values, f'no field {name} in verdict'
        return values
    with report.check('verdict: numbers'):
        for value in field('peak'):
            equal(value, plan['memory']['peak'], 'peak')
        for name in ('step_seconds', 'mfu', 'exposed_seconds', 'spread') if 'time' in plan else ():
            for value in field(name):
                equal(value, plan['time'][name], name)
    with report.check('verdict: losses, plan and mesh'):
        text = page.evaluate("""document.querySelector('header').innerText +
            document.querySelector('#verdict').innerText""")
        for loss in plan.get('time', {}).get('losses', [])[:3]:
            for words in (loss['what'], loss['remedy'] or ''):
                assert words in text, f'no {words!r}'
        for words in [plan['model'], plan['plan']] + [a['name'] for a in plan['mesh']]:
            assert words in text, f'no {words!r}'
        for warning in plan['warnings']:
            assert warning.get('module', warning.get('kind', '')) in text, f'no {warning!r}'


def check_tables(report, page, plan, inside):
    timed = 'time' in plan
    times = {s['id']: s for s in plan['time']['statements']} if timed else {}
    work = {w['id']: w for w in plan['work']}
    with report.check('collectives: every number'):
        table_equals(page, f'#collectives {inside}table', {c['id']: {
            ('id',): c['id'], ('kind',): '', ('axis',): c['axis'], ('tensor',): c['tensor'],
            ('calls', 'count'): c['count'], ('bytes',): c['bytes'], ('why',): c['why'],
            ('source',): c['source'],
            **({('time',): times[c['id']]['run_seconds'],
                ('exposed',): times[c['id']]['exposed_seconds']} if timed else {}),
            } for c in plan['collectives']})
    with report.check('kernels: every number'):
        table_equals(page, f'#kernels {inside}table', {w['id']: {
            ('calls', 'count'): w['count'], ('bytes',): w['bytes'], ('flop',): w['flops'],
            ('module', 'path'): w['path'], ('source',): w['source'],
            **({('alone',): times[w['id']]['alone_seconds'],
                ('step',): times[w['id']]['run_seconds']} if timed else {}),
            } for w in computes(plan['work'])})
    if not timed:
        return
    machine = page.evaluate("""JSON.parse(document.querySelectorAll('script.plan')[$index]
        .textContent).page.machine""", index=1 if '"b"' in inside else 0)
    with report.check('constants: every number'):
        rows = page.evaluate("""[...document.querySelectorAll($rows)].map(r => [
            r.innerText, [...r.querySelectorAll('[data-value]')]
                .map(e => Number(e.dataset.value))])""", rows=f'#constants {inside}tbody tr')
        equal(len(rows), len(machine['constants']), 'rows')
        for constant in machine['constants']:
            found = [values for text, values in rows if constant['name'] in text]
            assert any(constant['value'] in v for v in found), \
                f'{constant["name"]} is {constant["value"]}; the page has {found}'
    with report.check('roofline: a point for each statement that computes'):
        points = page.evaluate("""[...new Set([...document.querySelectorAll($points)]
            .map(e => e.dataset.id))]""", points=f'#roofline {inside}svg [data-id]')
        wanted = {w['id'] for w in computes(work.values()) if w['flops'] > 0 and w['bytes'] > 0}
        missing = wanted - set(points)
        assert not missing, f'no points for {sorted(missing)[:5]}'


def below(path, module):
    return not module or path == module or path.startswith(module + '.')


def check_modules(report, page, plan, inside):
    with report.check('modules: totals'):
        items = page.evaluate(TREE, selector=f'#modules {inside}[role=tree]')
        paths = {w['path'] for w in plan['work'] if w['path']}
        missing = [p for p in paths if p not in items]
        assert not missing, f'no items for {missing[:5]}'
        times = {s['id']: s for s in plan['time']['statements']} if 'time' in plan else {}
        for module, values in items.items():
            work = [w for w in plan['work'] if below(w['path'], module)]
            flops = sum(w['flops'] * w['count'] for w in work)
            parameters = sum(math.prod(p['shape']) * p['count'] for p in plan['params']
                             if below(p['name'], module))
            seconds = sum(times[w['id']]['exposed_seconds'] for w in work) if times else 0
            for name, want in (('flops', flops), ('parameters', parameters), ('seconds', seconds)):
                assert not want or any(abs(v - want) <= 1e-9 * want for v in values), \
                    f'{module or "the root"}: no {name} {want!r} among {values}'


def check_memory(report, page, plan, inside):
    with report.check('memory: the tensors at the peak'):
        rows = page.evaluate("""[...document.querySelectorAll($rows)].map(r => [
            r.dataset.name, Math.max(...[...r.querySelectorAll('[data-value]')]
                .map(e => Number(e.dataset.value)))])""", rows=f'#memory {inside}tr[data-name]')
        equal(sum(r[1] for r in rows), plan['memory']['lower_bound'], 'bytes at the peak')
        sizes = [r[1] for r in rows]
        equal(sizes, sorted(sizes, reverse=True), 'order')
        wanted = sorted((t['name'], t['bytes']) for t in plan['at_peak'])
        equal(sorted(map(tuple, rows)), wanted, 'tensors')
    with report.check('memory: the blocks sum to the peak'):
        memory = page.evaluate("""JSON.parse(document.querySelectorAll('script.plan')[$index]
            .textContent).page.memory""", index=1 if '"b"' in inside else 0)
        sums = [sum(b[2] for b in memory['blocks'] if b[3] <= i <= b[4])
                for i in range(len(memory['moments']))]
        equal(sums[memory['peak']], plan['memory']['lower_bound'], 'bytes at the peak')
        assert max(sums) <= plan['memory']['lower_bound'], 'another moment needs more memory'


def check_mesh(report, page, plan, inside):
    with report.check('mesh: ranks, and bytes of each axis'):
        ranks = math.prod(a['size'] for a in plan['mesh'])
        shapes = page.evaluate('document.querySelectorAll($shapes).length',
                               shapes=f'#mesh {inside}svg :is(rect, circle, use, path)')
        text = page.evaluate('document.querySelector($part).innerText + ' +
                             'document.querySelector($part + " svg").textContent',
                             part=f'#mesh{" " + inside if inside else ""}')
        if ranks >= 512:
            assert 'more nodes' in text, 'no "more nodes" in the picture'
        else:
            assert shapes >= ranks, f'{shapes} shapes for {ranks} ranks'
        sent = {}
        for traffic in plan['traffic']:
            sent[traffic['axis']] = sent.get(traffic['axis'], 0) + traffic['sent']
        values = page.evaluate('[...document.querySelectorAll($all)].map(e => +e.dataset.value)',
                               all=f'#mesh {inside}[data-value]')
        for axis, total in sent.items():
            single = [t['sent'] for t in plan['traffic'] if t['axis'] == axis]
            assert total in values or all(s in values for s in single), \
                f'no {total} bytes over {axis} among {values}'


def check_contents(report, page, plans):
    """All checks of numbers, for every plan of a page."""
    check_parts(report, page, plans)
    check_data(report, page, plans)
    name = report.page
    for index, plan in enumerate(plans):
        inside = '' if len(plans) == 1 else f'[data-plan="{"ab"[index]}"] '
        report.page = name + ('' if len(plans) == 1 else f', plan {"ab"[index]}')
        check_verdict(report, page, plan, inside)
        check_mesh(report, page, plan, inside)
        check_modules(report, page, plan, inside)
        check_memory(report, page, plan, inside)
        check_tables(report, page, plan, inside)
    report.page = name
    if not all('time' in plan for plan in plans):
        with report.check('parts that need times name --machine'):
            for part in TIMED:
                text = page.evaluate('document.getElementById($part).innerText', part=part)
                assert '--machine' in text, f'section {part}: {text[:200]!r}'
