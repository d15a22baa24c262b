"""Recognises attention that is written out, and repeated keys and values.

    softmax(q @ transpose(k) * scale + mask) @ v    attention(q, k, v, causal=true)

The statements between the product and the softmax run on numbers, so their form is
free: they must multiply by one number and add a mask that attention has.
"""

import math

import torch

from . import masks
from .body import Value
from .reference import evaluate
from .rewriter import cuts, made_by

HIDDEN = -1e4  # a mask that adds less than this hides the key


def repeated(x):
    """What reshape(broadcast(unsqueeze(x, 3), ..)) repeats for the heads of a group."""
    merge = made_by(x, "reshape")
    wide = merge and made_by(merge.args[0], "broadcast")
    more = wide and made_by(wide.args[0], "unsqueeze", "reshape")
    x = more.args[0] if more else None
    return x if x is not None and len(x.shape) == 4 and more.outs[0].shape == \
        x.shape[:3] + (1,) + x.shape[3:] else None


def grouped_heads(w, s):
    """Keys and values that were repeated for the heads of a group."""
    args = list(s.args)
    for i in (1, 2):
        args[i] = repeated(args[i]) or args[i]
        turn = made_by(args[i], "transpose")
        merge = turn and made_by(turn.args[0], "reshape")
        wide = merge and made_by(merge.args[0], "broadcast")
        more = wide and made_by(wide.args[0], "unsqueeze", "reshape")
        x = more.args[0] if more else None
        if x is None or len(x.shape) != 4 or turn.args[1:] != [1, 2] or \
                more.outs[0].shape != x.shape[:2] + (1,) + x.shape[2:]:
            continue
        args[i] = w.flip(x)
    if args == s.args or args[1].shape[2] != args[2].shape[2]:
        return None
    return w.make("attention", args, s.outs[0].shape, dict(s.named))


def product_of(x):
    """(q, k), [b, h, s, d] and [b, h, t, d], if a value is q @ transpose(k)."""
    s = made_by(x, "matmul", "einsum")
    if not s or len(x.shape) != 4:
        return None
    if s.op == "einsum":
        return None
    turn = made_by(s.args[1], "transpose")
    if not turn or turn.args[1:] != [2, 3]:
        return None
    return s.args[0], turn.args[0]


def scores_of(body, x):
    """(q, k, scale, allowed pairs) of the argument of a softmax, or None."""
    for start, inside in [(x, []), *cuts(body, x)]:
        if start.shape != x.shape or not product_of(start):
            continue
        try:
            with torch.no_grad():
                found = scaled_mask(lambda r, start=start: evaluate(x, {start: r}), x.shape)
        except (KeyError, TypeError, RuntimeError):
            continue
        return found and (*product_of(start), *found)
    return None


def scaled_mask(run, shape):
    """(scale, allowed [b, h, s, t]) of scores * scale + mask, or None."""
    mask = run(torch.zeros(shape))
    allowed = mask > HIDDEN
    if mask.shape != torch.Size(shape) or not bool((mask[allowed] == 0).all()):
        return None
    scale = float(run(torch.ones(shape))[allowed].mean())
    for size in (1.0, 1e3):  # large scores show a cap
        x = size * torch.randn(shape)
        if (run(x) - scale * x)[allowed].abs().max() > 1e-5 * size * max(scale, 1e-3):
            return None
    return scale, allowed


def plain_number(scale, size):
    """The number of which a scale was rounded, or None for 1 / sqrt(size)."""
    if abs(scale * math.sqrt(size) - 1) < 1e-6:
        return None
    return next(float(f"{scale:.{n}g}") for n in range(1, 9)
                if n == 8 or abs(float(f"{scale:.{n}g}") / scale - 1) < 3e-7)


def undropped(x):
    """(weights of attention before dropout, its probability, the call of a module)."""
    drop, call = made_by(x, "dropout"), made_by(x, "call")
    if drop:
        return drop.args[0], drop.args[1], None
    if call and call.callee.prelude and call.callee.prelude[0] == "Dropout":
        return call.args[0], call.callee.prelude[1][0], call
    return x, 0, None


def eager(w, s):
    """softmax(scores) @ v."""
    weights, v = s.args
    weights, rate, call = undropped(weights)
    made = made_by(weights, "softmax")
    if not made or made.named or len(s.outs[0].shape) != 4 or not isinstance(v, Value):
        return None
    found = scores_of(w.body, made.args[0])
    if not found:
        return None
    q, k, scale, allowed = found
    mask = Value(tuple(allowed.shape), allowed.dtype, const=allowed, kind="const")
    how = masks.form_of(mask, q.shape[2], k.shape[2])
    if how is None or q.shape[:2] != v.shape[:2]:
        return None
    scale = plain_number(scale, q.shape[-1])
    if scale is not None:
        how["scale"] = scale
    if rate:
        how["dropout"] = rate
    if call:
        w.body.children[call.child].remove(call.callee)
    w.body.children = {n: c for n, c in w.body.children.items() if c}
    q, k, v = w.flip(q), w.flip(k), w.flip(v)
    return w.flip(w.make("attention", [q, k, v], q.shape[:3] + v.shape[3:], how))


PATTERNS = {"attention": [grouped_heads], "matmul": [eager]}
