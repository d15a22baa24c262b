"""Small models with inputs, modes, names and wiring of many kinds (small.py)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


def inputs(dim=8, seq=4):
    return torch.randn(2, seq, dim), torch.randn(2, seq, dim)


class Optional(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, mask=None, scale=1.0, y=None):
        x = self.fc(x) * scale
        if mask is not None:
            x = x * mask
        return (x - y).square().mean()


@case(lines=["forward(x: [batch, 4, dim], y: [batch, 4, dim])"])
def none_and_numbers_among_inputs():
    x, y = inputs()
    return Optional(), (x, None, 2.0, y)


@case(lines=["x: ", "y: "])
def keyword_inputs_with_none():
    x, y = inputs()
    return Optional(), {"y": y, "mask": None, "x": x, "scale": 3}


class Swapping(nn.Module):
    def __init__(self, dim, swap):
        super().__init__()
        self.a, self.b, self.swap = nn.Linear(dim, dim), nn.Linear(dim, dim), swap

    def forward(self, x, y):
        x, y = (y, x) if self.swap else (x, y)
        return self.a(x) - torch.tanh(self.b(y))


class Wired(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.one, self.two = Swapping(dim, False), Swapping(dim, True)

    def forward(self, x, y):
        return (self.one(x, y) * self.two(x, y)).mean()


@case(lines=["module Swapping(", "module Swapping2("])
def modules_with_swapped_inputs():
    return Wired(), inputs()


class OwnTie(nn.Module):
    def __init__(self, dim, tied):
        super().__init__()
        self.a, self.b = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        if tied:
            self.b.weight = self.a.weight

    def forward(self, x):
        return self.a(torch.tanh(self.b(x)))


class Tying(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.one, self.two = OwnTie(dim, False), OwnTie(dim, True)

    def forward(self, x, y):
        return (self.two(self.one(x)) - y).square().mean()


@case(lines=["two: OwnTie2(", "tie b.weight = a.weight"], absent=["tie two"])
def modules_with_ties_of_their_own():
    return Tying(), inputs()


class Training(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc, self.drop = nn.Linear(dim, dim), nn.Dropout(0.1)

    def forward(self, x, y):
        x = self.drop(self.fc(x))
        loss = (F.dropout(x, 0.2, self.training) - y).square().mean()
        if self.training:
            loss = loss + 0.1 * x.abs().mean()
        return loss


@case(lines=["mean(abs(x))", "dropout(x, 0.2)"])
def loss_of_training_mode():
    return Training(), inputs()


@case(absent=["abs", "dropout", "Dropout"])
def loss_of_evaluation_mode():
    return Training().eval(), inputs()


class Größe(nn.Module):
    def __init__(self, größe=8, 高=3):
        super().__init__()
        self.schicht_ä = nn.Linear(größe, 高 * größe)
        self.schicht_ö = nn.Linear(高 * größe, größe)

    def forward(self, eingäbe, y):
        später = self.schicht_ä(eingäbe)
        return (self.schicht_ö(torch.tanh(später) * später) - y).square().mean()


@case(lines=["Gro_e", "schicht_a", '-> "schicht_ä'], defines=["gro_e=16"])
def names_that_are_not_ascii():
    return Größe(), inputs()


class Lists(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, parts, y):
        return (self.fc(sum(parts)) - torch.cat([y, y], -1)[..., :y.shape[-1]]).square().mean()


@case(lines=["[batch, 4, dim]"], absent=["[2, 4"], defines=["dim=16"])
def list_of_inputs():
    x, y = inputs()
    return Lists(), ([x, x * 2], y)


class Hot(nn.Module):
    def __init__(self, n_classes=6, dim=8):
        super().__init__()
        self.n_classes = n_classes
        self.fc, self.out = nn.Linear(n_classes, dim), nn.Linear(dim, n_classes)

    def forward(self, ids, labels):
        x = self.out(torch.tanh(self.fc(F.one_hot(ids, self.n_classes).float())))
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())


@case(lines=["onehot(ids, n_classes)", "int(n_classes)"], defines=["n_classes=10"])
def classes_of_a_one_hot():
    return Hot(), (torch.randint(0, 6, (2, 4)), torch.randint(0, 6, (2, 4)))


class SmallNumbers(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, y):
        x = self.fc(x) ** 2 * 1e-9
        return 1e16 * ((torch.log1p(x) + torch.expm1(x) - 1e-9 * y) ** 2).mean()


@case()
def small_numbers():
    return SmallNumbers(), inputs()


class TiedLayers(nn.Module):
    def __init__(self, dim=8, n_layers=3, same=True):
        super().__init__()
        self.layers = nn.ModuleList(OwnTie(dim, same or i > 0) for i in range(n_layers))

    def forward(self, x, y):
        for layer in self.layers:
            x = x + layer(x)
        return (x - y).square().mean()


@case(lines=["layers: [n_layers] OwnTie(dim)", "tie b.weight = a.weight"],
      defines=["n_layers=4"])
def array_of_modules_with_ties():
    return TiedLayers(), inputs()


@case(lines=["layers_0: OwnTie(dim)", "layers_1: OwnTie2(dim)"])
def array_of_which_some_are_tied():
    return TiedLayers(same=False), inputs()


class Prototype(nn.Module):
    """The first name of the tied weight is that of a module that is not called."""

    def __init__(self, vocab=16, dim=8):
        super().__init__()
        self.first = nn.Linear(dim, vocab, bias=False)
        self.unused = nn.Linear(dim, dim)
        self.embed, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight = self.first.weight

    def forward(self, ids, labels):
        x = self.head(torch.tanh(self.embed(ids)))
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())


@case(lines=["tie head.weight = embed.weight", "-> first.weight"])
def tie_with_a_module_that_is_not_called():
    return Prototype(), (torch.randint(0, 16, (2, 4)), torch.randint(0, 16, (2, 4)))
