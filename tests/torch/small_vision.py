"""Small models with scans over time, positions, known indices and batch norms (small.py)."""
import torch
import torch.nn.functional as F
from torch import nn

from small import case
from small_operators import net


@case(lines=["linear_recurrence(", "einsum("], absent=["select("], defines=["seq=24"])
def scan():
    def run(self, x, ids):
        decay, state, found = torch.sigmoid(x), torch.zeros(x.shape[0], x.shape[2]), []
        for i in range(x.shape[1]):
            state = decay[:, i] * state + x[:, i]
            found.append((state[:, None] @ x[:, i, :, None])[:, 0])
        return x * torch.stack(found, dim=1)

    model, (ids, labels) = net(run)
    return model, (ids.repeat(1, 2), labels.repeat(1, 2))


@case(lines=["argmax(", "arange(seq) =="])
def chosen_token():
    def run(self, x, ids):
        return x + x[torch.arange(x.shape[0]), ids.argmax(-1)][:, None]
    return net(run)


class Contrast(nn.Module):
    """Each row's own partner is its class."""

    def __init__(self, dim=8):
        super().__init__()
        self.a, self.b = nn.Linear(6, dim), nn.Linear(6, dim)

    def forward(self, x, y):
        scores = self.a(x) @ self.b(y).T
        own = torch.arange(len(scores))
        return F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)


@case(lines=["arange(batch)"], defines=["batch=8"])
def contrast():
    return Contrast(), (torch.randn(4, 6), torch.randn(4, 6))


class Relative(nn.Module):
    """A number for each difference of positions in a window of pixels."""

    def __init__(self, window=3, dim=9):
        super().__init__()
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, 2))
        at = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        far = at[:, None] - at[None] + window - 1
        self.register_buffer("index", far[..., 0] * (2 * window - 1) + far[..., 1])
        self.head = nn.Linear(dim, 4)

    def forward(self, x, labels):
        bias = self.table[self.index.flatten()].view(*self.index.shape, 2)
        return F.cross_entropy(self.head(x @ bias.softmax(1).sum(-1)), labels)


@case(lines=["ace, bdf, efg -> abcdg"])
def relative_positions():
    return Relative(), (torch.randn(2, 9), torch.randint(0, 4, (2,)))


class Normed(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 4)

    def forward(self, x, labels):
        x = F.relu(self.norm(self.conv(x)))[:, :, ::2]
        return F.cross_entropy(self.head(F.adaptive_avg_pool1d(x.flatten(2), 1)[..., 0]), labels)


@case(lines=["step=2"])
def batch_norm():
    return Normed().eval(), (torch.randn(2, 3, 5, 5), torch.randint(0, 4, (2,)))


@case(lines=["norm: BatchNorm(channels)", "norm(conv(x))"])
def batch_norm_in_training():
    return Normed(), (torch.randn(2, 3, 5, 5), torch.randint(0, 4, (2,)))


class Normed1d(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.up = nn.Linear(dim, dim)
        self.norms = nn.ModuleList([
            nn.BatchNorm1d(dim, eps=1e-3, momentum=None), nn.SyncBatchNorm(dim, affine=False),
            nn.BatchNorm1d(dim, momentum=0.3)])
        nn.init.zeros_(self.norms[2].weight)

    def forward(self, x):
        for norm in self.norms:
            x = x + norm(self.up(x))
        return x.square().mean()


@case(lines=["BatchNorm(dim, eps=0.001, momentum=none)", "BatchNorm(dim, affine=false)",
             "BatchNorm(dim, momentum=0.3, init=zeros)"], defines=["dim=8"])
def batch_norms_of_rows():
    return Normed1d(), (torch.randn(4, 6),)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(self.norm(x) * 2).square().mean()


@case(error=["a step calls this batch norm more than once (in norm, class BatchNorm1d)"])
def batch_norm_twice():
    return Shared(), (torch.randn(4, 6),)


class Untracked(Shared):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6, track_running_stats=False)


@case(error=["with statistics of the batch has a counterpart for modules with running"])
def batch_norm_untracked():
    return Untracked(), (torch.randn(4, 6),)
