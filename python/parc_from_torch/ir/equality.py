"""Compares bodies: the elements of an array, and the calls of a shared module."""

import torch

from .body import Loop, Value, results


class Form:
    """What a body computes, as nested tuples in which values are numbered: two
    bodies are equal if their forms are."""

    def __init__(self, body):
        self.numbers = {}
        self.number(body.inputs)
        self.number(body.params.values())
        self.tuple = (body.cls, plain(body.prelude),
                      tuple(v.shape for v in body.inputs),
                      tuple((n, v.shape) for n, v in body.params.items()),
                      tuple(self.statement(s, body) for s in body.stmts),
                      self.argument(body.outputs))

    def number(self, values):
        for v in values:
            self.numbers[v] = len(self.numbers)

    def argument(self, x):
        if isinstance(x, Value):
            return ("value", self.numbers[x]) if x in self.numbers else \
                ("table", x.shape, table(x.const))
        if isinstance(x, (tuple, list)):
            return tuple(self.argument(y) for y in x)
        return plain(x)

    def statement(self, s, body):
        if isinstance(s, Loop):
            return self.loop(s, body)
        form = (s.op, s.child, s.callee and form_of(s.callee), self.argument(s.args),
                self.argument(sorted(s.named.items())), tuple(v.shape for v in s.outs))
        self.number(results(s))
        return form

    def loop(self, s, body):
        starts = self.argument([c[0] for c in s.carries])
        self.number(c[1] for c in s.carries)
        inside = tuple(self.statement(t, body) for t in s.body)
        ends = self.argument([c[2] for c in s.carries])
        self.number(results(s))
        return ("loop", s.array, s.count, starts, inside, ends)


def plain(x):
    """A hashable form of an argument without values; 1, 1.0 and true differ."""
    if isinstance(x, dict):
        return tuple((k, plain(y)) for k, y in sorted(x.items()))
    if isinstance(x, (tuple, list)):
        return tuple(plain(y) for y in x)
    return (type(x).__name__, x)


def table(x):
    """The elements of a known tensor."""
    if x is None:
        return None
    x = torch.view_as_real(x) if x.is_complex() else x
    return (str(x.dtype), x.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())


def form_of(body):
    return Form(body).tuple


def equal(bodies):
    """Whether all bodies compute the same, apart from their parameters' values."""
    first, *rest = bodies
    return not rest or all(form_of(b) == form_of(first) for b in rest)
