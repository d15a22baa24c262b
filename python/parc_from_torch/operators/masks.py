"""Masks of attention that are known when the model is imported.

A mask [.., s, t] is compared with the forms that PDL's attention has: none,
causal, a window of W keys, or both.
"""

import torch


def allowed(mask):
    """The pairs that the mask allows, [s, t], or None if rows of the batch or
    heads differ, or if it adds other numbers than 0 and very small ones."""
    t = mask.const
    if t.dtype != torch.bool:
        if not t.is_floating_point():
            return None
        low = t <= torch.finfo(t.dtype).min / 2
        if not bool((low | (t == 0)).all()):
            return None
        t = ~low
    t = t.reshape(-1, *t.shape[-2:])
    return t[0] if bool((t == t[0]).all()) else None


def form_of(mask, queries, keys):
    """The arguments of attention for a known mask, as a dict, or None."""
    pairs = allowed(mask)
    if pairs is None:
        return None
    pairs = pairs.expand(queries, keys)
    far = torch.arange(queries)[:, None] - torch.arange(keys)[None, :]
    for is_causal in (False, True):
        base = far >= 0 if is_causal else torch.ones_like(pairs)
        how = {"causal": True} if is_causal else {}
        if bool((pairs == base).all()):
            return how
        window = int((far * pairs).max()) + 1
        if bool((pairs == (base & (far.abs() < window))).all()):
            return {**how, "window": window}
    return None


def describe(mask, queries, keys, causal):
    """The arguments of attention for the mask of torch's attention, or None."""
    if mask is None:
        return {"causal": True} if causal else {}
    return None if mask.const is None else form_of(mask, queries, keys)
