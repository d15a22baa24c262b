#!/usr/bin/env python3
"""The models of examples/ that read NumPy files, in PyTorch: vit.pdl and
translation.pdl are ViTForImageClassification and MarianMTModel of the package
transformers, regression.pdl is a module below.

  own_data.py MODEL WEIGHTS DATA BATCH STEPS

WEIGHTS is the directory that a parc binary exported (--steps 0 --export DIR/),
DATA one that tests/tools/arrays.py wrote. Prints a JSON object: `val_loss`, the
mean loss of the first STEPS batches for these weights, and `losses`, those of
STEPS steps with the example's optimizer, without a schedule; `names`, the tensors
of WEIGHTS, which the model has loaded without a difference, but for layers from 1.
"""
import json
import sys
import warnings

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from common import read_safetensors


class Block(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Regression(nn.Module):
    def __init__(self, features, targets, dim, hidden, n_layers):
        super().__init__()
        self.input = nn.Linear(features, dim)
        self.blocks = nn.Sequential(*(Block(dim, hidden)
                                      for _ in range(n_layers)))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, targets)

    def forward(self, x):
        return self.output(self.norm(self.blocks(self.input(x))))


def pretrained(kind, weights):
    """A model without dropout; transformers must not warn about its files."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, info = kind.from_pretrained(
            weights, dtype=torch.float32, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def vit(weights):
    from transformers import ViTForImageClassification
    model = pretrained(ViTForImageClassification, weights)

    def loss(images, labels):
        pixels = (images.float() - 127.5) / 127.5
        return F.cross_entropy(model(pixels).logits, labels)
    return (model, loss, ("images", "labels"),
            torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), 1.0)


def translation(weights):
    from transformers import MarianMTModel
    model = pretrained(MarianMTModel, weights)
    pad = model.config.pad_token_id
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None  # train the embedding of the padding too

    def loss(source, target, labels):
        logits = model(input_ids=source, decoder_input_ids=target).logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                               ignore_index=pad)
    return (model, loss, ("source", "target", "labels"),
            torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98),
                             eps=1e-9), 1.0)


def regression(weights):
    model = Regression(features=16, targets=2, dim=64, hidden=128, n_layers=2)
    model.load_state_dict(read_safetensors(f"{weights}/model.safetensors"))
    return (model, lambda x, y: F.mse_loss(model(x), y), ("x", "y"),
            torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01),
            None)


def main(name, weights, directory, batch, steps):
    model, loss_of, names, optimizer, clip = {
        "vit": vit, "translation": translation,
        "regression": regression}[name](weights)
    arrays = [numpy.load(f"{directory}/{x}.npy") for x in names]
    batches = [[torch.from_numpy(a[i * batch:(i + 1) * batch]) for a in arrays]
               for i in range(steps)]
    batches = [[x if x.is_floating_point() or x.ndim == 4 else x.long()
                for x in b] for b in batches]
    with torch.no_grad():
        val_loss = sum(loss_of(*b).item() for b in batches) / steps
    losses = []
    for b in batches:
        loss = loss_of(*b)
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    tensors = read_safetensors(f"{weights}/model.safetensors")
    print(json.dumps({"val_loss": val_loss, "losses": losses, "names": sorted(
        n for n in tensors if ".1." not in n)}))


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
