"""A language model with the encoder and decoder of torch's nn.Transformer, and the
functions that shard it: policies and strategies of FSDP, recomputed layers, mixed
precision.

The sizes are small. With the numbers of `-D nlayers=32 -D ninp=1024 -D nhead=64
-D nhid=4096 -D vocab_size=33278` the model has a billion parameters.
"""
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (CPUOffload, FullyShardedDataParallel as FSDP,
                                    MixedPrecision, ShardingStrategy, fully_shard)
from torch.distributed.fsdp.wrap import (CustomPolicy, ModuleWrapPolicy,
                                         always_wrap_policy, enable_wrap,
                                         lambda_auto_wrap_policy,
                                         size_based_auto_wrap_policy,
                                         transformer_auto_wrap_policy, wrap)

LAYERS = {nn.TransformerEncoderLayer, nn.TransformerDecoderLayer}


class PositionalEncoding(nn.Module):
    def __init__(self, dim, dropout, max_len=128):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len)[:, None]
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(max_len, dim)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return self.dropout(x + self.table[:x.size(1)])


class Transformer(nn.Module):
    """Logarithms of the probabilities of the target's tokens, flattened."""

    def __init__(self, vocab_size, ninp, nhead, nhid, nlayers, dropout):
        super().__init__()
        self.ninp, self.vocab_size = ninp, vocab_size
        self.pos_encoder = PositionalEncoding(ninp, dropout)
        self.embedding = nn.Embedding(vocab_size, ninp)
        self.transformer = nn.Transformer(
            d_model=ninp, nhead=nhead, num_encoder_layers=nlayers,
            num_decoder_layers=nlayers, dim_feedforward=nhid, dropout=dropout,
            batch_first=True)
        self.decoder = nn.Linear(ninp, vocab_size)

    def forward(self, inputs, target):
        length = target.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        source = self.pos_encoder(self.embedding(inputs) * math.sqrt(self.ninp))
        given = self.pos_encoder(self.embedding(target) * math.sqrt(self.ninp))
        output = self.decoder(self.transformer(source, given, tgt_mask=later))
        return F.log_softmax(output, dim=-1).view(-1, self.vocab_size)


class LanguageModel(nn.Module):
    def __init__(self, vocab_size=256, nlayers=2, nhid=48, ninp=32, nhead=4, dropout=0.0):
        super().__init__()
        self.model = Transformer(vocab_size=vocab_size, nlayers=nlayers, nhid=nhid,
                                 ninp=ninp, nhead=nhead, dropout=dropout)

    def forward(self, inputs, target):
        output = self.model(inputs, target)
        return F.nll_loss(output, target.view(-1))


def model():
    inputs, target = torch.randint(0, 256, (2, 4, 32))
    return LanguageModel(), (inputs, target)


def with_dropout():
    inputs, target = torch.randint(0, 256, (2, 4, 32))
    return LanguageModel(dropout=0.2), (inputs, target)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


# Which modules are units

def whole(model):
    return FSDP(model)


def by_class(model):
    return FSDP(model, auto_wrap_policy=ModuleWrapPolicy(LAYERS))


def by_layer_class(model):
    return FSDP(model, auto_wrap_policy=functools.partial(
        transformer_auto_wrap_policy, transformer_layer_cls=LAYERS))


def by_size(model):
    return FSDP(model, auto_wrap_policy=functools.partial(
        size_based_auto_wrap_policy, min_num_params=10000))


def every_module(model):
    return FSDP(model, auto_wrap_policy=always_wrap_policy)


def by_lambda(model):
    return FSDP(model, auto_wrap_policy=functools.partial(
        lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Transformer)))


def by_settings(model):
    """Encoder layers keep their parameters after the forward pass."""
    def choose(module):
        if isinstance(module, nn.TransformerEncoderLayer):
            return {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}
        return isinstance(module, nn.TransformerDecoderLayer)
    return FSDP(model, auto_wrap_policy=CustomPolicy(choose))


def by_hand(model):
    with enable_wrap(wrapper_cls=FSDP):
        stack = model.model.transformer
        for layers in (stack.encoder.layers, stack.decoder.layers):
            for i, layer in enumerate(layers):
                layers[i] = wrap(layer)
        model.model = wrap(model.model)
    return FSDP(model)


# What a rank stores

def with_strategy(strategy):
    def parallelize(model):
        return FSDP(model, auto_wrap_policy=ModuleWrapPolicy(LAYERS),
                    sharding_strategy=strategy)
    return parallelize


full_shard = with_strategy(ShardingStrategy.FULL_SHARD)
shard_grad_op = with_strategy(ShardingStrategy.SHARD_GRAD_OP)
no_shard = with_strategy(ShardingStrategy.NO_SHARD)
hybrid_shard = with_strategy(ShardingStrategy.HYBRID_SHARD)
hybrid_shard_zero2 = with_strategy(ShardingStrategy._HYBRID_SHARD_ZERO2)


def offloaded(model):
    return FSDP(model, auto_wrap_policy=ModuleWrapPolicy(LAYERS),
                cpu_offload=CPUOffload(offload_params=True))


# What is recomputed, and number types

def checkpointed(model):
    model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy(LAYERS))
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, tuple(LAYERS)))
    return model


def mixed_precision(model):
    return FSDP(model, auto_wrap_policy=ModuleWrapPolicy(LAYERS),
                mixed_precision=MixedPrecision(param_dtype=torch.bfloat16,
                                               reduce_dtype=torch.float32))


def units_of_child(model, mesh):
    """FSDP2, with the child `model` as a unit and the loss outside of it."""
    stack = model.model.transformer
    for layer in (*stack.encoder.layers, *stack.decoder.layers):
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model.model, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"])


def hybrid_mesh(model):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicas", "shards"))
    return FSDP(model, device_mesh=mesh, auto_wrap_policy=ModuleWrapPolicy(LAYERS),
                sharding_strategy=ShardingStrategy.HYBRID_SHARD)
