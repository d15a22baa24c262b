"""Finds what the sizes in a model depend on.

The model is traced once as it is, and once for each number of its constructor,
and of the batch, with another value of that number. A size of the bodies is then a
Number: its value in each of these traces. Where a Number equals an expression of
formals in all traces, the file has the expression in its place:

    reshape(x, 2, 16, 4, 8)  →  heads(x, n_heads)
    Linear(32, 128)          →  Linear(dim, 4 * dim)
"""

import copy
import dataclasses
import functools
import math
from fractions import Fraction

from .body import Different, Loop, Value
from .names import words_in


@dataclasses.dataclass(frozen=True)
class Number:
    """A number by trace: `base` in the model as it is, `other` in the other traces, a tuple of
    pairs (formal, value). A trace has one formal changed from `reference`: the model as it is,
    or with smaller numbers (shrink.py), the first of the others, which has None for a formal."""

    base: float
    other: tuple = ()

    def varies(self):
        return any(v != self.base for _, v in self.other)

    @property
    def reference(self):
        return self.other[0][1] if self.other and self.other[0][0] is None else self.base

    def values(self):
        return (self.base, *[v for _, v in self.other])


def numeric(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def merge(xs, names):
    """The same thing of all traces, with Numbers in place of numbers."""
    x = xs[0]
    if numeric(x):
        if not all(numeric(y) for y in xs):
            raise Different
        return Number(x, tuple(zip(names, xs[1:])))
    if any(type(y) is not type(x) or (isinstance(x, (str, bool)) and y != x) for y in xs):
        raise Different
    if isinstance(x, Value):
        x.dims = merge([tuple(y.shape) for y in xs], names)
        return x
    if isinstance(x, (tuple, list)):
        if any(len(y) != len(x) for y in xs):
            raise Different
        return type(x)(merge([y[i] for y in xs], names) for i in range(len(x)))
    return x


def merge_stmts(lists, names):
    if any(len(other) != len(lists[0]) for other in lists):
        raise Different
    for group in zip(*lists):
        s = group[0]
        if any(type(t) is not type(s) for t in group):
            raise Different
        if isinstance(s, Loop):
            if any(t.array != s.array for t in group):
                raise Different
            s.count = merge([t.count for t in group], names)
            merge([[list(c) for c in t.carries] for t in group], names)
            merge_stmts([t.body for t in group], names)
            continue
        if any(t.op != s.op or sorted(t.named) != sorted(s.named) or t.child != s.child
               for t in group):
            raise Different
        s.args = merge([t.args for t in group], names)
        s.named = {k: merge([t.named[k] for t in group], names) for k in s.named}
        merge([t.outs for t in group], names)


def merge_bodies(bodies, names):
    """Turns the numbers of the first body into Numbers. `bodies`: of the same
    module in all traces; `names`: of the formals that the others change."""
    b = bodies[0]
    if any(o.children.keys() != b.children.keys() or o.cls != b.cls or
           o.params.keys() != b.params.keys() for o in bodies):
        raise Different
    merge([b_.inputs for b_ in bodies], names)
    merge([list(b_.params.values()) for b_ in bodies], names)
    merge_stmts([b_.stmts for b_ in bodies], names)
    if b.prelude:
        if any(not o.prelude or o.prelude[0] != b.prelude[0] or
               o.prelude[2].keys() != b.prelude[2].keys() for o in bodies):
            raise Different
        b.prelude = (b.prelude[0], merge([o.prelude[1] for o in bodies], names),
                     {k: merge([o.prelude[2][k] for o in bodies], names)
                      for k in b.prelude[2]})
    b.formals = {k: merge([o.formals[k] for o in bodies], names)
                 for k in b.formals if all(k in o.formals for o in bodies)}
    arrays = {s.array for s in b.stmts if isinstance(s, Loop)}
    for name in b.children:
        calls = [o.children[name][:1] if name in arrays else o.children[name] for o in bodies]
        if any(len(c) != len(calls[0]) for c in calls):
            raise Different
        for group in zip(*calls):
            merge_bodies(group, names)


def same_structure(base, other):
    """Whether two bodies can be merged."""
    try:
        merge_bodies([copy.deepcopy(base), copy.deepcopy(other)], ["x"])
        return True
    except Different:
        return False


FACTORS = [1, 2, 3, 4, 5, 6, 8, 16]
PARTS = [2, 3, 4]  # denominators of a factor such as 8 / 3


def times(text, by):
    """An expression times a Fraction."""
    up = text if by.numerator == 1 else f"{by.numerator} * {text}"
    return up if by.denominator == 1 else f"{up} / {by.denominator}"


def multiple(number, other):
    """The factor between two Numbers, a Fraction of small numbers, or None."""
    if not number.base or not other[0]:
        return None
    by = number.base / other[0]
    if not all(abs(v - by * o) <= 1e-9 * abs(v) for v, o in zip(number.values(), other)):
        return None
    exact = Fraction(by).limit_denominator(16)
    up, down = exact.numerator, exact.denominator
    allowed = isinstance(number.base, int) and abs(exact - by) < 1e-9 * abs(by) and \
        (up in FACTORS and down == 1 or up == 1 and down in FACTORS or up < 16 and down in PARTS)
    return exact if allowed or by == 1 else None


def candidates(scope):
    """(text, values) of the formals, their products and quotients, those that
    vary."""
    varying = [(n, x.values()) for n, x in scope.items() if x.varies()]
    yield from varying
    for i, (a, x) in enumerate(varying):
        for b, y in varying[i:]:
            yield f"{a} * {b}", tuple(p * q for p, q in zip(x, y))
    for a, x in varying:
        for b, y in varying:
            if a != b and all(y):
                yield f"{a} / {b}", tuple(p / q for p, q in zip(x, y))
    for i, (a, x) in enumerate(varying):
        for b, y in varying[i + 1:]:
            for c, z in varying:
                if c not in (a, b) and all(z):
                    yield f"{a} * {b} / {c}", tuple(p * q / r for p, q, r in zip(x, y, z))


def with_summand(number, other):
    """(factor, summand) of n_positions + 2, 2 * window - 1 or buckets / 2 - 1, or None. Other
    sums fit by chance: two traces tell a factor and a summand of any size."""
    if not isinstance(number.base, int):
        return None
    for by in (*FACTORS, *(Fraction(1, n) for n in (2, 4, 8))):
        c = number.base - by * other[0]
        if c == int(c) and 0 < abs(c) <= (16 if by == 1 else 2) and \
                all(v == by * o + c for v, o in zip(number.values(), other)):
            return by, int(c)
    return None


def root(number, text, other):
    """The text of the inverse of an expression, or of its square root, or None."""
    if not isinstance(number.base, float) or min(other) <= 0:
        return None
    whole = f"({text})" if " " in text else text
    for form, power in ((f"1.0 / {whole}", -1), (f"sqrt({text})", 0.5),
                        (f"1 / sqrt({text})", -0.5)):
        if all(abs(v - o ** power) <= 1e-7 * abs(v) for v, o in zip(number.values(), other)):
            return form
    return None


def expression(number, scope):
    """The text of a Number in terms of the formals of a scope, or None. A size that
    follows from a float, such as a part of the dims, is rounded."""
    text = exact_expression(number, tuple(scope.items()))
    names = words_in(text or "")
    if isinstance(number.base, int) and any(isinstance(scope[n].base, float)
                                            for n in names if n in scope):
        return f"round({text})"
    return text


@functools.lru_cache(maxsize=1)
def candidates_of(items):
    return list(candidates(dict(items)))


@functools.lru_cache(maxsize=4096)
def exact_expression(number, items):
    """The text of a Number in terms of the (name, Number) of a scope, or None."""
    known, scope = candidates_of(items), dict(items)
    for exact in (True, False):
        for text, values in known:
            by = multiple(number, values)
            if by == 1 or (by and not exact):
                return times(text, by)
    for text, values in known:
        found = with_summand(number, values)
        if found:
            by, c = found
            return f"{times(text, Fraction(by))} {'+' if c > 0 else '-'} {abs(c)}"
        if root(number, text, values):
            return root(number, text, values)
    return difference(number, scope) or quotient(number, scope) or \
        logarithm(number, known) or negative(number, items)


def negative(number, items):
    """The text of a Number below 0 as the negative of an expression, or None."""
    if max(number.values()) >= 0:
        return None
    text = exact_expression(Number(-number.base, tuple((n, -v) for n, v in number.other)), items)
    return text and (f"-({text})" if " " in text else f"-{text}")


def difference(number, scope):
    """The text of the difference of two formals, or None."""
    varying = [(n, x.values()) for n, x in scope.items() if x.varies()]
    for a, x in varying:
        for b, y in varying:
            if a != b and isinstance(number.base, int) and \
                    all(v == p - q for v, p, q in zip(number.values(), x, y)):
                return f"{a} - {b}"
    return None


def quotient(number, scope):
    """The text of a float that is a small number divided by a formal, or 2 to the power of
    one, as the slopes of ALiBi; or None."""
    if not isinstance(number.base, float):
        return None
    for name, x in scope.items():
        if not x.varies() or not isinstance(x.base, int) or 0 in x.values():
            continue
        for form, values in (("{:.1f} / {}", number.values()),
                             ("2.0 ** ({:.1f} / {})", logarithms(number))):
            by = round(values[0] * x.base) if values else 0
            if 0 < abs(by) <= 64 and all(abs(v * n - by) <= 1e-6
                                         for v, n in zip(values, x.values())):
                return form.format(by, name)
    return None


def logarithm(number, known):
    """The text of the natural logarithm of a small multiple of an expression, or None."""
    if not isinstance(number.base, float):
        return None
    for text, values in known:
        if min(values) <= 0:
            continue
        by = round(math.exp(min(number.base, 50)) / values[0])
        if by in FACTORS and all(abs(v - math.log(by * x)) <= 1e-9 * abs(v)
                                 for v, x in zip(number.values(), values)):
            return f"log({by:.1f} * {text})"
    return None


def logarithms(number):
    """The logarithms to the base 2 of a positive Number, or ()."""
    return tuple(math.log2(v) for v in number.values()) if min(number.values()) > 0 else ()
