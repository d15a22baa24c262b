"""Calls of nn.Sequential.

The elements of an nn.Sequential of equal modules become an array of the module that
calls it (loops.py). Another nn.Sequential is a module of its own, with the children
layer_0, layer_1, …
"""

import torch

from ..ir.body import map_arguments, replace
from ..ir.equality import equal


def inline(parent, model):
    """Puts the calls of an nn.Sequential's equal elements in place of its call."""
    for s in list(parent.stmts):
        if s.callee and type(model.get_submodule(s.callee.path)) is torch.nn.Sequential and \
                is_array(s.callee):
            put(parent, s)


def is_array(body):
    elements = [calls for calls in body.children.values()]
    return len(elements) > 1 and all(len(calls) == 1 for calls in elements) and \
        len(body.stmts) == len(elements) and not body.params and \
        equal([calls[0] for calls in elements])


def put(parent, call):
    name, body = call.child, call.callee
    into = dict(zip(body.inputs, call.args))
    for s in body.stmts:
        map_arguments(s, lambda v: into.get(v, v))
        s.child = f"{name}.{s.child}"
        s.line, s.text = call.line, ""
    body.stmts[-1].text = call.text
    at = parent.stmts.index(call)
    parent.stmts[at:at + 1] = body.stmts
    for old, new in zip(call.outs, body.outputs):
        replace(parent.stmts, old, new)
        parent.outputs = [new if v is old else v for v in parent.outputs]
    children = {}
    for n, calls in parent.children.items():
        if n != name:
            children[n] = calls
            continue
        for inner, own in body.children.items():
            children[f"{name}.{inner}"] = parent.children.get(f"{name}.{inner}", []) + own
        others = [c for c in calls if c is not body]
        if others:
            children[n] = others
    parent.children = children
