"""A stack of feed-forward blocks under FSDP and tensor parallelism, and its
optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Bytes(nn.Module):
    """Predicts the next byte from one byte."""

    def __init__(self, n_layers, dim, hidden):
        super().__init__()
        self.embed = nn.Embedding(256, dim)
        self.layers = nn.ModuleList(FeedForward(dim, hidden) for _ in range(n_layers))
        self.head = nn.Linear(dim, 256)

    def forward(self, tokens, labels):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Summed(FeedForward):
    """One block, whose loss is the sum of its results."""

    def forward(self, x):
        return super().forward(x).sum()


def block():
    return Summed(24, 40), (torch.randn(8, 24),)


def parallelize_block(model, device_mesh):
    tp_mesh, dp_mesh = device_mesh["tensor_parallel"], device_mesh["data_parallel"]
    if tp_mesh.size() > 1:
        plan = {"w1": ColwiseParallel(), "w2": RowwiseParallel(), "w3": ColwiseParallel()}
        parallelize_module(model, tp_mesh, plan)
    if dp_mesh.size() > 1:
        fully_shard(model.w1, mesh=dp_mesh)
        fully_shard(model.w2, mesh=dp_mesh)
        fully_shard(model.w3, mesh=dp_mesh)
        fully_shard(model, mesh=dp_mesh)
    return model


class ModelParallelStrategy:
    """Lightning's strategy, as far as it needs to be there."""

    def __init__(self, parallelize_fn):
        self._parallelize_fn = parallelize_fn


strategy = ModelParallelStrategy(parallelize_fn=parallelize_block)


def model():
    ids = torch.randint(0, 256, (4, 32))
    return Bytes(3, 24, 40), (ids, ids.clone())


def parallelize(model, device_mesh):
    tp_mesh, dp_mesh = device_mesh["tensor_parallel"], device_mesh["data_parallel"]
    for layer in model.layers:
        parallelize_module(layer, tp_mesh, {"w1": ColwiseParallel(), "w2": RowwiseParallel(),
                                            "w3": ColwiseParallel()})
        fully_shard(layer, mesh=dp_mesh)
    fully_shard(model, mesh=dp_mesh)
    return model


def by_class(model):
    return FSDP(model, auto_wrap_policy=ModuleWrapPolicy({FeedForward}))


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-3)
