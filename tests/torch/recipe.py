#!/usr/bin/env python3
"""Optimizers, clipping, decay groups, schedules and ignored labels in PyTorch.

  recipe.py WEIGHTS.safetensors TEXT STEPS     a JSON object per case and step

The model is tests/torch/recipe.pdl, in doubles; tests/e2e/optimizers.sh has
the same cases for parc.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

from common import batches, read_safetensors


class Recipe(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 24)
        self.up = nn.Linear(24, 48)
        self.norm = nn.LayerNorm(48)
        self.out = nn.Linear(48, 256)

    def forward(self, x):
        return self.out(self.norm(F.gelu(self.up(self.table(x)))))


class Lion(optim.Optimizer):
    """Algorithm 2 of Chen et al., "Symbolic Discovery of Optimization
    Algorithms", 2023; PyTorch has no Lion."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas,
                                      weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                update = torch.sign(beta1 * m + (1 - beta1) * w.grad)
                w -= lr * (update + group["weight_decay"] * w)
                m.copy_(beta2 * m + (1 - beta2) * w.grad)


def sgd(m):
    return optim.SGD(m.parameters(), lr=0.5, weight_decay=0.1)


def momentum(m):
    return optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)


def adam(m):
    return optim.Adam(m.parameters(), lr=3e-3, betas=(0.9, 0.95),
                      weight_decay=0.1)


def adamw(m):
    return optim.AdamW(m.parameters(), lr=3e-3, weight_decay=0.5)


def lion(m):
    return Lion(m.parameters(), lr=1e-3, weight_decay=0.5)


def groups(m):
    """No decay for biases and the norm."""
    free = [p for n, p in m.named_parameters()
            if n.endswith(".bias") or n.startswith("norm")]
    rest = [p for n, p in m.named_parameters()
            if not (n.endswith(".bias") or n.startswith("norm"))]
    return optim.AdamW([{"params": free, "weight_decay": 0.0},
                        {"params": rest, "weight_decay": 2.0}], lr=3e-3)


def rates(m):
    """The table learns ten times as slowly, without decay; of the rest the up
    projection has a decay of its own, and the norm learns twice as fast."""
    lr = 3e-3
    own = {"table": {"lr": 0.1 * lr, "weight_decay": 0.0},
           "up": {"weight_decay": 0.2}, "norm": {"lr": 2 * lr}, "out": {}}
    return optim.AdamW([{"params": getattr(m, name).parameters(), **own[name]}
                        for name in ("out", "table", "up", "norm")], lr=lr,
                       weight_decay=2.0)


def cosine(o):
    """Five steps of warm-up, the end at step 20."""
    rise = optim.lr_scheduler.LinearLR(o, 0.2, total_iters=4)
    fall = optim.lr_scheduler.CosineAnnealingLR(o, 15, eta_min=3e-4)
    return optim.lr_scheduler.SequentialLR(o, [rise, fall], milestones=[4])


def linear(o):
    return optim.lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=19)


CASES = {
    "sgd": dict(optimizer=sgd),
    "momentum": dict(optimizer=momentum, clip=0.25),
    "adam": dict(optimizer=adam, schedule=linear),
    "adamw": dict(optimizer=adamw, clip=0.5, schedule=cosine),
    "lion": dict(optimizer=lion, clip=0.5, schedule=cosine),
    "groups": dict(optimizer=groups),
    "rates": dict(optimizer=rates, schedule=linear),
    "ignored": dict(optimizer=sgd, clip=1.0, ignored=ord(" ")),
}


def run(name, weights, data, optimizer, clip=float("inf"), schedule=None,
        ignored=-100):
    model = Recipe()
    model.load_state_dict(weights)
    model.double()
    o = optimizer(model)
    s = schedule(o) if schedule else None
    for x, y in data:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(),
                               ignore_index=ignored)
        o.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        print(json.dumps(dict(case=name, loss=float(f"{loss.item():.9g}"),
                              grad_norm=float(f"{norm.item():.9g}"),
                              lr=float(f"{o.param_groups[0]['lr']:.9g}"))))
        o.step()
        if s:
            s.step()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    for case, options in CASES.items():
        run(case, read_safetensors(sys.argv[1]),
            list(batches(sys.argv[2], 8, 16, int(sys.argv[3]))), **options)
