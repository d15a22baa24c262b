#!/usr/bin/env python3
"""The model of experts.pdl in PyTorch, in doubles.

  experts.py WEIGHTS.safetensors TEXT STEPS [CAPACITY]
                a JSON object for each step: the loss, and the number of dropped choices

With a capacity each expert takes at most its share of the choices of a sequence times the
capacity, in the order of tokens.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from common import batches, read_safetensors


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoE(nn.Module):
    def __init__(self, dim, hidden, experts, top_k, router, normalize, scale, shared, aux, balance,
                 capacity):
        super().__init__()
        self.capacity, self.dropped = capacity, 0
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.empty(experts, hidden, dim))
        self.w2 = nn.Parameter(torch.empty(experts, dim, hidden))
        self.w3 = nn.Parameter(torch.empty(experts, hidden, dim))
        self.top_k, self.router, self.normalize = top_k, router, normalize
        self.scale, self.aux, self.balance = scale, aux, balance
        if shared:
            self.shared_experts = GatedMLP(dim, hidden * shared)
        if balance:
            self.register_buffer("bias", torch.zeros(experts))

    def expert(self, i, x):
        return (F.silu(x @ self.w1[i].T) * (x @ self.w3[i].T)) @ self.w2[i].T

    def taken(self, hot):
        """hot [b, s, k, experts] without the choices that an expert drops."""
        if self.capacity is None:
            return hot
        b, s, k, experts = hot.shape
        limit = math.ceil(self.capacity * (s * k) / experts)
        rank = hot.reshape(b, s * k, experts).cumsum(1).reshape(hot.shape)
        kept = hot * (rank <= limit)
        self.dropped = int((hot - kept).sum())
        return kept

    def forward(self, x):
        logits = self.gate(x)
        scores = logits.softmax(-1) if self.router == "softmax" else logits.sigmoid()
        chosen_by = scores + self.bias if self.balance else scores
        ids = chosen_by.topk(self.top_k, -1)[1]
        weights = scores.gather(-1, ids)
        if self.normalize:
            weights = weights / weights.sum(-1, keepdim=True)
        experts = scores.shape[-1]
        hot = F.one_hot(ids, experts).to(x.dtype)  # [b, s, k, experts]
        by_expert = (self.taken(hot) * weights.unsqueeze(-1)).sum(2) * self.scale
        y = sum(by_expert[..., i:i + 1] * self.expert(i, x) for i in range(experts))
        if hasattr(self, "shared_experts"):
            y = y + self.shared_experts(x)
        if self.balance:
            counts = hot.sum((0, 1, 2))
            self.counts = counts.detach()
        shares = hot.sum(2).mean(1) / self.top_k
        means = (scores / scores.sum(-1, keepdim=True)).mean(1)
        return y, self.aux * experts * (shares * means).sum(-1).mean()


class Block(nn.Module):
    def __init__(self, dim, *moe):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.moe = MoE(dim, *moe)

    def forward(self, x):
        y, aux = self.moe(self.norm(x))
        return x + y, aux


class Experts(nn.Module):
    def __init__(self, capacity, vocab=256, dim=24, hidden=40):
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            Block(dim, hidden, 8, 2, "softmax", True, 1.0, 0, 0.02, False, capacity)
            for _ in range(2))
        self.wide = Block(dim, hidden, 5, 3, "softmax", False, 1.0, 0, 0.0, False, capacity)
        self.balanced = Block(dim, hidden, 6, 2, "sigmoid", True, 2.5, 2, 0.01, True, capacity)
        self.out = nn.Linear(dim, vocab)

    def blocks(self):
        return (*self.layers, self.wide, self.balanced)

    def forward(self, tokens, labels):
        h = self.table(tokens)
        total = 0.0
        for block in self.blocks():
            h, aux = block(h)
            total = total + aux
        return F.cross_entropy(self.out(h).flatten(0, 1), labels.flatten()) + total


def main(weights, text, steps, capacity=None):
    model = Experts(capacity and float(capacity))
    model.load_state_dict(read_safetensors(weights))
    model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for x, y in batches(text, 8, 12, int(steps)):
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        moe = model.balanced.moe
        moe.bias += 0.01 * torch.sign(moe.counts.mean() - moe.counts)
        line = {"loss": loss.item()}
        if capacity:
            line["dropped"] = sum(block.moe.dropped for block in model.blocks())
        print(json.dumps(line))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
