"""ATen operators whose result or operand is a position that is known when the program runs.

    aten.argmax(x, -1)                   argmax(x)
    aten.index(x, [arange(b), p])        einsum("ab, abc -> ac", arange(n) == unsqueeze(p, 1), x)
    aten.index(x, [arange(b)[:, None],   unsqueeze(x, 1)
                   arange(t)[None, None]])
    aten.scatter(x, -1, p, 2)            where(max(onehot(p, n), dim=-2), 2, x)
    aten.cross_entropy_loss(x, arange)   -mean(sum(log_softmax(x) * (the label's class), dim=-1))

A position is a float in PDL. The element at a position is a sum of all elements times 1 at
the position and 0 elsewhere.
"""

import torch

from ..ir.body import Value
from ..ir.builder import axis, is_index, number
from . import known_indices, losses, shapes
from .products import LETTERS, reduce
from .reference import IGNORED


def argmax(m, args, named):
    x = args[0]
    dim = named.get("dim", args[1] if len(args) > 1 else None)
    keep = named.get("keepdim", args[2] if len(args) > 2 else False)
    if dim is None:
        m.fail("of all elements has no counterpart", "flatten the tensor and give dim=0")
    x = m.map("neg", x) if m.name == "argmin" else x
    dim = axis(dim, len(x.shape)) - len(x.shape)
    y = m.make("argmax", [x], x.shape[:dim] + x.shape[len(x.shape) + dim + 1:],
               {} if dim == -1 else {"dim": dim})
    return m.make("unsqueeze", [y, len(x.shape) + dim], m.shape()) if keep else y


def hits(m, ids, n):
    """[..., n]: 1 at the position in the last dim."""
    shape = ids.shape + (n,)
    if is_index(ids):
        return m.make("onehot", [ids, n], shape)
    column = m.make("unsqueeze", [ids, len(ids.shape)], ids.shape + (1,))
    return m.make("==", [m.make("arange", [n], (n,)), column], shape)


def counts_rows(x, n):
    """Whether a value is 0, 1, … n - 1."""
    return x is not None and x.const is not None and x.shape == (n,) and \
        x.dtype is not torch.bool and bool((x.const == torch.arange(n)).all())


def axis_counted(ids, n, rank):
    """The axis of the result along which known numbers are 0, 1, … n - 1, or None."""
    if ids is None or ids.const is None or ids.dtype is torch.bool:
        return None
    t = ids.const.reshape((1,) * (rank - ids.const.dim()) + tuple(ids.const.shape))
    return next((a for a in range(rank) if t.shape[a] == n and bool(
        (t == torch.arange(n).reshape(-1, *[1] * (rank - 1 - a))).all())), None)


def spread_out(m, x, which):
    """All elements of x, with its dims at other axes of the result, as a mask of padding
    [b, t] becomes [b, 1, 1, t]; or None."""
    rank = len(m.shape())
    axes = [axis_counted(ids, n, rank) for ids, n in zip(which, x.shape)]
    if len(which) != len(x.shape) or None in axes or sorted(set(axes)) != axes:
        return None
    for a in range(rank):
        if a not in axes:
            x = m.make("unsqueeze", [x, a], x.shape[:a] + (1,) + x.shape[a:])
    return m.spread(x, m.shape())


def index(m, args, named):
    """x[arange(b), p]: of each row the element at its own position. Or all elements in other
    dims, or rows of known numbers (known_indices.py)."""
    x, which = args
    if len(which) > 1:
        y = spread_out(m, x, which)
        if y is not None:
            return y
    if len(which) == 1 and which[0] is not None and which[0].const is not None and \
            which[0].dtype is not torch.bool and \
            len(shapes.runs(which[0].const.reshape(-1).tolist())) > 8:
        y = known_indices.looked_up(m, x, which[0].const)
        return shapes.index(m, args, named) if y is None else y
    if len(which) != 2 or len(x.shape) < 2 or not counts_rows(which[0], x.shape[0]) or \
            which[1] is None or which[1].shape != x.shape[:1]:
        return shapes.index(m, args, named)
    form = LETTERS[:len(x.shape)]
    return m.make("einsum", [f"ab, {form} -> a{form[2:]}", hits(m, which[1], x.shape[1]), x],
                  m.shape())


def cross_entropy(m, args, named):
    """The loss of labels that are known, such as the numbers of the rows."""
    logits, labels = args[:2]
    if labels.const is None or labels.dtype.is_floating_point or len(logits.shape) != 2:
        return losses.cross_entropy(m, args, named)
    weight, how, ignored, smooth = (list(args[2:]) + [None, 1, IGNORED, 0.0][len(args) - 2:])[:4]
    if weight is not None or smooth or bool((labels.const == ignored).any()):
        m.fail("of known labels has no counterpart with weights, with label_smoothing or "
               "with labels that are ignored")
    scores = m.make("log_softmax", [logits], logits.shape)
    chosen = m.map("mul", scores, hits(m, labels, logits.shape[1]))
    picked = reduce(m, "sum", chosen, (-1,), False)
    return m.map("neg", losses.reduced(m, picked, how))


def scatter(m, args, named):
    """A number at positions of the last dim."""
    x, dim, ids, value = args[:4]
    if axis(dim, len(x.shape)) != len(x.shape) - 1 or x.shape[:-1] != ids.shape[:-1] or \
            isinstance(number(value), Value):
        m.fail("has a counterpart for a number at positions of the last dim only")
    hot = hits(m, ids, x.shape[-1])
    chosen = m.make("max", [hot], m.shape(), {"dim": -2})
    x, value = number(x), number(value)
    if (x, value) == (0, 1):
        return chosen
    return m.make("where", [chosen, value, x], m.shape())


TABLE = {"scatter": scatter, "argmax": argmax, "argmin": argmax, "index": index,
         "cross_entropy_loss": cross_entropy}
