"""Tables that the model computes from positions, as the statements that compute them.

    slopes[:, None] * arange(s)                       unsqueeze(slopes, 1) * arange(s)
    where(r < 8, r, 8 + (log(r / 8) * 3.9).long())    the same of arange, for each length

The operators of known tensors are evaluated when the model is traced (trace.py). Each
result has a Source, so that its operators can be converted, as those of an input are, where
a statement reads a table that has no shorter expression (pattern_tables.py).
"""

import dataclasses
from typing import Any

import torch

from ..ir.body import Value, map_arguments
from ..ir.builder import Unsupported, is_index, number

TINY = 1e-30  # in a logarithm instead of 0, whose logarithm the model does not use


@dataclasses.dataclass(eq=False)
class Source:
    """What computed a known tensor. `convert`: a function of (name, node, arguments, named
    arguments) to (result, statements); `index`: which of several results; `line`, `text`:
    those of the user's file."""

    convert: Any
    name: str
    node: Any
    args: list
    named: dict
    line: str = ""
    text: str = ""
    index: Any = None

    def __deepcopy__(self, memo):
        return self


class Tables:
    """The tables of one body. `short`: a function of (builder, table) that gives a shorter
    expression, or None; `line`: the same for a table whose operators have no counterpart."""

    def __init__(self, short, line):
        self.short, self.line = short, line
        self.known = {}

    def express(self, m, x):
        """A table of floats of x's shape, computed by statements that are added to m; None
        if no statement can compute it, as for a buffer. Unsupported, with the line of an
        operator that has no counterpart."""
        if x not in self.known:
            self.known[x] = self.expressed(m, x)
        return self.known[x]

    def expressed(self, m, x):
        made = equal_elements(m, x) or self.short(m, x)
        if made is not None:
            made.dtype = x.dtype
        elif x.source is not None:
            made = self.computed(m, x)
        if made is None:
            return None
        if is_index(made):
            made = m.make("float", [made], made.shape, dtype=x.dtype)
        return made if made.shape == x.shape else \
            m.make("broadcast", [made, *x.shape], x.shape, dtype=made.dtype)

    def computed(self, m, x):
        """The result of the operator that computed a table."""
        try:
            return self.converted(m, x.source)
        except Unsupported:
            made = self.line(m, x)
            if made is None:
                raise
            return made

    def converted(self, m, source):
        """The result of an operator whose arguments are tables."""
        args = [self.operand(m, x) for x in source.args]
        named = {k: self.operand(m, x) for k, x in source.named.items()}
        if source.name == "log" and bool((source.args[0].const == 0).any()):
            args[0] = m.make("maximum", [args[0], TINY], args[0].shape)
        try:
            out, stmts = source.convert(source.name, source.node, args, named)
        except Exception as e:  # Unsupported, or arguments that a handler does not take
            wrong = Unsupported(str(e), getattr(e, "remedy", ""))
            wrong.line = source.line
            raise wrong from e
        for s in stmts:
            s.line, s.text = source.line, source.text
            map_arguments(s, lambda v: self.operand(m, v, whole=True))
        m.stmts += stmts
        out = out if source.index is None else out[source.index]
        return out if isinstance(out, Value) and out.const is None else None

    def operand(self, m, x, whole=False):
        """An argument of an operator. A table of equal elements stays, because it may be a
        number, unless the `whole` table is needed."""
        if isinstance(x, (tuple, list)):
            return type(x)(self.operand(m, y) for y in x)
        if not isinstance(x, Value) or x.const is None or \
                not (whole or isinstance(number(x), Value)):
            return x
        made = self.express(m, x)
        return x if made is None else made


def equal_elements(m, x):
    """The expression of a table of equal elements, which an operator reads that takes no
    number instead, or None."""
    one = number(x)
    if isinstance(one, Value) or x.const.dtype is torch.bool or x.const.is_complex():
        return None
    zero = m.make("arange", [1], (1,))
    return m.make("add", [zero, one], (1,)) if one else zero
