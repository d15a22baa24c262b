"""Which statements get a line of their own, and when values are read last."""

from .body import Loop, arguments, values_in
from .names import assigned_name


class Liveness:
    """`own_line`: the statements whose result several read, or whose name in the
    user's source belongs to a long expression; all others are written where their
    only reader is. `last`: {value: index of the line that reads it last}, for the
    values that these statements read. `fixed`: values that need a line."""

    def __init__(self, stmts, outputs, fixed=()):
        self.stmts = stmts
        self.end = len(stmts)
        self.own_line = set()
        self.last = {}
        self.readers = {}
        for at, s in enumerate(stmts):
            for v in arguments(s):
                self.readers.setdefault(v, []).append(at)
        for v in values_in(outputs):
            self.readers.setdefault(v, []).append(self.end)
        self.choose_lines(fixed)
        self.find_last(outputs)

    def choose_lines(self, fixed):
        made, weight = {}, {}
        for at, s in enumerate(self.stmts):
            made.update({v: at for v in s.outs})
            if isinstance(s, Loop):
                continue
            weight[at] = 1 + sum(weight.get(made.get(v), 0) for x in s.args
                                 for v in values_in(x))
            if len(s.outs) != 1 or len(self.readers.get(s.outs[0], [])) != 1 or \
                    s.outs[0] in fixed or self.is_long(at, weight[at]) or \
                    self.is_free_in_loop(s.outs[0]):
                self.own_line.add(s)
                weight[at] = 0

    def is_free_in_loop(self, v):
        """Whether a loop reads the value, other than to begin with it."""
        at = self.readers[v][0]
        s = self.stmts[at] if at < self.end else None
        return isinstance(s, Loop) and all(v is not c[0] for c in s.carries)

    def is_long(self, at, weight):
        """Whether the user's source gives a name to this expression."""
        s = self.stmts[at]
        following = self.stmts[at + 1] if at + 1 < self.end else None
        ends = following is None or getattr(following, "text", "") != s.text
        returned = self.readers[s.outs[0]][0] == self.end
        return bool(assigned_name(s.text)) and ends and weight > 1 and not returned

    def find_last(self, outputs):
        line = {}
        for at in range(self.end - 1, -1, -1):
            s = self.stmts[at]
            written = isinstance(s, Loop) or s in self.own_line
            line[at] = at if written else line.get(self.readers[s.outs[0]][0], self.end)
            for v in arguments(s):
                self.last[v] = max(self.last.get(v, -1), line[at])
        for v in values_in(outputs):
            self.last[v] = self.end
