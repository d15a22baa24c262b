"""The names of the arguments that the inputs of traced modules are.

torch.export gives a module the tensors that it reads, in the order in which it reads
them. The model and its traced graph run once: an input of the graph's module is the
argument of the model's module that has the same elements.
"""

import contextlib
import inspect

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..ir.names import ascii_name
from .example import tensors
from .keep_all import KeepAll


def tensors_of(name, x):
    """(name, tensor) of an argument, or of the parts of a tuple."""
    if isinstance(x, torch.Tensor):
        yield name, x
    elif isinstance(x, (tuple, list)):
        for i, y in enumerate(x):
            yield from tensors_of(f"{name}_{i}", y)


def arguments_of(module, args, kwargs):
    """[(name, tensor)] of a call of a module."""
    try:
        bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    except TypeError:
        return []
    return [pair for name, x in list(bound.arguments.items())[1:]
            for pair in tensors_of(name, x)]


def forward_names(module):
    """The names in the file of the arguments of a module's forward."""
    return [ascii_name(n) for n in list(inspect.signature(type(module).forward).parameters)[1:]]


@contextlib.contextmanager
def hooked(modules, note):
    """Calls note(path, module, args, kwargs) before each module's forward."""
    hooks = [m.register_forward_pre_hook(
        lambda module, args, kwargs, path=path: note(path, module, args, kwargs),
        with_kwargs=True) for path, m in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def placeholders(graph):
    return [n for n in graph.nodes if n.op == "placeholder"]


def run(trace):
    """({id of a module: the arguments of each of its calls}, {path of a graph:
    {placeholder: tensor}}). Where the graph does not run, its tensors have shapes only."""
    given, read = {}, {}

    def note_model(path, module, args, kwargs):
        given.setdefault(id(module), []).append(arguments_of(module, args, kwargs))

    def note_graph(path, module, args, kwargs):
        if path not in seen:
            seen.add(path)
            read[path] = dict(zip((n.name for n in placeholders(module.graph)), args))

    seen = set()
    graphs = [(p, m) for p, m in trace.tree.named_modules() if p and hasattr(m, "graph")]
    for path, m in graphs:
        read[path] = {n.name: n.meta.get("val") for n in placeholders(m.graph)}
    state = torch.random.get_rng_state()
    with torch.no_grad(), KeepAll():
        with hooked(trace.model.named_modules(), note_model):
            trace.model(*trace.args, **trace.kwargs)
        # trace.simplify removes copies: a view may then not fit its tensor's strides.
        with hooked(graphs, note_graph), contextlib.suppress(RuntimeError):
            trace.tree(*trace.args, **trace.kwargs)
    torch.random.set_rng_state(state)
    return given, read


def is_argument(x, y):
    """Whether a tensor is an argument. A tensor without elements may be."""
    if x.shape != y.shape or x.dtype != y.dtype or isinstance(x, FakeTensor):
        return x.shape == y.shape and x.dtype == y.dtype
    if x.dtype.is_floating_point:  # the graph may round in another order
        top = float(y.detach().abs().max()) if y.numel() else 0
        return torch.allclose(x, y, rtol=1e-4, atol=1e-5 * top)
    return torch.equal(x, y)


def pair(given, read):
    """{placeholder: name}: each name once, if there is another argument."""
    found = {}
    for placeholder, x in read.items():
        names = [n for n, y in given if isinstance(x, torch.Tensor) and is_argument(x, y)]
        free = [n for n in names if n not in found.values()]
        if names:
            found[placeholder] = (free or names)[0]
    return found


def model_names(trace):
    """{placeholder: name} of the inputs of the model that are arguments themselves."""
    names = {id(x): n for n, x in arguments_of(trace.model, trace.args, trace.kwargs)}
    own = forward_names(trace.model)
    given = zip(trace.inputs, tensors([trace.args, trace.kwargs]))
    return {v.name: names[id(x)] for v, x in given
            if ascii_name(names.get(id(x), "")) in own}


def argument_names(trace):
    """{body: {placeholder: name}} of the modules of a trace: those of the call of the module
    that has the arguments that the graph reads."""
    given, read = run(trace)
    found = {}
    for body, path in trace.graphs.items():
        calls = given.get(id(trace.model.get_submodule(body.path)), [])
        found[body] = max((pair(call, read.get(path, {})) for call in calls), key=len, default={})
    return {**found, trace.body: model_names(trace)}
