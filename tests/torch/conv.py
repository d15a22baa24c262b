#!/usr/bin/env python3
"""The model of conv.pdl in PyTorch.

  conv.py WEIGHTS DATA STEPS

WEIGHTS is a file that a parc binary exported, DATA a directory that
tests/tools/arrays.py wrote. Prints a JSON object with the loss of each step.
"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from common import read_safetensors


class Conv(nn.Module):
    def __init__(self, classes=10, channels=16):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, 32, (3, 5), stride=(1, 2), padding=(1, 2))
        self.depth = nn.Conv2d(32, 32, 3, padding=2, dilation=2, groups=32)
        self.group = nn.Conv2d(32, 64, 1, groups=4)
        self.fold = nn.Conv2d(64, 64, (2, 1), stride=(2, 1))
        self.twice = nn.Conv2d(64, 128, 2, stride=2, groups=64)
        self.line = nn.Conv1d(128, 48, 4, padding=3, groups=16)
        self.head = nn.Linear(48, classes)

    def forward(self, images, labels):
        h = F.relu(self.first((images - 127.5) / 127.5))
        h = F.max_pool2d(h, 3, stride=2, padding=1)
        h = self.depth(F.relu(self.second(h)))
        h = self.twice(self.fold(F.avg_pool2d(self.group(h), (2, 1))))
        h = self.line(h.reshape(-1, 128, 2))
        h = h.cumsum(-1) + h.cumsum(1)
        return F.cross_entropy(self.head(h.mean(2)), labels)


def main(weights, directory, steps, batch=8):
    model = Conv()
    model.load_state_dict(read_safetensors(weights))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = (torch.from_numpy(numpy.load(f"{directory}/{x}.npy"))
                      for x in ("images", "labels"))
    for i in range(steps):
        part = slice(i * batch, (i + 1) * batch)
        loss = model(images[part].float(), labels[part].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"loss": loss.item()}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:3], int(sys.argv[3]))
