"""Arrays whose elements are containers, such as an nn.ModuleDict or a list of modules.

    for attention, mlp in self.layers:      module Layer(dim) {
        x = x + attention(x)                    layer_0: Attention(dim)
        x = x + mlp(x)                          layer_1: MLP(dim)
                                                forward(x) { … }

The model calls the modules of a container, and not the container. Here the statements of one
element become the forward of a module, which the body calls: loops.py makes a loop of these.
"""

import re

from ..ir.body import Body, Stmt, Value, arguments, map_arguments, replace, results, values_in
from ..ir.inputs import align
from ..ir.loops import cut
from ..ir.names import element_name

INNER = re.compile(r"(.*?)\.(\d+)\.(.+)")


def containers(body):
    """{array: [indices of the first call of each element]}, if the elements are not called
    themselves, and their modules in order, element by element."""
    calls, found = {}, {}
    for i, s in enumerate(body.stmts):
        match = INNER.fullmatch(s.child) if isinstance(s, Stmt) and s.callee else None
        if match:
            calls.setdefault(match[1], []).append((i, int(match[2])))
    for array, at in calls.items():
        elements = [element for _, element in at]
        count = max(elements) + 1
        if count > 1 and elements == sorted(elements) and set(elements) == set(range(count)) and \
                not any(re.fullmatch(rf"{re.escape(array)}\.\d+", n) for n in body.children) and \
                not any(n.startswith(f"{array}.") for n in body.params):
            found[array] = [at[elements.index(i)][0] for i in range(count)]
    return found


def outline(body):
    """Puts a call in place of the statements of each element of such an array. Returns the
    bodies of the calls."""
    made = []
    for array in list(containers(body)):
        firsts = containers(body).get(array)
        if not firsts:
            continue
        for name in dict.fromkeys(s.child.split(".")[-1] for s in calls_in(body, array)):
            align([s for s in calls_in(body, array) if s.child.endswith(f".{name}")])
        found = cut(body, array, firsts)
        if found:
            made += replaced(body, array, found)
    return made


def calls_in(body, array):
    return [s for s in body.stmts if isinstance(s, Stmt) and s.callee and
            re.match(rf"{re.escape(array)}\.\d+\.", s.child)]


def replaced(body, array, found):
    """Replaces the iterations of a Cut by calls."""
    keys = read_outside(body, found.iterations)
    made = []
    for i, x in enumerate(found.iterations):
        call = call_of(body, f"{array}.{i}", x.stmts, keys)
        at = found.begin + i
        body.stmts[at:at + len(x.stmts)] = [call]
        for v, out in zip(call.callee.outputs, call.outs):
            replace(body.stmts, v, out)
            body.outputs = [out if w is v else w for w in body.outputs]
        made.append(call.callee)
    children = {}
    for name, calls in body.children.items():
        match = INNER.fullmatch(name)
        if match and match[1] == array:
            children[f"{array}.{match[2]}"] = [made[int(match[2])]]
        else:
            children[name] = calls
    body.children = children
    return made


def read_outside(body, iterations):
    """The places (statement, result) of the results that other statements read, in some
    iteration."""
    inside = {s: x for x in iterations for s in x.stmts}
    found = {at for x in iterations for v in values_in(body.outputs) for at in [x.own.get(v)]}
    for s in body.stmts:
        for v in arguments(s):
            found |= {x.own[v] for x in iterations if v in x.own and inside.get(s) is not x}
    return sorted(found - {None})


def call_of(body, name, stmts, keys):
    """The call of a new module that has these statements and gives the results `keys`."""
    child = Body(f"{body.path}.{name}".lstrip("."),
                 element_name(name.rpartition(".")[0]).capitalize(), stmts=stmts,
                 formals=dict(body.formals), line=body.line)
    own = {v for s in stmts for v in results(s)}
    given = dict.fromkeys(v for s in stmts for v in arguments(s)
                          if v not in own and v.const is None)
    into = {v: Value(v.shape, v.dtype, v.name, kind="input", caller=v) for v in given}
    for s in stmts:
        map_arguments(s, lambda v: into.get(v, v))
        if s.callee:
            s.child = s.child[len(name) + 1:]
            child.children.setdefault(s.child, []).append(s.callee)
    child.inputs = list(into.values())
    child.outputs = [results(stmts[i])[k] for i, k in keys]
    outs = [Value(v.shape, v.dtype, v.name) for v in child.outputs]
    call = Stmt("call", list(given), {}, outs, stmts[0].line, stmts[-1].text, name, child)
    for v in outs:
        v.stmt = call
    return call
