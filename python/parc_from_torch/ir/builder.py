"""Builds the statements of PDL for one ATen operator."""

import torch

from .body import Value
from .new_statements import Statements

ELSEWHERE = "write it with operators that docs/pdl.md lists"


class Unsupported(Exception):
    """An operator, or one of its arguments, that PDL does not have. `remedy`: the
    change of the model that avoids it."""

    def __init__(self, text, remedy=""):
        super().__init__(text)
        self.remedy = remedy or ELSEWHERE


class Builder(Statements):
    """Collects the statements of one operator. `node` gives the result's type."""

    def __init__(self, name, node):
        super().__init__(result=node.name)
        self.name = name
        self.node = node
        if node.meta.get("val") is not None:
            self.dtype = getattr(self.first_fake(), "dtype", None)

    def make(self, op, args, shape, named=None, count=0):
        """A statement with one result, or with `count` of the given shapes."""
        return tuple(self.several(op, args, shape, named)) if count else \
            super().make(op, args, shape, named)

    def first_fake(self):
        fake = self.node.meta["val"]
        return fake[0] if isinstance(fake, (tuple, list)) else fake

    def shape(self):
        return tuple(self.first_fake().shape)

    def shapes(self):
        return [tuple(f.shape) for f in self.node.meta["val"]]

    def fail(self, why, remedy=""):
        raise Unsupported(f"{self.name} {why}", remedy)

    def map(self, op, *args, named=None):
        """An elementwise statement: its shape is that of its operands."""
        return self.make(op, args, broadcast_shape(args), named)

    def spread(self, x, shape):
        """x broadcast to a shape."""
        if not isinstance(number(x), Value):
            return constant(shape, number(x), x.dtype)
        return x if x.shape == tuple(shape) else self.make("broadcast", [x, *shape], shape)


def broadcast_shape(args):
    return tuple(torch.broadcast_shapes(*[x.shape for x in args if isinstance(x, Value)]))


def number(x):
    """A value, or the number that a known tensor of equal elements holds. Tables
    stay: patterns know some, the writer refuses the others."""
    if isinstance(x, bool):
        return int(x)
    if not isinstance(x, Value) or x.const is None:
        return x
    t = x.const
    if not t.numel() or t.is_complex() or not bool((t == t.reshape(-1)[0]).all()):
        return x
    one = t.reshape(-1)[0].item()
    return int(one) if isinstance(one, bool) else one


def constant(shape, x, dtype):
    """A known tensor of equal elements."""
    return Value(tuple(shape), dtype, const=torch.full(tuple(shape), x, dtype=dtype),
                 kind="const")


def axis(i, rank):
    return i if i >= 0 else i + rank


# Operators that keep the elements, and so the type, of their first operand.
MOVES = {"reshape", "transpose", "slice", "select", "unsqueeze", "squeeze", "broadcast",
         "heads", "merge_heads", "split", "roll", "concat"}


def is_index(x):
    """Whether a value is integers in PDL: an input of integers, rounded floats, the
    positions of topk, or a part of these. Comparisons and sums of integers are floats there."""
    if not isinstance(x, Value) or x.const is not None or x.dtype is None or \
            x.dtype.is_floating_point or x.dtype.is_complex or x.dtype is torch.bool:
        return False
    if x.stmt is None:
        return x.indexed or (x.kind == "input" if x.caller is None else is_index(x.caller))
    op, args = x.stmt.op, x.stmt.args
    if op in ("topk", "sort"):
        return x is x.stmt.outs[1]
    return op == "int" or op in MOVES and is_index(args[0])


def computed(m, x):
    """An operand of arithmetic: integers of an input become floats."""
    return m.make("float", [x], x.shape) if is_index(x) else x
