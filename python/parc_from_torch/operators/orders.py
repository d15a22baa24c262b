"""ATen operators that order the elements of a dim.

    aten.topk(x, k, -1)              v, i = topk(x, k)
    aten.sort(x, -1)                 v, i = sort(x)
    aten.max(x, -1), with positions  v, i = topk(x, 1)
    aten.median(x, -1)               the element (n - 1) / 2 of the sorted dim

PDL orders the last dim; of another dim the tensor is transposed. Equal elements keep their
order, as in torch's stable sort.
"""

import math

import torch

from ..ir.builder import axis, computed


def given(args, named, i, name, none):
    return named.get(name, args[i] if len(args) > i else none)


def last(m, x, dim):
    """x with this dim at the end, which is where it was if the result is given again."""
    end = len(x.shape) - 1
    if dim == end:
        return x
    shape = list(x.shape)
    shape[dim], shape[end] = shape[end], shape[dim]
    return m.make("transpose", [x, dim, end], shape)


def typed(pair, x):
    """The values have x's type, the positions are integers."""
    pair[0].dtype, pair[1].dtype = x.dtype, torch.int64
    return pair


def ordered(m, x, dim, count, first):
    """The `count` first elements of a dim, and their positions. `first`: the largest."""
    x = last(m, computed(m, x), dim)
    n, shape = x.shape[-1], x.shape[:-1] + (count,)
    if count == n:
        how = {"descending": True} if first else {}
        pair = m.make("sort", [x], [shape] * 2, how, count=2)
    else:
        how = {} if first else {"largest": False}
        pair = m.make("topk", [x, count], [shape] * 2, how, count=2)
    return [back(m, v, dim) for v in typed(pair, x)]


def back(m, v, dim):
    made = last(m, v, dim)
    made.dtype = v.dtype
    return made


def scalar(m, args):
    if not args[0].shape:
        m.fail("of a scalar has no counterpart")


def topk(m, args, named):
    scalar(m, args)
    dim = axis(given(args, named, 2, "dim", -1), len(args[0].shape))
    return tuple(ordered(m, args[0], dim, args[1], given(args, named, 3, "largest", True)))


def sort(m, args, named):
    """aten.sort(x, dim, descending), or aten.sort.stable(x, *, stable, dim, descending)."""
    scalar(m, args)
    stable = len(args) > 1 and (args[1] is None or isinstance(args[1], bool))
    rest = args[:1] + args[2:] if stable else args
    dim = axis(given(rest, named, 1, "dim", -1), len(args[0].shape))
    return tuple(ordered(m, args[0], dim, args[0].shape[dim],
                         given(rest, named, 2, "descending", False)))


def argsort(m, args, named):
    return sort(m, args, named)[1]


def pick(m, pair, dim, i, keep):
    """Element i of a dim of the values and of the positions."""
    made = []
    for v in pair:
        shape = list(v.shape)
        shape[dim:dim + 1] = [1] if keep else []
        if keep:
            one = m.make("slice", [v, i, 1], shape, {"dim": dim})
        else:
            one = m.make("select", [v, i], shape, {} if dim == 0 else {"dim": dim})
        one.dtype = v.dtype
        made.append(one)
    return tuple(made)


def extreme_at(m, args, named, smallest):
    """The largest or smallest element of a dim, and its position."""
    dim = axis(given(args, named, 1, "dim", None), len(args[0].shape))
    if args[0].shape[dim] == 1:
        m.fail("of a dim of one element has no counterpart")
    pair = ordered(m, args[0], dim, 1, not smallest)
    return tuple(pair) if given(args, named, 2, "keepdim", False) else \
        pick(m, pair, dim, 0, False)


def median(m, args, named):
    """The lower one of two elements in the middle, as in torch."""
    x = args[0]
    dim = given(args, named, 1, "dim", None)
    if dim is None:
        size = math.prod(x.shape)
        flat = m.make("reshape", [x, size], (size,))
        return pick(m, ordered(m, flat, 0, size, False), 0, (size - 1) // 2, False)[0]
    dim = axis(dim, len(x.shape))
    n = x.shape[dim]
    return pick(m, ordered(m, x, dim, n, False), dim, (n - 1) // 2,
                given(args, named, 2, "keepdim", False))


def kth_value(m, args, named):
    x, k = args[:2]
    dim = axis(given(args, named, 2, "dim", -1), len(x.shape))
    return pick(m, ordered(m, x, dim, x.shape[dim], False), dim, k - 1,
                given(args, named, 3, "keepdim", False))


TABLE = {"topk": topk, "sort": sort, "argsort": argsort, "median": median,
         "kthvalue": kth_value}
