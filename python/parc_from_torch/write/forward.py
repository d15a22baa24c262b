"""The lines of a forward.

A value that one statement reads is written in place; others get the name that the
user's source gives them. A name is assigned again if nobody reads its value any
more. In a loop this has two exceptions: a name from before the loop would become a
carry, so only carries are assigned; and a carry gets its next value after the last
statement that reads the old one, if need be at the end of the body:

    for layer in layers { a, b = layer(b), a }
"""

import re

from ..ir.body import Loop, arguments
from ..ir.liveness import Liveness
from ..ir.names import assigned_name, assigned_names, element_name, plain_name, unused
from .expressions import INFIX, Expressions
from .layout import WIDTH
from .scope import MARK, unmarked

# Characters of an expression, of one that joins two with an operator, and of an operand
# that needs no name.
LONGEST, LONGEST_SUM, SHORT = 160, 80, 24

class Forward(Expressions):
    """`assigned`: the names of values; `outer`: those that the body of a loop cannot
    assign."""

    def __init__(self, module):
        super().__init__(module)
        self.assigned = set()
        self.outer = set()

    def lines(self):
        body = self.module.body
        for v in body.inputs:
            self.names[v] = self.unique(v.name)
        inputs = ", ".join(self.module.writer.declaration(self.module, v, self.names[v])
                           for v in body.inputs)
        lines = self.statements(body.stmts, Liveness(body.stmts, body.outputs))
        results = ", ".join(self.operand(v) for v in body.outputs)
        return [f"forward({inputs}) {{", *indented(lines), f"    return {results}", "}"]

    def unique(self, name):
        name = unused(name, self.module.taken)
        self.module.taken.add(name)
        self.assigned.add(name)
        return name

    def free_name(self, name, live, at):
        """The name itself if its values are read no more after line `at`, else a new
        one."""
        holders = [v for v, n in self.names.items() if n == name]
        if name in self.assigned and name not in self.outer and \
                all(live.last.get(v, live.end) <= at for v in holders):
            return name
        return self.unique(name)

    def statements(self, stmts, live):
        lines = []
        for at, s in enumerate(stmts):
            if isinstance(s, Loop):
                lines += self.loop(s, live, at)
                continue
            lines += self.shorten(s, live, at)
            if s in live.own_line:
                lines.append(self.assign(s, live, at))
            else:
                self.inline[s.outs[0]] = s
        return lines

    def length(self, s):
        """The length of a statement's text, with one character for each number."""
        numbers = len(self.module.numbers)
        text = self.apply(s)[0]
        del self.module.numbers[numbers:]
        return len(re.sub(f"{MARK}[^{MARK}]*{MARK}", "n", text))

    def shorten(self, s, live, at):
        """Gives names to the longest operands of a statement whose text is too long, and to
        those that are half as long. Other operands may read any name that is read at line
        `at`."""
        lines = []
        while self.length(s) > (LONGEST_SUM if s.op in INFIX else LONGEST):
            operands = {v: self.length(self.inline[v]) for v in arguments(s) if v in self.inline}
            least = max(SHORT, max(operands.values(), default=0) / 2)
            named = [v for v, n in operands.items() if n >= least]
            if not named:
                break
            lines += [self.assign(self.inline.pop(v), live, at - 1) for v in named]
        return lines

    def assign(self, s, live, at):
        text = self.apply(s)[0]
        for v in s.outs:
            if v not in self.names:
                self.names[v] = self.free_name(self.suggest(s, v), live, at)
        return ", ".join(self.names[v] for v in s.outs) + f" = {text}"

    def suggest(self, s, v):
        """The name of a result in the user's source, or one that says what made it."""
        if not s or isinstance(s, Loop):
            return plain_name(v.name)
        several = assigned_names(s.text)
        if len(several) == len(s.outs) > 1:
            return several[s.outs.index(v)]
        if len(s.outs) == 1 and assigned_name(s.text):
            return assigned_name(s.text)
        if s.op == "call":
            return f"{self.module.children.get(s.child, plain_name(v.name))}_out"
        return plain_name(v.name)

    # loops

    def loop(self, s, live, at):
        names, lines = self.carry_names(s, live, at)
        outer, self.outer = self.outer, set(self.names.values()) - set(names)
        known = dict(self.names)
        element = unused(element_name(s.array), self.module.taken)
        self.module.taken.add(element)
        self.elements[s.array] = element
        inner = self.loop_body(s, names)
        del self.elements[s.array]
        self.module.taken.discard(element)
        self.outer = outer
        self.names = {**known, **dict(zip(s.outs, names))}
        for _, inside, _ in s.carries:
            self.names.pop(inside)
        head = f"for {element} in {self.module.children[s.array]} {{"
        line = f"{head} {inner[0]} }}"
        if len(inner) == 1 and len(unmarked(line)) <= WIDTH - 8:
            return lines + [line]
        return lines + [head, *indented(inner), "}"]

    def carry_names(self, s, live, at):
        """The names of the carries, and the lines that give them their first values. A
        first value that nobody else reads lends its name."""
        free = {v for t in s.body for v in arguments(t)}
        names, lines = [], []
        for start, inside, last in s.carries:
            name = self.names.get(start)
            shared = start in free or name in names or name in self.outer or \
                live.last.get(start, live.end) > at
            if not name or shared:
                text = self.operand(start)
                made = last if last.stmt else start
                name = self.free_name(self.suggest(made.stmt, made), live, at - 1)
                if name in names:
                    name = self.unique(name)
                lines.append(f"{name} = {text}")
            self.names[inside] = name
            names.append(name)
        return names, lines

    def loop_body(self, s, names):
        ends = [last for _, _, last in s.carries]
        live = Liveness(s.body, ends, fixed=self.direct(s, ends))
        for v in self.direct(s, ends):
            self.names[v] = names[ends.index(v)]
        lines = self.statements(s.body, live)
        moved = [(n, self.operand(v)) for n, v in zip(names, ends) if self.names.get(v) != n]
        if moved:
            lines.append(", ".join(n for n, _ in moved) + " = " +
                         ", ".join(text for _, text in moved))
        return lines

    @staticmethod
    def direct(s, ends):
        """The last values that their statements can assign to the carries: no later
        statement reads the old value, and no other carry ends with either."""
        live = Liveness(s.body, ends)
        made = {v: at for at, t in enumerate(s.body) if not isinstance(t, Loop)
                for v in t.outs}
        return [last for _, inside, last in s.carries
                if last in made and ends.count(last) == 1 and inside not in ends and
                live.last.get(inside, -1) <= made[last]]


def indented(lines):
    return ["    " + x for x in lines]
