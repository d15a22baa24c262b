"""Finds the loop over the elements of an array.

    %1 = layers.0(%0)   %2 = %0 + %1     for layer in layers {
    %3 = layers.1(%2)   %4 = %2 + %3  →      h = h + layer(h)
    %5 = layers.2(%4)   %6 = %4 + %5     }

The statements from the first call on are cut into equal pieces, one for each
element. A value of one piece that the next one reads is a carry.
"""

import re

from .body import Loop, Stmt, Value, results, values_in


def arrays_of(body):
    """{name: number of elements} of the children that are called in order."""
    found = {}
    for s in body.stmts:
        match = re.fullmatch(r"(.*)\.(\d+)", s.child if isinstance(s, Stmt) else "")
        if match:
            found.setdefault(match[1], []).append(int(match[2]))
    return {name: len(at) for name, at in found.items() if at == list(range(len(at)))}


def positions(stmts):
    """{value: (statement, result)}."""
    return {v: (i, k) for i, s in enumerate(stmts) for k, v in enumerate(results(s))}


class Piece:
    """The statements of one element, and where their operands come from:
    ("own", i, k), ("last", i, k) of the piece before, or ("out", value)."""

    def __init__(self, stmts, before):
        self.stmts = stmts
        self.own = positions(stmts)
        self.before = before

    def origin(self, v):
        if v in self.own:
            return ("own", *self.own[v])
        if self.before and v in self.before.own:
            return ("last", *self.before.own[v])
        return ("out", v)

    def shape_of(self, array):
        """What must be equal in all pieces but the origins."""
        def plain(x):
            if isinstance(x, Value):
                return "value"
            if isinstance(x, (tuple, list)):
                return tuple(plain(y) for y in x)
            return x

        return [(s.op, re.sub(rf"^{re.escape(array)}\.\d+", array, s.child),
                 plain(s.args), plain(tuple(sorted(s.named.items()))))
                for s in self.stmts]

    def origins(self):
        return [[self.origin(v) for x in [*s.args, *s.named.values()] for v in values_in(x)]
                for s in self.stmts]


def carries_of(pieces):
    """{origin in the piece before: value before the loop}, or None if the pieces
    are not the same."""
    carries = {}
    first, rest = pieces[0].origins(), [p.origins() for p in pieces[1:]]
    for i, row in enumerate(rest[0] if rest else []):
        for k, origin in enumerate(row):
            if any(o[i][k] != origin for o in rest):
                return None
            start = first[i][k]
            if origin[0] != "last":
                if start != origin:
                    return None
            elif start[0] != "out" or carries.setdefault(origin, start[1]) is not start[1]:
                return None
    return carries


def cut(stmts, array, count):
    """(begin, pieces) of the statements of a loop, or None."""
    calls = [i for i, s in enumerate(stmts) if isinstance(s, Stmt) and
             s.child.rsplit(".", 1)[0] == array and s.child.rsplit(".", 1)[-1].isdigit()]
    if count < 2 or len(calls) != count:
        return None
    length = calls[1] - calls[0]
    for lead in range(length):
        begin = calls[0] - lead
        if begin < 0 or begin + count * length > len(stmts):
            continue
        pieces = []
        for i in range(count):
            at = begin + i * length
            pieces.append(Piece(stmts[at:at + length], pieces[-1] if pieces else None))
        form = pieces[0].shape_of(array)
        if all(p.shape_of(array) == form for p in pieces) and carries_of(pieces) is not None:
            return begin, pieces
    return None


def roll(body, array, count):
    """Replaces the statements of an array by a loop. Returns whether it did."""
    found = cut(body.stmts, array, count)
    if not found:
        return False
    begin, pieces = found
    inside, last = pieces[0].stmts, pieces[-1]
    carries, outs = [], []
    for (_, i, k), start in carries_of(pieces).items():
        own = Value(start.shape, start.dtype, start.name)
        for s in inside:
            swap(s, start, own)
        carries.append([start, own, results(inside[i])[k]])
        outs.append(results(last.stmts[i])[k])
    for s in inside:
        s.child = re.sub(rf"^{re.escape(array)}\.0", array, s.child)
    loop = Loop(array, count, inside, carries, outs)
    body.stmts[begin:begin + len(pieces) * len(inside)] = [loop]
    for v in outs:
        v.stmt = loop
    calls = [body.children[f"{array}.{i}"][0] for i in range(count)]
    body.children = {array if n == f"{array}.0" else n:
                     calls if n == f"{array}.0" else c for n, c in body.children.items()
                     if n not in {f"{array}.{i}" for i in range(1, count)}}
    return True


def swap(stmt, old, new):
    stmt.args = [new if x is old else x for x in stmt.args]
    stmt.named = {k: new if x is old else x for k, x in stmt.named.items()}


def roll_all(body):
    """Makes loops of all arrays; returns the names of those that it could not."""
    return [name for name, count in arrays_of(body).items()
            if count > 1 and not roll(body, name, count)]
