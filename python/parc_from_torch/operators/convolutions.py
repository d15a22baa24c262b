"""Convolutions, pooling and other operators that the prelude of PDL has.

    aten.conv2d(x, w, b, [2, 2], [1, 1])   conv2d(x, w, stride=2, padding=1) + b
    aten.max_pool2d(x, [3, 3], [2, 2])     max_pool2d(x, 3, 2)
    aten.adaptive_avg_pool2d(x, [1, 1])    mean(x, dim=(-2, -1), keep=true)
"""

from ..ir.body import Value
from ..ir.builder import axis, computed, constant, number
from . import integers
from .shapes import exchange


def pair(x):
    """A number for two equal ones, else a tuple. Torch gives one number for all dims."""
    x = list(x) if isinstance(x, (tuple, list)) else [x]
    return x[0] if len(set(x)) == 1 else tuple(x)


def optional(args, named, first, *rows):
    """The optional arguments of an operator: by position from `first`, by name, or the
    default of their row (name, default)."""
    return [named.get(name, args[first + i] if first + i < len(args) else default)
            for i, (name, default) in enumerate(rows)]


def conv(op):
    """aten.conv1d or aten.conv2d, whose result is [batch, out, …]."""
    def convert(m, args, named):
        bias, stride, padding, dilation, groups = optional(
            args, named, 2, ("bias", None), ("stride", 1), ("padding", 0), ("dilation", 1),
            ("groups", 1))
        x, w = args[:2]
        if len(x.shape) != len(w.shape):
            m.fail("of an input without a batch has no counterpart")
        if padding == "valid":
            padding = 0
        if isinstance(padding, str):
            m.fail(f"with padding='{padding}' has no counterpart: give the padding as numbers")
        how = {"stride": (pair(stride), 1), "padding": (pair(padding), 0),
               "dilation": (pair(dilation), 1), "groups": (groups, 1)}
        y = m.make(op, [x, w], m.shape(), {k: v for k, (v, d) in how.items() if v != d})
        if bias is None:
            return y
        for i in range(len(w.shape) - 2):
            bias = m.make("unsqueeze", [bias, 1], tuple(bias.shape) + (1,))
        return m.make("add", [y, bias], m.shape())
    return convert


def windows(m, x, kernel, stride, padding):
    """The arguments of a pool: the stride is by default the kernel's size."""
    if len(x.shape) != 4:
        m.fail("of an input without a batch has no counterpart")
    kernel, stride = pair(kernel), pair(stride or kernel)
    args = [x, kernel] + ([stride] if stride != kernel else [])
    return args, {"padding": pair(padding)} if pair(padding) else {}


def max_pool(m, args, named):
    kernel, stride, padding, dilation, up = optional(
        args, named, 1, ("kernel_size", None), ("stride", None), ("padding", 0),
        ("dilation", 1), ("ceil_mode", False))
    if pair(dilation) != 1 or up:
        m.fail("with dilation or ceil_mode has no counterpart")
    args, how = windows(m, args[0], kernel, stride, padding)
    return m.make("max_pool2d", args, m.shape(), how)


def average_pool(m, args, named):
    kernel, stride, padding, up, counts, divisor = optional(
        args, named, 1, ("kernel_size", None), ("stride", None), ("padding", 0),
        ("ceil_mode", False), ("count_include_pad", True), ("divisor_override", None))
    if up or divisor or (pair(padding) and not counts):
        m.fail("with ceil_mode, divisor_override or count_include_pad=False has no "
               "counterpart")
    args, how = windows(m, args[0], kernel, stride, padding)
    return m.make("avg_pool2d", args, m.shape(), how)


def adaptive_average_pool(m, args, named):
    """The mean of all pixels, or of equal windows."""
    x, shape = args[0], m.shape()
    if len(x.shape) != 4 or any(a % b for a, b in zip(x.shape[2:], shape[2:])):
        m.fail("to sizes that do not divide the input's has no counterpart")
    if shape[2:] == (1, 1):
        return m.make("mean", [x], shape, {"dim": (-2, -1), "keep": True})
    kernel = pair([a // b for a, b in zip(x.shape[2:], shape[2:])])
    return m.make("avg_pool2d", [x, kernel], shape)


def adaptive_average_pool1d(m, args, named):
    """The mean of all elements, or of equal windows."""
    x, shape = args[0], m.shape()
    if x.shape[-1] % shape[-1]:
        m.fail("to a size that does not divide the input's has no counterpart")
    if shape[-1] == 1:
        return m.make("mean", [x], shape, {"dim": -1, "keep": True})
    parts = m.make("reshape", [x, *shape, x.shape[-1] // shape[-1]],
                   shape + (x.shape[-1] // shape[-1],))
    return m.make("mean", [parts], shape, {"dim": -1})


def last(rank, dim):
    return dim in (-1, rank - 1)


def cumsum(m, args, named):
    x, dim = computed(m, args[0]), args[1]
    return m.make("cumsum", [x], m.shape(),
                  {} if last(len(x.shape), dim) else {"dim": dim - len(x.shape) * (dim >= 0)})


def gather(m, args, named):
    """PDL's is that of the last dim. Elements of a tensor of equal numbers are that number."""
    x, dim, ids = number(args[0]), args[1], args[2]
    if not isinstance(x, Value):
        return constant(m.shape(), x, m.first_fake().dtype)
    rank = len(x.shape)
    x, ids = (exchange(m, v, axis(dim, rank), rank - 1) for v in (x, ids))
    if x.shape[:-1] != ids.shape[:-1]:
        m.fail("has a counterpart for tensors whose other dims are equal only")
    y = m.make("gather", [x, integers.as_index(m, ids)], ids.shape)
    return exchange(m, y, axis(dim, rank), rank - 1)


def scatter_add(m, args, named):
    x, dim, ids, values = args[:4]
    if not last(len(x.shape), dim) or x.shape[:-1] != ids.shape[:-1] or \
            ids.shape != values.shape:
        m.fail("has a counterpart for the last dim of tensors with equal other dims only")
    return m.make("scatter_add", [x, ids, values], m.shape())


TABLE = {
    "conv1d": conv("conv1d"), "conv2d": conv("conv2d"), "max_pool2d": max_pool,
    "avg_pool2d": average_pool, "adaptive_avg_pool2d": adaptive_average_pool,
    "adaptive_avg_pool1d": adaptive_average_pool1d,
    "cumsum": cumsum, "gather": gather, "scatter_add": scatter_add,
}
