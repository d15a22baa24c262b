#!/usr/bin/env python3
"""The encoder-decoder of examples/transformer.pdl: PyTorch's nn.Transformer.

  transformer.py losses WEIGHTS.safetensors TEXT STEPS    one loss per line

Trains with the weights that a parc binary exported (--steps 0 --export) on
the bytes of TEXT, without dropout, with the example's Adam.
"""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from common import batches, read_safetensors, train


class Transformer(nn.Module):
    def __init__(self, vocab, dim, n_layers, n_heads, hidden):
        super().__init__()
        self.dim = dim
        self.embedding = nn.Embedding(vocab, dim)
        self.transformer = nn.Transformer(
            dim, n_heads, n_layers, n_layers, hidden, dropout=0.0,
            batch_first=True)
        self.decoder = nn.Linear(dim, vocab)

    def positions(self, ids):
        x = self.embedding(ids) * math.sqrt(self.dim)
        at = torch.arange(ids.shape[1], dtype=torch.float32)[:, None]
        rate = torch.exp(torch.arange(0, self.dim, 2, dtype=torch.float32) *
                         (-math.log(10000.0) / self.dim))
        pe = torch.stack(((at * rate).sin(), (at * rate).cos()), -1)
        return x + pe.flatten(1)

    def forward(self, tokens, labels):
        s = labels.shape[1]
        later = torch.ones(s, s, dtype=torch.bool).triu(1)
        y = self.transformer(self.positions(tokens), self.positions(labels),
                             tgt_mask=later)
        log_p = F.log_softmax(self.decoder(y), dim=-1)
        return F.nll_loss(log_p.flatten(0, 1), labels.flatten())


def joined(weights):
    """Joins q_proj, k_proj and v_proj in this order: PyTorch's in_proj."""
    out = {}
    for name, tensor in weights.items():
        if ".q_proj." in name:
            out[name.replace("q_proj.", "in_proj_")] = torch.cat(
                [weights[name.replace("q_proj", f"{x}_proj")] for x in "qkv"])
        elif ".k_proj." not in name and ".v_proj." not in name:
            out[name] = tensor
    return out


def losses(weights, text, steps):
    model = Transformer(vocab=512, dim=64, n_layers=2, n_heads=4, hidden=128)
    model.load_state_dict(joined(read_safetensors(weights)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    train(model, optimizer, batches(text, 8, 35, steps))


if __name__ == "__main__":
    torch.manual_seed(1)
    if sys.argv[1:2] != ["losses"] or len(sys.argv) != 5:
        sys.exit(__doc__)
    losses(sys.argv[2], sys.argv[3], int(sys.argv[4]))
