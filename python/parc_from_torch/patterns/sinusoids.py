"""Tables of sines and cosines of positions, as expressions of PDL.

Sines and cosines of position * 10000^(-i / n), alternating or one after the other,
are statements of arange, exp, sin and cos, for each length of the sequence.
"""

import math

import torch

from ..ir.body import arguments, replace
from ..ir.literals import Word
from ..ir.new_statements import Statements


def alternating(sin, cos):
    return torch.stack((sin, cos), -1).flatten(-2)


def joined(sin, cos):
    return torch.cat((sin, cos), -1)


def sinusoids(table):
    """Whether sines and cosines alternate (True) or follow each other (False) in a table
    [positions, columns]; None for another table."""
    n = table.shape[1] // 2
    if table.shape[1] % 2 or not n:
        return None
    rate = torch.exp(torch.arange(n, dtype=torch.float64) * (-math.log(10000.0) / n))
    angle = torch.outer(torch.arange(table.shape[0], dtype=torch.float64), rate)
    for how, function in ((True, alternating), (False, joined)):
        if (function(angle.sin(), angle.cos()) - table).abs().max() < 1e-4:
            return how
    return None


def made(value, alternate, line):
    """(statements, their result) of a table of sines and cosines."""
    m = Statements(value.dtype, "angle", line)
    s, d = value.const.numel() // value.shape[-1], value.shape[-1]
    n = d // 2
    at = m.make("arange", [n], (n,))
    rate = m.make("exp", [m.make("div", [m.make("mul", [
        Word("-log(10000.0)"), at], (n,)), n], (n,))], (n,))
    rate.name, rate.stmt.text = "rate", "rate ="  # it gets a line of its own
    row = (1, n, 1) if alternate else (1, n)
    column = (s, 1, 1) if alternate else (s, 1)
    position = m.make("reshape", [m.make("arange", [s], (s,)), *column], column)
    wide = (s, *row[1:])
    angle = m.make("mul", [position, m.make("reshape", [rate, *row], row)], wide)
    both = (s, n, 2) if alternate else (s, d)
    out = m.make("concat", [m.make("sin", [angle], wide), m.make("cos", [angle], wide)],
                 both, {"dim": -1})
    if both != value.shape:
        out = m.make("reshape", [out, *value.shape], value.shape)
    return m.stmts, out


def express(body):
    """Replaces the tables that a body reads."""
    for s in list(body.stmts):
        for v in arguments(s):
            if v.const is None or v.const.dim() < 2 or not v.const.is_floating_point() or \
                    v.const.numel() != v.shape[-1] * max(v.shape[:-1]):
                continue
            how = sinusoids(v.const.reshape(-1, v.shape[-1]).double())
            if how is None:
                continue
            stmts, out = made(v, how, s.line)
            at = body.stmts.index(s)
            replace(body.stmts, v, out)
            body.stmts[at:at] = stmts
