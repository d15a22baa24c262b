"""What a policy of selective activation checkpointing saves."""
import functools
from types import SimpleNamespace

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy, create_selective_checkpoint_contexts)

# Operators of each kind of result that PDL's `keep` names. A kind is saved if
# one of its operators is.
KINDS = {
    "attention": ("_scaled_dot_product_flash_attention",
                  "_scaled_dot_product_efficient_attention",
                  "_scaled_dot_product_cudnn_attention",
                  "_scaled_dot_product_flash_attention_for_cpu"),
    "matmul": ("mm", "addmm", "bmm"),
}
SAVED = (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
PROBES = 4      # calls of a policy for each operator: it may count them


def _policy(context_fn, captured):
    """The policy, or list of operators, of a context_fn, or None."""
    if isinstance(context_fn, functools.partial) and \
            context_fn.func is create_selective_checkpoint_contexts:
        return [*context_fn.args, *context_fn.keywords.values()][0]
    captured.clear()
    context_fn()
    return captured[0] if captured else None


def _saved(policy, name):
    """The set of the policy's answers for an operator."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return set()
    if isinstance(policy, (list, tuple, set)):
        return {packet.default in policy or packet in policy}
    context = SimpleNamespace(is_recompute=False)
    return {policy(context, packet.default) in SAVED for _ in range(PROBES)}


def kept_results(context_fn, captured):
    """The kinds of results that a context_fn of checkpoint_wrapper saves, and
    whether it saves each operator's results always or never. `captured` is the
    list to which the replacement of create_selective_checkpoint_contexts adds the
    policies that it is called with."""
    policy = _policy(context_fn, captured) if context_fn is not None else None
    if policy is None:
        return (), True
    kept, exact = [], True
    for kind, names in KINDS.items():
        answers = [_saved(policy, name) for name in names]
        if any(True in a for a in answers):
            kept.append(kind)
        exact = exact and all(len(a) < 2 for a in answers)
    return tuple(kept), exact
