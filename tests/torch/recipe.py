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
from torch.optim import _muon

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


def newton_schulz(grad, ns_coefficients, ns_steps, eps):
    """The iterations of Keller Jordan's Muon (github.com/KellerJordan/Muon,
    zeropower_via_newtonschulz5) in the type of the gradient; torch.optim.Muon
    computes them in bf16, whatever the model's type is."""
    a, b, c = ns_coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


class ExactMuon(optim.Muon):
    """torch.optim.Muon with exact iterations."""

    def step(self):
        own = _muon._zeropower_via_newtonschulz
        _muon._zeropower_via_newtonschulz = newton_schulz
        try:
            super().step()
        finally:
            _muon._zeropower_via_newtonschulz = own


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


def muon(m, kind=ExactMuon):
    """Muon for the up projection, AdamW for the rest."""
    rest = [p for n, p in m.named_parameters() if n != "up.weight"]
    return [kind([m.up.weight], lr=0.02, weight_decay=0.5),
            optim.AdamW(rest, lr=3e-3, weight_decay=0.1)]


def muon_bf16(m):
    return muon(m, optim.Muon)


def muon_rms(m):
    """Plain momentum, for all matrices; other settings than the defaults."""
    matrices = [p for p in m.parameters() if p.ndim == 2]
    return [ExactMuon(matrices, lr=0.01, momentum=0.9, nesterov=False,
                      ns_coefficients=(2.0, -1.5, 0.5), ns_steps=7,
                      adjust_lr_fn="match_rms_adamw"),
            optim.AdamW([p for p in m.parameters() if p.ndim == 1], lr=1e-3,
                        betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)]


def adafactor(m):
    return optim.Adafactor(m.parameters(), lr=0.08, eps=(2**-23, 1e-3), weight_decay=0.1)


def adafactor_own(m):
    """Other settings than the defaults."""
    return optim.Adafactor(m.parameters(), lr=0.05, beta2_decay=-0.5, eps=(1e-6, 0.2), d=2.0)


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


def cosine(o, end=3e-4):
    """Five steps of warm-up, the end at step 20."""
    rise = optim.lr_scheduler.LinearLR(o, 0.2, total_iters=4)
    fall = optim.lr_scheduler.CosineAnnealingLR(o, 15, eta_min=end)
    return optim.lr_scheduler.SequentialLR(o, [rise, fall], milestones=[4])


def cosine_to_a_tenth(o):
    return cosine(o, 0.1 * o.defaults["lr"])


def linear(o):
    return optim.lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=19)


CASES = {
    "sgd": dict(optimizer=sgd),
    "momentum": dict(optimizer=momentum, clip=0.25),
    "adam": dict(optimizer=adam, schedule=linear),
    "adamw": dict(optimizer=adamw, clip=0.5, schedule=cosine),
    "lion": dict(optimizer=lion, clip=0.5, schedule=cosine),
    "muon": dict(optimizer=muon, clip=0.5,
                 schedule=cosine_to_a_tenth),
    "muon_bf16": dict(optimizer=muon_bf16, clip=0.5,
                      schedule=cosine_to_a_tenth),
    "muon_rms": dict(optimizer=muon_rms),
    "adafactor": dict(optimizer=adafactor, clip=0.5),
    "adafactor_own": dict(optimizer=adafactor_own),
    "groups": dict(optimizer=groups),
    "rates": dict(optimizer=rates, schedule=linear),
    "ignored": dict(optimizer=sgd, clip=1.0, ignored=ord(" ")),
}


def run(name, weights, data, optimizer, clip=float("inf"), schedule=None,
        ignored=-100):
    model = Recipe()
    model.load_state_dict(weights)
    model.double()
    both = optimizer(model)
    both = both if isinstance(both, list) else [both]
    schedules = [schedule(o) for o in both] if schedule else []
    for x, y in data:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(),
                               ignore_index=ignored)
        model.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        print(json.dumps(dict(case=name, loss=float(f"{loss.item():.9g}"),
                              grad_norm=float(f"{norm.item():.9g}"),
                              lr=float(f"{both[0].param_groups[0]['lr']:.9g}"))))
        for o in both + schedules:
            o.step()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    for case, options in CASES.items():
        run(case, read_safetensors(sys.argv[1]),
            list(batches(sys.argv[2], 8, 16, int(sys.argv[3]))), **options)
