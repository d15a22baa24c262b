"""Writes tables that are known as expressions of arange.

    [[0, -inf], [0, 0]]    where(unsqueeze(arange(s), 1) >= arange(s), 0.0, -1e30)
    [3, 5, 7]              arange(3) * 2 + 3

Masks of attention become arguments of it instead (pattern_attention.py).
"""

import torch

from . import masks
from .body import Loop, Stmt, Value, map_arguments
from .elementwise import LOWEST


class Prefix:
    """New statements before one statement of a body."""

    def __init__(self, old):
        self.old = old
        self.stmts = []

    def make(self, op, args, shape):
        out = Value(tuple(shape), torch.float32, self.old.outs[0].name)
        out.stmt = Stmt(op, list(args), {}, [out], self.old.line, "")
        self.stmts.append(out.stmt)
        return out


def progression(t):
    """(start, step) of numbers in equal steps, or None."""
    t = t.double()
    step = float(t[1] - t[0])
    want = t[0] + step * torch.arange(len(t), dtype=torch.float64)
    near = float((t - want).abs().max()) <= 1e-6 * float(t.abs().max())
    return (float(t[0]), step) if near and step else None


def line_of(m, t, shape):
    """arange(n) * step + start, in the place of the only dim of several elements."""
    found = progression(t.reshape(-1))
    if not found:
        return None
    start, step = (int(x) if x == int(x) else x for x in found)
    y = m.make("arange", [t.numel()], (t.numel(),))
    y = y if step == 1 else m.make("mul", [y, step], y.shape)
    y = y if start == 0 else m.make("add", [y, start], y.shape)
    dim = next(i for i, n in enumerate(shape) if n != 1)
    for _ in shape[dim + 1:]:
        y = m.make("unsqueeze", [y, len(y.shape)], y.shape + (1,))
    return y


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
    """The statements of a table, or None. Dims of equal rows are broadcast."""
    t = x.const
    if t.is_complex() or t.numel() < 2 or bool((t == t.reshape(-1)[0]).all()):
        return None
    if sum(n != 1 for n in t.shape) == 1 and t.dtype is not torch.bool:
        return line_of(m, t, t.shape)
    return mask_of(m, x) if t.dim() >= 2 else None


def write_tables(body):
    """Puts expressions in place of the tables that statements read."""
    done = []
    for s in body.stmts:
        if not isinstance(s, Loop):
            m = Prefix(s)

            def read(v, m=m):
                made = expression(m, v) if v.const is not None else None
                return v if made is None else made
            map_arguments(s, read)
            done += m.stmts
        done.append(s)
    body.stmts = done
