"""ATen operators that move or select elements."""

import math

import torch

from ..ir.body import Value
from ..ir.builder import axis, constant, is_index, number
from .integers import as_index


def reshape(m, args, named):
    return m.make("reshape", [args[0], *m.shape()], m.shape())


def exchange(m, x, i, j):
    shape = list(x.shape)
    shape[i], shape[j] = shape[j], shape[i]
    return m.make("transpose", [x, min(i, j), max(i, j)], shape) if i != j else x


def transpose(m, args, named):
    x, rank = args[0], len(args[0].shape)
    i, j = args[1:] if len(args) > 1 else (-2, -1)
    return x if rank < 2 else exchange(m, x, axis(i, rank), axis(j, rank))


def permute(m, args, named):
    x, want = args[0], [axis(i, len(args[0].shape)) for i in args[1]]
    order = list(range(len(want)))
    for i, dim in enumerate(want):
        j = order.index(dim)
        x = exchange(m, x, i, j)
        order[i], order[j] = order[j], order[i]
    return x


def reverse(m, args, named):
    """The T of a tensor: all dims in the other order."""
    return permute(m, [args[0], list(range(len(args[0].shape)))[::-1]], named)


def movedim(m, args, named):
    rank = len(args[0].shape)
    source, target = ([axis(i, rank) for i in ([x] if isinstance(x, int) else x)]
                      for x in args[1:3])
    order = [i for i in range(rank) if i not in source]
    for at, i in sorted(zip(target, source)):
        order.insert(at, i)
    return permute(m, [args[0], order], named)


def unsqueeze(m, args, named):
    return m.make("unsqueeze", [args[0], axis(args[1], len(m.shape()))], m.shape())


def squeeze(m, args, named):
    if args[0].shape == m.shape():
        return args[0]
    if len(args) != 2 or not isinstance(args[1], int):
        return reshape(m, args, named)
    return m.make("squeeze", [args[0], axis(args[1], len(args[0].shape))], m.shape())


def expand(m, args, named):
    return m.spread(args[0], m.shape())


def part(m, x, start, size, dim):
    """Elements start … start + size - 1 of a dim."""
    if size == x.shape[dim]:
        return x
    shape = x.shape[:dim] + (size,) + x.shape[dim + 1:]
    if not isinstance(number(x), Value):
        return constant(shape, number(x), x.dtype)
    return m.make("slice", [x, start, size], shape, {"dim": dim})


def broadcast_all(m, args, named):
    return tuple(m.spread(x, shape) for x, shape in zip(args[0], m.shapes()))


def slice_(m, args, named):
    x, dim, start, end, step = (list(args) + [0, None, None, 1][len(args) - 1:])[:5]
    dim = axis(dim, len(x.shape))
    start = start or 0
    start = max(0, start + x.shape[dim]) if start < 0 else start
    if step == 1:
        return part(m, x, start, m.shape()[dim], dim)
    return m.make("slice", [x, start, m.shape()[dim]], m.shape(), {"dim": dim, "step": step})


def narrow(m, args, named):
    x, dim, start, size = args
    dim = axis(dim, len(x.shape))
    return part(m, x, axis(start, x.shape[dim]), size, dim)


def element(m, x, i, dim):
    """Element i of a dim, which the result lacks. A dim of one element is squeezed."""
    shape = x.shape[:dim] + x.shape[dim + 1:]
    if x.shape[dim] == 1:
        return m.make("squeeze", [x, dim], shape)
    return m.make("select", [x, i, dim], shape)


def select(m, args, named):
    x, dim, i = args
    dim = axis(dim, len(x.shape))
    if i < 0:  # counted from the end, for any size of the dim
        last = part(m, x, x.shape[dim] + i, 1, dim)
        return m.make("squeeze", [last, dim], m.shape())
    return element(m, x, i, dim)


def unbind(m, args, named):
    x, dim = args[0], axis(args[1] if len(args) > 1 else 0, len(args[0].shape))
    return tuple(element(m, x, i, dim) for i in range(x.shape[dim]))


def concat(m, args, named):
    parts = [x for x in args[0] if 0 not in x.shape]
    if len(parts) == 1:
        return parts[0]
    if len(parts) > 8:
        m.fail(f"joins {len(parts)} tensors, which are more than 8", "join them in groups")
    dim = axis(args[1] if len(args) > 1 else named.get("dim", 0), len(m.shape()))
    parts = without_constants(m, parts, dim)
    return parts[0] if len(parts) == 1 else m.make("concat", parts, m.shape(), {"dim": dim})


def without_constants(m, parts, dim):
    """The tensors of a concatenation without those of equal known elements: these pad the
    tensor after them, or at the end the one before them."""
    found, before = [], []
    for x in parts:
        if not isinstance(number(x), Value):
            before.append((x.shape[dim], number(x)))
            continue
        for size, value in before[::-1]:
            x = padded(m, x, size, 0, dim, value)
        found.append(x)
        before = []
    for size, value in before if found else ():
        found[-1] = padded(m, found[-1], 0, size, dim, value)
    return found or parts


def padded(m, x, before, after, dim, value):
    """x with elements `value` before and after those of a dim. Integers of an input may be
    labels that are shifted: pattern_losses.py judges these."""
    shape = x.shape[:dim] + (before + x.shape[dim] + after,) + x.shape[dim + 1:]
    if not math.isfinite(value):
        m.fail("has a number that is not finite", "use a large number, such as 1e30")
    how = {"dim": dim - len(shape), **({"value": value} if value else {})}
    return m.make("pad_integers" if is_index(x) else "pad", [x, before, after], shape, how)


def stack(m, args, named):
    dim = axis(args[1] if len(args) > 1 else named.get("dim", 0), len(m.shape()))
    parts = []
    if len(args[0]) > 8:
        return m.make("stack", [tuple(args[0])], m.shape(), {"dim": dim})
    for x in args[0]:
        shape = list(x.shape)
        shape.insert(dim, 1)
        parts.append(m.make("unsqueeze", [x, dim], shape))
    return concat(m, [parts, dim], {})


def split(m, args, named):
    x = args[0]
    dim = axis(args[2] if len(args) > 2 else named.get("dim", 0), len(x.shape))
    shapes = m.shapes()
    sizes = [s[dim] for s in shapes]
    parts = len(sizes) if len(set(sizes)) == 1 else tuple(sizes)
    if len(shapes) == 1:
        return (x,)
    return m.make("split", [x, parts], shapes, {"dim": dim}, count=len(shapes))


# ---- copies ----------------------------------------------------------------


def copied(m, x, dim, times, inner):
    """Each element of a dim `times` times in a row (inner), or the dim repeated."""
    if times == 1:
        return x
    shape, at = list(x.shape), dim + 1 if inner else dim
    if shape[dim] == 1:
        return m.spread(x, shape[:dim] + [times] + shape[dim + 1:])
    one = m.make("unsqueeze", [x, at], shape[:at] + [1] + shape[at:])
    wide = m.spread(one, shape[:at] + [times] + shape[at:])
    shape[dim] *= times
    return m.make("reshape", [wide, *shape], shape)


def repeat(m, args, named):
    x, times = args[0], list(args[1])
    lead = len(times) - len(x.shape)
    if lead:
        shape = (1,) * lead + x.shape
        x = m.make("reshape", [x, *shape], shape)
    for dim, n in enumerate(times):
        x = copied(m, x, dim, n, False)
    return x


def repeat_interleave(m, args, named):
    x, times = args[:2]
    dim = args[2] if len(args) > 2 else named.get("dim")
    if not isinstance(times, int):
        m.fail("with a tensor of repeats has no counterpart")
    if dim is None:
        count = math.prod(x.shape)
        x, dim = m.make("reshape", [x, count], (count,)), 0
    return copied(m, x, axis(dim, len(x.shape)), times, True)


def roll(m, args, named):
    x, shifts = args[:2]
    dims = args[2] if len(args) > 2 else named.get("dims", [])
    if not dims:
        m.fail("of all dims at once has no counterpart", "name the dims")
    for shift, dim in zip(shifts, dims):
        x = m.make("roll", [x, shift, axis(dim, len(x.shape))], x.shape)
    return x


def flip(m, args, named):
    x, dims = args
    for dim in dims:
        x = m.make("flip", [x], x.shape, {"dim": axis(dim, len(x.shape))})
    return x


def runs(numbers):
    """[(first, count)] of consecutive numbers."""
    found = []
    for i in numbers:
        if found and i == sum(found[-1]):
            found[-1][1] += 1
        else:
            found.append([i, 1])
    return found


def index_select(m, args, named):
    x, dim, ids = args
    if ids.const is None:
        return embedding(m, [x, ids], {}) if dim == 0 else m.fail(
            "by numbers of an input works for the first dim only")
    return picked(m, x, axis(dim, len(x.shape)), ids.const.reshape(-1).tolist())


def picked(m, x, dim, numbers):
    found = runs([axis(i, x.shape[dim]) for i in numbers])
    shape = x.shape[:dim] + (len(numbers),) + x.shape[dim + 1:]
    steps = {b - a for a, b in zip(numbers, numbers[1:])}
    if len(found) > 1 and len(steps) == 1 and 0 not in steps:
        return m.make("slice", [x, numbers[0], len(numbers)], shape,
                      {"dim": dim, "step": steps.pop()})
    if len(found) > 8:
        m.fail("looks up known numbers that are not consecutive")
    parts = [part(m, x, first, count, dim) for first, count in found]
    return parts[0] if len(parts) == 1 else m.make("concat", parts, shape, {"dim": dim})


def index(m, args, named):
    """x[ids] of a table, or x[:, numbers] of known numbers."""
    x, which = args
    at = [i for i, v in enumerate(which) if v is not None]
    ids = which[at[0]]
    if len(at) != 1 or ids.dtype is torch.bool:
        m.fail("by masks or by several tensors has no counterpart",
               "multiply by the mask, or select from one dim")
    if ids.const is None:
        return embedding(m, [x, ids], {}) if at[0] == 0 else m.fail(
            "by numbers of an input works for the first dim only")
    y = picked(m, x, at[0], ids.const.reshape(-1).tolist())
    return y if y.shape == m.shape() else m.make("reshape", [y, *m.shape()], m.shape())


def scatter(one):
    """x with a part replaced: the elements before it, the part, and those after it."""
    def convert(m, args, named):
        x, new, dim = args[0], args[1], axis(args[2] if len(args) > 2 else 0, len(args[0].shape))
        if one:
            first, size = axis(args[3], x.shape[dim]), 1
            shape = x.shape[:dim] + (1,) + x.shape[dim + 1:]
            new = m.spread(new, shape) if not isinstance(number(new), Value) else \
                m.make("unsqueeze", [new, dim], shape)
        else:
            start, end, step = (list(args[3:]) + [None, None, 1][len(args) - 3:])[:3]
            if step != 1:
                m.fail(f"with step {step} has no counterpart")
            first, last, _ = slice(start, end).indices(x.shape[dim])
            size = last - first
        after = x.shape[dim] - first - size
        parts = [part(m, x, 0, first, dim)] if first else []
        parts.append(m.spread(new, x.shape[:dim] + (size,) + x.shape[dim + 1:]))
        parts += [part(m, x, first + size, after, dim)] if after else []
        return concat(m, [parts, dim], {})
    return convert


def copy(m, args, named):
    """The second operand in the shape of the first."""
    return m.spread(args[1], m.shape())


def filled(value):
    """A known tensor in the shape of the result."""
    def convert(m, args, named):
        x = args[-1] if value is None else value
        x = named.get("fill_value", x)
        if isinstance(x, Value):
            return m.spread(x, m.shape())
        return constant(m.shape(), x, m.first_fake().dtype)
    return convert


# ---- rows of a table -------------------------------------------------------


def embedding(m, args, named):
    """The row of padding_idx has no gradient."""
    table, ids = args[:2]
    unused = named.get("padding_idx", args[2] if len(args) > 2 else -1)
    unused = -1 if unused is None else unused
    if ids.const is not None:
        if bool((ids.const == unused).any()):
            m.fail(f"has padding_idx={unused} among known numbers")
        return rows(m, table, ids)
    y = m.make("embedding", [table, as_index(m, ids)], m.shape())
    if unused < 0:
        return y
    hit = m.make("unsqueeze", [m.make("==", [ids, unused], ids.shape), len(ids.shape)],
                 ids.shape + (1,))
    return m.make("where", [hit, m.make("detach", [y], y.shape), y], y.shape)


def rows(m, table, ids):
    """Rows of known numbers, such as positions: consecutive ones are a slice."""
    flat, width = ids.const.reshape(-1), table.shape[1]
    if bool((flat == flat[0]).all()):
        shape = (1,) * (len(m.shape()) - 1) + (width,)
        y = m.make("slice", [table, int(flat[0]), 1], (1, width), {"dim": 0})
        return m.spread(m.make("reshape", [y, *shape], shape), m.shape())
    one = repeated_row(ids.const)
    y = rows_of(m, table, flat.tolist() if one is None else one)
    if y is None:  # pattern_tables.py writes the numbers
        return m.make("embedding", [table, m.make("int", [ids], ids.shape)], m.shape())
    if one is not None:
        shape = (1,) * (len(m.shape()) - 2) + (len(one), width)
        y = m.make("reshape", [y, *shape], shape)
        return m.spread(y, m.shape())
    return y if y.shape == m.shape() else m.make("reshape", [y, *m.shape()], m.shape())


def repeated_row(ids):
    """The last dim of numbers that are the same for all other dims, or None."""
    flat = ids.reshape(-1, ids.shape[-1])
    return flat[0].tolist() if len(flat) > 1 and bool((flat == flat[0]).all()) else None


def rows_of(m, table, numbers):
    """A slice of consecutive rows, or None."""
    if len(runs(numbers)) > 1:
        return None
    return m.make("slice", [table, numbers[0], len(numbers)], (len(numbers), table.shape[1]),
                  {"dim": 0})


def onehot(m, args, named):
    if not is_index(args[0]):
        m.fail("of numbers that are computed has no counterpart")
    return m.make("onehot", [args[0], m.shape()[-1]], m.shape())


def pad(m, args, named):
    """Widths are those of the last dim, then of the one before it; negative ones remove
    elements."""
    x, widths = args[:2]
    value = args[3] if len(args) > 3 else named.get("value")
    mode = named.get("mode", args[2] if len(args) > 2 and isinstance(args[2], str) else "")
    if m.name == "constant_pad_nd":
        mode, value = "constant", args[2] if len(args) > 2 else 0
    if mode not in ("", "constant"):
        m.fail(f"with mode={mode} has no counterpart")
    for i in range(0, len(widths), 2):
        dim = len(x.shape) - 1 - i // 2
        before, after = widths[i:i + 2]
        x = part(m, x, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0), dim)
        if max(before, after) > 0:
            x = padded(m, x, max(before, 0), max(after, 0), dim, value or 0)
    return x


def complex_(op):
    return lambda m, args, named: m.make(op, args[:1], m.shape())


TABLE = {
    "view": reshape, "reshape": reshape, "flatten": reshape, "unflatten": reshape,
    "_unsafe_view": reshape, "view_as": reshape, "reshape_as": reshape, "ravel": reshape,
    "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "t": transpose,
    "permute": permute, "movedim": movedim, "moveaxis": movedim, "numpy_T": reverse,
    "mT": transpose, "matrix_H": transpose, "unsqueeze": unsqueeze, "squeeze": squeeze,
    "expand": expand, "expand_as": expand, "broadcast_to": expand, "slice": slice_,
    "broadcast_tensors": broadcast_all, "narrow": narrow, "select": select,
    "unbind": unbind, "cat": concat, "concat": concat,
    "concatenate": concat, "stack": stack, "split": split, "chunk": split,
    "split_with_sizes": split, "repeat": repeat, "repeat_interleave": repeat_interleave,
    "roll": roll, "flip": flip, "index_select": index_select, "index": index, "copy": copy,
    "slice_scatter": scatter(False), "select_scatter": scatter(True),
    "zeros_like": filled(0), "ones_like": filled(1), "full_like": filled(None),
    "new_zeros": filled(0), "new_ones": filled(1), "new_full": filled(None),
    "empty_like": filled(0), "new_empty": filled(0), "fill": filled(None), "embedding": embedding, "one_hot": onehot, "pad": pad,
    "constant_pad_nd": pad, "view_as_complex": complex_("view_as_complex"),
    "view_as_real": complex_("view_as_real"),
}
