"""Runs the written file on the example inputs and compares it with the model.

The forward of each module is PDL text. Its statements are also Python, apart from
braces, so this file translates them line by line and runs them with torch: the
model that is compared is the text, with its names and formals, and not what it
was written from. It runs once for each trace, with the sizes of that trace.
Dropout keeps and scales all elements on both sides.
"""

import inspect
import os
import re

import torch
import torch.nn.functional as F

from .ir.body import ImportFault
from .operators import experts, random_numbers
from .operators.batch_norms import stateless
from .operators.reference import BUILTINS, IGNORED
from .trace.example import tensors
from .trace.keep_all import KeepAll

TOLERANCE = 1e-4


class Comparisons(torch.overrides.TorchFunctionMode):
    """Comparisons give 1 and 0, as in PDL."""

    NAMES = {"eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__",
             "__gt__", "__ge__"}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        return out.float() if getattr(function, "__name__", "") in self.NAMES else out


def biased(y, bias):
    """The result of a convolution plus a number for each channel."""
    return y if bias is None else y + bias.reshape(-1, *[1] * (y.dim() - 2))


PRELUDE = {
    "Linear": lambda p, args, named: lambda x: F.linear(x, p["weight"], p.get("bias")),
    "Embedding": lambda p, args, named: lambda ids: F.embedding(ids, p["weight"]),
    "RMSNorm": lambda p, args, named: lambda x: F.rms_norm(
        x, p["weight"].shape, p["weight"], named["eps"]),
    "LayerNorm": lambda p, args, named: lambda x: F.layer_norm(
        x, p["weight"].shape, p["weight"], p.get("bias"), named["eps"]),
    **{n: lambda p, args, named, f=BUILTINS[n.lower()]: lambda x: biased(
        f(x, p["weight"], **{k: v for k, v in named.items() if k != "bias"}), p.get("bias"))
       for n in ("Conv1d", "Conv2d")},
    "BatchNorm": lambda p, args, named: lambda x: F.batch_norm(
        x, None, None, p.get("weight"), p.get("bias"), training=True, eps=named["eps"]),
    **{n: lambda p, args, named, f=BUILTINS[k]: lambda x: f(x, *args)
       for k, n in random_numbers.MODULES.items()},
}


def python_of(lines, functions):
    """The Python text of a forward. A call of one of the functions of PDL gets another
    name: a local value or a number may have the function's."""
    called = re.compile(rf"(?<![\w.])({'|'.join(functions)})\(")
    out, depth = ["def forward(" + ", ".join(argument_names(lines)) + "):"], 1
    for line in joined(lines)[1:-1]:
        text = called.sub(r"call_\1(", line.strip())
        loop = re.fullmatch(r"for (\w+) in ([\w.]+) \{(.*)", text)
        if text == "}":
            depth -= 1
        elif loop and loop[3].endswith("}"):
            out.append("    " * depth + f"for {loop[1]} in {loop[2]}: {loop[3].strip(' }')}")
        elif loop:
            out.append("    " * depth + f"for {loop[1]} in {loop[2]}:")
            depth += 1
        else:
            out.append("    " * depth + text)
    return "\n".join(out)


def joined(lines):
    """Lines without the breaks inside parentheses."""
    out, open_ = [], 0
    for line in lines:
        if open_ > 0:
            out[-1] += " " + line.strip()
        else:
            out.append(line)
        open_ += sum(line.count(c) for c in "([") - sum(line.count(c) for c in ")]")
    return out


def argument_names(lines):
    head = joined(lines)[0]
    head = head[len("forward("):head.rindex(") {")]
    return re.findall(r"(?:^|, )(\w+)(?=:|,|$)", re.sub(r"\[[^]]*\]|\([^)]*\)", "", head))


class Applied:
    """A module of the file: it is called, and its parameters are read: emb.weight. It
    notes its inputs and results in run.seen, in the order in which modules end."""

    def __init__(self, forward, path, run):
        self.forward, self.path, self.run = forward, path, run

    def __call__(self, *args):
        try:
            result = self.forward(*args)
        except ImportFault:
            raise
        except Exception as e:
            raise ImportFault([f"in {self.path or 'the model'}: {e}"]) from e
        self.run.seen.append((self.path, tensors(args), tensors(result)))
        return result

    def __getattr__(self, name):
        path, params = f"{self.path}.{name}".strip("."), self.run.params
        return params[path] if path in params else Applied(None, path, self.run)


class Run:
    """The modules of a file with the numbers and parameters of one trace."""

    def __init__(self, writer, params, index):
        self.writer, self.params, self.index = writer, params, index
        self.seen = []

    def value(self, number):
        if isinstance(number, tuple):
            return tuple(self.value(x) for x in number)
        values = number.values() if hasattr(number, "values") else (number,)
        return values[self.index] if self.index < len(values) else values[0]

    def module(self, body, path=""):
        return Applied(self.forward(body, path), path, self)

    def forward(self, body, path):
        """The forward of a body, with the parameters below `path`."""
        prefix = f"{path}." if path else ""
        own = {n[len(prefix):]: p for n, p in self.params.items() if n.startswith(prefix)}
        if body.prelude:
            name, args, named = body.prelude
            return PRELUDE[name](own, [self.value(x) for x in args], {k: self.value(x) for k, x in named.items()})
        module, formals = self.writer.used[body.path]
        names = {**BUILTINS, **{f"call_{k}": f for k, f in BUILTINS.items()},
                 **{k: self.value(x) for k, x in self.writer.shared.items()},
                 **{k: self.value(x) for k, x in formals.items()},
                 **{shown: own[name] for name, shown in module.params.items()}}
        for name, calls in body.children.items():
            count = module.count(name)
            names[module.children[name]] = self.module(calls[0], prefix + name) \
                if count is None else [self.module(calls[0], f"{prefix}{name}.{i}")
                                       for i in range(self.value(count))]
        loops = [element for s in module.lines for element in re.findall(r"for (\w+) in", s)]
        functions = BUILTINS.keys() - {*module.children.values(), *loops}
        exec(python_of(module.lines, functions), names)  # text that this package wrote
        return names["forward"]


def shifted(body, inputs):
    """The inputs of the file: labels that the model shifts are shifted already."""
    return [F.pad(x[..., 1:], (0, 1), value=IGNORED) if v.shifted else x
            for v, x in zip(body.inputs, inputs)]


def error_of(mine, theirs):
    """The largest difference, relative to the largest element."""
    if mine.shape != theirs.shape:
        return float("inf")
    if not mine.numel():
        return 0.0
    mine, theirs = mine.detach().double(), theirs.detach().double()
    return float((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1e-6))


class Watch:
    """Notes the inputs and results of the model's modules: {path: a pair for each
    call}."""

    def __init__(self, model):
        self.calls = {}
        self.hooks = [m.register_forward_hook(self.note(path), with_kwargs=True)
                      for path, m in model.named_modules()]

    def note(self, path):
        def hook(module, args, kwargs, result):
            self.calls.setdefault(path, []).append((tensors([args, kwargs]), tensors(result)))
        return hook

    def close(self):
        for hook in self.hooks:
            hook.remove()


def close(mine, theirs):
    return error_of(mine, theirs) <= TOLERANCE


def first_difference(model, run, watch):
    """The module whose forward computes the first different result, as text. If the
    inputs of a module differ already, it is the module that calls it."""
    calls = {}
    for path, given, mine in run.seen:
        at = calls[path] = calls.get(path, -1) + 1
        inputs, theirs = (watch.calls.get(path, [])[at:at + 1] or [([], mine)])[0]
        if not path or len(mine) != len(theirs) or all(map(close, mine, theirs)):
            continue
        if all(any(close(x, y) for y in inputs) for x in given):
            return f"the first difference is in the forward of {path} ({class_of(model, path)})"
        parent = path.rpartition(".")[0]
        while isinstance(model.get_submodule(parent), torch.nn.ModuleList):
            parent = parent.rpartition(".")[0]
        return f"the first difference is in the forward of {parent or 'the model'} " \
            f"({class_of(model, parent)}), before it calls {path}"
    return "the first difference is in the forward of the model " \
        f"({class_of(model, '')}), after its modules"


def class_of(model, path):
    cls = type(model.get_submodule(path))
    return f"class {cls.__name__}, {line_of(cls)}"


def line_of(cls):
    try:
        forward = inspect.unwrap(cls.forward)
        path = os.path.basename(inspect.getsourcefile(forward))
        return f"{path}:{inspect.getsourcelines(forward)[1]}"
    except (OSError, TypeError):
        return "unknown line"


def differs(when, reason):
    return ImportFault([f"the written file computes another result than the model {when}: "
                        f"{reason}; this is a fault of parc-from-torch: write that module "
                        "with plainer operators, and report it"])


def gradients(loss, model):
    """{name: gradient} of the parameters that a loss depends on."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if loss.dim() or not loss.requires_grad:
        return {}
    try:
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    except RuntimeError as e:  # for example changes in place of what the gradients need
        raise ImportFault([f"the backward pass of the model fails: {e}"]) from e
    return {n: torch.zeros_like(p) if g is None else g
            for (n, p), g in zip(named.items(), found)}


def compare_gradients(model, mine, theirs):
    """A gradient may be lost although the results agree, for example by detach."""
    mine, theirs = gradients(mine, model), gradients(theirs, model)
    top = max((float(g.abs().max()) for g in theirs.values()), default=0)
    for name, g in theirs.items():
        far = float((mine[name] - g).abs().max())
        if name in mine and not far <= 1e-3 * float(g.abs().max()) + 1e-5 * top:
            path = name.rpartition(".")[0]
            cls = type(model.get_submodule(path)).__name__
            raise differs("in the gradient", f"that of {name} (class {cls}) differs by {far:.2g}")


def compare(writer, sample, body, index, what, with_gradients):
    model, watch = sample.model, Watch(sample.model)
    params = dict(model.named_parameters(remove_duplicate=False)) | dict(experts.states(model))
    run = Run(writer, params, index)
    with torch.enable_grad(), KeepAll(), stateless(model):
        try:
            wanted = tensors(model(*sample.args, **sample.kwargs))
        finally:
            watch.close()
        inputs = tensors([sample.args, sample.kwargs])
        inputs = [inputs[i] for i in sample.used]
        try:
            with Comparisons():
                got = tensors(run.module(body)(*shifted(body, inputs)))
        except ImportFault as e:  # a fault of the importer
            raise ImportFault([f"the written file does not run {what}: {e}; this is a fault "
                               "of parc-from-torch"]) from e
        for mine, theirs in zip(got, wanted):
            error = error_of(mine, theirs)
            if not error <= TOLERANCE:
                raise differs(what, f"relative error {error:.2g}; "
                              f"{first_difference(model, run, watch)}")
        if with_gradients and got:
            compare_gradients(model, got[0], wanted[0])


def verify(writer, found, body):
    """Compares the file with the model in each trace. `found`: [(formal, Sample)]; `body`: the
    merged one. Of a model that was traced with smaller numbers the first trace, with all
    elements, is left out. Raises ImportFault if the results differ."""
    first = sum(formal is None for formal, _ in found) - 1
    for index, (formal, sample) in list(enumerate(found))[first:]:
        what = f"with another {formal}" if formal else "on the example inputs"
        compare(writer, sample, body, index, what, index == first)
