"""Computes equal expressions of the elements of a dim together.

    exp(select(x, 0, 1)), exp(select(x, 1, 1)), …      exp(x)
    h0 = b[0], h1 = a[1] * h0 + b[1], …                linear_recurrence(a, b)

Lane i is the expression of element i. A Lane is the tensor of all of them, and the dim in
which they are, its axis; the axis is None where all lanes have the same value.
"""

import dataclasses
from typing import Any

import torch

from ..ir.body import Value
from ..ir.builder import axis, broadcast_shape, number
from ..ir.rewriter import made_by
from ..operators.products import LETTERS

ELEMENTWISE = {"add", "sub", "mul", "div", "pow", "neg", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "recip",
               "tanh", "sigmoid", "erf", "sin", "cos", "abs", "relu", "gelu", "gelu_tanh",
               "silu", "softplus", "square", "maximum", "minimum", "where", "float", "clamp",
               "detach", "==", "!=", "<", "<=", ">", ">="}
REDUCTIONS = {"sum", "mean", "max", "logsumexp"}


class Unequal(Exception):
    """Lanes that differ in more than the element that they read."""


@dataclasses.dataclass
class Lane:
    value: Any
    axis: Any = None

    def rank(self):
        """The number of dims of one lane."""
        shape = getattr(self.value, "shape", ())
        return len(shape) - (self.axis is not None)

    def outer(self, dim):
        """The dim of the tensor of all lanes, for one of a lane."""
        return dim if self.axis is None or dim < self.axis else dim + 1


class Lanes:
    """`w`: the Rewrite that takes the statements; `n`: the number of lanes."""

    def __init__(self, w, n):
        self.w, self.n = w, n
        self.known = {}

    def of(self, values):
        """The Lane of n arguments of statements."""
        if not isinstance(values[0], Value):
            if any(isinstance(v, Value) or v != values[0] for v in values):
                raise Unequal
            return Lane(values[0])
        key = tuple(map(id, values))
        if key not in self.known:
            self.known[key] = self.joined(values)
        return self.known[key]

    def joined(self, values):
        if all(v is values[0] for v in values):
            return Lane(values[0])
        if any(not isinstance(v, Value) for v in values):
            raise Unequal
        if all(v.const is not None for v in values):
            return self.table([v.const for v in values])
        return self.elements(values) or self.recurrence(values) or self.applied(values)

    def table(self, tables):
        if all(t.shape == tables[0].shape and bool((t == tables[0]).all()) for t in tables):
            return Lane(Value(tuple(tables[0].shape), tables[0].dtype, const=tables[0],
                              kind="const"))
        t = torch.stack(tables)
        return Lane(Value(tuple(t.shape), t.dtype, const=t, kind="const"), 0)

    # elements of a dim

    def elements(self, values):
        """Consecutive elements of one tensor: select or unbind."""
        made = [made_by(v, "select") for v in values]
        if None in made or any(s.args[0] is not made[0].args[0] for s in made):
            return None
        x, first, dim = made[0].args
        if [s.args[1:] for s in made] != [[first + i, dim] for i in range(self.n)]:
            raise Unequal
        if first or x.shape[dim] != self.n:
            shape = x.shape[:dim] + (self.n,) + x.shape[dim + 1:]
            x = self.w.make("slice", [x, first, self.n], shape, {"dim": dim})
        return Lane(x, dim)

    # h[i] = a[i] * h[i - 1] + b[i]

    def recurrence(self, values):
        """Lanes that each add to a product of the lane before. Lane 0 has no product, or
        one with 0."""
        pairs = [split_sum(v, before) for v, before in zip(values[1:], values)]
        if None in pairs:
            return None
        first = split_sum(values[0], None)
        if first is None:
            raise Unequal
        factors, terms = zip(first, *pairs)
        if factors[0] is None:
            factors = (factors[1], *factors[1:])
        if any(isinstance(f, Value) != isinstance(factors[0], Value) for f in factors):
            raise Unequal
        b = self.of(list(terms))
        a = self.of(list(factors))
        b = self.spread(b, values[0].shape)
        if not isinstance(a.value, Value):
            if a.value == 1:
                return Lane(self.w.make("cumsum", [b.value], b.value.shape,
                                        {"dim": b.axis}), b.axis)
            raise Unequal
        a = self.aligned(a, b.rank(), b.rank() - b.axis)
        if a.axis is None:
            shape = tuple(1 for _ in range(b.rank() - a.rank())) + a.value.shape
            a = Lane(self.w.make("reshape", [a.value, *shape], shape))
            shape = shape[:b.axis] + (1,) + shape[b.axis:]
            one = self.w.make("unsqueeze", [a.value, b.axis], shape)
            shape = shape[:b.axis] + (self.n,) + shape[b.axis + 1:]
            a = Lane(self.w.make("broadcast", [one, *shape], shape), b.axis)
        y = self.w.make("linear_recurrence", [a.value, b.value], b.value.shape,
                        {"dim": b.axis})
        return Lane(y, b.axis)

    def spread(self, lane, shape):
        """A lane with an axis, and lanes of this shape."""
        at = 0 if lane.axis is None else len(shape) - (lane.rank() - lane.axis)
        whole = tuple(shape[:at]) + (self.n,) + tuple(shape[at:])
        if lane.axis is None:
            x = lane.value
            one = self.w.make("reshape", [x, *(1,) * (len(whole) - len(x.shape)), *x.shape],
                              (1,) * (len(whole) - len(x.shape)) + x.shape)
            return Lane(self.w.make("broadcast", [one, *whole], whole), at)
        if lane.value.shape == whole:
            return lane
        return Lane(self.w.make("broadcast", [lane.value, *whole], whole), at)

    # operators

    def applied(self, values):
        """The statement that computes each lane, of all lanes."""
        made = [v.stmt for v in values]
        s = made[0]
        if any(t is None or not hasattr(t, "op") or t.op != s.op or len(t.outs) != 1 or
               len(t.args) != len(s.args) or t.named != s.named for t in made):
            raise Unequal
        args = [self.of(list(xs)) for xs in zip(*(t.args for t in made))]
        if s.op in ELEMENTWISE:
            return self.elementwise(s, args)
        if s.op in REDUCTIONS or s.op in ("softmax", "log_softmax"):
            return self.reduced(s, args[0])
        handler = {"unsqueeze": self.unsqueezed, "squeeze": self.selected,
                   "select": self.selected, "transpose": self.transposed,
                   "matmul": self.product, "einsum": self.product}.get(s.op)
        if handler is None or args[s.op == "einsum"].axis is None and s.op != "matmul" and \
                s.op != "einsum":
            raise Unequal
        return handler(s, args)

    def aligned(self, lane, rank, right):
        """A lane with its axis before the last `right` dims, for operands that are
        broadcast to `rank` dims."""
        x = lane.value
        if not isinstance(x, Value) or not x.shape:
            return lane
        if lane.axis is None:
            if lane.rank() <= right:
                return lane
            at = lane.rank() - right
            shape = x.shape[:at] + (1,) + x.shape[at:]
            return Lane(self.w.make("unsqueeze", [x, at], shape))
        while lane.rank() < right:
            at = lane.axis + 1
            shape = lane.value.shape[:at] + (1,) + lane.value.shape[at:]
            lane = Lane(self.w.make("unsqueeze", [lane.value, at], shape), lane.axis)
        target = lane.rank() - right
        while lane.axis != target:
            i = lane.axis + (1 if target > lane.axis else -1)
            shape = list(lane.value.shape)
            shape[i], shape[lane.axis] = shape[lane.axis], shape[i]
            y = self.w.make("transpose", [lane.value, min(i, lane.axis), max(i, lane.axis)],
                            shape)
            lane = Lane(y, i)
        return lane

    def elementwise(self, s, args):
        rank = len(s.outs[0].shape)
        lanes = [a for a in args if a.axis is not None]
        if not lanes:
            raise Unequal
        wide = next((a for a in lanes if a.rank() == rank), lanes[0])
        right = wide.rank() - wide.axis
        operands = [self.aligned(a, rank, right).value for a in args]
        return Lane(self.w.make(s.op, operands, broadcast_shape(operands), dict(s.named)),
                    rank - right)

    def reduced(self, s, x):
        dims = s.named.get("dim", None if s.op in REDUCTIONS else -1)
        inner = range(x.rank()) if dims is None else \
            [axis(d, x.rank()) for d in ([dims] if isinstance(dims, int) else dims)]
        if x.axis is None:
            raise Unequal
        outer = [x.outer(d) for d in inner]
        keep = s.named.get("keep", False) or s.op not in REDUCTIONS
        shape = [1 if i in outer and s.op in REDUCTIONS else n
                 for i, n in enumerate(x.value.shape) if keep or i not in outer]
        named = {**s.named, "dim": outer[0] if len(outer) == 1 else tuple(outer)}
        gone = 0 if keep else sum(d < x.axis for d in outer)
        return Lane(self.w.make(s.op, [x.value], shape, named), x.axis - gone)

    def unsqueezed(self, s, args):
        x, dim = args[0], args[1].value
        at, shape = x.outer(dim), x.value.shape
        return Lane(self.w.make("unsqueeze", [x.value, at], shape[:at] + (1,) + shape[at:]),
                    x.axis + (at <= x.axis))

    def selected(self, s, args):
        """select or squeeze. A dim that an unsqueeze added is not added."""
        x, dim = args[0], x_outer(args)
        shape = x.value.shape[:dim] + x.value.shape[dim + 1:]
        added = made_by(x.value, "unsqueeze")
        if added and added.args[1] == dim:
            y = added.args[0]
        elif s.op == "squeeze" or x.value.shape[dim] == 1:
            y = self.w.make("squeeze", [x.value, dim], shape)
        else:
            y = self.w.make("select", [x.value, args[1].value, dim], shape)
        return Lane(y, x.axis - (dim < x.axis))

    def transposed(self, s, args):
        x = args[0]
        i, j = x.outer(args[1].value), x.outer(args[2].value)
        shape = list(x.value.shape)
        shape[i], shape[j] = shape[j], shape[i]
        return Lane(self.w.make("transpose", [x.value, i, j], shape), x.axis)

    # products

    def product(self, s, args):
        """An einsum with one more letter for the lanes."""
        if s.op == "einsum":
            form, *operands = args
            left, _, right = form.value.replace(" ", "").partition("->")
            forms = left.split(",")
        else:
            operands = args
            rank = max(x.rank() for x in operands)
            lead = LETTERS[:rank - 2]
            forms = [lead[rank - operands[0].rank():] + "xy",
                     lead[rank - operands[1].rank():] + "yz"]
            right = lead + "xz"
        letter = next(c for c in reversed(LETTERS[:-3]) if c not in "".join(forms) + right)
        if any("..." in f for f in forms) or all(x.axis is None for x in operands):
            raise Unequal
        return self.einsum(s, forms, right, operands, letter)

    def einsum(self, s, forms, right, operands, letter):
        at = next(x.axis for x in operands if x.axis is not None)
        at = min(at, len(right))
        parts, shape, gone = [], list(s.outs[0].shape), []
        shape.insert(at, self.n)
        right = right[:at] + letter + right[at:]
        for i, x in enumerate(operands):
            if x.axis is not None:
                forms[i] = forms[i][:x.axis] + letter + forms[i][x.axis:]
            added = made_by(x.value, "unsqueeze")
            part = x.value
            if added and sum(forms[i][added.args[1]] in f for f in forms) == 1:
                gone.append(forms[i][added.args[1]])
                forms[i] = forms[i].replace(gone[-1], "")
                part = added.args[0]
            parts.append(part)
        kept = "".join(c for c in right if c not in gone)
        inner = tuple(n for n, c in zip(shape, right) if c not in gone)
        forms, kept = renamed(forms, kept)
        y = self.w.make("einsum", [", ".join(forms) + f" -> {kept}", *parts], inner)
        for i, c in enumerate(right):
            if c in gone:
                y = self.w.make("unsqueeze", [y, i], y.shape[:i] + (1,) + y.shape[i:])
        return Lane(y, at)


def x_outer(args):
    return args[0].outer(args[-1].value)


def renamed(forms, right):
    """The letters of an einsum in alphabetic order of their first use."""
    names = {}
    for c in "".join(forms):
        names.setdefault(c, LETTERS[len(names)])
    return ["".join(names[c] for c in f) for f in forms], "".join(names[c] for c in right)


def is_zero(x):
    return x is None or number(x) == 0 if not isinstance(number(x), Value) else False


def split_sum(v, before):
    """(factor, term) of a sum factor * before + term. `before` of lane 0 is 0 or nothing:
    then the factor is None and the term the lane itself."""
    s = made_by(v, "add")
    for part, rest in (s.args, s.args[::-1]) if s else ():
        if before is not None and part is before:
            return 1, rest
        product = made_by(part, "mul")
        for x, y in (product.args, product.args[::-1]) if product else ():
            if y is before if before is not None else is_zero(y):
                return x, rest
    return (None, v) if before is None else None


def stacked(w, s):
    """stack(lanes, dim), where the lanes are equal but for the element that they read."""
    values, dim = list(s.args[0]), s.named["dim"]
    try:
        lanes = Lanes(w, len(values))
        found = lanes.of(values)
        found = lanes.spread(found, values[0].shape)
        return lanes.aligned(found, found.rank(), found.rank() - dim).value
    except Unequal:
        return None


PATTERNS = {"stack": [stacked]}
