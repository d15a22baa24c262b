#!/usr/bin/env python3
"""The GPT-2 of examples/gpt2.pdl in PyTorch, for parity and for speed.

  gpt2.py losses WEIGHTS.safetensors TEXT STEPS    one loss per line
  gpt2.py record WEIGHTS.safetensors TEXT PROMPT TOKENS
                                                   val_loss and greedy tokens
  gpt2.py bench STEPS [--compile]                  seconds per step, one a line

`losses` trains with the weights that a parc binary exported (--steps 0
--export) on the bytes of TEXT, with the example's AdamW, clipping and
schedule.
"""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from common import batches, read_safetensors, record, train
from speed import seconds


class Block(nn.Module):
    """Attention with GPT-2's c_attn: queries, keys, values in one Linear."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(dim, eps=1e-5)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(dim, 3 * dim),
                                   "c_proj": nn.Linear(dim, dim)})
        self.ln_2 = nn.LayerNorm(dim, eps=1e-5)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(dim, 4 * dim),
                                  "c_proj": nn.Linear(4 * dim, dim)})

    def attention(self, x):
        b, s, dim = x.shape
        q, k, v = (y.view(b, s, self.heads, -1).transpose(1, 2)
                   for y in self.attn["c_attn"](x).split(dim, -1))
        if hasattr(F, "scaled_dot_product_attention"):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            score = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            mask = torch.ones_like(score[0, 0], dtype=torch.bool).tril()
            o = score.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.attn["c_proj"](o.transpose(1, 2).reshape(b, s, dim))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        y = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](y)


class GPT2(nn.Module):
    def __init__(self, vocab, dim, n_layers, n_heads, n_positions):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(n_positions, dim)
        self.h = nn.ModuleList(Block(dim, n_heads) for _ in range(n_layers))
        self.ln_f = nn.LayerNorm(dim, eps=1e-5)

    def logits(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

    def forward(self, tokens, labels):
        return F.cross_entropy(self.logits(tokens).flatten(0, 1),
                               labels.flatten())


def joined(weights):
    """Joins c_attn.q, .k and .v in this order, as GPT-2 stores c_attn."""
    out = {}
    for name, tensor in weights.items():
        if ".c_attn." not in name:
            out[name] = tensor
        elif ".c_attn.q." in name:
            out[name.replace(".q.", ".")] = torch.cat(
                [weights[name.replace(".q.", f".{x}.")] for x in "qkv"])
    return out


BATCH, SEQ = 8, 32


def load(weights):
    model = GPT2(vocab=512, dim=64, n_layers=3, n_heads=4, n_positions=48)
    model.load_state_dict(joined(read_safetensors(weights)))
    return model


def losses(weights, text, steps):
    model = load(weights)
    lr, low, warmup = 6e-4, 6e-5, 4
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.1)

    def rate(step):  # from 0; as a part of lr
        t = step + 1
        if t < warmup:
            return t / warmup
        at = min(1.0, (t - warmup) / (steps - warmup))
        return (low + (lr - low) * (1 + math.cos(math.pi * at)) / 2) / lr
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    train(model, optimizer, batches(text, BATCH, SEQ, steps), 1.0, schedule)


def bench(steps, compiled):
    vocab, batch, seq = 50257, 4, 64
    model = GPT2(vocab, dim=768, n_layers=12, n_heads=12, n_positions=1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4,
                                  betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    seconds(model, optimizer, vocab, batch, seq, steps, compiled)


if __name__ == "__main__":
    torch.manual_seed(1)
    if sys.argv[1:2] == ["losses"] and len(sys.argv) == 5:
        losses(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] == ["record"] and len(sys.argv) == 6:
        record(load(sys.argv[2]), sys.argv[3], BATCH, SEQ, sys.argv[4],
               int(sys.argv[5]))
    elif sys.argv[1:2] == ["bench"] and len(sys.argv) > 2:
        bench(int(sys.argv[2]), "--compile" in sys.argv)
    else:
        sys.exit(__doc__)
