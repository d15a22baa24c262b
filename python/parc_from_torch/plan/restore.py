"""Replaces objects in all modules of the interpreter for a while, and restores a
model after a function has changed it."""
import contextlib
import functools
import os
import sys
import types

import torch
from torch import nn

CONTAINERS = (dict, list, set)


def _function_parts(function):
    """The function itself, without partial, bound method or decorators."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


PACKAGE = __package__.partition(".")[0]


def _namespaces(function):
    """The dicts of names in which a function may find the objects."""
    found = [vars(m) for name, m in list(sys.modules.items())
             if isinstance(m, types.ModuleType)
             and not name.startswith(PACKAGE)]
    found.append(getattr(_function_parts(function), "__globals__", {}))
    return found


def _exchange(function, pairs):
    """Replaces the first object of each pair by the second."""
    table = {id(old): (old, new) for old, new in pairs}
    for names in _namespaces(function):
        for name, value in list(names.items()):
            old, new = table.get(id(value), (None, None))
            if new is not None and old is value:
                names[name] = new
    for cell in getattr(_function_parts(function), "__closure__", None) or ():
        with contextlib.suppress(ValueError):      # an empty cell
            old, new = table.get(id(cell.cell_contents), (None, None))
            if new is not None:
                cell.cell_contents = new


@contextlib.contextmanager
def replaced(function, pairs, members=(), environment=()):
    """Inside the block, the names of `function` and of all modules that refer to
    the first object of a pair refer to the second. `members` are (owner, name,
    value) for attributes of classes and modules; `environment` are pairs for
    os.environ. Also modules that are imported inside the block are restored."""
    saved = [(owner, name, owner.__dict__[name]) for owner, name, _ in members]
    variables = {name: os.environ.get(name) for name, _ in environment}
    try:
        os.environ.update(environment)
        for owner, name, value in members:
            setattr(owner, name, value)
        _exchange(function, pairs)
        yield
    finally:
        _exchange(function, [(new, old) for old, new in pairs])
        for owner, name, value in saved:
            setattr(owner, name, value)
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value



def _refill(container, content):
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)


def _plain_object(value):
    """Whether a value is an object such as a config, whose attributes a function
    may change."""
    return hasattr(value, "__dict__") and not isinstance(
        value, (nn.Module, torch.Tensor, type, types.ModuleType,
                types.FunctionType, types.MethodType))


class ModelState:
    """The attributes, children, hooks and parameters of a model, without copies
    of tensors' data."""

    def __init__(self, model):
        self.objects = {}
        self.tensors = []
        self.containers = []
        for module in model.modules():
            self._add(module)
            for value in list(vars(module).values()):
                if _plain_object(value) and id(value) not in self.objects:
                    self._add(value)
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            self.tensors.append((name, tensor, tensor.data, tensor.requires_grad,
                                 tensor._version))

    def _add(self, thing):
        attributes = dict(vars(thing))
        self.objects[id(thing)] = (thing, type(thing), attributes)
        self.containers += [(v, v.copy()) for v in attributes.values()
                            if isinstance(v, CONTAINERS)]

    def restore(self):
        """Restores everything; returns the names of tensors whose data the
        function overwrote, which cannot be restored."""
        for thing, kind, attributes in self.objects.values():
            if type(thing) is not kind:
                thing.__class__ = kind
            vars(thing).clear()
            vars(thing).update(attributes)
        for container, content in self.containers:
            _refill(container, content)
        overwritten = []
        for name, tensor, data, requires_grad, version in self.tensors:
            if tensor._version != version:
                overwritten.append(name)
            if not _same_data(tensor, data):
                tensor.data = data
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)
        return overwritten


def _same_data(tensor, data):
    if (tensor.dtype, tensor.device, tensor.shape) != \
            (data.dtype, data.device, data.shape):
        return False
    return tensor.device.type == "meta" or tensor.data_ptr() == data.data_ptr()
