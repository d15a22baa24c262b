"""Finds the initializers of parameters from their elements.

    elements near N(0, 0.02²)                     normal(0.02)
    the same, and 0.04 if initializer_range       normal(initializer_range)
    was changed to twice its value
    less if n_layer was changed                   normal(initializer_range / sqrt(2 * n_layer))

The model was built once with another value of each formal, so the scale of a tensor in
these models shows the formals that it depends on. The elements of all layers of an array are
one sample: a standard deviation has a relative error of 1 / sqrt(2 n).
"""

import dataclasses
import math
import re

import torch

from ..ir import literals
from ..ir.formals import Number
from ..ir.names import words_in
from ..trace.few_elements import first_elements

HALVES = (-1.0, -0.5, 0.5, 1.0)  # exponents of a formal in a scale
BOUNDS = (2.0, 2.5, 3.0)  # of truncated normals, in standard deviations


@dataclasses.dataclass
class Distribution:
    """`kind`: zeros, ones, constant, arange, normal, truncated, uniform, range or
    unknown; `scale`: standard deviation or bound, or the first number; `last`: of a
    range the second number, of a truncated normal its bound in deviations; `count`:
    the number of elements; `spread`: their standard deviation; `ratio`: all elements are this
    number times those of the trace that it is compared with, because both draw the same random
    numbers, or 0."""

    kind: str
    scale: float = 0.0
    last: float = 0.0
    count: int = 1
    spread: float = 0.0
    ratio: float = 0.0

    def slack(self):
        """The relative error that the scale may have."""
        if self.kind in ("normal", "truncated"):
            return 4 / (2 * self.count) ** 0.5
        return 6 / self.count if self.kind == "uniform" else 1e-6


def within(k):
    """The part of a normal distribution within k deviations, and the standard
    deviation of that part."""
    inside = math.erf(k / math.sqrt(2))
    density = math.exp(-k * k / 2) / math.sqrt(2 * math.pi)
    return inside, math.sqrt(1 - 2 * k * density / inside)


def distribution(w):
    """The distribution that the elements of a tensor most likely have."""
    w = w.detach().double().reshape(-1)
    first, n = float(w[0]), w.numel()
    if bool((w == first).all()):
        kind = {0.0: "zeros", 1.0: "ones"}.get(first, "constant")
        return Distribution(kind, first, first, n)
    if bool((w == first + torch.arange(n, dtype=torch.float64)).all()):
        return Distribution("arange", first, 0, n)
    w = w[w != 0] if float((w == 0).double().mean()) > 1e-3 else w  # the row of padding
    n = w.numel()
    std, mean, top = float(w.std(False)), float(w.mean()), float(w.abs().max())
    if abs(mean) > 5 * std / n ** 0.5:
        low, high = float(w.min()), float(w.max())
        even = n >= 16 and (high - low) < 3.7 * std
        return Distribution("range" if even else "unknown", low, high, n)
    spread = float(w.square().mean()) ** 0.5
    return dataclasses.replace(likeliest(n, spread, top), spread=spread)


def likeliest(n, std, top):
    """normal, uniform or truncated, of a sample with mean 0. A uniform distribution must be
    e^3 times as likely as the normal one, and a truncated one e^8 times, because the
    largest of a few thousand normal numbers is often as small."""
    best = Distribution("normal", std, 0, n)
    least = -n * (math.log(std) + 0.5 + 0.5 * math.log(2 * math.pi)) + 3
    uniform = -n * math.log(2 * top)
    if uniform > least:
        best, least = Distribution("uniform", top * (n + 1) / n, 0, n), uniform - 5
    for k in BOUNDS:
        inside, narrower = within(k)
        sigma = std / narrower
        if top > k * sigma * (1 + 1 / n ** 0.5):
            continue
        fit = -n * (math.log(sigma) + 0.5 * narrower ** 2 + 0.5 * math.log(2 * math.pi)
                    + math.log(inside))
        if fit > least + 5:
            best, least = Distribution("truncated", sigma, k, n), fit
    return best


def rounded(x, slack):
    """The shortest number within a relative error of x."""
    for digits in range(1, 7):
        short = float(f"{x:.{digits}g}")
        if abs(short - x) <= slack * abs(x):
            return short
    return x


# ---- formals of a scale ----------------------------------------------------


def factor(formals, formal, at):
    """By what a formal was multiplied in trace `at`, one of those with another value."""
    number = formals.get(formal)
    base = getattr(number, "reference", 0)
    return number.other[at][1] / base if base else 1


def powers(found, others, formals):
    """{formal: exponent} of a scale. `others`: [(formal, Distribution with another value of
    that formal)]. One of these must differ from `found`, and all must fit the exponent."""
    changes = {}
    for at, (formal, other) in enumerate(others):
        by = math.log(factor(formals, formal, at))
        if found.spread and other.spread and by:
            slack = 6 * (2 * found.count) ** -0.5 + 6 * (2 * other.count) ** -0.5
            change = math.log(other.spread / found.spread)
            if other.ratio:
                slack, change = 1e-4, math.log(other.ratio)
            changes.setdefault(formal, []).append((by, change, slack))
    exponents = {}
    for formal, own in changes.items():
        if any(abs(change) > slack for _, change, slack in own):
            by, change, slack = max(own, key=lambda c: abs(c[0]) / c[2])
            e = min(HALVES, key=lambda e, x=change / by: abs(e - x))
            near = abs(change - e * by) < 0.2 * abs(by)
            if near and all(abs(change - e * by) < slack for by, change, slack in own):
                exponents[formal] = e
    return exponents


def ratio(sample, reference, name):
    """The number by which all elements of a parameter differ from those of another trace, or 0."""
    p, q = (first_elements(s.params[name]).double() for s in (sample, reference)
            if name in s.params)
    if p.shape != q.shape or bool((q == 0).any()):
        return 0.0
    parts = p / q
    by = float(parts.reshape(-1)[0])
    return by if by > 0 and bool(((parts - by).abs() <= 1e-5 * by).all()) else 0.0


def product(exponents, formals, at):
    """The product of the powers of formals in trace `at`."""
    return math.prod(float(formals[f].values()[at]) ** e for f, e in exponents.items())


def ratio_text(x, slack):
    """(numerator, denominator) of a simple fraction near x, or None."""
    for d in (1, 2, 3, 4, 5, 6, 8, 12, 16):
        n = round(x * d)
        if 0 < n <= 16 and abs(n / d / x - 1) <= slack:
            return n, d
    return None


def joined(factors, number):
    """'2 * a * b', and '1' without factors."""
    words = [str(number)] * (number != 1 or not factors) + factors
    return " * ".join(words)


def scale_text(number, scope):
    """The text of a scale that is a product of powers of formals, or None: for
    example 'initializer_range / sqrt(2 * n_layer)'."""
    if not number.varies():
        return None
    exponents = {}
    for at, (formal, value) in enumerate(number.other):
        if formal and value != number.reference:
            by = factor(scope, formal, at)
            if by == 1:
                return None
            exponents[formal] = round(2 * math.log(value / number.reference) / math.log(by)) / 2
    rest = number.base
    for formal, e in exponents.items():
        rest /= scope[formal].base ** e
    roots = any(e % 1 for e in exponents.values())
    nice = ratio_text(rest ** 2 if roots else rest, 1e-9)
    if not nice:
        return None
    up, down = ([f for f, e in exponents.items() if e == s] for s in (1, -1))
    over, under = ([f for f, e in exponents.items() if e == s] for s in (0.5, -0.5))
    if not roots:
        top, bottom = joined(up, nice[0]), joined(down, nice[1])
        return top if bottom == "1" else f"{top} / ({bottom})" if "*" in bottom else \
            f"{top} / {bottom}"
    text = joined(up, 1) if up else ""
    inside = joined(over, nice[0])
    if over or nice[0] != 1:
        text = f"{text} * sqrt({inside})" if text else f"sqrt({inside})"
    text = text or "1.0"
    if under or nice[1] != 1:
        text += f" / sqrt({joined(under, nice[1])})"
    for f in down:
        text += f" / {f}"
    return text


class Initializers:
    """The initializers of a model. `samples`: [(formal, Sample)] of its traces;
    `arrays`: the paths of arrays; `redrawn`: [{name: parameter}] of the model as it is with
    other seeds; `warnings`: parameters without an initializer."""

    def __init__(self, samples, arrays, redrawn):
        self.samples = samples
        self.arrays = arrays
        self.redrawn = redrawn
        self.warnings = []

    def elements(self, sample, name):
        """(position in its array, tensor) of the parameters that share an initializer:
        those of all elements of an array."""
        pattern, prefix = "", ""
        for part in name.split("."):
            is_element = part.isdigit() and prefix in self.arrays
            prefix = f"{prefix}.{part}".strip(".")
            pattern += r"\." * bool(pattern) + (r"(\d+)" if is_element else re.escape(part))
        found = []
        for other, p in sample.params.items():
            match = re.fullmatch(pattern, other)
            if match and (other == name or match.groups()):
                found.append((int(match.groups()[-1]) if match.groups() else 0,
                              self.pooled(sample, other)))
        return found or [(0, self.pooled(sample, name))]

    def pooled(self, sample, name):
        """The elements of a parameter, in the model as it is with those of other seeds."""
        p = first_elements(sample.params[name])
        more = [own[name] for own in self.redrawn if name in own and own[name].shape == p.shape]
        if sample is not self.samples[0][1] or not more or torch.equal(more[0], p):
            return p
        return torch.cat([x.reshape(-1) for x in (p, *more)])

    def depth(self, elements):
        """The exponent p of a scale that grows with (position + 1) ** p."""
        parts = [(i, distribution(w)) for i, w in elements]
        first = parts[0][1]
        if first.kind not in ("normal", "uniform", "truncated") or len(parts) < 2 or \
                parts[0][0] != 0 or any(d.kind != first.kind for _, d in parts):
            return 0
        errors = {p: max(abs(d.scale / (first.scale * (i + 1) ** p) - 1)
                         for i, d in parts) for p in (0, -0.5, -1)}
        slack = max(2 * d.slack() for _, d in parts)
        return 0 if errors[0] <= slack else min(errors, key=errors.get)

    def found(self, sample, name):
        """(Distribution, depth) of a parameter in one trace."""
        elements = self.elements(sample, name)
        p = self.depth(elements)
        return distribution(torch.cat([(w / (i + 1) ** p).reshape(-1)
                                       for i, w in elements])), p

    def of(self, name):
        """(Distribution, scale as a Number, depth) of a parameter."""
        base, p = self.found(self.samples[0][1], name)
        reference = next((s for f, s in self.samples[1:] if f is None), self.samples[0][1])
        others = [(formal, dataclasses.replace(self.found(sample, name)[0],
                                               ratio=ratio(sample, reference, name)))
                  for formal, sample in self.samples[1:] if name in sample.params]
        if base.kind == "truncated" and any(d.kind == "normal" for _, d in others):
            base = dataclasses.replace(base, kind="normal", scale=base.spread)
        formals = self.samples[0][1].body.formals
        small = [found for formal, found in others if formal is None]
        exponents = powers((small or [base])[0], others, formals)
        slack = base.slack()
        rest = nice_rest(base.scale / product(exponents, formals, 0), slack,
                         any(e % 1 for e in exponents.values()))
        number = Number(rest * product(exponents, formals, 0), tuple(
            (f, rest * product(exponents, formals, at))
            for at, (f, _) in enumerate(self.samples[1:], 1)))
        if base.kind == "unknown":
            self.warnings.append(f"{name}: no initializer has its initial values; the file "
                                 "has a normal distribution")
        return base, number, p

    def is_usual(self, name, kind, scale):
        """Whether a parameter has the initial values of a prelude module, a uniform or a
        normal distribution."""
        elements = self.elements(self.samples[0][1], name)
        if self.depth(elements):
            return False
        w = torch.cat([w.double().reshape(-1) for _, w in elements])
        n, std, top = w.numel(), float(w.square().mean()) ** 0.5, float(w.abs().max())
        if bool((w == w[0]).all()) and n > 1 or abs(float(w.mean())) > 5 * std / n ** 0.5:
            return False
        if kind == "normal":
            return distribution(w).kind == "normal" and abs(std / scale - 1) <= 5 / (2 * n) ** 0.5
        near = abs(std * 3 ** 0.5 / scale - 1) <= 2.3 / n ** 0.5
        return near and (1 - 12 / n) * scale <= top <= scale * (1 + 1e-6)


def nice_rest(x, slack, root):
    """The number that a scale has besides formals: a fraction, or the root of one, or
    the shortest decimal number."""
    fraction = ratio_text(x ** 2 if root else x, 2 * slack if root else slack)
    if root and fraction:
        return (fraction[0] / fraction[1]) ** 0.5
    if fraction and fraction[0] in (1, 2) and abs(x) > 0.05:
        return fraction[0] / fraction[1]
    return rounded(x, slack)


def text_of(found, scale, p):
    """The initializer of a distribution whose scale has a text."""
    depth = f", depth={p}" if p else ""
    if found.kind in ("zeros", "ones"):
        return found.kind
    if found.kind == "uniform":
        minus = f"-{scale}" if re.fullmatch(r"[\w.\x01]+", scale) else f"-({scale})"
        return f"uniform({minus}, {scale}{depth})"
    if found.kind == "truncated" and found.last != 2:
        k = f"{found.last:g}"
        return f"truncated_normal({scale}, -{k} * ({scale}), {k} * ({scale}){depth})"
    if found.kind == "truncated":
        return f"truncated_normal({scale}{depth})"
    return f"normal({scale}{depth})"


def number_of(x):
    return literals.number(float(f"{float(x):.7g}"))


def written(found):
    """The initializer of constant or evenly spread values, or None."""
    if found.kind == "constant":
        return f"uniform({number_of(found.scale)}, {number_of(found.scale)})"
    if found.kind == "arange":
        return f"arange({number_of(found.scale)})"
    if found.kind == "range":
        slack = 3 * (found.last - found.scale) / found.count
        low, high = (nearest(x, slack) for x in (found.scale, found.last))
        return f"uniform({number_of(low)}, {number_of(high)})"
    return None


def nearest(x, slack):
    """The number with the fewest decimals within an absolute error of x."""
    return next((round(x, d) for d in range(8) if abs(round(x, d) - x) <= slack), x)


# ---- the text in a module --------------------------------------------------


def scale_in(module, number, slack=1e-6):
    """The text of a scale in the scope of a module, whose formals gain its names."""
    text = scale_text(number, module.scope)
    if text is None:
        return number_of(rounded(number.base, slack))
    for name in words_in(text):
        if name in module.scope:
            module.formals.setdefault(name, module.scope[name])
    return text


XAVIER = ["# nn.init.xavier_uniform_", "function xavier(fan_in, fan_out) {",
          "    bound = sqrt(6.0 / (fan_in + fan_out))",
          "    return uniform(-bound, bound)", "}"]


def is_xavier(found, sizes):
    """Whether a distribution is that of nn.init.xavier_uniform_ for these sizes."""
    bound = (6 / sum(x.base for x in sizes)) ** 0.5
    return found.kind == "uniform" and abs(found.scale / bound - 1) <= 2 * found.slack()


def initial(initializers, module, name, sizes=(), own=False):
    """The initializer of a parameter, for a text in a module. `sizes`: rows and columns
    of a matrix. The scale of the module's `own` parameters is a formal, because modules
    of a class share the text."""
    found, scale, p = initializers.of(name)
    if len(sizes) == 2 and not p and is_xavier(found, sizes):
        module.writer.functions["xavier"] = XAVIER
        return f"xavier({module.number(sizes[1])}, {module.number(sizes[0])})"
    text = written(found)
    if text:
        return text
    if found.kind in ("zeros", "ones"):
        return found.kind
    if own and scale_text(scale, module.scope) is None:
        hint = "bound" if found.kind == "uniform" else "std"
        return text_of(found, module.own_formal(hint, scale), p)
    return text_of(found, scale_in(module, scale, found.slack()), p)


def prelude_initial(initializers, module, child):
    """The arguments init= and bias_init= of a prelude module, where the values are not
    those that the prelude draws."""
    name, args, named = child.prelude
    path = child.path + "." if child.path else ""
    words = []
    if name in ("Linear", "Embedding", "Conv1d", "Conv2d"):
        sizes = {"Linear": args[::-1], "Embedding": args}.get(name, ())
        width = initializers.samples[0][1].params[f"{path}weight"][0].numel()
        usual = ("normal", 1.0) if name == "Embedding" else ("uniform", width ** -0.5)
        if not initializers.is_usual(f"{path}weight", *usual):
            words.append(f"init={initial(initializers, module, f'{path}weight', sizes)}")
        if name != "Embedding" and named.get("bias") is None and \
                not initializers.is_usual(f"{path}bias", *usual):
            words.append(f"bias_init={initial(initializers, module, f'{path}bias')}")
    elif name in ("RMSNorm", "LayerNorm", "BatchNorm") and "affine" not in named:
        text = initial(initializers, module, f"{path}weight")
        words += [f"init={text}"] if text != "ones" else []
        bias = initializers.samples[0][1].params.get(f"{path}bias")
        if bias is not None and bool(bias.any()):
            initializers.warnings.append(f"{path}bias: the file begins with zeros, as the "
                                         f"bias of the prelude's {name} does")
    return words
