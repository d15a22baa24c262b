"""Writes tables that are known as expressions of arange.

    [[0, -inf], [0, 0]]    where(unsqueeze(arange(s), 1) >= arange(s), 0.0, -1e30)
    [3, 5, 7]              arange(3) * 2 + 3
    [[0, 1], [-1, 0]]      arange(2) - unsqueeze(arange(2), 1)

Masks of attention become arguments of it instead (pattern_attention.py). Other tables are
computed as the model computes them (computed_tables.py).
"""

import torch

from ..ir.body import Loop, Value, map_arguments
from ..ir.builder import Unsupported, broadcast_shape
from ..ir.new_statements import Statements
from ..operators import masks
from ..operators.computed_tables import Tables
from ..operators.elementwise import LOWEST


def steps_of(t):
    """(first element, the step of each dim) of a table whose elements are in equal steps in
    each dim, or None."""
    t = t.double()
    first = t.reshape(-1)[0]
    want, steps = first, []
    for dim, n in enumerate(t.shape):
        near = t.select(dim, min(1, n - 1)).reshape(-1)[0]
        steps.append(float(near - first))
        places = torch.arange(n, dtype=torch.float64).reshape(-1, *[1] * (t.dim() - dim - 1))
        want = want + steps[-1] * places
    far = float((t - want).abs().max())
    return (float(first), steps) if far <= 1e-6 * float(t.abs().max()) else None


def by_chance(x, steps):
    """Whether a table may be in equal steps by chance: two numbers of a dim always are. A
    table that was computed is written as it was computed then."""
    return x.source is not None and x.source.name != "arange" and \
        any(step and n == 2 for step, n in zip(steps, x.shape))


def line(m, x):
    """The sum of arange(n) * step of the dims of a table and its first element, or None.
    Dims without a step have one element."""
    t = x.const
    found = steps_of(t) if bool(t.isfinite().all()) and t.numel() > 1 else None
    if not found or by_chance(x, found[1]):
        return None
    whole = not t.is_floating_point()
    start, *steps = (round(x) if whole or x == int(x) else x for x in (found[0], *found[1]))
    sums, differences = [], []
    for dim, step in enumerate(steps):
        if not step:
            continue
        n = t.shape[dim]
        y = m.make("arange", [n], (n,))
        y = y if abs(step) == 1 else m.make("mul", [y, abs(step)], y.shape)
        for _ in t.shape[dim + 1:]:
            y = m.make("unsqueeze", [y, len(y.shape)], y.shape + (1,))
        (sums if step > 0 else differences).append(y)
    return summed(m, [*sums, start] if start > 0 else sums,
                  [*differences, -start] if start < 0 else differences)


def summed(m, sums, differences):
    """The sum of values, minus the others."""
    if not any(isinstance(x, Value) for x in sums):
        first = differences.pop(0)
        sums = [m.make("neg", [first], first.shape), *sums]
    total, *rest = sums
    for op, x in [*(("add", x) for x in rest), *(("sub", x) for x in differences)]:
        total = m.make(op, [total, x], broadcast_shape([total, x]))
    return total


def mask_of(m, x):
    """The expression of a mask [.., s, t], causal or a window."""
    s, t = x.const.shape[-2:]
    how = masks.form_of(x, s, t)
    if not how:
        return triangle_of(m, x.const)
    rows = m.make("unsqueeze", [m.make("arange", [s], (s,)), 1], (s, 1))
    columns = m.make("arange", [t], (t,))
    far = m.make("sub", [rows, columns], (s, t))
    hit = m.make(">=", [far, 0], (s, t)) if how.get("causal") else None
    if "window" in how:
        size = far if hit else m.make("abs", [far], (s, t))
        near = m.make("<", [size, how["window"]], (s, t))
        hit = m.make("mul", [hit, near], (s, t)) if hit else near
    if x.const.dtype is torch.bool:
        return hit
    return m.make("where", [hit, 0.0, LOWEST], (s, t))


def triangle_of(m, table):
    """The expression of truth values of which each row of [.., s, t] has one more, or one
    fewer, than the row before."""
    s, t = table.shape[-2:]
    rows = table.reshape(-1, s, t)
    if table.dtype is not torch.bool or not bool((rows == rows[0]).all()):
        return None
    far = torch.arange(s)[:, None] - torch.arange(t)
    for sign, among in ((">=", rows[0]), ("<", ~rows[0])):
        least = int(far[among].min()) if bool(among.any()) else s
        if bool((among == (far >= least)).all()):
            column = m.make("unsqueeze", [m.make("arange", [s], (s,)), 1], (s, 1))
            between = m.make("sub", [column, m.make("arange", [t], (t,))], (s, t))
            return m.make(sign, [between, least], (s, t))
    return None


def expression(m, x):
    """The statements of a table, or None. Floats that the model computes are no line here:
    a step of 1 would be left out, and the model differ from one of another size."""
    t = x.const
    if t.is_complex() or t.numel() < 2 or bool((t == t.reshape(-1)[0]).all()):
        return None
    if t.dtype is not torch.bool and not (t.is_floating_point() and x.source is not None):
        made = line(m, x)
        if made is not None:
            return made
    if t.dim() >= 2 and (t.dtype is torch.bool or t.is_floating_point()):
        return mask_of(m, x)
    return None


def write_tables(body):
    """Puts expressions in place of the tables that statements read. Returns the faults of
    tables whose operators have no counterpart, as (line, fault, remedy)."""
    done, faults, tables = [], [], Tables(expression, line)
    for s in body.stmts:
        if not isinstance(s, Loop):
            m = Statements(torch.float32, s.outs[0].name, s.line)

            def read(v, m=m):
                if v.const is None:
                    return v
                try:
                    made = tables.express(m, v)
                except Unsupported as e:
                    faults.append((e.line, str(e), e.remedy))
                    return v
                return v if made is None else made
            map_arguments(s, read)
            done += m.stmts
        done.append(s)
    body.stmts = done
    return faults
