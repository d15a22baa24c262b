"""Small models whose sizes follow from numbers in many ways (small.py)."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


def inputs(dim=8, seq=4):
    return torch.randn(2, seq, dim), torch.randn(2, seq, dim)


class Widened(nn.Module):
    """A hidden size that a subclass computes from dim."""

    def __init__(self, dim=16):
        super().__init__()
        hidden = self.hidden(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x, y):
        return (self.down(F.relu(self.up(x))) - y).square().mean()


def widened(hidden, dim=16):
    model = type("Widened", (Widened,), {"hidden": staticmethod(hidden)})
    return model(dim), inputs(dim)


@case(lines=["Linear(dim, hidden)"], defines=["dim=8", "dim=40 hidden=40"])
def size_with_a_minimum():
    return widened(lambda dim: max(dim, 16))


@case(lines=["Linear(dim, hidden)"], defines=["dim=64"])
def size_of_a_branch():
    return widened(lambda dim: 4 * dim if dim < 24 else 2 * dim)


@case(lines=["Linear(dim, hidden)"], defines=["dim=24"])
def size_that_is_rounded_up():
    return widened(lambda dim: (dim + 15) // 16 * 16)


@case(lines=["Linear(dim, dim / 2)"], defines=["dim=24"])
def size_that_is_halved():
    return widened(lambda dim: dim // 2)


class Inner(nn.Module):
    def __init__(self, dim, n_layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Weighted(nn.Module):
    def __init__(self, model, weight=0.3):
        super().__init__()
        self.model, self.weight = model, weight

    def forward(self, x, y):
        return self.weight * (self.model(x) - y).square().mean()


@case(lines=["weight=0.3", "dim=8", "n_layers=2"], defines=["dim=16 n_layers=4 weight=0.5"])
def wrapper_with_a_number():
    return Weighted(Inner(8, 2)), inputs()


class Own(Weighted):
    def __init__(self, lr=0.01):
        super().__init__(Inner(dim=8, n_layers=2))
        self.lr = lr


@case(lines=["dim=8", "n_layers=2"], defines=["dim=16 n_layers=4"])
def wrapper_that_constructs_the_model():
    return Own(), inputs()


@dataclasses.dataclass
class Size:
    dim: int = 8
    hidden: int = 12


class TwoConfigs(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.up, self.mid = nn.Linear(encoder.dim, encoder.hidden), \
            nn.Linear(encoder.hidden, decoder.dim)
        self.down = nn.Linear(decoder.dim, encoder.dim)

    def forward(self, x, y):
        return (self.down(torch.tanh(self.mid(self.up(x)))) - y).square().mean()


@case(lines=["encoder_dim=8", "decoder_dim=20"], defines=["encoder_dim=16 decoder_dim=40"])
def configs_with_equal_names():
    return TwoConfigs(Size(), Size(20)), inputs()


class FewElements(nn.Module):
    """Small modules whose elements look like those of other distributions by chance."""

    def __init__(self, dim=4, n=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim + i % 2) for i in range(n))
        self.embed = nn.Embedding(3, dim)
        self.last = nn.Parameter(torch.randn(dim) * 0.5)

    def forward(self, x, y, ids):
        loss = (self.embed(ids) * self.last).square().mean()
        for layer in self.layers:
            loss = loss + (layer(x).sum(-1) - y.sum(-1)).square().mean()
        return loss


@case(lines=["layers_11: Linear(dim, dim + 1)", "std=0.5"], absent=["init="])
def initial_values_of_few_elements():
    return FewElements(), (*inputs(4, 6), torch.randint(0, 3, (2, 4)))
