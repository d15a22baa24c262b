#!/usr/bin/env python3
"""The model of topk.pdl in PyTorch, in doubles.

  topk.py WEIGHTS.safetensors TEXT STEPS     a JSON object with the loss of each step
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from common import batches, read_safetensors


class Topk(nn.Module):
    def __init__(self, vocab=256, dim=24, experts=8):
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Linear(dim, experts * dim, bias=False)
        self.out = nn.Linear(dim, vocab)

    def forward(self, tokens, labels):
        h = self.table(tokens)
        weights, ids = self.router(h).softmax(-1).topk(2, -1)
        experts = self.up(h).unflatten(-1, (8, 24))
        each = experts.gather(-2, ids.unsqueeze(-1).expand(*ids.shape, 24))
        h = h + (each * weights.unsqueeze(-1)).sum(-2)
        lowest, origin = h.topk(5, -1, largest=False)
        ascending, order = h.sort(stable=True)
        descending, _ = h.tanh().sort(descending=True, stable=True)
        h = h + ascending * 0.5 + descending * (lowest * origin * 0.01).sum(-1, keepdim=True)
        h = h + h.gather(-1, h.argsort(-1)) - (h * 0.5).scatter_add(-1, order, descending * 0.1)
        last, _ = h.topk(3, 1)
        return F.cross_entropy(self.out(h).flatten(0, 1), labels.flatten()) + \
            last.square().mean() * 0.1


def main(weights, text, steps):
    model = Topk()
    model.load_state_dict(read_safetensors(weights))
    model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for x, y in batches(text, 8, 12, int(steps)):
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"loss": loss.item()}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
