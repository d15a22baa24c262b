"""Runs the written file on the example inputs and compares it with the model.

The forward of each module is PDL text. Its statements are also Python, apart from
braces, so this file translates them line by line and runs them with torch: the
model that is compared is the text, with its names and formals, and not what it
was written from. It runs once for each trace, with the sizes of that trace.
Dropout is left out on both sides.
"""

import re

import torch
import torch.nn.functional as F

from .body import ImportFault, Loop

TOLERANCE = 1e-4


def rope(x, theta=10000.0, style=None):
    """x [batch, seq, heads, d]."""
    _, s, _, d = x.shape
    rate = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.outer(torch.arange(s, dtype=torch.float64), rate)
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    if style == "half":
        a, b = x[..., :d // 2], x[..., d // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def attention(q, k, v, causal=False, scale=None, dropout=0.0, window=None):
    del dropout
    far = torch.arange(q.shape[1])[:, None] - torch.arange(k.shape[1])[None]
    pairs = (far >= 0) if causal else torch.ones_like(far, dtype=torch.bool)
    if window:
        pairs = pairs & (far.abs() < window)
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=pairs, scale=scale).transpose(1, 2)


def cross_entropy(x, labels, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    loss = F.cross_entropy(x.flatten(0, -2), labels.flatten(), ignore_index=ignore_index,
                           reduction=reduction, label_smoothing=label_smoothing)
    return loss.reshape(labels.shape) if reduction == "none" else loss


def reduced(function):
    def apply(x, dim=None, keep=False):
        dims = tuple(range(x.dim())) if dim is None else dim
        return function(x, dim=dims, keepdim=keep)
    return apply


def split(x, n, dim=-1):
    return x.split(list(n) if isinstance(n, tuple) else x.shape[dim] // n, dim)


def clamp(x, **bounds):
    return x.clamp(**bounds)


def where(c, x, y):
    return torch.where(c != 0, torch.as_tensor(x, dtype=torch.float32)
                       if not isinstance(x, torch.Tensor) else x, y)


class Tanh:
    """The function, and the word of approximate=tanh."""

    def __call__(self, x):
        return torch.tanh(x)


BUILTINS = {
    "true": True, "false": False, "none": None, "half": "half", "sum": reduced(torch.sum),
    "mean": reduced(torch.mean), "max": reduced(torch.amax), "rope": rope,
    "attention": attention, "cross_entropy": cross_entropy, "split": split, "clamp": clamp,
    "where": where, "tanh": Tanh(), "silu": F.silu, "relu": F.relu, "softplus": F.softplus,
    "gelu": lambda x, approximate=None: F.gelu(x, approximate="tanh" if approximate else "none"),
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "abs": torch.abs,
    "erf": torch.erf, "recip": torch.reciprocal, "square": torch.square,
    "maximum": torch.maximum, "minimum": torch.minimum, "detach": lambda x: x.detach(),
    "mse_loss": F.mse_loss, "dropout": lambda x, p: x,
    "reshape": lambda x, *shape: x.reshape(whole(shape)),
    "broadcast": lambda x, *shape: x.expand(whole(shape)),
    "transpose": lambda x, i, j: x.transpose(i, j),
    "unsqueeze": lambda x, i: x.unsqueeze(i), "squeeze": lambda x, i: x.squeeze(i),
    "heads": lambda x, n: x.unflatten(-1, (int(n), -1)),
    "merge_heads": lambda x: x.flatten(-2),
    "slice": lambda x, start, size, dim=-1: x.narrow(dim, int(start), int(size)),
    "select": lambda x, i, dim=0: x.select(dim, int(i)),
    "concat": lambda *x, dim=-1: torch.cat(x, dim),
    "softmax": lambda x, dim=-1: x.softmax(dim),
    "log_softmax": lambda x, dim=-1: x.log_softmax(dim),
    "embedding": lambda table, ids: F.embedding(ids, table),
    "einsum": lambda form, *x: torch.einsum(form.replace(" ", ""), *x),
}


def whole(shape):
    return [int(x) for x in shape]


PRELUDE = {
    "Linear": lambda p, args, named: lambda x: F.linear(x, p["weight"], p.get("bias")),
    "Embedding": lambda p, args, named: lambda ids: F.embedding(ids, p["weight"]),
    "RMSNorm": lambda p, args, named: lambda x: F.rms_norm(
        x, p["weight"].shape, p["weight"], named["eps"]),
    "LayerNorm": lambda p, args, named: lambda x: F.layer_norm(
        x, p["weight"].shape, p["weight"], p.get("bias"), named["eps"]),
    "Dropout": lambda p, args, named: lambda x: x,
}


def python_of(lines):
    """The Python text of a forward."""
    out, depth = ["def forward(" + ", ".join(argument_names(lines)) + "):"], 1
    for line in joined(lines)[1:-1]:
        text = line.strip()
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


class Run:
    """The modules of a file with the numbers and parameters of one trace."""

    def __init__(self, writer, params, index):
        self.writer, self.params, self.index = writer, params, index

    def value(self, number):
        values = number.values() if hasattr(number, "values") else (number,)
        return values[self.index] if self.index < len(values) else values[0]

    def module(self, body, path=""):
        """The forward of a body, with the parameters below `path`."""
        prefix = f"{path}." if path else ""
        own = {n[len(prefix):]: p for n, p in self.params.items() if n.startswith(prefix)}
        if body.prelude:
            name, args, named = body.prelude
            return PRELUDE[name](own, args, {k: self.value(x) for k, x in named.items()})
        module, formals = self.writer.used[body.path]
        names = {**BUILTINS, **{k: self.value(x) for k, x in self.writer.shared.items()},
                 **{k: self.value(x) for k, x in formals.items()},
                 **{name: own[name] for name in body.params}}
        counts = {s.array: self.value(s.count) for s in body.stmts if isinstance(s, Loop)}
        for name, children in body.children.items():
            if name in counts:
                names[name] = [self.module(children[min(i, len(children) - 1)],
                                           f"{prefix}{name}.{i}") for i in range(counts[name])]
            else:
                names[name] = self.module(children[0], prefix + name)
        exec(python_of(module.lines), names)  # text that this package wrote
        return names["forward"]


def shifted(body, inputs):
    """The inputs of the file: labels that the model shifts are shifted already."""
    return [F.pad(x[..., 1:], (0, 1), value=-100) if getattr(v, "shifted", False) else x
            for v, x in zip(body.inputs, inputs)]


def tensors(x):
    """The tensors of a result, in order."""
    if isinstance(x, torch.Tensor):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else []
    return [t for y in parts for t in tensors(y)]


def verify(writer, found, body):
    """Compares the file with the model in each trace. `found`: [(formal, Sample)];
    `body`: the merged one. Raises ImportFault if the results differ."""
    for index, (formal, sample) in enumerate(found):
        what = f"with {formal} doubled" if formal else "on the example inputs"
        model = sample.model
        was = model.training
        model.eval()
        try:
            with torch.no_grad():
                wanted = tensors(model(*sample.args, **sample.kwargs))
                inputs = [x for x in tensors([sample.args, sample.kwargs])]
                inputs = [inputs[i] for i in sample.used]
                run = Run(writer, dict(model.named_parameters(remove_duplicate=False)), index)
                got = tensors(run.module(body)(*shifted(body, inputs)))
        except Exception as e:  # the text does not run: a fault of the importer
            raise ImportFault([f"the written file does not run {what}: {e}"]) from e
        finally:
            model.train(was)
        for mine, theirs in zip(got, wanted):
            error = float((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1e-6))
            if mine.shape != theirs.shape or not error <= TOLERANCE:
                raise ImportFault([f"the written file computes another result than the model "
                                   f"{what}: relative error {error:.2g}; this is a fault of "
                                   "parc-from-torch"])
