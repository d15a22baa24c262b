"""Recognises modules that the prelude of PDL has.

A module with one input, whose parameters have the names and shapes of a module of
the prelude, equals it if both give the same results and gradients, for random
numbers of several magnitudes. The user's class may be torch.nn's or their own.
"""

import contextlib

import torch
import torch.nn.functional as F

from ..ir.body import Stmt, map_arguments, replace
from ..ir.equality import form_of, plain
from ..operators import random_numbers
from ..operators.convolutions import pair


DEFAULTS = {("RMSNorm", "eps"): 1.1920928955078125e-7, ("LayerNorm", "eps"): 1e-5,
            ("BatchNorm", "eps"): 1e-5, ("BatchNorm", "momentum"): 0.1}


def numbers(body):
    """The floats in a body: candidates for eps."""
    for s in body.stmts:
        for x in [*s.args, *s.named.values()]:
            if isinstance(x, float):
                yield x


def linear(body, params):
    w = params.get("weight")
    if w is None or w.dim() != 2 or set(params) - {"weight", "bias"}:
        return
    named = {} if "bias" in params else {"bias": False}
    yield "Linear", [w.shape[1], w.shape[0]], named, \
        lambda x, weight, bias=None: F.linear(x, weight, bias)


def rms_norm(body, params):
    if set(params) != {"weight"} or params["weight"].dim() != 1:
        return
    for eps in dict.fromkeys(numbers(body)):
        yield "RMSNorm", [params["weight"].shape[0]], {"eps": eps}, \
            lambda x, weight, eps=eps: \
            x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def layer_norm(body, params):
    if set(params) - {"weight", "bias"} or "weight" not in params or params["weight"].dim() != 1:
        return
    shape = params["weight"].shape
    for eps in dict.fromkeys(numbers(body)):
        named = {"eps": eps} if "bias" in params else {"eps": eps, "bias": False}
        yield "LayerNorm", [shape[0]], named, \
            lambda x, weight, bias=None, eps=eps: F.layer_norm(x, shape, weight, bias, eps)


# Small inputs show an eps, large ones a clamp.
MAGNITUDES = (1e-5, 1e-3, 1.0, 3.0, 100.0, 1e4)


def results(function, x, params):
    """The result of a function and its gradients, or None if it wants other inputs."""
    x = x.clone().requires_grad_()
    params = {n: p.clone().requires_grad_() for n, p in params.items()}
    try:
        y = function(x, params)
        weight = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        return [y.detach(), *torch.autograd.grad((y * weight).sum(), [x, *params.values()])]
    except Exception:  # user's code may raise anything
        return None


def close(mine, theirs, far, slack):
    """Whether tensors agree up to a part `far` of each element and `slack` of the
    largest one."""
    near = far * theirs.abs() + slack * theirs.abs().max()
    return mine.shape == theirs.shape and bool(((mine - theirs).abs() <= near).all())


@contextlib.contextmanager
def one_thread():
    """For many operators of small tensors, which wait longer for threads than they run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def agrees(module, params, inputs, function):
    """Whether a module and a function agree, with random parameters."""
    def own(x, values):
        return torch.func.functional_call(module, values, (x,))

    with torch.random.fork_rng(devices=[]), torch.enable_grad(), one_thread():
        values = {n: torch.randn(p.shape) for n, p in params.items()}
        for x in inputs:
            mine = results(own, x, values)
            theirs = results(lambda x, values: function(x, **values), x, values)
            if not mine or not theirs or not close(mine[0], theirs[0], 1e-5, 1e-6) or \
                    not all(close(a, b, 0, 1e-3) for a, b in zip(mine[1:], theirs[1:])):
                return False
        return True


def is_torchs(module, name, named):
    """Whether a module is torch.nn's of this name, as it is there: it needs no comparison."""
    return type(module) is getattr(torch.nn, name, None) and "forward" not in vars(module) and \
        named.get("eps") in (None, getattr(module, "eps", None))


class Comparisons:
    """Remembers which bodies equal which functions: a model has many equal modules, and is
    traced many times."""

    def __init__(self):
        self.known = {}

    def equal(self, body, module, kind, inputs, function):
        """Whether a module equals a function that `kind` names; `inputs` makes its inputs."""
        key = (form_of(body), plain(kind))
        if key not in self.known:
            params = dict(module.named_parameters(recurse=False))
            self.known[key] = agrees(module, params, inputs(), function)
        return self.known[key]


def random_inputs(shape):
    """Inputs of several magnitudes with a row of a few elements of each dim but the last."""
    shape = (*(min(n, 3) for n in shape[:-1]), *shape[-1:])
    with torch.random.fork_rng(devices=[]):
        return [size * torch.randn(shape) for size in MAGNITUDES]


FUNCTIONS = [("relu", {}, F.relu), ("silu", {}, F.silu), ("gelu", {}, F.gelu),
             ("gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
             ("softplus", {}, F.softplus)]


def as_function(body, module, comparisons):
    """Replaces the statements of a module that computes a function of PDL by one."""
    x, y = body.inputs[0], body.outputs[0]
    if len(body.stmts) < 2 or x.shape != y.shape or body.params or body.children:
        return
    for name, named, theirs in FUNCTIONS:
        if comparisons.equal(body, module, (name, named), lambda: random_inputs(x.shape), theirs):
            stmt = Stmt(name, [x], dict(named), [y], body.stmts[-1].line)
            y.stmt = stmt
            body.stmts = [stmt]
            return


CONVOLUTIONS = {torch.nn.Conv1d: "Conv1d", torch.nn.Conv2d: "Conv2d"}


def convolution(body, module):
    """torch.nn's convolutions whose operator PDL has."""
    named = next((s.named for s in body.stmts if s.op in ("conv1d", "conv2d")), None)
    if named is None or module.padding_mode != "zeros":
        return
    named = dict(named, bias=False) if module.bias is None else dict(named)
    body.prelude = (CONVOLUTIONS[type(module)], [module.in_channels, module.out_channels,
                                                 pair(module.kernel_size)], named)


def recognise(body, module, comparisons):
    """Sets body.prelude to (class, arguments, named arguments) if the prelude has
    the module."""
    body.prelude = body.prelude or random_numbers.prelude_of(body)
    if body.prelude or body.children or len(body.inputs) != 1 or len(body.outputs) != 1:
        return
    params = dict(module.named_parameters(recurse=False))
    x = body.inputs[0]
    if type(module) is torch.nn.Embedding:
        if module.max_norm is None and not module.scale_grad_by_freq and \
                module.padding_idx is None and len(body.stmts) == 1:
            body.prelude = ("Embedding", [module.num_embeddings, module.embedding_dim], {})
        return
    if x.dtype is None or not x.dtype.is_floating_point:
        return
    if type(module) in CONVOLUTIONS:
        convolution(body, module)
        return
    as_function(body, module, comparisons)
    for kind in (linear, rms_norm, layer_norm):
        for name, args, named, theirs in kind(body, params):
            if is_torchs(module, name, named) or comparisons.equal(
                    body, module, (name, args, named), lambda: random_inputs(x.shape), theirs):
                body.prelude = (name, args, named)
                return


def inline(parent):
    """Puts the statements of children without parameters and children, such as
    nn.SiLU, in place of their calls. Dropout stays a child."""
    stmts = []
    for s in parent.stmts:
        child = s.callee
        if not child or child.prelude or child.children or child.params or \
                len(child.stmts) > 1 or len(child.outputs) != 1:
            stmts.append(s)
            continue
        into = dict(zip(child.inputs, s.args))
        copy_into(parent, child, s, into, stmts)
    parent.stmts = stmts


def copy_into(parent, child, call, into, stmts):
    """Adds the child's statements; later readers of the call read their result."""
    for t in child.stmts:
        map_arguments(t, lambda v: into.get(v, v))
        t.line, t.text = call.line or t.line, call.text
        stmts.append(t)
    result = child.outputs[0]
    result = into.get(result, result)
    replace(parent.stmts, call.outs[0], result)
    parent.outputs = [result if v is call.outs[0] else v for v in parent.outputs]
    calls = parent.children[call.child]
    calls.remove(child)
    if not calls:
        del parent.children[call.child]
