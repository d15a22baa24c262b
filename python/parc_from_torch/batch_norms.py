"""Batch normalization with known statistics: that of a model in evaluation mode.

    aten._native_batch_norm_legit_no_training(x, w, b, mean, var, _, eps)
        (x - mean) * rsqrt(var + eps) * w + b

The running statistics of a new module are zeros and ones, which are numbers. Other
statistics are tables, which a file cannot have.
"""

import math

from .body import Value
from .builder import number


def by_channel(m, x, rank):
    """A vector in the dim of the channels, which is the second of `rank` dims."""
    for _ in range(rank - 2 if isinstance(x, Value) else 0):
        x = m.make("unsqueeze", [x, len(x.shape)], x.shape + (1,))
    return x


def normalized(m, x, weight, bias, mean, var, eps):
    rank, mean, var = len(x.shape), number(mean), number(var)
    if mean != 0:
        x = m.map("sub", x, by_channel(m, mean, rank))
    if isinstance(var, Value):
        rate = by_channel(m, m.map("rsqrt", m.map("add", var, eps)), rank)
    else:
        rate = 1 / math.sqrt(var + eps)
    y = m.map("mul", x, rate)
    if weight is not None:
        y = m.map("mul", y, by_channel(m, weight, rank))
    return y if bias is None else m.map("add", y, by_channel(m, bias, rank))


def no_training(m, args, named):
    """The result, and statistics of the batch, which no statement reads."""
    x, weight, bias, mean, var, _, eps = args
    return normalized(m, x, weight, bias, mean, var, eps), None, None


def batch_norm(m, args, named):
    x, weight, bias, mean, var, training, _, eps = args[:8]
    if training or mean is None:
        m.fail("with statistics of the batch has no counterpart yet",
               "call .eval() on the model, or use a LayerNorm")
    return normalized(m, x, weight, bias, mean, var, eps)


TABLE = {"_native_batch_norm_legit_no_training": no_training, "batch_norm": batch_norm}
