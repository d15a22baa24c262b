"""Batch normalization.

A module in training mode is the prelude's BatchNorm, with its running statistics as states.
In evaluation mode its statistics are numbers that the forward reads:

    aten._native_batch_norm_legit_no_training(x, w, b, mean, var, _, eps)
        (x - mean) * rsqrt(var + eps) * w + b

The running statistics of a new module are zeros and ones. Other statistics are tables,
which a file cannot have.
"""

import contextlib
import functools
import math

import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from ..ir.body import Body, Stmt, Value
from ..ir.builder import number


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
        m.fail("with statistics of the batch has a counterpart for modules with running "
               "statistics only", "use nn.BatchNorm with track_running_stats=True")
    return normalized(m, x, weight, bias, mean, var, eps)


TABLE = {"_native_batch_norm_legit_no_training": no_training, "batch_norm": batch_norm}


def is_running(module):
    """Whether a module normalizes by statistics of the batch, and keeps running ones."""
    return isinstance(module, _BatchNorm) and module.training and module.running_mean is not None


def body_of(path, module, given):
    """The body of such a module, which is the prelude's."""
    body = Body(path, type(module).__name__)
    x = Value(given.shape, given.dtype, "x", kind="input", caller=given)
    y = Value(given.shape, given.dtype, "y")
    y.stmt = Stmt("batch_norm", [x], {}, [y])
    body.inputs, body.stmts, body.outputs = [x], [y.stmt], [y]
    body.params = {n: Value(tuple(p.shape), p.dtype, n, kind="param")
                   for n, p in module.named_parameters()}
    named = {"eps": module.eps, "momentum": module.momentum}
    if not module.affine:
        named["affine"] = False
    body.prelude = "BatchNorm", [module.num_features], named
    return body


def states(model):
    """(name, tensor) of the running statistics of all batch norms."""
    for path, module in model.named_modules():
        if isinstance(module, _BatchNorm):
            yield from ((f"{path}.{n}".strip("."), x) for n, x in module.named_buffers())


def forward(module, x):
    module._check_input_dim(x)
    return F.batch_norm(x, None, None, module.weight, module.bias, training=True,
                        eps=module.eps)


@contextlib.contextmanager
def stateless(model):
    """Inside the block the batch norms of a model that are in training mode, also
    nn.SyncBatchNorm, normalize by the batch of this process and keep no statistics."""
    found = [m for m in model.modules() if is_running(m)]
    for module in found:
        module.forward = functools.partial(forward, module)
    try:
        yield
    finally:
        for module in found:
            del module.forward
