"""Optimizers and schedulers with their settings in PDL, for from_torch_plan.py."""
import math

import torch
from torch.optim import SGD, Adam, AdamW, lr_scheduler

try:
    from transformers import optimization as hugging_face
except ImportError:         # its schedules are then not tested
    hugging_face = None


def adamw(model):
    return AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)


def groups(model):
    """No weight decay for norms, as in most training scripts."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return AdamW([{"params": matrices, "weight_decay": 0.1},
                  {"params": vectors, "weight_decay": 0.0}], lr=1e-3)


def groups_of_layers(model):
    """No weight decay in one layer: parc has one name for all layers."""
    layer = list(model.layers[0].parameters())
    rest = [p for p in model.parameters() if all(p is not q for q in layer)]
    return AdamW([{"params": rest, "weight_decay": 0.1},
                  {"params": layer, "weight_decay": 0.0, "lr": 1e-4}], lr=1e-3)


def muon(model):
    """Muon for matrices, AdamW for norms."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return [torch.optim.Muon(matrices, lr=0.02, momentum=0.9),
            AdamW(vectors, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)]


OPTIMIZERS = (
    ("AdamW", adamw, "AdamW(lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)", ()),
    ("defaults", lambda m: AdamW(m.parameters()), "AdamW(lr=0.001)", ()),
    ("Adam", lambda m: Adam(m.parameters(), lr=0.1, eps=1e-6),
     "Adam(lr=0.1, eps=1e-6)", ()),
    ("SGD", lambda m: SGD(m.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-4),
     "SGD(lr=0.5, momentum=0.9, weight_decay=1e-4)", ()),
    ("decoupled Adam", lambda m: Adam(m.parameters(), lr=1e-3, weight_decay=0.1,
                                      decoupled_weight_decay=True),
     "AdamW(lr=0.001, weight_decay=0.1)", ()),
    ("nesterov", lambda m: SGD(m.parameters(), lr=0.5, momentum=0.9, nesterov=True),
     "SGD(lr=0.5, momentum=0.9)", ("nesterov",)),
    ("groups", groups, 'AdamW(lr=0.001, weight_decay=0.1, no_decay="*norm*")', ()),
    ("groups of layers", groups_of_layers, "AdamW(lr=0.001, weight_decay=0.1)",
     ("different lr", "elements of an array")),
    ("some parameters", lambda m: AdamW(m.layers.parameters(), lr=1e-3),
     "AdamW(lr=0.001)", ("does not have",)),
    ("Adafactor", lambda m: torch.optim.Adafactor(
        m.parameters(), lr=0.02, beta2_decay=-0.5, eps=(None, 0.1), d=2.0, weight_decay=0.1),
     "Adafactor(lr=0.02, beta2_decay=-0.5, eps2=0.1, clip_threshold=2.0, weight_decay=0.1)", ()),
    ("Adafactor, defaults", lambda m: torch.optim.Adafactor(m.parameters()),
     "Adafactor(lr=0.01)", ()),
    *((("Muon and AdamW", muon, 'Muon(lr=0.02, momentum=0.9, betas=(0.9, 0.95), '
        'groups=group("*norm*", optimizer=AdamW, lr_factor=0.05, weight_decay=0.0))', ()),)
      if hasattr(torch.optim, "Muon") else ()),
    ("two of a kind", lambda m: [AdamW(m.parameters()), AdamW(m.parameters())], None,
     ("several optimizers",)),
    ("Adagrad", lambda m: torch.optim.Adagrad(m.parameters()), None,
     ("Adagrad has no counterpart",)),
)


def warm_cosine(optimizer, start):
    return lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LinearLR(optimizer, start, 1.0, 10),
        lr_scheduler.CosineAnnealingLR(optimizer, 990, eta_min=3e-5)], [10])


def own_cosine(step):
    if step < 20:
        return (step + 1) / 20
    return 0.5 * (1 + math.cos(math.pi * min((step - 19) / 80, 1)))


SCHEDULES = (
    ("cosine", lambda o: lr_scheduler.CosineAnnealingLR(o, 1000, eta_min=3e-5),
     "cosine(steps=1001, min_lr=3e-5)", ()),
    ("linear", lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 50),
     "linear(steps=51, min_lr=3e-5)", ()),
    ("warm-up", lambda o: lr_scheduler.LinearLR(o, 0.01, 1.0, 99),
     "constant(warmup=100)", ()),
    ("sequence", lambda o: warm_cosine(o, 1 / 11),
     "cosine(steps=1001, warmup=11, min_lr=3e-5)", ()),
    ("another start", lambda o: warm_cosine(o, 0.1),
     "cosine(steps=1001, warmup=11, min_lr=3e-5)", ("another start",)),
    ("own cosine", lambda o: lr_scheduler.LambdaLR(o, own_cosine),
     "cosine(steps=100, warmup=20)", ()),
    ("own linear", lambda o: lr_scheduler.LambdaLR(o, lambda s: max(0.1, 1 - s / 200)),
     "linear(steps=181, min_lr=3e-5)", ()),
    ("own warm-up", lambda o: lr_scheduler.LambdaLR(o, lambda s: min(1, (s + 1) / 50)),
     "constant(warmup=50)", ()),
    ("constant", lambda o: lr_scheduler.LambdaLR(o, lambda s: 1.0), None, ()),
    ("growing", lambda o: lr_scheduler.CosineAnnealingLR(o, 100, eta_min=1.0), None,
     ("CosineAnnealingLR",)),
    ("steps", lambda o: lr_scheduler.StepLR(o, 10), None, ("StepLR",)),
    ("one cycle", lambda o: lr_scheduler.OneCycleLR(o, 1e-3, total_steps=100), None,
     ("OneCycleLR",)),
)
if hugging_face:
    SCHEDULES += (
        ("HF constant", hugging_face.get_constant_schedule, None, ()),
        ("HF warm-up", lambda o: hugging_face.get_constant_schedule_with_warmup(o, 99),
         "constant(warmup=100)", ("another start",)),
        ("HF linear",
         lambda o: hugging_face.get_linear_schedule_with_warmup(o, 100, 1000),
         "linear(steps=1001, warmup=101)", ("another start",)),
        ("HF cosine", lambda o: hugging_face.get_cosine_schedule_with_warmup(o, 0, 99),
         "cosine(steps=100)", ()),
        ("HF min_lr",
         lambda o: hugging_face.get_cosine_with_min_lr_schedule_with_warmup_lr_rate(
             o, 100, 1000, min_lr_rate=0.1),
         "cosine(steps=1000, warmup=100, min_lr=3e-5)", ()),
        ("HF inverse root", lambda o: hugging_face.get_inverse_sqrt_schedule(o, 100),
         None, ("LambdaLR",)),
        ("HF restarts",
         lambda o: hugging_face.get_cosine_with_hard_restarts_schedule_with_warmup(
             o, 10, 1000, 2), None, ("LambdaLR",)),
    )
