"""Runs of a model without random numbers."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class KeepAll(TorchDispatchMode):
    """Dropout keeps all elements and does not scale them; random numbers are 0.5. Two runs
    that draw in different orders, such as those of a model and of its file, then agree."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name == "aten::bernoulli_":  # torch divides by the same number
            return args[0].fill_(args[1] if len(args) > 1 else 0.5)
        if name == "aten::native_dropout":
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        if name == "aten::native_dropout_backward":
            return args[0].clone()
        if name == "aten::rand_like":
            return torch.full_like(args[0], 0.5)
        return func(*args, **(kwargs or {}))
