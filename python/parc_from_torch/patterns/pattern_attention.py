"""Recognises attention that is written out, and repeated keys and values.

    softmax(q @ transpose(k) * scale + mask) @ v    attention(q, k, v, causal=true)
    softmax(cat((scores, sinks)))[..., :-1] @ v     attention(q, k, v, sinks=sinks)

The statements between the product and the softmax run on numbers, so their form is
free: they must multiply by one number and add a mask that attention has. Other scores, with
a bias or a cap, are read off the statements (pattern_scores.py).
"""

import math

import torch

from ..ir.body import Value
from ..ir.rewriter import cuts, made_by
from ..operators import masks
from ..operators.reference import evaluate
from . import pattern_scores

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


def known_scores(body, x):
    """(q, k, scale, named arguments) of the argument of a softmax with a known mask that
    attention has, or None."""
    for start, inside in [(x, []), *cuts(body, x)]:
        if start.shape != x.shape or not pattern_scores.product_of(start):
            continue
        try:
            with torch.no_grad():
                found = scaled_mask(lambda r, start=start: evaluate(x, {start: r}), x.shape)
        except (KeyError, TypeError, RuntimeError):
            continue
        if not found:
            return None
        scale, allowed = found
        mask = Value(tuple(allowed.shape), allowed.dtype, const=allowed, kind="const")
        how = masks.form_of(mask, *x.shape[2:])
        return None if how is None else (*pattern_scores.product_of(start), scale, how)
    return None


def read_scores(w, x):
    """The same for other masks, biases and caps."""
    found = pattern_scores.read(x)
    return found and (found.q, found.k, found.scale,
                      pattern_scores.arguments_of(w, found, x.shape))


def scaled_mask(run, shape):
    """(scale, allowed [b, h, s, t]) of scores * scale + mask, or None."""
    mask = run(torch.zeros(shape))
    allowed = mask > pattern_scores.HIDDEN
    if mask.shape != torch.Size(shape) or not bool((mask[allowed] == 0).all()):
        return None
    scale = float(run(torch.ones(shape))[allowed].mean())
    for size in (1.0, 1e3):  # large scores show a cap
        x = size * torch.randn(shape)
        if (run(x) - scale * x)[allowed].abs().max() > 1e-5 * size * max(scale, 1e-3):
            return None
    return scale, allowed


def undropped(x):
    """(weights of attention before dropout, its probability, the call of a module)."""
    drop, call = made_by(x, "dropout"), made_by(x, "call")
    if drop and not drop.named:
        return drop.args[0], drop.args[1], None
    if call and call.callee.prelude and call.callee.prelude[0] == "Dropout":
        return call.args[0], call.callee.prelude[1][0], call
    return x, 0, None


def without_shift(w, s):
    """softmax(x - y), with one y for all elements of a row, is softmax(x)."""
    made = made_by(s.args[0], "sub")
    x, y = made.args if made else (None, None)
    if s.named or not isinstance(x, Value) or x.shape != s.args[0].shape or \
            isinstance(y, Value) and y.shape and y.shape[-1] != 1:
        return None
    return w.make("softmax", [x], x.shape)


def sink_of(x, shape):
    """The sinks [h] of which x [b, h, s, 1] has copies, or None."""
    wide = made_by(x, "broadcast")
    x = wide.args[0] if wide else x
    made = made_by(x, "reshape", "unsqueeze")
    sinks = made.args[0] if made else None
    return sinks if sinks is not None and sinks.shape == shape[1:2] and \
        x.shape == (1, shape[1], 1, 1) else None


def without_sinks(weights):
    """(scores, sinks) of weights softmax(concat(scores, sinks)) without the last key, or of
    softmax(scores); (None, None) of others."""
    part = made_by(weights, "slice")
    made = made_by(part.args[0] if part else weights, "softmax")
    if not made or made.named:
        return None, None
    if not part:
        return made.args[0], None
    both = made_by(made.args[0], "concat")
    keys = weights.shape[-1]
    if not both or len(both.args) != 2 or part.args[1:] != [0, keys] or \
            part.named != {"dim": 3} or both.args[0].shape != weights.shape:
        return None, None
    sinks = sink_of(both.args[1], weights.shape)
    return (both.args[0], sinks) if sinks is not None else (None, None)


def eager(w, s):
    """softmax(scores) @ v."""
    weights, v = s.args
    weights, rate, call = undropped(weights)
    scores, sinks = without_sinks(weights)
    if scores is None or len(s.outs[0].shape) != 4 or not isinstance(v, Value):
        return None
    found = known_scores(w.body, scores) or read_scores(w, scores)
    if not found or found[0].shape[:2] != v.shape[:2]:
        return None
    q, k, scale, how = found
    if sinks is not None:
        how["sinks"] = sinks
    if not math.isclose(scale * math.sqrt(q.shape[-1]), 1, rel_tol=1e-6):
        how["scale"] = pattern_scores.plain_number(scale)
    if rate:
        how["dropout"] = rate
    if call:
        w.body.children[call.child].remove(call.callee)
    w.body.children = {n: c for n, c in w.body.children.items() if c}
    q, k, v = w.flip(q), w.flip(k), w.flip(v)
    return w.flip(w.make("attention", [q, k, v], q.shape[:3] + v.shape[3:], how))


PATTERNS = {"attention": [grouped_heads], "matmul": [eager], "softmax": [without_shift]}
