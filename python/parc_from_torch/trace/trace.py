"""Exports a model and rebuilds its modules as bodies.

torch.export gives one flat graph of ATen operators; torch.export.unflatten gives
one graph for each module call. This file evaluates these graphs: operators of
known tensors (masks, tables of angles) are computed, all others become
statements of PDL (operators.py).
"""

import contextlib
import dataclasses
import inspect
import io
import operator
import os
import re
from unittest import mock

import torch
from torch.nn.modules import transformer

from ..ir.body import Body, ImportFault, Stmt, Value, drop_unused, fault
from ..ir.builder import ELSEWHERE, is_index
from ..operators import batch_norms, experts, operators
from ..operators.computed_tables import Source
from . import functional, outputs
from .few_elements import without_elements
from .functional import operator_name


def given_causal(mask, is_causal=None, size=None):
    """In place of nn.Transformer's question whether the elements of a mask are causal,
    which cannot be traced. Without the hint attention uses the mask itself."""
    del mask, size
    return is_causal is True


def export(model, args, kwargs):
    """The exported program. An ImportFault names the line that stops it; torch also
    prints the whole graph then, which is left out."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), batch_norms.stateless(model), \
                outputs.without_objects(model), without_elements(model), \
                experts.as_operators(), \
                mock.patch.object(transformer, "_detect_is_causal_mask", given_causal):
            return torch.export.export(model, args, kwargs, strict=False)
    except Exception as e:  # torch raises many kinds
        line, module = stopped_at(e)
        path = next((n for n, m in model.named_modules() if m is module), "")
        first = str(e).strip().split("\n")[0]
        raise ImportFault([fault(
            line, f"torch.export cannot trace the model: {first}",
            Body(path, type(module or model).__name__),
            "choose branches by sizes and numbers, not by the elements of tensors")]) from e


def is_torch(path):
    return "site-packages/torch/" in path


def stopped_at(error):
    """(file:line, module) of the user's innermost forward among the frames of an error."""
    found = "", None
    at = error.__traceback__
    while at:
        code, own = at.tb_frame.f_code, at.tb_frame.f_locals
        module = own.get(code.co_varnames[0]) if code.co_varnames else None
        if isinstance(module, torch.nn.Module) and not is_torch(code.co_filename):
            found = f"{os.path.basename(code.co_filename)}:{at.tb_lineno}", module
        at = at.tb_next
    return found


def frames_of(node):
    return re.findall(r'File "([^"]+)", line (\d+).*\n\s*(.*)',
                      node.meta.get("stack_trace") or "")


def source_line(node):
    """(file:line of the innermost frame, the text of the line)."""
    for path, line, text in reversed(frames_of(node)):
        if not is_torch(path):
            return f"{os.path.basename(path)}:{line}", text
    return "", ""


def call_line(module, tree):
    """The line of a module's forward that calls the child with this graph."""
    try:
        forward = inspect.unwrap(type(module).forward)
        path = inspect.getsourcefile(forward)
        lines, first = inspect.getsourcelines(forward)
    except (OSError, TypeError):
        return "", ""
    for node in tree.graph.nodes:
        for file, line, text in frames_of(node) if node.op == "call_function" else ():
            if file == path and first <= int(line) < first + len(lines):
                return f"{os.path.basename(file)}:{line}", text
        if node.op == "call_module":
            return call_line(module, tree.get_submodule(node.target))
    return "", ""


class Trace:
    """The bodies of a model by path. `inputs`: the tensors among the example inputs;
    `graphs`: {body: path of its graph in `tree`}; `faults` collects what has no
    counterpart; `program`: what torch.export made, which another Trace may have made."""

    def __init__(self, model, args, kwargs, program=None):
        self.program = program or functional.program(export(model, args, kwargs))
        self.model = model
        self.states = dict(experts.states(model))
        self.params = dict(model.named_parameters(remove_duplicate=False)) | self.states
        self.names = {id(p): n for n, p in self.params.items()}
        self.first_name = {id(p): n for n, p in [*model.named_parameters(), *self.states.items()]}
        self.faults = [fault(source_line(node)[0], f"the forward changes the buffer {name}",
                             Body("", type(model).__name__), "compute it outside of the model")
                       for name, node in functional.changed_buffers(self.program)]
        self.normed = set()  # paths of batch norms in training mode
        self.tree = torch.export.unflatten(self.program)
        self.inputs, self.graphs = [], {}
        self.body = self.top()
        if self.faults:
            raise ImportFault(self.faults)

    def top(self):
        """The body of the model. None and numbers among the example inputs are part of it."""
        given = []
        for node in self.tree.graph.nodes:
            if node.op == "placeholder":
                x = node.meta.get("val")
                if isinstance(x, torch.Tensor):
                    x = Value(tuple(x.shape), x.dtype, node.name, kind="input")
                    self.inputs.append(x)
                given.append(x)
        return self.module("", self.tree, given)

    def module(self, path, tree, inputs):
        """Evaluates the graph of a module. `inputs`: values of the caller; known
        ones do not become inputs."""
        own = self.model.get_submodule(path)
        if batch_norms.is_running(own):
            return self.batch_norm(path, own, inputs[0])
        body = Body(path, type(own).__name__)
        env, given = {}, iter(inputs)
        for node in tree.graph.nodes:
            if node.op == "placeholder":
                env[node] = self.placeholder(body, node, next(given))
            elif node.op == "get_attr":
                env[node] = self.attribute(body, path, tree, node.target)
            elif node.op == "call_module":
                env[node] = self.call(body, path, tree, node, env)
            elif node.op == "call_function":
                env[node] = self.function(body, path, node, env)
            elif node.op == "output":
                out = lookup(env, node.args[0])
                body.outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        body.children = in_order(own, body.children)
        return body

    def batch_norm(self, path, own, given):
        """The body of a batch norm, which may change its statistics once."""
        if path in self.normed:
            self.faults.append(fault("", "a step calls this batch norm more than once",
                                     Body(path, type(own).__name__),
                                     "give each call a module of its own"))
        self.normed.add(path)
        return batch_norms.body_of(path, own, given)

    @staticmethod
    def placeholder(body, node, value):
        if not isinstance(value, Value) or value.const is not None:
            return value
        own = Value(value.shape, value.dtype, node.name, kind="input",
                    indexed=is_looked_up(node))
        body.inputs.append(own)
        own.caller = value
        return own

    def attribute(self, body, path, tree, target):
        x = tree
        for part in target.split("."):
            x = getattr(x, part)
        full = f"{path}.{target}" if path else target
        if full in self.params:
            own = Value(tuple(x.shape), x.dtype, target, kind="param")
            if target not in body.params:
                body.params[target] = own
            return body.params[target]
        return Value(tuple(x.shape), x.dtype, target, const=x.detach(), kind="const")

    def call(self, body, path, tree, node, env):
        sub = tree.get_submodule(node.target)
        plain = self.first_child(path, node.target.split("@")[0])
        full = f"{path}.{plain}" if path else plain
        given = [lookup(env, a) for a in node.args] + \
                [lookup(env, a) for a in node.kwargs.values()]
        child = self.module(full, sub, given)
        self.graphs[child] = next(p for p, m in self.tree.named_modules() if m is sub)
        line, text = call_line(self.model.get_submodule(path), sub)
        outs = [v if v.const is not None else Value(v.shape, v.dtype, node.name)
                for v in child.outputs if isinstance(v, Value)]
        made = [v for v in outs if v.const is None]
        child.outputs = [v for v in child.outputs if isinstance(v, Value) and v.const is None]
        if made:
            body.children.setdefault(plain, []).append(child)
            stmt = Stmt("call", [passed(body, v, line) for v in child.inputs], {}, made, line,
                        text, plain, child)
            for v in made:
                v.stmt = stmt
            body.stmts.append(stmt)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def first_child(self, path, name):
        """The first name of a child that its module has under several names."""
        module = self.model.get_submodule(path)
        own = module.get_submodule(name)
        return next(n for n, m in module.named_modules() if m is own)

    def function(self, body, path, node, env):
        args = [lookup(env, a) for a in node.args]
        named = {k: lookup(env, v) for k, v in node.kwargs.items()}
        if node.target is operator.getitem:
            return args[0][args[1]]
        if known(args) and known(named.values()) and not is_random(node, args, named):
            return fold(node, args, named)
        line, text = source_line(node)
        try:
            out, stmts = operators.convert(operator_name(node.target), node, args, named)
        except Exception as e:  # Unsupported, or arguments that a handler does not take
            self.faults.append(fault(line, str(e), body, getattr(e, "remedy", ELSEWHERE)))
            out, stmts = operators.unknown(node), []
        for s in stmts:
            s.line, s.text = line, text
            body.stmts.append(s)
        return out


def is_looked_up(node):
    """Whether a module looks up rows of a table at the integers of an input."""
    return any(str(user.target).startswith("aten.embedding.") and user.args[1] is node
               for user in node.users)


def passed(body, own, line):
    """What the caller passes for an input of a module."""
    if own.indexed and not is_index(own.caller):
        x = Value(own.shape, own.dtype, own.name)
        x.stmt = Stmt("int", [own.caller], {}, [x], line)
        body.stmts.append(x.stmt)
        own.caller = x
    return own.caller


def in_order(module, children):
    """The children in the order of the constructor."""
    order = {name: i for i, name in enumerate(
        n for n, _ in module.named_modules(remove_duplicate=False))}
    return dict(sorted(children.items(), key=lambda c: order.get(c[0], 0)))


def lookup(env, x):
    if isinstance(x, torch.fx.Node):
        return env[x]
    if isinstance(x, (tuple, list)):
        return type(x)(lookup(env, y) for y in x) if not hasattr(x, "_fields") \
            else tuple(lookup(env, y) for y in x)
    return x


def known(args):
    """Whether all values among the arguments are known."""
    for x in args:
        if isinstance(x, Value) and x.const is None:
            return False
        if isinstance(x, (tuple, list)) and not known(x):
            return False
    return True


def is_random(node, args, named):
    """Whether two evaluations of an operator differ."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    bound = {a.name: x for a, x in zip(node.target._schema.arguments, args)} | named
    return bool(bound.get("dropout_p", bound.get("p", 1))) and bound.get("train") is not False


def fold(node, args, named):
    """The value of an operator of known tensors."""
    def real(x):
        if isinstance(x, Value):
            return x.const
        if isinstance(x, (tuple, list)):
            return type(x)(real(y) for y in x)
        return x

    out = node.target(*[real(x) for x in args], **{k: real(v) for k, v in named.items()})
    source = Source(operators.convert, operator_name(node.target), node, args, named,
                    *source_line(node))

    def wrap(t, source):
        if isinstance(t, torch.Tensor):
            return Value(tuple(t.shape), t.dtype, const=t, kind="const", source=source)
        if isinstance(t, (tuple, list)):
            return tuple(wrap(y, dataclasses.replace(source, index=i)) for i, y in enumerate(t))
        return t

    return wrap(out, source)


def bodies(body):
    """A body and those below it, in the order of their paths."""
    yield body
    for calls in body.children.values():
        for child in calls:
            yield from bodies(child)


__all__ = ["Trace", "bodies", "drop_unused"]
