"""Recognises rotary embeddings.

    x * cos + rotate_half(x) * sin                rope(x, theta, style=half)
    view_as_real(view_as_complex(x) * freqs)      rope(x, theta)
    cat(x0 * cos - x1 * sin, x1 * cos + x0 * sin), with x0 = x[..., 0::2], x1 = x[..., 1::2]
                                                  the same, and its pairs taken apart

The statements from a tensor x to a result are a rotary embedding if they compute
one, in whatever way they are written: they run on a tensor that shows the table of
cosines and sines, the frequencies in the table are compared with those of PDL's
rope, and the results with those of rope for random numbers.
"""

import math

import torch

from ..ir.literals import Word
from ..ir.rewriter import cuts, has_table
from ..operators.reference import evaluate, frequencies, rope

USUAL = [10000.0, 500000.0, 1000000.0]
NEAR = 3e-6  # relative error of frequencies that were computed in f32


# The pairs of what is rotated, and of the result. DeepSeek's are `apart`.
STYLES = {"half": ("half", "half"), "interleaved": ("interleaved", "interleaved"),
          "apart": ("interleaved", "half")}


def places(kind, d):
    """Where the first and the second number of each pair are."""
    if kind == "half":
        return slice(0, d // 2), slice(d // 2, None)
    return slice(0, None, 2), slice(1, None, 2)


def rotated(x, theta, style, scaling):
    """rope of a style, those with other places of the result's pairs included."""
    if style != "apart":
        return rope(x, theta, style, scaling)
    y = rope(x, theta, None, scaling)
    return torch.cat((y[..., 0::2], y[..., 1::2]), -1)


def tables(run, shape, style):
    """(cosines, sines) [positions, pairs] of a rotation `run` of [b, s, h, d], or None.
    The first number of each pair is 1 and the second 0, so that the pair becomes
    (cos, sin)."""
    x = torch.zeros(shape)
    given, made = STYLES[style]
    x[..., places(given, shape[-1])[0]] = 1
    y = run(x)
    if y.shape != x.shape or not bool((y == y[:1, :, :1]).all()):
        return None
    first, second = places(made, shape[-1])
    return y[0, :, 0, first].double(), y[0, :, 0, second].double()


def rates_of(cos, sin):
    """(frequencies, magnitude) of a table whose row p has the angles p * frequency."""
    if cos.shape[0] < 2 or not bool((sin[0].abs() < 1e-6).all()):
        return None
    magnitude = float(cos[0, 0])
    if magnitude <= 0:
        return None
    rates = torch.atan2(sin[1], cos[1])
    at = torch.arange(len(cos), dtype=torch.float64)[:, None]
    slack = (1e-5 + 4e-7 * at) * magnitude
    good = ((magnitude * torch.cos(at * rates) - cos).abs() < slack) & \
        ((magnitude * torch.sin(at * rates) - sin).abs() < slack)
    return (rates, magnitude) if bool(good.all()) else None


def bases(rates, numbers):
    """Candidates for theta: the model's numbers, what the frequencies say, and usual
    ones. Frequencies that are not scaled give it from the last pair."""
    yield from (float(x) for name, x in numbers if x > 1 and ("theta" in name or "base" in name))
    n = len(rates)
    if n > 1 and 0 < rates[-1] < rates[0]:
        exact = float((rates[-1] / rates[0]) ** (-n / (n - 1)))
        for digits in range(1, 8):
            yield float(f"{exact:.{digits}g}")
    yield from USUAL
    yield from (float(x) for _, x in numbers if x > 1)


def scalings(rates, numbers):
    """Candidates for the scaling of rope. Its numbers have the names of transformers'
    rope_parameters, or are those of Llama 3.1 and YaRN."""
    yield None
    if 0 < rates[0] < 1:
        factor = 1 / float(rates[0])
        for digits in range(1, 7):
            yield ("linear", float(f"{factor:.{digits}g}"))

    def named(*names, usual=()):
        found = [float(x) for name, x in numbers if name in names]
        return list(dict.fromkeys([*found, *usual]))

    for factor in named("factor", "scale_factor", "scaling_factor", usual=(8.0, 32.0)):
        for original in named("original_max_position_embeddings", "old_context_len",
                              "max_position_embeddings", usual=(8192.0,)):
            if original != int(original) or factor <= 1:
                continue
            for low in named("low_freq_factor", usual=(1.0,)):
                for high in named("high_freq_factor", usual=(4.0,)):
                    if low < high:
                        yield ("llama3", factor, low, high, int(original))
            for low in named("beta_slow", usual=(1.0,)):
                for high in named("beta_fast", usual=(32.0,)):
                    if low < high:
                        yield ("yarn", factor, low, high, int(original))
                        yield ("yarn_exact", factor, low, high, int(original))


def describe(cos, sin, numbers):
    """(theta, scaling, factor of the result) of a table, or None."""
    found = rates_of(cos, sin)
    if not found:
        return None
    rates, magnitude = found
    if len(rates) == 1 and abs(float(rates[0]) - 1) < NEAR:
        return next(bases(rates, numbers), USUAL[0]), None, magnitude
    for scaling in scalings(rates, numbers):
        for theta in dict.fromkeys(bases(rates, numbers)):
            want, usual = frequencies(2 * len(rates), theta, scaling)
            if bool(((want - rates).abs() <= NEAR * want).all()):
                return theta, scaling, magnitude / usual
    return None


def rotation(end, start, numbers):
    """(style, heads first, theta, scaling, factor) of the rotation that the statements
    from start to end compute, or None."""
    shape = start.shape
    for heads_first in (False, True):
        def run(x):
            y = evaluate(end, {start: x.transpose(1, 2) if heads_first else x})
            return y.transpose(1, 2) if heads_first else y

        b, s, h, d = (shape[0], shape[2], shape[1], shape[3]) if heads_first else shape
        for style in STYLES:
            found = tables(run, (b, s, h, d), style)
            found = found and describe(*found, numbers)
            if not found:
                continue
            theta, scaling, factor = found
            x = torch.randn(b, s, h, d)
            y, want = run(x), factor * rotated(x, theta, style, scaling)
            slack = 1e-5 + 4e-7 * s
            if bool(((y - want).abs() <= slack * want.abs().max()).all()):
                return style, heads_first, theta, scaling, factor
    return None


def rotary(w, s, numbers=()):
    """rope, if a statement ends a rotary embedding of a tensor of the same shape."""
    end = s.outs[0]
    if len(end.shape) != 4 or end.shape[-1] % 2:
        return None
    for start, inside in cuts(w.body, end):
        if start.shape != end.shape or not has_table(inside):
            continue
        try:
            found = rotation(end, start, numbers)
        except (KeyError, TypeError, RuntimeError):  # statements that do not run alone
            continue
        if found:
            return rope_of(w, start, *found)
    return None


def rope_of(w, x, style, heads_first, theta, scaling, factor):
    named = {"style": Word("half")} if style == "half" else {}
    if scaling:
        named["scaling"] = (Word(f'"{scaling[0]}"'), *scaling[1:])
    y = w.flip(x) if heads_first else x
    y = w.make("rope", [y, theta], y.shape, named)
    if style == "apart":
        shape = (*y.shape[:-1], y.shape[-1] // 2)
        y = w.make("concat", [w.make("slice", [y, first, shape[-1]], shape, {"step": 2})
                              for first in (0, 1)], y.shape)
    if not math.isclose(factor, 1, abs_tol=1e-6):
        y = w.make("mul", [y, float(f"{factor:.7g}")], y.shape)
    return w.flip(y) if heads_first else y
