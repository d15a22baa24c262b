"""Builds large models without filling their parameters.

    nn.init.normal_(w)  with w [128256, 2048]  →  w.view(-1)[:FEW].normal_()

Memory that nothing writes is not allocated. The first FEW elements of a parameter show its
initial distribution; a trace needs the shape only.
"""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

FEW = 1 << 18
LARGE = 1 << 20  # elements of all parameters of a model that is traced at smaller sizes
RANDOM = {"aten::normal_", "aten::uniform_"}


class FillFew(TorchDispatchMode):
    """Random numbers in place fill only the first FEW elements of a tensor, and so do later
    operators in place on that tensor."""

    def __init__(self):
        super().__init__()
        self.filled = {}  # {address: the storage, which keeps the address unique}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
            x, storage = args[0], args[0].untyped_storage()
            random = func._schema.name in RANDOM
            if x.numel() > FEW and x.is_contiguous() and x.device.type == "cpu" and \
                    (random or storage.data_ptr() in self.filled) and \
                    not any(isinstance(y, torch.Tensor) and y.dim() for y in args[1:]):
                self.filled[storage.data_ptr()] = storage
                func(x.view(-1)[:FEW], *args[1:], **(kwargs or {}))
                return x
        return func(*args, **(kwargs or {}))


def first_elements(parameter):
    """The elements of a parameter that FillFew fills."""
    return parameter.detach().reshape(-1)[:FEW] if parameter.numel() > FEW else \
        parameter.detach()


def is_large(model):
    return sum(p.numel() for p in model.parameters()) > LARGE


@contextlib.contextmanager
def without_elements(model):
    """Inside the block a large model has parameters without elements, so that a trace copies
    none."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    found = [(m, n, p) for m in model.modules() if is_large(model)
             for n, p in m._parameters.items() if p is not None]
    fake = {id(p): torch.nn.Parameter(mode.from_tensor(p.detach()), p.requires_grad)
            for _, _, p in found}
    try:
        for module, name, p in found:
            module._parameters[name] = fake[id(p)]
        yield
    finally:
        for module, name, p in found:
            module._parameters[name] = p
