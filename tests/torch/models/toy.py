"""A model of one layer under hybrid FSDP, FSDP2 and tensor parallelism, with meshes that
the functions make themselves."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (FullyShardedDataParallel as FSDP, ShardingStrategy,
                                    fully_shard)
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module


class ToyModel(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net1 = nn.Linear(features, features, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.net1(x))


class Trained(ToyModel):
    """The model with a loss."""

    def forward(self, x, y):
        return F.mse_loss(super().forward(x), y)


def model():
    return Trained(12), (torch.randn(8, 12), torch.randn(8, 12))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def hybrid_fsdp1(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=["DP", "FSDP"])
    return FSDP(model, device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD)


def fsdp1(model):
    return FSDP(model)


def fsdp2(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=["DP", "FSDP"])
    return fully_shard(model, mesh=mesh["FSDP"])


def hybrid_fsdp2(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=["DP", "FSDP"])
    return fully_shard(model, mesh=mesh["DP", "FSDP"])


def fsdp2_and_tp(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=["FSDP", "TP"])
    model = parallelize_module(model, mesh["TP"], {"net1": ColwiseParallel()})
    return fully_shard(model, mesh=mesh["FSDP"], reshard_after_forward=True)
