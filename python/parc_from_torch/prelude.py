"""Recognises modules that the prelude of PDL has.

A module with one input, whose parameters have the names and shapes of a module of
the prelude, equals it if both give the same results for random numbers. The
user's class may be torch.nn's or their own.
"""

import torch
import torch.nn.functional as F

from .body import Stmt, Value


DEFAULTS = {("RMSNorm", "eps"): 1.1920928955078125e-7, ("LayerNorm", "eps"): 1e-5}


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
        lambda x: F.linear(x, params["weight"], params.get("bias"))


def rms_norm(body, params):
    if set(params) != {"weight"} or params["weight"].dim() != 1:
        return
    w = params["weight"]
    for eps in numbers(body):
        named = {"eps": eps}
        yield "RMSNorm", [w.shape[0]], named, lambda x, eps=eps: \
            x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * params["weight"]


def layer_norm(body, params):
    if not params.get("weight", torch.ones(1, 1)).dim() == 1 or set(params) - {"weight", "bias"}:
        return
    w = params["weight"]
    for eps in numbers(body):
        named = {"eps": eps}
        if "bias" not in params:
            named["bias"] = False
        yield "LayerNorm", [w.shape[0]], named, lambda x, eps=eps: \
            F.layer_norm(x, w.shape, params["weight"], params.get("bias"), eps)


def run(function, x):
    """The result of a function or module, or None if it wants other inputs."""
    try:
        with torch.no_grad():
            return function(x)
    except Exception:  # user's code may raise anything
        return None


def equal(module, params, inputs, function):
    """Whether a module and a function agree, with random parameters."""
    kept = {n: p.detach().clone() for n, p in params.items()}
    state = torch.random.get_rng_state()
    try:
        with torch.no_grad():
            for p in params.values():
                p.copy_(torch.randn(p.shape))
            mine, theirs = run(module, inputs), run(function, inputs)
        return isinstance(mine, torch.Tensor) and \
            isinstance(theirs, torch.Tensor) and mine.shape == theirs.shape and \
            bool(torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6))
    finally:
        with torch.no_grad():
            for n, p in params.items():
                p.copy_(kept[n])
        torch.random.set_rng_state(state)


FUNCTIONS = [("relu", {}, F.relu), ("silu", {}, F.silu), ("gelu", {}, F.gelu),
             ("gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
             ("softplus", {}, F.softplus)]


def as_function(body, module):
    """Replaces the statements of a module that computes a function of PDL by one."""
    x, y = body.inputs[0], body.outputs[0]
    if len(body.stmts) < 2 or x.shape != y.shape or body.params or body.children:
        return
    for name, named, theirs in FUNCTIONS:
        if equal(module, {}, 3 * torch.randn(x.shape), theirs):
            stmt = Stmt(name, [x], dict(named), [y], body.stmts[-1].line)
            stmt.text = ""
            y.stmt = stmt
            body.stmts = [stmt]
            return


def recognise(body, module):
    """Sets body.prelude to (class, arguments, named arguments) if the prelude has
    the module."""
    if type(module) is torch.nn.Dropout and module.training and module.p:
        body.prelude = ("Dropout", [module.p], {})
        return
    if body.children or len(body.inputs) != 1 or len(body.outputs) != 1:
        return
    params = dict(module.named_parameters(recurse=False))
    x = body.inputs[0]
    if type(module) is torch.nn.Embedding:
        if module.max_norm is None and not module.scale_grad_by_freq:
            body.prelude = ("Embedding", [module.num_embeddings, module.embedding_dim], {})
        return
    if x.dtype is None or not x.dtype.is_floating_point:
        return
    as_function(body, module)
    for kind in (linear, rms_norm, layer_norm):
        for name, args, named, theirs in kind(body, params):
            if equal(module, params, torch.randn(x.shape), theirs):
                body.prelude = (name, args, named)
                return


def inline(parent):
    """Puts the statements of children without parameters and children, such as
    nn.SiLU, in place of their calls. Dropout stays a child."""
    stmts = []
    for s in parent.stmts:
        child = parent.children.get(s.child, [None])[0] if s.op == "call" else None
        if not child or child.prelude or child.children or child.params or \
                len(child.stmts) > 1 or len(child.outputs) != 1:
            stmts.append(s)
            continue
        into = dict(zip(child.inputs, s.args))
        copy_into(parent, child, s, into, stmts)
    parent.stmts = stmts


def copy_into(parent, child, call, into, stmts):
    """Adds the child's statements; later readers of the call read their result."""
    from .body import replace
    for t in child.stmts:
        t.args = [into.get(x, x) if isinstance(x, Value) else x for x in t.args]
        t.line = call.line or t.line
        stmts.append(t)
    result = child.outputs[0]
    result = into.get(result, result)
    replace(parent.stmts, call.outs[0], result)
    parent.outputs = [result if v is call.outs[0] else v for v in parent.outputs]
    del parent.children[call.child]
