"""The text of one module."""

import math
import re

from ..ir.body import Loop, statements
from ..ir.names import member_names, words_in
from .forward import Forward
from .initial import initial
from .layout import wrapped
from .scope import MARK, Scope, unmarked


def owner(body, name):
    """The child that is called and has a parameter, or None: emb of 'emb.weight'."""
    return next((n for n in body.children if name.startswith(f"{n}.")), None)


class Module(Scope):
    """`children`, `params`: {name in the state dict: name in the file}; `form`: the
    text without its numbers; `member_text`, `lines`: the lines of the members and of
    the forward."""

    def __init__(self, writer, body):
        called = {s.op for s in statements(body.stmts)}
        own = [n for n in body.params if not owner(body, n)]
        self.children = member_names(body.children, "layer", called, set())
        self.params = member_names(own, "param", called, set(self.children.values()))
        self.members = {*self.children.values(), *self.params.values()}
        super().__init__(writer, body, self.members)
        members, lines = self.member_lines(), Forward(self).lines()
        self.form = [re.sub(f"{MARK}[^{MARK}]*{MARK}", MARK, x) for x in members + lines]
        self.member_text = wrapped([unmarked(x) for x in members])
        self.lines = wrapped([unmarked(x) for x in lines])
        order = list(self.scope)
        self.formals = dict(sorted(self.formals.items(), key=lambda f: order.index(f[0])))

    def fits(self, other):
        """The formals of this text that give another body of the class, or None."""
        if self.form != other.form or len(self.numbers) != len(other.numbers):
            return None
        values = {n: other.scope.get(n, other.formals.get(n)) for n in self.formals}
        if None in values.values():
            return None
        known = {**other.scope, **values}
        for (_, text), (number, _) in zip(self.numbers, other.numbers):
            if not same_number(text, number, known):
                return None
        return values

    def member_lines(self):
        rows = []
        for name, calls in self.body.children.items():
            rows.append((f"{self.children[name]}:", self.child(name, calls)))
        wide = max((len(a) for a, _ in rows), default=0)
        lines = [f"{a:<{wide}} {b}" for a, b in rows]
        for name, shown in self.params.items():
            shape = ", ".join(self.number(d) for d in self.body.params[name].dims)
            full = f"{self.body.path}.{name}".strip(".")
            if full in self.writer.trace.states:
                lines.append(f"state {shown}[{shape}] = zeros")
                continue
            text = initial(self.writer.initializers, self, full,
                           self.body.params[name].dims, own=True)
            lines.append(f"param {shown}[{shape}] = {text}")
        return lines

    def child(self, name, calls):
        """The module of a child. The elements of an array are equal (loops.py); the
        calls of another child need to be."""
        count = self.count(name)
        if count is not None:
            return f"[{self.number(count)}] {self.writer.call_text(self, calls[0])}"
        texts = {unmarked(x): x for x in [self.writer.call_text(self, c) for c in calls]}
        if len(texts) > 1:
            self.line = self.line_of(name)
            self.fault(f"the calls of {name} differ: {'; '.join(texts)}",
                       "call modules of their own, with tied parameters")
            self.line = ""
        return next(iter(texts.values()))

    def count(self, name):
        """The number of elements of an array, or None."""
        return next((s.count for s in self.body.stmts
                     if isinstance(s, Loop) and s.array == name), None)

    def line_of(self, child):
        return next(s.line for s in statements(self.body.stmts) if s.child == child)

    def parameter_text(self, v):
        """The name of a parameter, or the path of a child's."""
        if v.name in self.params:
            return self.params[v.name]
        child = owner(self.body, v.name)
        rest = v.name[len(child) + 1:]
        inner = self.writer.path_in(self.body.children[child][0], rest)
        if inner is None or self.count(child) is not None:
            self.fault(f"the parameter {v.name} is read outside of its module",
                       "read it in the forward of its module")
        return f"{self.children[child]}.{inner}"


def same_number(text, number, scope):
    """Whether a text has a number's value in every trace."""
    names = words_in(text)
    for i, want in enumerate(number.values()):
        at = {n: scope[n].values()[i] if i < len(scope[n].values()) else scope[n].base
              for n in names if n in scope}
        try:
            found = eval(text, {"__builtins__": {}, "sqrt": math.sqrt, "log": math.log,
                               "round": round}, at)
        except (NameError, SyntaxError, ZeroDivisionError, ValueError):
            return False
        if abs(found - want) > 1e-9 * abs(want):
            return False
    return True
