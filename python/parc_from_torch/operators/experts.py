"""Mixtures of experts of transformers.

A module of experts has several implementations, which loop over the experts that tokens chose,
look up a matrix for each token, or sort the tokens by expert. While the model is traced, the
module calls operators of this file instead, each of which is a function of PDL:

    group_rows, gather_rows, gather_pairs      rows of tokens, sorted by expert
    grouped_matmul, grouped_bias               of each row and its expert
    combine_rows                               the sum of a token's rows

Rows have the dims [1, 1, 1, tokens * choices, …] that they have in PDL. tokens.py gives the
tokens, of which transformers merges batch and sequence, both dims.
"""

import contextlib
import sys
from unittest import mock

import torch


def group_rows(ids, experts):
    """(pair, row, ends, needed) of ids [..., k]: the pair of each row, the row of each pair, and
    where the rows of each expert end."""
    flat = ids.reshape(-1)
    pair = flat.argsort(stable=True)
    row = torch.empty_like(pair)
    row[pair] = torch.arange(len(flat))
    ends = flat.bincount(minlength=experts).cumsum(0)
    return (pair.reshape(1, 1, 1, -1), row.reshape(ids.shape), ends.reshape(1, 1, 1, -1),
            torch.full((1, 1, 1), float(len(flat))))


def gather_rows(x, pair, row):
    """The tokens x [..., d] of the rows."""
    return x.reshape(-1, x.shape[-1])[pair // row.shape[-1]]


def gather_pairs(w, pair, row):
    """The numbers w [..., k] of the rows' pairs."""
    return w.reshape(-1)[pair]


def combine_rows(y, pair, row):
    """For each token the sum of its rows."""
    return y.reshape(-1, y.shape[-1])[row].sum(-2)


def counts(ends):
    """The number of rows of each expert."""
    return ends.reshape(-1).diff(prepend=ends.new_zeros(1))


def grouped_matmul(rows, weight, ends):
    """Each row times the matrix [out, in] of its expert."""
    parts = rows.reshape(-1, rows.shape[-1]).split(counts(ends).tolist())
    made = [x @ w.T for x, w in zip(parts, weight)]
    return torch.cat(made).reshape(*rows.shape[:-1], weight.shape[1])


def grouped_bias(rows, bias, ends):
    """Each row plus the vector of its expert."""
    return rows + bias.repeat_interleave(counts(ends), 0)


FUNCTIONS = {f.__name__: f for f in (group_rows, gather_rows, gather_pairs, combine_rows,
                                     grouped_matmul, grouped_bias)}

# ---- operators of torch, for traces -----------------------------------------

library = torch.library.Library("parc_experts", "DEF")
for schema in ("group_rows(Tensor ids, int experts) -> (Tensor, Tensor, Tensor, Tensor)",
               "gather_rows(Tensor x, Tensor pair, Tensor row) -> Tensor",
               "gather_pairs(Tensor w, Tensor pair, Tensor row) -> Tensor",
               "combine_rows(Tensor y, Tensor pair, Tensor row) -> Tensor",
               "grouped_matmul(Tensor rows, Tensor weight, Tensor ends) -> Tensor",
               "grouped_bias(Tensor rows, Tensor bias, Tensor ends) -> Tensor"):
    library.define(schema)
for name, function in FUNCTIONS.items():
    library.impl(name, function, "CPU")


def like(x, *shape):
    return x.new_empty(shape)


FAKES = {
    "group_rows": lambda ids, experts: (
        like(ids, 1, 1, 1, ids.numel()), torch.empty_like(ids), like(ids, 1, 1, 1, experts),
        torch.empty(1, 1, 1, device=ids.device)),
    "gather_rows": lambda x, pair, row: like(x, *pair.shape, x.shape[-1]),
    "gather_pairs": lambda w, pair, row: like(w, *pair.shape),
    "combine_rows": lambda y, pair, row: like(y, *row.shape[:-1], y.shape[-1]),
    "grouped_matmul": lambda rows, weight, ends: like(rows, *rows.shape[:-1], weight.shape[1]),
    "grouped_bias": lambda rows, bias, ends: torch.empty_like(rows),
}
for name, fake in FAKES.items():
    torch.library.register_fake(f"parc_experts::{name}", fake, lib=library)


def product(self, rows, name, ends):
    """The rows times the matrices of a parameter, plus the vectors of its bias."""
    weight, ops = getattr(self, name), torch.ops.parc_experts
    weight = weight.transpose(1, 2) if self.is_transposed else weight
    y = ops.grouped_matmul(rows, weight, ends)
    return ops.grouped_bias(y, getattr(self, f"{name}_bias"), ends) if self.has_bias else y


def default_gate():
    """The method that most modules of experts have: act_fn(gate) * up."""
    return sys.modules["transformers.integrations.moe"]._default_apply_gate


def forward(self, hidden_states, top_k_index, top_k_weights):
    """The forward of a module of experts (transformers.integrations.moe)."""
    ops = torch.ops.parc_experts
    pair, row, ends, needed = ops.group_rows(top_k_index, self.num_experts)
    rows = ops.gather_rows(hidden_states, pair, row)
    if self.has_gate and type(self)._apply_gate is default_gate():
        gate, up = product(self, rows, "gate_up_proj", ends).chunk(2, dim=-1)
        hidden = self.act_fn(gate) * up
    elif self.has_gate:
        hidden = self._apply_gate(product(self, rows, "gate_up_proj", ends))
    else:
        hidden = self.act_fn(product(self, rows, "up_proj", ends))
    out = product(self, hidden, "down_proj", ends)
    if self.has_post_expert_norm:
        out = self.post_expert_norm(out)
    weights = ops.gather_pairs(top_k_weights, pair, row).unsqueeze(-1)
    return ops.combine_rows(out * weights, pair, row).to(hidden_states.dtype)


@contextlib.contextmanager
def as_operators():
    """Inside the block modules of experts call the operators of this file."""
    moe = sys.modules.get("transformers.integrations.moe")
    if moe is None:
        yield
        return
    with mock.patch.object(moe.ExpertsInterface, "get_interface",
                           lambda *_: forward):
        yield


def states(model):
    """[(name, tensor)] of the buffers of floats in the state dict that modules beside experts
    have: what corrects the scores of a router (DeepSeek V3). They are states of PDL."""
    modules, kept = dict(model.named_modules()), model.state_dict()
    beside = {n.rpartition(".")[0] for n, m in modules.items()
              if n.endswith(".experts") and any(p.dim() == 3 for p in m.parameters(recurse=False))}
    return [(n, x) for n, x in model.named_buffers()
            if n in kept and x.is_floating_point() and
            n.rpartition(".")[0].rpartition(".")[0] in beside]


# ---- their counterparts ----------------------------------------------------


def counterpart(m, args, named):
    if m.name == "group_rows":
        made = m.make(m.name, args, m.shapes(), count=4)
        for v, fake in zip(made, m.node.meta["val"]):
            v.dtype = fake.dtype
        return made
    return m.make(m.name, args, m.shape())


TABLE = {name: counterpart for name in FUNCTIONS}
