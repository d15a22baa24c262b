"""New statements, as all parts of the importer make them."""

from .body import Stmt, Value


class Statements:
    """Collects new statements. `dtype`, `result`: type and name of the results; `line`,
    `text`: the place and the text of the line of the user's file."""

    def __init__(self, dtype=None, result="", line="", text=""):
        self.dtype, self.result, self.line, self.text = dtype, result, line, text
        self.stmts = []

    def several(self, op, args, shapes, named=None, names=()):
        """The results of a statement, one for each shape. `names`: those of the first ones, if they have
        their own."""
        outs = [Value(tuple(s), self.dtype, n) for s, n in
                zip(shapes, [*names, *[self.result] * len(shapes)])]
        stmt = Stmt(op, list(args), named or {}, outs, self.line, self.text)
        for v in outs:
            v.stmt = stmt
        self.stmts.append(stmt)
        return outs

    def make(self, op, args, shape, named=None, dtype=None):
        """The result of a statement. `dtype`: its type, if it has its own."""
        out = self.several(op, args, [shape], named)[0]
        out.dtype = dtype or out.dtype
        return out
