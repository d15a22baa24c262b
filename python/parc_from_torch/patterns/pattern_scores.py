"""Reads the scores of attention off the statements between a product and a softmax.

    where(mask, tanh(q @ transpose(k) / 50) * 50 + bias, -1e30)

has the scale 1 / 50 * 50, the cap 50, a bias and a mask. Masks and biases may depend on
inputs and parameters.
"""

import dataclasses
from typing import Any

from ..ir.body import Value
from ..ir.builder import broadcast_shape
from ..ir.rewriter import made_by
from ..operators import masks
from ..operators.elementwise import LOWEST

HIDDEN = -1e4  # a score below this hides the key


def product_of(x):
    """(q, k), [b, h, s, d] and [b, h, t, d], if a value is q @ transpose(k)."""
    s = made_by(x, "matmul")
    if not s or len(x.shape) != 4:
        return None
    turn = made_by(s.args[1], "transpose")
    if not turn or turn.args[1:] != [2, 3]:
        return None
    return s.args[0], turn.args[0]


@dataclasses.dataclass
class Scores:
    """cap * tanh(q k^T scale / cap) + the biases, for the pairs that all masks allow.
    `biases`: [(value, factor)]; `masks`: [(truth values, whether 1 allows a pair)]."""

    q: Any
    k: Any
    scale: float = 1.0
    cap: Any = None
    biases: list = dataclasses.field(default_factory=list)
    masks: list = dataclasses.field(default_factory=list)

    def times(self, factor):
        """The Scores times a number above 0, or None."""
        if factor <= 0 or self.masks and factor < 1e-20:
            return None
        return dataclasses.replace(
            self, scale=self.scale * factor, cap=self.cap and self.cap * factor,
            biases=[(x, by * factor) for x, by in self.biases])


def read(x):
    """The Scores of a value, or None."""
    found = product_of(x)
    if found:
        return Scores(*found)
    s = made_by(x, "add", "sub", "mul", "div", "where", "float", "tanh")
    if not s:
        return None
    if s.op == "float":
        return read(s.args[0])
    if s.op in ("mul", "div"):
        return scaled(s)
    if s.op == "where":
        return masked(s)
    if s.op == "tanh":
        inner = read(s.args[0])
        plain = inner and inner.cap is None and not inner.biases and not inner.masks
        return dataclasses.replace(inner, cap=1.0) if plain else None
    return biased(s, x.shape)


def scaled(s):
    x, by = s.args if isinstance(s.args[0], Value) else s.args[::-1]
    if isinstance(by, Value) or not by or s.op == "div" and x is not s.args[0]:
        return None
    inner = read(x)
    return inner and inner.times(1 / by if s.op == "div" else float(by))


def biased(s, shape):
    """A sum or difference of scores and another value."""
    for i, x in enumerate(s.args):
        if not isinstance(x, Value) or x.shape != shape or s.op == "sub" and i:
            continue
        inner = read(x)
        if inner:
            term = (s.args[1 - i], -1.0 if s.op == "sub" else 1.0)
            return dataclasses.replace(inner, biases=[*inner.biases, term])
    return None


def masked(s):
    """where(mask, scores, a very small number), or the other way around."""
    condition, x, y = s.args
    for scores, other, allows in ((x, y, True), (y, x, False)):
        if isinstance(other, Value) or other > HIDDEN or not isinstance(scores, Value):
            continue
        inner = read(scores)
        if inner:
            return dataclasses.replace(inner, masks=[*inner.masks, (condition, allows)])
    return None


# ---- the arguments of attention --------------------------------------------


def factors(condition, allows):
    """The truth values of which all must hold: those of a logical and."""
    s = made_by(condition, "mul") if allows else None
    if s and all(isinstance(x, Value) for x in s.args):
        return [f for x in s.args for f in factors(x, True)]
    return [(condition, allows)]


def known_mask(x):
    """The pairs that a known bias allows if it only hides pairs, or None."""
    t = x.const if isinstance(x, Value) else None
    if t is None or not t.is_floating_point() or not bool((t <= 0).all()):
        return None
    return t > HIDDEN if bool((t[t > HIDDEN] == 0).all()) else None


def keys_only(condition, shape):
    """Whether truth values differ by sequence and key only: [b, 1, 1, t]."""
    own = (1,) * (4 - len(condition.shape)) + tuple(condition.shape)
    return own[1:3] == (1, 1) and own[0] == shape[0] and own[3] == shape[3]


def padding_of(w, condition, allows, shape):
    """Integers [b, t], 1 for the keys that a mask allows."""
    size = (shape[0], shape[3])
    if not allows:
        condition = w.make("==", [condition, 0], condition.shape)
    flat = w.make("reshape", [condition, *size], size)
    return w.make("int", [flat], size)


def form_of(pairs, shape):
    """The arguments of attention for the pairs that several known masks allow, or None."""
    if not pairs:
        return {}
    both = pairs[0]
    for own in pairs[1:]:
        both = both & own
    return masks.form_of(Value(tuple(both.shape), both.dtype, const=both, kind="const"),
                         *shape[2:])


def arguments_of(w, scores, shape):
    """The named arguments of attention for Scores of a shape [b, h, s, t]. Known masks that
    attention does not have are biases, as those of inputs that differ by query are."""
    wanted = [f for condition, allows in scores.masks for f in factors(condition, allows)]
    hidden = [(x, known_mask(x)) for x, _ in scores.biases]
    how = form_of([(x.const != 0) == allows for x, allows in wanted if x.const is not None] +
                  [pairs for _, pairs in hidden if pairs is not None], shape)
    known = how is not None
    how = how or {}
    terms = [scaled_bias(w, x, by) for (x, by), (_, pairs) in zip(scores.biases, hidden)
             if pairs is None or not known]
    for condition, allows in wanted:
        if condition.const is not None and known:
            continue
        if condition.const is None and keys_only(condition, shape) and "padding" not in how:
            how["padding"] = padding_of(w, condition, allows, shape)
            continue
        numbers = (0.0, LOWEST) if allows else (LOWEST, 0.0)
        terms.append(w.make("where", [condition, *numbers], condition.shape))
    if scores.cap is not None:
        how["softcap"] = plain_number(scores.cap)
    return {**how, "bias": total(w, terms)} if terms else how


def scaled_bias(w, x, by):
    if not isinstance(x, Value):
        return x * by
    return x if by == 1 else w.make("mul", [x, by], x.shape)


def total(w, terms):
    found, *rest = sorted(terms, key=lambda x: not isinstance(x, Value))
    for x in rest:
        found = w.make("add", [found, x], broadcast_shape([found, x]))
    return found


def plain_number(x):
    """The number of which a float was rounded."""
    return next(float(f"{x:.{n}g}") for n in range(1, 9)
                if n == 8 or abs(float(f"{x:.{n}g}") / x - 1) < 3e-7)
