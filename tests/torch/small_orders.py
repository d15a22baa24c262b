"""Small models with sorted tensors and positions of elements (small.py)."""
import torch
import torch.nn as nn

from small import case
from small_operators import net


@case(lines=["topk(", "sort(", "largest=false", "descending=true"])
def orders():
    def run(self, x, ids):
        high, at = x.topk(3)
        low, _ = torch.topk(x, 2, 1, largest=False)
        up, order = torch.sort(x)
        down = torch.sort(x, dim=1, descending=True, stable=True)[0]
        y = x.gather(-1, order) + up + down * low.sum(1, keepdim=True) + high.mean(-1, keepdim=True)
        return y + x.gather(-1, at).sum(-1, keepdim=True) + \
            x.gather(-1, torch.argsort(x, descending=True)) * at.float().sum(-1, keepdim=True)
    return net(run)


@case(lines=["topk(", "sort("], absent=["argmax("])
def extremes_with_positions():
    def run(self, x, ids):
        top, at = x.max(-1)
        least, where = x.min(1, keepdim=True)
        middle, _ = x.median(-1, keepdim=True)
        third, _ = x.kthvalue(3, 1)
        _, low = (-x).median(-1)
        y = x * at.unsqueeze(-1) + top.unsqueeze(-1) + least * where + middle
        return y + third.unsqueeze(1) + torch.sin(low).unsqueeze(-1)
    return net(run)


@case(lines=["topk(", "onehot("])
def experts():
    class Experts(nn.Module):
        def __init__(self, dim=8, experts=4):
            super().__init__()
            self.table = nn.Embedding(16, dim)
            self.router = nn.Linear(dim, experts, bias=False)
            self.up = nn.Linear(dim, experts * dim)
            self.head = nn.Linear(dim, 16)

        def forward(self, ids, labels):
            h = self.table(ids)
            weights, chosen = self.router(h).softmax(-1).topk(2, -1)
            hot = nn.functional.one_hot(chosen, 4)
            each = (hot * weights.unsqueeze(-1)).sum(-2)
            y = (self.up(h).unflatten(-1, (4, 8)) * each.unsqueeze(-1)).sum(-2)
            return nn.functional.cross_entropy(self.head(h + y).flatten(0, 1), labels.flatten())
    ids = torch.randint(0, 16, (2, 6))
    return Experts(), (ids, ids.clone())


@case(lines=["embed(squeeze(", "topk("])
def looked_up_positions():
    def run(self, x, ids):
        return x + self.embed(x.topk(1)[1].squeeze(-1))
    return net(run)
