"""PDL's functions in torch, as docs/pdl.md defines them. verify.py runs the written
file with them; rotary.py and pattern_attention.py evaluate parts of a body."""

import math
import operator

import torch
import torch.nn.functional as F

from ..ir.body import Value
from . import experts

# ---- rotary embeddings -----------------------------------------------------


def yarn_bound(rotations, d, theta, original):
    """The index of the pair that makes these rotations in the original context."""
    return d * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))


def frequencies(d, theta, scaling=None):
    """The frequency of each pair, and the factor of cosines and sines."""
    pair = torch.arange(d // 2, dtype=torch.float64)
    plain = theta ** (-2 * pair / d)
    if not scaling:
        return plain, 1.0
    kind, factor, *bounds = scaling
    if kind == "linear":
        return plain / factor, 1.0
    low, high, original = bounds
    if kind == "llama3":
        kept = ((plain * original / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return plain * (kept + (1 - kept) / factor), 1.0
    first, last = (yarn_bound(x, d, theta, original) for x in (high, low))
    if kind == "yarn":
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, d - 1)
    kept = (1 - (pair - first) / (last - first if last > first else 0.001)).clamp(0, 1)
    return plain * (kept + (1 - kept) / factor), 0.1 * math.log(factor) + 1


def rope(x, theta=10000.0, style=None, scaling=None):
    """x [batch, seq, heads, d]."""
    _, s, _, d = x.shape
    rate, magnitude = frequencies(d, theta, scaling)
    angle = torch.outer(torch.arange(s, dtype=torch.float64), rate)
    cos, sin = ((magnitude * f(angle)).to(x.dtype)[:, None] for f in (torch.cos, torch.sin))
    if style == "half":
        a, b = x[..., :d // 2], x[..., d // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


# ---- attention and losses --------------------------------------------------


def attention(q, k, v, causal=False, scale=None, dropout=0.0, window=None, softcap=None,
              padding=None, bias=None, sinks=None):
    far = torch.arange(q.shape[1])[:, None] - torch.arange(k.shape[1])[None]
    pairs = torch.ones_like(far).float()
    if causal:
        pairs = pairs * (far >= 0)
    if window:
        pairs = pairs * (far.abs() < window)
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    if padding is None and bias is None and softcap is None and sinks is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=pairs.bool(),
                                              scale=scale).transpose(1, 2) / (1 - dropout)
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias
    keys = torch.ones(1) if padding is None else padding[:, None, None].float()
    allowed = (pairs * keys * (scores >= -1e30)).bool()
    scores = torch.where(allowed, scores, -math.inf)
    if sinks is not None:
        row = sinks[:, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, row), -1)
    weights = scores.softmax(-1)[..., :k.shape[2]].nan_to_num(0) / (1 - dropout)
    return (weights @ v).transpose(1, 2)


IGNORED = -100  # the label of a token without a loss


def cross_entropy(x, labels, ignore_index=IGNORED, reduction="mean", label_smoothing=0.0):
    loss = F.cross_entropy(x.flatten(0, -2), labels.flatten(), ignore_index=ignore_index,
                           reduction=reduction or "none", label_smoothing=label_smoothing)
    return loss if reduction else loss.reshape(labels.shape)


# ---- all functions ---------------------------------------------------------


class Reduction:
    """A function, and the word of reduction=sum or mean."""

    def __init__(self, function, word):
        self.function, self.word = function, word

    def __call__(self, x, dim=None, keep=False):
        dims = tuple(range(x.dim())) if dim is None else dim
        return self.function(x.float(), dim=dims, keepdim=keep)

    def __eq__(self, other):
        return other == self.word

    __hash__ = None


def split(x, n, dim=-1):
    return x.split([int(i) for i in n] if isinstance(n, tuple) else x.shape[dim] // int(n), dim)


def where(c, x, y):
    x, y = (torch.as_tensor(v, dtype=torch.float32) if not isinstance(v, torch.Tensor) else v
            for v in (x, y))
    return torch.where((c != 0).bool(), x, y)


def either(function):
    """A function of two tensors, or a tensor and a number."""
    return lambda x, y: function(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(
        y, dtype=torch.float32))


class Tanh:
    """The function, and the word of approximate=tanh."""

    def __call__(self, x):
        return torch.tanh(x)


def whole(shape):
    return [int(x) for x in shape]


def count(x, dim=None):
    dims = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    return math.prod(x.shape[i] for i in dims)


def ints(x):
    return [int(i) for i in x] if isinstance(x, tuple) else int(x)


def pad(x, before, after, dim=-1, value=0.0):
    widths = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [int(before), int(after)]
    return F.pad(x, widths, value=value)


def convolution(function):
    def apply(x, w, **how):
        return function(x, w, **{k: ints(v) for k, v in how.items()})
    return apply


def pool(function):
    def apply(x, kernel, stride=None, padding=0):
        return function(x, ints(kernel), None if stride is None else ints(stride),
                        ints(padding))
    return apply


def linear_recurrence(a, b, dim=-1):
    states = [b.select(dim, 0)]
    for i in range(1, b.shape[dim]):
        states.append(a.select(dim, i) * states[-1] + b.select(dim, i))
    return torch.stack(states, dim)


def sort(x, descending=False):
    return tuple(x.sort(dim=-1, descending=bool(descending), stable=True))


def topk(x, k, largest=True):
    return tuple(v[..., :int(k)] for v in sort(x, largest))


def random(*x):
    return torch.rand_like(*x) if isinstance(x[0], torch.Tensor) else torch.rand(whole(x))


BUILTINS = {
    **experts.FUNCTIONS,
    "conv1d": convolution(F.conv1d), "conv2d": convolution(F.conv2d),
    "max_pool2d": pool(F.max_pool2d), "avg_pool2d": pool(F.avg_pool2d),
    "argmax": lambda x, dim=-1: x.argmax(dim).float(),
    "topk": topk, "argsort": lambda x, descending=False: sort(x, descending)[1],
    "sort": sort, "linear_recurrence": linear_recurrence,
    "cumsum": lambda x, dim=-1: x.cumsum(dim), "gather": lambda x, ids: x.gather(-1, ids),
    "scatter_add": lambda x, ids, values: x.scatter_add(-1, ids, values),
    "true": True, "false": False, "none": None, "half": "half",
    "sum": Reduction(torch.sum, "sum"), "mean": Reduction(torch.mean, "mean"),
    "max": Reduction(torch.amax, "max"), "rope": rope, "attention": attention,
    "split": split, "where": where, "tanh": Tanh(), "silu": F.silu, "relu": F.relu,
    "softplus": F.softplus, "count": count, "arange": lambda n: torch.arange(int(n)).float(),
    "size": lambda x, dim: x.shape[dim], "exp": torch.exp,
    "log": lambda x: x.log() if isinstance(x, torch.Tensor) else math.log(x),
    "gelu": lambda x, approximate=None: F.gelu(x, approximate="tanh" if approximate else "none"),
    "sqrt": lambda x: x.sqrt() if isinstance(x, torch.Tensor) else math.sqrt(x),
    "rsqrt": torch.rsqrt, "sigmoid": torch.sigmoid, "sin": torch.sin,
    "cos": torch.cos, "abs": torch.abs, "erf": torch.erf, "recip": torch.reciprocal,
    "square": torch.square, "log1p": torch.log1p, "expm1": torch.expm1,
    "maximum": either(torch.maximum), "minimum": either(torch.minimum),
    "int": lambda x: x.trunc().long(), "pad": pad,
    "detach": lambda x: x.detach(), "float": lambda x: x.float(), "mse_loss": F.mse_loss,
    "cross_entropy": lambda *x, **how: cross_entropy(*x, **{
        k: getattr(v, "word", v) for k, v in how.items()}),
    "dropout": lambda x, p, dim=None: x / (1 - p), "drop_path": lambda x, p: x / (1 - p),
    "random": random, "floor": torch.floor,
    "clamp": lambda x, **bounds: x.clamp(**bounds),
    "reshape": lambda x, *shape: x.reshape(whole(shape)),
    "broadcast": lambda x, *shape: x.expand(whole(shape)),
    "transpose": lambda x, i, j: x.transpose(i, j),
    "unsqueeze": lambda x, i: x.unsqueeze(i), "squeeze": lambda x, i: x.squeeze(i),
    "heads": lambda x, n: x.unflatten(-1, (int(n), -1)),
    "merge_heads": lambda x: x.flatten(-2),
    "slice": lambda x, start, size, dim=-1, step=1: x.index_select(
        dim, int(start) + int(step) * torch.arange(int(size))),
    "select": lambda x, i, dim=0: x.select(dim, int(i)),
    "roll": lambda x, shift, dim=-1: x.roll(int(shift), dim),
    "flip": lambda x, dim=-1: x.flip(dim),
    "concat": lambda *x, dim=-1: torch.cat(x, dim),
    "softmax": lambda x, dim=-1: x.softmax(dim),
    "log_softmax": lambda x, dim=-1: x.log_softmax(dim),
    "logsumexp": lambda x, dim=-1, keep=False: x.logsumexp(dim, keep),
    "embedding": lambda table, ids: F.embedding(ids, table),
    "onehot": lambda ids, n: F.one_hot(ids, int(n)).float(),
    "einsum": lambda form, *x: torch.einsum(form.replace(" ", ""), *x),
}

SIGNS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "matmul": operator.matmul, "pow": operator.pow, "neg": operator.neg, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "view_as_complex": torch.view_as_complex,
    "view_as_real": torch.view_as_real,
}


def evaluate(x, known):
    """The tensor of a value. `known`: tensors by value, which gains the results."""
    if isinstance(x, (tuple, list)):
        return type(x)(evaluate(y, known) for y in x)
    if not isinstance(x, Value):
        return x
    if x.const is not None:
        return x.const
    if x not in known:
        s = x.stmt
        function = SIGNS.get(s.op) or BUILTINS[s.op]
        made = function(*[evaluate(a, known) for a in s.args],
                        **{k: evaluate(a, known) for k, a in s.named.items()})
        known.update(zip(s.outs, made if isinstance(made, (tuple, list)) else [made]))
    return known[x]
