"""Moves the exchange of heads and sequence to where another one undoes it.

    a, b = split(transpose(x, 1, 2), n, dim=3)      a, b = split(x, n, dim=3), each transposed
    transpose(concat(transpose(x, 1, 2), y), 1, 2)  concat(x, transpose(y, 1, 2))
    transpose(broadcast(transpose(x, 1, 2), …), 1, 2)   broadcast(x, …)
    transpose(unsqueeze(x, 1), 1, 2)                unsqueeze(x, 2)
"""

from ..ir.body import map_values, replace
from ..ir.builder import axis
from ..ir.rewriter import made_by


def exchanged(shape, i, j):
    shape = list(shape)
    shape[i], shape[j] = shape[j], shape[i]
    return tuple(shape)


def split_first(w, s):
    """split of other dims than those that a transpose exchanges."""
    turn = made_by(s.args[0], "transpose")
    dim = axis(s.named.get("dim", -1), len(s.args[0].shape))
    if not turn or dim in turn.args[1:]:
        return None
    x, i, j = turn.args
    parts = w.several("split", [x, *s.args[1:]], [exchanged(v.shape, i, j) for v in s.outs],
                      dict(s.named), [v.name for v in s.outs])
    made = [w.make("transpose", [v, i, j], old.shape) for v, old in zip(parts, s.outs)]
    for old, new in list(zip(s.outs, made))[1:]:
        replace(w.body.stmts, old, new)
        w.body.outputs = map_values(w.body.outputs, lambda v, o=old, n=new: n if v is o else v)
    return made[0]


def of_concat(w, s):
    x, i, j = s.args
    both = made_by(x, "concat")
    if not both or not any(same_turn(v, i, j) for v in both.args):
        return None
    dim = axis(both.named.get("dim", -1), len(x.shape))
    parts = [turned(w, v, i, j) for v in both.args]
    dim = {i: j, j: i}.get(dim, dim)
    return w.make("concat", parts, s.outs[0].shape, {"dim": dim})


def of_broadcast(w, s):
    x, i, j = s.args
    wide = made_by(x, "broadcast")
    if not wide or not same_turn(wide.args[0], i, j):
        return None
    shape = s.outs[0].shape
    return w.make("broadcast", [turned(w, wide.args[0], i, j), *shape], shape)


def of_unsqueeze(w, s):
    x, i, j = s.args
    more = made_by(x, "unsqueeze")
    if not more or more.args[1] not in (i, j) or abs(i - j) != 1:
        return None
    return w.make("unsqueeze", [more.args[0], i + j - more.args[1]], s.outs[0].shape)


def same_turn(v, i, j):
    made = made_by(v, "transpose")
    return made and set(made.args[1:]) == {i, j}


def turned(w, v, i, j):
    """v with two dims exchanged."""
    if same_turn(v, i, j):
        return v.stmt.args[0]
    return w.make("transpose", [v, i, j], exchanged(v.shape, i, j))


PATTERNS = {"split": [split_first], "transpose": [of_concat, of_broadcast, of_unsqueeze]}
