"""Finds the loops over the elements of arrays.

    %1 = layers.0(%0)   %2 = %0 + %1     for layer in layers {
    %3 = layers.1(%2)   %4 = %2 + %3  →      h = h + layer(h)
    %5 = layers.2(%4)   %6 = %4 + %5     }

The statements around the first call are cut into equal iterations, one for each
element. A value of one iteration that the next one reads is a carry. PDL loops
visit all elements of an array in order, and the elements are equal. Where the
model does otherwise its elements stay children of their own (`layers_0`).
"""

import re

from .body import (Loop, Stmt, Value, arguments, map_arguments, replace, results,
                   statements, values_in)
from .equality import equal
from .inputs import align

ELEMENT = re.compile(r"(.*)\.(\d+)")


def passes(body):
    """{array: [indices of the calls of one pass over all elements]}, for arrays whose
    elements are called in order, and nowhere else."""
    calls, found = {}, {}
    for i, s in enumerate(body.stmts):
        match = ELEMENT.fullmatch(s.child) if isinstance(s, Stmt) else None
        if match:
            calls.setdefault(match[1], []).append((i, int(match[2])))
    for name, at in calls.items():
        count = 1 + max(element for _, element in at)
        if [element for _, element in at] == list(range(count)) * (len(at) // count):
            found[name] = [[i for i, _ in at[k:k + count]] for k in range(0, len(at), count)]
    return found


class Iteration:
    """The statements of one element, and where their operands come from:
    ("own", i, k), result k of statement i; ("back", i, k, d), that of the d-th
    iteration before; or ("out", value)."""

    def __init__(self, stmts, before):
        self.stmts = stmts
        self.own = {v: (i, k) for i, s in enumerate(stmts) for k, v in enumerate(results(s))}
        self.before = before

    def origin(self, v):
        if v in self.own:
            return ("own", *self.own[v])
        for d, other in enumerate(self.before[::-1], 1):
            if v in other.own:
                return ("back", *other.own[v], d)
        return ("out", v)

    def form(self, array):
        """What must be equal in all iterations apart from the origins."""
        def plain(x):
            if isinstance(x, Value):
                return "value"
            if isinstance(x, (tuple, list)):
                return tuple(plain(y) for y in x)
            return x

        return [(s.op, re.sub(rf"^{re.escape(array)}\.\d+(?=\.|$)", array, s.child),
                 plain(s.args), plain(tuple(sorted(s.named.items()))),
                 tuple(v.shape for v in s.outs)) for s in self.stmts]

    def origins(self):
        return [[self.origin(v) for v in arguments(s)] for s in self.stmts]


class Cut:
    """The iterations of a loop, from statement `begin` on. `carries`: {(i, k, d):
    value before the loop}. The carry (i, k, 1) has result (i, k) of the iteration
    before, and (i, k, d) what (i, k, d - 1) had there."""

    def __init__(self, body, array, begin, iterations):
        self.begin, self.iterations = begin, iterations
        self.length = len(iterations[0].stmts)
        self.end = begin + self.length * len(iterations)
        self.carries = {}
        self.legal = self.are_equal(array) and self.find_carries() and self.readers(body)

    def are_equal(self, array):
        if any(not isinstance(s, Stmt) for x in self.iterations for s in x.stmts):
            return False
        form = self.iterations[0].form(array)
        return all(x.form(array) == form for x in self.iterations) and \
            all(equal([s.callee for s in group]) for group
                in zip(*(x.stmts for x in self.iterations)) if group[0].callee)

    def find_carries(self):
        """The last iteration says how far back each operand comes from. The first
        ones read values from before the loop in place of iterations before them."""
        rows = [[o for row in x.origins() for o in row] for x in self.iterations]
        for t, row in enumerate(rows):
            for origin, (kind, *want) in zip(row, rows[-1]):
                if kind == "back" and t < want[2]:
                    i, k, d = want
                    if origin[0] != "out" or not self.add_carry((i, k, d - t), origin[1]):
                        return False
                elif origin != (kind, *want):
                    return False
        return True

    def add_carry(self, key, start):
        """Notes a carry; the same value begins it wherever it is read."""
        last = results(self.iterations[0].stmts[key[0]])[key[1]]
        return self.carries.setdefault(key, start) is start and \
            start.shape == last.shape and start.dtype == last.dtype

    def readers(self, body):
        """Whether everything that is read after the loop can be a carry."""
        inside = {s for x in self.iterations for s in x.stmts}
        read = set(values_in(body.outputs))
        for s in body.stmts:
            if s not in inside:
                read.update(arguments(s))
        return all(self.add_result(v, *at, d)
                   for d, x in enumerate(self.iterations[::-1], 1)
                   for v, at in x.own.items() if v in read)

    def add_result(self, v, i, k, d):
        """A carry for a value that is read after the loop. If no iteration reads it, it
        may begin with any value of its type."""
        start = next((c for c in self.carries.values()
                      if c.shape == v.shape and c.dtype == v.dtype), None)
        for depth in range(1, d + 1):
            if start is None or d == len(self.iterations):
                return False
            self.carries.setdefault((i, k, depth), start)
        return True

    def values(self, own):
        """([start, inside, last], out) of each carry. `own`: its value in the body."""
        for (i, k, d), start in self.carries.items():
            yield [start, own[i, k, d], own[i, k, d - 1] if d > 1 else
                   results(self.iterations[0].stmts[i])[k]], \
                results(self.iterations[-d].stmts[i])[k]


def cut(body, array, calls):
    """The Cut for one pass over an array, or None."""
    if len(calls) < 2:
        return None
    length = calls[1] - calls[0]
    for lead in range(length):
        begin = calls[0] - lead
        if begin < 0 or begin + len(calls) * length > len(body.stmts):
            continue
        iterations = []
        for i in range(len(calls)):
            at = begin + i * length
            iterations.append(Iteration(body.stmts[at:at + length],
                                        list(iterations)))
        found = Cut(body, array, begin, iterations)
        if found.legal:
            return found
    return None


def roll(body, array, found):
    """Replaces the statements of a pass by a loop."""
    inside = found.iterations[0].stmts
    own = {key: Value(start.shape, start.dtype, start.name)
           for key, start in found.carries.items()}
    for s, row in zip(inside, found.iterations[-1].origins()):
        origins = iter(row)

        def read(v):
            kind, *key = next(origins)
            return own[tuple(key)] if kind == "back" else v

        map_arguments(s, read)
    carries, outs = zip(*found.values(own)) if own else ((), ())
    for s in inside:
        s.child = re.sub(rf"^{re.escape(array)}\.0$", array, s.child)
    line = next(s.line for s in inside if s.child == array)
    loop = Loop(array, len(found.iterations), inside, list(carries), list(outs), line)
    body.stmts[found.begin:found.end] = [loop]
    for v in outs:
        v.stmt = loop


def set_children(body):
    """Makes the children those of the calls that are left."""
    called = {}
    for s in statements(body.stmts):
        if s.callee:
            called.setdefault(s.child, []).append(s.callee)
    arrays = {s.array for s in body.stmts if isinstance(s, Loop)}
    children = {}
    for name, bodies in body.children.items():
        match = ELEMENT.fullmatch(name)
        if match and match[1] in arrays:
            children.setdefault(match[1], []).append(bodies[0])
        elif name in called:
            children[name] = called[name]
    body.children = children
    for loop in body.stmts:  # those of a second pass are equal to the first pass's
        for s in loop.body if isinstance(loop, Loop) else ():
            if s.callee and s.child == loop.array:
                s.callee = children[s.child][0]


def roll_array(body, array, calls, tied):
    """Replaces all passes over an array by loops, or none of them."""
    stmts = [body.stmts[i] for pass_ in calls for i in pass_]
    align(stmts)
    if tied(array) or not equal([s.callee for s in stmts]):
        return
    found = [cut(body, array, pass_) for pass_ in calls]
    ordered = all(a and b and a.end <= b.begin for a, b in zip(found, found[1:]))
    if None in found or not ordered:
        return
    for one in reversed(found):  # from the last on: the others keep their positions
        roll(body, array, one)


def roll_all(body, tied=lambda array: False):
    """Makes loops of the arrays. `tied`: whether parameters of single elements of an
    array are those of other modules, which PDL cannot say."""
    for array in list(passes(body)):
        calls = passes(body).get(array)
        if calls:
            roll_array(body, array, calls, tied)
    set_children(body)


def roll_single(body, template):
    """Makes a loop of an array of one element, if it has the statements of the loop
    `template` of a model with more elements. Returns whether it did."""
    array, size = template.array, len(template.body)
    at = [i for i, s in enumerate(body.stmts) if isinstance(s, Stmt) and
          s.child == f"{array}.0"]
    begin = at[0] - [s.child for s in template.body].index(array) if len(at) == 1 else -1
    inside = body.stmts[begin:begin + size] if begin >= 0 else []
    if [type(s) for s in inside] != [Stmt] * size or \
            any(s.op != t.op for s, t in zip(inside, template.body)):
        return False
    carries = single_carries(inside, template)
    if carries is None:
        return False
    rest = body.stmts[begin + size:]
    outs = [Value(last.shape, last.dtype, last.name) for _, _, last in carries]
    for (_, _, last), out in zip(carries, outs):
        replace(rest, last, out)
        body.outputs = [out if v is last else v for v in body.outputs]
    for s in inside:
        s.child = array if s.child == f"{array}.0" else s.child
    loop = Loop(array, 1, inside, carries, outs, inside[0].line)
    for v in outs:
        v.stmt = loop
    body.stmts[begin:] = [loop, *rest]
    set_children(body)
    return True


def single_carries(inside, template):
    """The carries of a loop with the statements `inside`, which then read them, or
    None: where the template reads a carry they read its first value."""
    index = {c[1]: n for n, c in enumerate(template.carries)}
    made = {v: (i, k) for i, s in enumerate(template.body) for k, v in enumerate(results(s))}
    starts = {}
    for s, t in zip(inside, template.body):
        for v, w in zip(arguments(s), arguments(t)):
            if w in index and starts.setdefault(index[w], v) is not v:
                return None
    if len(starts) < len(index) or any(c[2] not in made for c in template.carries):
        return None
    own = {n: Value(v.shape, v.dtype, v.name) for n, v in starts.items()}
    for s, t in zip(inside, template.body):
        wanted = iter(list(arguments(t)))

        def read(v):
            w = next(wanted, None)
            return own[index[w]] if w in index else v

        map_arguments(s, read)
    found = [(made[c[2]], n) for n, c in enumerate(template.carries)]
    return [[starts[n], own[n], results(inside[i])[k]] for (i, k), n in found]


def roll_like(traces):
    """Makes loops of arrays of one element, as those of traces with more elements.
    `traces`: for each trace {path: Body}."""
    templates = {(path, s.array): s for trace in traces for path, b in trace.items()
                 for s in b.stmts if isinstance(s, Loop)}
    for trace in traces:
        for (path, array), template in templates.items():
            body = trace.get(path)
            if body and f"{array}.0" in body.children and f"{array}.1" not in body.children:
                roll_single(body, template)
