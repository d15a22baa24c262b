"""Small models of configs, shared modules, flags and containers of many kinds (small.py)."""
import collections
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


def inputs(dim=8, seq=4):
    return torch.randn(2, seq, dim), torch.randn(2, seq, dim)


class Keywords(nn.Module):
    def __init__(self, dim=8, **options):
        super().__init__()
        self.up = nn.Linear(dim, options["hidden"])
        self.down = nn.Linear(options["hidden"], dim)
        self.scale = options.get("scale", 2.0)

    def forward(self, x, **batch):
        return (self.down(F.relu(self.up(x))) * self.scale - batch["y"]).square().mean()


@case(lines=["hidden=12", "scale=0.7"], defines=["hidden=20 dim=16"])
def numbers_of_keywords():
    x, y = inputs()
    return Keywords(hidden=12, scale=0.7), {"x": x, "y": y}


class Nested(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim, hidden = config["model"].dim, config["model"].hidden
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.rate = config["train"]["rate"]

    def forward(self, x, y):
        x = self.down(F.dropout(self.up(x), self.rate, self.training))
        return (x - y).square().mean()


@case(lines=["dim=8", "hidden=12", "rate=0.1"], defines=["dim=16 hidden=20"])
def numbers_of_nested_configs():
    return Nested({"model": types.SimpleNamespace(dim=8, hidden=12),
                   "train": {"rate": 0.1}}), inputs()


class Sizes(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(dims, dims[1:]))

    def forward(self, x, y):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return (x - y).square().mean()


@case(lines=["dims_1=12"], defines=["dims_1=20"])
def numbers_of_a_list():
    return Sizes([8, 12, 8]), inputs()


class Shared(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.1),
                                   nn.Linear(dim, dim))
        self.alias = self.block

    def forward(self, x, y):
        return (self.block(x) + self.alias(torch.tanh(self.block(x))) - y).square().mean()


@case(lines=["block(x) + block(tanh(block(x)))"], absent=["alias", "Sequential2"])
def module_with_two_names():
    return Shared(), inputs()


class Buffers(nn.Module):
    def __init__(self, dim=8, n=5):
        super().__init__()
        self.register_buffer("scale", torch.full((dim,), 0.5))
        self.register_buffer("positions", torch.arange(n)[:, None] / n, persistent=False)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, y):
        return (self.fc(x * self.scale) + self.positions[:x.shape[1]] - y).square().mean()


@case(lines=["1.0 / n"], defines=["dim=16 n=7"])
def buffers_of_numbers():
    return Buffers(), inputs()


class Normed(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(dim, dim))

    def forward(self, x, y):
        return (self.fc(x) - y).square().mean()


@case(lines=["sqrt(sum(square(weight_v), dim=(1,), keep=true))"], defines=["dim=16"])
def weight_norm():
    return Normed(), inputs()


class Floors(nn.Module):
    def __init__(self, dim=24, ratio=3):
        super().__init__()
        self.a, self.b = nn.Linear(dim, dim // ratio), nn.Linear(dim // ratio, int(dim * 1.5))
        self.c = nn.Linear(int(dim * 1.5), dim)

    def forward(self, x, y):
        return (self.c(self.b(self.a(x))) - y).square().mean()


@case(lines=["dim / ratio", "3 * dim / 2"], defines=["dim=48 ratio=2"])
def quotients_of_sizes():
    return Floors(), inputs(24)


Result = collections.namedtuple("Result", "loss hidden")


class Pair(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a, self.b = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, both):
        return {"x": self.a(both[0]), "y": self.b(both[1]), "nothing": None}


class Pairs(nn.Module):
    def __init__(self, dim=8, n=3):
        super().__init__()
        self.pairs = nn.ModuleList(Pair(dim) for _ in range(n))

    def forward(self, x, y):
        both = x, y
        for pair in self.pairs:
            out = pair(both)
            both = torch.tanh(out["x"]), out["y"]
        return Result((both[0] - both[1]).square().mean(), both[0])


@case(lines=["pairs: [n] Pair(dim)"], defines=["dim=16 n=2"])
def tuples_and_dicts_of_tensors():
    return Pairs(), inputs()


class Flagged(nn.Module):
    def __init__(self, dim, gated=True, act=F.gelu):
        super().__init__()
        self.fc, self.act = nn.Linear(dim, dim), act
        self.gate = nn.Linear(dim, dim) if gated else None

    def forward(self, x, y):
        h = self.act(self.fc(x))
        if self.gate is not None:
            h = h * self.gate(x).sigmoid()
        return (h - y).square().mean()


class Flags(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.one, self.two = Flagged(dim), Flagged(dim, False)
        self.three = Flagged(dim, act=F.relu)

    def forward(self, x, y):
        return self.one(x, y) + self.two(x, y) + self.three(x, y)


@case(lines=["Flagged(dim)", "Flagged2(dim)", "Flagged3(dim)"], defines=["dim=16"])
def flags_of_modules():
    return Flags(), inputs()


class InPlace(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, y):
        x = torch.tanh(self.fc(x))
        x.view(x.shape[0], -1).mul_(2)
        return (x - y).square().mean()


@case(error=["the backward pass of the model fails"])
def change_in_place_of_a_result():
    return InPlace(), inputs()


class Views(InPlace):
    def forward(self, x, y):
        x = self.fc(x)
        v = x.view(x.shape[0], -1)
        v += 1
        x[:, 0] = 0
        x[..., -1].add_(3)
        x.transpose(1, 2)[:, 1:3] *= 0.5
        return (x - y).square().mean()


@case(defines=["dim=16"])
def changes_of_views():
    return Views(), inputs()


class Feed(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class ListsInAList(nn.Module):
    def __init__(self, dim=8, depth=2, hidden=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(dim), Feed(dim, hidden)])
                                    for _ in range(depth))

    def forward(self, x, y):
        skip = x
        for norm, feed in self.layers:
            x = feed(norm(x)) + x + skip
        return (x - y).square().mean()


@case(lines=["layers: [depth] Layer(dim, hidden)", "for layer in layers"],
      defines=["depth=3 dim=16"])
def lists_in_a_list():
    return ListsInAList(), inputs()


class Dicts(nn.Module):
    def __init__(self, dim=8, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"norm": nn.RMSNorm(dim),
                                                   "feed": Feed(dim, 2 * dim)})
                                    for _ in range(depth))

    def forward(self, x, y):
        states = x * 2
        for block in self.blocks:
            states, x = x, x + torch.tanh(block["feed"](block["norm"](x))) + states
        return (x - y).square().mean()


@case(lines=["blocks: [depth] Block(dim)", "norm: RMSNorm(dim)"], defines=["depth=2 dim=16"])
def dicts_in_a_list():
    return Dicts(), inputs()
