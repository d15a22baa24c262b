"""The example inputs of a model, as they are and with other sizes."""

import math

import torch
from torch.utils import _pytree as pytree


def tensors(x):
    """The tensors of a result or of arguments, in order."""
    return [t for t in pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


def inputs_of(example, change=lambda x: x.clone()):
    """(args, kwargs) of the example inputs, with change(x) in place of each tensor; each is
    an input of its own."""
    def own(x):
        return pytree.tree_map_only(torch.Tensor, change, x)

    if isinstance(example, dict):
        return (), {k: own(v) for k, v in example.items()}
    if isinstance(example, torch.Tensor):
        return (own(example),), {}
    return tuple(own(x) for x in example), {}


def scaled(x, dim, factor):
    """A tensor repeated or cut in a dim, so that it is `factor` times as long."""
    whole = torch.cat([x] * math.ceil(factor), dim)
    return whole.narrow(dim, 0, round(x.shape[dim] * factor)).clone()


def resized(example, name, factor):
    """The example inputs with another batch, or another sequence."""
    dim = 0 if name == "batch" else 1

    def other(x):
        if x.dim() <= dim or (dim and x.dtype.is_floating_point):
            return x.clone()
        return scaled(x, dim, factor)

    return inputs_of(example, other)


def fitted(size, wanted):
    """A function of an example input that makes float dims of `size` `wanted` long, for a model
    of which that is the number of features."""
    def other(x):
        for dim in range(1, x.dim() if x.dtype.is_floating_point else 0):
            if x.shape[dim] == size:
                x = scaled(x, dim, wanted / size)
        return x

    return other


def folded(bound):
    """A function of an example input that makes its integers smaller than `bound`, for a model
    of which that is the number of classes. Negative ones keep their meaning."""
    def other(x):
        if x.dtype.is_floating_point or x.dtype == torch.bool or bound < 1:
            return x
        return torch.where(x < 0, x, x % bound)

    return other
