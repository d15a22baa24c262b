"""The formals of a module, and its numbers in terms of them."""

from ..ir.body import fault
from ..ir.formals import Number, expression
from ..ir.literals import literal
from ..ir.names import WORDS, unused, words_in

MARK = "\x01"  # around numbers, until the lines of a module are whole


def unmarked(text):
    return text.replace(MARK, "")


class Scope:
    """`scope`: {name: Number}, what expressions may use; `formals`: those that they
    use, in the order of use; `numbers`: (Number, text) in the order of the lines;
    `line`: the line of the user's file that is being written."""

    def __init__(self, writer, body, members):
        self.writer = writer
        self.body = body
        self.line = ""
        self.formals = {}
        self.numbers = []
        hidden = set(members) | WORDS
        own = {f"n_{n}" if n in members else n: x for n, x in body.formals.items()}
        self.scope = {**own, **writer.shared}
        self.taken = hidden | {n for n, x in self.scope.items()
                               if x.varies() or isinstance(x.base, float)}

    def fault(self, what, remedy=""):
        self.writer.faults.append(fault(self.line, what, self.body, remedy))

    def number(self, x, hint="size"):
        """The text of a number. A size that follows from no formal becomes one with
        the name `hint`."""
        if not isinstance(x, Number):
            return literal(x)
        text = self.formal_text(x, hint) if x.varies() else literal(x.base)
        self.numbers.append((x, text))
        return f"{MARK}{text}{MARK}"

    def formal_text(self, x, hint):
        text = expression(x, self.scope)
        if text is None:
            if any(v != x.reference for formal, v in x.other if formal in self.writer.shared):
                self.fault(f"the number {x.base:g} depends on the batch or the sequence in a "
                           "way that has no expression yet", "compute it from sizes, or take "
                           "it as a number of the constructor")
            if hint == "size":
                hint = next((n for n, y in self.writer.computed.items() if y == x), hint)
            text = unused(hint, self.taken | set(self.scope))
            self.taken.add(text)
            self.scope[text] = x
        for name in words_in(text):
            if name in self.scope and name not in self.writer.shared:
                self.formals.setdefault(name, self.scope[name])
        return text

    def own_formal(self, hint, x):
        """The text of a new formal with a number."""
        name = unused(hint, self.taken | set(self.scope))
        self.taken.add(name)
        self.formals[name] = self.scope[name] = x
        self.numbers.append((x, name))
        return f"{MARK}{name}{MARK}"

    def argument(self, x):
        if isinstance(x, tuple):
            inner = ", ".join(self.argument(y) for y in x)
            return f"({inner},)" if len(x) == 1 else f"({inner})"
        if isinstance(x, bool):
            return literal(x)
        return str(x) if isinstance(x, str) else self.number(x)
