"""Functions that all patterns use to look at statements and to replace them."""

from .body import Loop, Value, values_in
from .new_statements import Statements


class Rewrite(Statements):
    """New statements in place of one statement of a body."""

    def __init__(self, body, old):
        super().__init__(old.outs[0].dtype, old.outs[0].name, old.line, old.text)
        self.body = body

    def flip(self, x):
        """x with dims 1 and 2 exchanged: heads and sequence."""
        a, b, c, d = x.shape
        return self.make("transpose", [x, 1, 2], (a, c, b, d))


def made_by(x, *ops):
    """The statement that computes a value, if it is one of these."""
    stmt = x.stmt if isinstance(x, Value) else None
    return stmt if stmt and getattr(stmt, "op", "") in ops else None


def readers(body, x):
    """The statements that read a value, and "output" if the module returns it."""
    found = []
    for s in body.stmts:
        if isinstance(s, Loop):
            continue
        if any(v is x for a in [*s.args, *s.named.values()] for v in values_in(a)):
            found.append(s)
    return found + ["output"] * any(v is x for v in values_in(body.outputs))


def cuts(body, end, limit=24):
    """The values that everything from them to `end` depends on, nearest first: each
    with the statements between. Known tensors do not count."""
    order = {v: i for i, s in enumerate(body.stmts) for v in s.outs}
    front, inside = {end}, []
    while front and len(inside) < limit:
        last = max(front, key=lambda v: order.get(v, -1))
        if last.stmt is None or last not in order or last.stmt.op in ("call", "random"):
            return
        inside.append(last.stmt)
        front -= set(last.stmt.outs)
        front |= {v for a in [*last.stmt.args, *last.stmt.named.values()]
                  for v in values_in(a) if v.const is None}
        if len(front) == 1:
            yield next(iter(front)), inside


def has_table(stmts):
    """Whether statements read known tensors of several elements."""
    return any(v.const is not None and v.const.numel() > 1 for s in stmts
               for a in [*s.args, *s.named.values()] for v in values_in(a))
