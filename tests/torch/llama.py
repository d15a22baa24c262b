#!/usr/bin/env python3
"""The Llama of examples/llama.pdl in PyTorch, for parity and for speed.

  llama.py losses WEIGHTS.safetensors TEXT STEPS   one loss per line
  llama.py record WEIGHTS.safetensors TEXT PROMPT TOKENS
                                                   val_loss and greedy tokens
  llama.py bench STEPS [--compile]                 seconds per step, one a line
  llama.py about                                   version and matmul library

`losses` trains with the weights that a parc binary exported (--steps 0
--export) on the bytes of TEXT, in the order that the binary takes them, with
the optimizer of the example. tests/torch/llama.losses is its record.
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from common import batches, read_safetensors, record, train
from speed import about, seconds

# Whether attention takes fewer heads of keys than of queries (PyTorch 2.5).
GROUPED = "enable_gqa" in (
    getattr(F, "scaled_dot_product_attention", None).__doc__ or "")


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight


def rope(x, theta):
    """x [batch, seq, heads, head_dim]; pairs (2i, 2i+1) are rotated."""
    _, s, _, d = x.shape
    place = dict(dtype=torch.float32, device=x.device)
    freq = theta ** (-torch.arange(0, d, 2, **place) / d)
    angle = torch.outer(torch.arange(s, **place), freq)
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, hd = c, c["dim"] // c["n_heads"]
        self.wq = nn.Linear(c["dim"], c["n_heads"] * hd, bias=False)
        self.wk = nn.Linear(c["dim"], c["n_kv_heads"] * hd, bias=False)
        self.wv = nn.Linear(c["dim"], c["n_kv_heads"] * hd, bias=False)
        self.wo = nn.Linear(c["n_heads"] * hd, c["dim"], bias=False)

    def forward(self, x):
        b, s, dim = x.shape
        h, kv = self.c["n_heads"], self.c["n_kv_heads"]
        q = rope(self.wq(x).view(b, s, h, -1), 10000.0).transpose(1, 2)
        k = rope(self.wk(x).view(b, s, kv, -1), 10000.0).transpose(1, 2)
        v = self.wv(x).view(b, s, kv, -1).transpose(1, 2)
        if GROUPED and h != kv:  # keys and values are not copied
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               enable_gqa=True)
            return self.wo(o.transpose(1, 2).reshape(b, s, -1))
        k = k.repeat_interleave(h // kv, 1)
        v = v.repeat_interleave(h // kv, 1)
        if hasattr(F, "scaled_dot_product_attention"):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            score = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            mask = torch.ones_like(score[0, 0], dtype=torch.bool).tril()
            o = score.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.wo(o.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c["dim"], c["hidden"], bias=False)
        self.w2 = nn.Linear(c["hidden"], c["dim"], bias=False)
        self.w3 = nn.Linear(c["dim"], c["hidden"], bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm = RMSNorm(c["dim"], 1e-5)
        self.attention = Attention(c)
        self.ffn_norm = RMSNorm(c["dim"], 1e-5)
        self.feed_forward = FeedForward(c)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok_embeddings = nn.Embedding(c["vocab"], c["dim"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["n_layers"]))
        self.norm = RMSNorm(c["dim"], 1e-5)
        self.output = nn.Linear(c["dim"], c["vocab"], bias=False)

    def logits(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))

    def forward(self, tokens, labels):
        return F.cross_entropy(self.logits(tokens).flatten(0, 1),
                               labels.flatten())


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95),
                             eps=1e-8, weight_decay=0.1)


BATCH, SEQ = 8, 32


def load(weights):
    model = Llama(dict(vocab=512, dim=64, n_layers=3, n_heads=4, n_kv_heads=2,
                       hidden=128))
    model.load_state_dict(read_safetensors(weights))
    return model


def losses(weights, text, steps):
    model = load(weights)
    optimizer = optimizer_of(model)
    train(model, optimizer, batches(text, BATCH, SEQ, steps))


def bench(steps, compiled):
    vocab, batch, seq = 32000, 8, 256
    model = Llama(dict(vocab=vocab, dim=256, n_layers=2, n_heads=16,
                       n_kv_heads=16, hidden=768))
    seconds(model, optimizer_of(model), vocab, batch, seq, steps, compiled)


if __name__ == "__main__":
    torch.manual_seed(1)
    if sys.argv[1:2] == ["losses"] and len(sys.argv) == 5:
        losses(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] == ["record"] and len(sys.argv) == 6:
        record(load(sys.argv[2]), sys.argv[3], BATCH, SEQ, sys.argv[4],
               int(sys.argv[5]))
    elif sys.argv[1:2] == ["about"]:
        about()
    elif sys.argv[1:2] == ["bench"] and len(sys.argv) > 2:
        bench(int(sys.argv[2]), "--compile" in sys.argv)
    else:
        sys.exit(__doc__)
