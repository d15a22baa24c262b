#!/usr/bin/env python3
"""The model of batch_norm.pdl in PyTorch.

  batch_norm.py WEIGHTS DATA STEPS PARTS…

WEIGHTS is a file that a parc binary exported, DATA a directory that
tests/tools/arrays.py wrote. Trains with PARTS microbatches in a step, for each of
these numbers. Prints a JSON object with a row for each: `losses` of the steps, the
`val_loss` of the first two batches after them, and the `states`.
"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from common import read_safetensors


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x + F.silu(self.norm(self.conv(x)))


class Head(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.up = nn.Linear(channels, 32)
        self.norm = nn.BatchNorm1d(32, eps=1e-3, momentum=None)
        self.down = nn.Linear(32, classes)

    def forward(self, x):
        return self.down(F.silu(self.norm(self.up(x))))


class Classifier(nn.Module):
    def __init__(self, classes=10, channels=8, n_layers=2):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels, momentum=0.3, affine=False)
        self.layers = nn.Sequential(*(Block(channels) for _ in range(n_layers)))
        self.head = Head(channels, classes)

    def forward(self, images, labels):
        h = F.silu(self.norm(self.stem((images - 127.5) / 127.5)))
        return F.cross_entropy(self.head(self.layers(h).mean((2, 3))), labels)


def train(weights, batches, parts):
    """The row of a number of microbatches."""
    model, losses = Classifier(), []
    model.load_state_dict(read_safetensors(weights))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for images, labels in batches:
        rows = [model(*x) for x in zip(images.chunk(parts), labels.chunk(parts))]
        loss = sum(rows) / parts
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        val_loss = sum(model(*b).item() for b in batches[:2]) / 2
    states = {n: x.flatten().tolist() for n, x in model.named_buffers()}
    return {"losses": losses, "val_loss": val_loss, "states": states}


def main(weights, directory, steps, *parts, batch=16):
    images, labels = (torch.from_numpy(numpy.load(f"{directory}/{x}.npy"))
                      for x in ("images", "labels"))
    batches = list(zip(images.float().split(batch), labels.long().split(batch)))
    steps = [batches[i % len(batches)] for i in range(int(steps))]
    print(json.dumps({n: train(weights, steps, int(n)) for n in parts}))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
