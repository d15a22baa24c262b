"""Models with the names of the examples in PDL, and functions that parallelize them
as documents of PyTorch and Lightning do, for from_torch_plan.py."""
import functools
import os
import types

import torch
from torch import nn
from torch.distributed._composable.fsdp.fully_shard import fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing, checkpoint_wrapper)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy, FSDPModule, FullyShardedDataParallel as FSDP, MixedPrecision,
    MixedPrecisionPolicy, ShardingStrategy)
from torch.distributed.fsdp.wrap import (
    CustomPolicy, ModuleWrapPolicy, always_wrap_policy, enable_wrap,
    lambda_auto_wrap_policy, size_based_auto_wrap_policy,
    transformer_auto_wrap_policy, wrap)
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel, ParallelStyle, PrepareModuleInputOutput,
    RowwiseParallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel as DDP

from models.llama2 import loss_parallel as tensor_parallel


# Models, with the names of the examples in PDL

class FeedForward(nn.Module):
    def __init__(self, dim=16, hidden=32):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)


class Attention(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.n_heads = self.n_kv_heads = 8
        for name in ("wq", "wk", "wv", "wo"):
            setattr(self, name, nn.Linear(dim, dim, bias=False))

    def forward(self, x, mask=None):
        return x


class TransformerBlock(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.attention_norm = nn.RMSNorm(dim)
        self.attention = Attention(dim)
        self.ffn_norm = nn.RMSNorm(dim)
        self.feed_forward = FeedForward(dim)


class Llama(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tok_embeddings = nn.Embedding(64, dim)
        self.layers = nn.ModuleList(TransformerBlock(dim) for _ in range(4))
        self.norm = nn.RMSNorm(dim)
        self.output = nn.Linear(dim, 64, bias=False)


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(12, 12, bias=False)


class Seq2Seq(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embedding = nn.Embedding(64, dim)
        self.transformer = nn.Transformer(dim, 2, 2, 2, 32, batch_first=True)
        self.decoder = nn.Linear(dim, 64)


# Functions in the style of the tutorial for tensor parallelism

def two_dims_without_names(model):
    mesh_2d = init_device_mesh("cuda", (8, 8))
    model = tensor_parallel(model, mesh_2d["tp"])
    return FSDP(model, device_mesh=mesh_2d["dp"], use_orig_params=True,
                auto_wrap_policy=ModuleWrapPolicy({TransformerBlock}))


TENSOR_PARALLEL = """
    parallelize tp {
        layers.*.attention_norm:  SequenceParallel
        layers.*.attention:       PrepareModuleInput(Shard(1) -> Replicate)
        layers.*.attention.wq:    ColwiseParallel
        layers.*.attention.wk:    ColwiseParallel
        layers.*.attention.wv:    ColwiseParallel
        layers.*.attention.wo:    RowwiseParallel(output=Shard(1))
        layers.*.ffn_norm:        SequenceParallel
        layers.*.feed_forward:    PrepareModuleInput(Shard(1) -> Replicate)
        layers.*.feed_forward.w1: ColwiseParallel
        layers.*.feed_forward.w2: RowwiseParallel(output=Shard(1))
        layers.*.feed_forward.w3: ColwiseParallel
        tok_embeddings:           RowwiseParallel(input=Replicate, output=Shard(1))
        norm:                     SequenceParallel
        output:                   ColwiseParallel(input=Shard(1))
    }"""


def typical_fsdp2(model: nn.Module, world_mesh: DeviceMesh, prefetch=1):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                  reduce_dtype=torch.float32)
    options = {"mesh": world_mesh["dp_replicate", "dp_shard"], "mp_policy": policy,
               "offload_policy": CPUOffloadPolicy()}
    for i in range(0, len(model.layers), 2):
        model.layers[i] = checkpoint_wrapper(model.layers[i])
    model.layers = model.layers
    fully_shard(model.tok_embeddings, **options)
    for i, block in enumerate(model.layers):
        fully_shard(block, reshard_after_forward=i < len(model.layers) - 1,
                    **options)
        assert isinstance(block, FSDPModule)
    fully_shard([model.norm, model.output], **options)
    fully_shard(model, **options)
    for i, block in enumerate(model.layers[:-1]):
        block.set_modules_to_forward_prefetch(model.layers[i + 1:i + 3])


def flat_mesh(model, mesh):
    both = mesh["dp_shard", "cp"]._flatten("dp_shard_cp")
    for i, block in enumerate(model.layers):
        fully_shard([block.attention_norm, block.attention], mesh=both)
        fully_shard([block.ffn_norm, block.feed_forward], mesh=both)
    fully_shard(model, mesh=both, reshard_after_forward=True)


# Functions in the style of the text about DeviceMesh

def hybrid_fsdp1(model):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=["DP", "FSDP"])
    assert mesh["DP"].get_local_rank() == 0 and mesh.ndim == 2
    return FSDP(model, device_mesh=mesh,
                sharding_strategy=ShardingStrategy.HYBRID_SHARD)


def hybrid_fsdp2(model):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("DP", "FSDP"))
    return fully_shard(model, mesh=mesh["FSDP"])


def fsdp2_and_tp(model):
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=["FSDP", "TP"])
    model = parallelize_module(model, mesh["TP"], {"net1": ColwiseParallel()})
    return fully_shard(model, mesh=mesh["FSDP"], reshard_after_forward=True)


# A function in the style of Lightning's two-dimensional parallelism

def parallelize_feedforward(model, device_mesh):
    tp_mesh, dp_mesh = device_mesh["tensor_parallel"], device_mesh["data_parallel"]
    if tp_mesh.size() > 1:
        parallelize_module(model, tp_mesh, {"w1": ColwiseParallel(),
                                            "w2": RowwiseParallel(),
                                            "w3": ColwiseParallel()})
    if dp_mesh.size() > 1:
        for child in (model.w1, model.w2, model.w3, model):
            fully_shard(child, mesh=dp_mesh)
    return model


class ModelParallelStrategy:
    """Lightning's strategy, as far as a recording needs it."""

    def __init__(self, parallelize_fn):
        self._parallelize_fn = parallelize_fn


# Strategies of FSDP in the style of Lightning's guide

LAYER_CLASSES = {nn.TransformerEncoderLayer, nn.TransformerDecoderLayer}


def by_size(model):
    return FSDP(model, auto_wrap_policy=functools.partial(
        size_based_auto_wrap_policy, min_num_params=1000))


def by_custom_policy(model):
    def choose(module):
        if module is model.decoder:
            return {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}
        return isinstance(module, nn.TransformerEncoderLayer)
    return FSDP(model, auto_wrap_policy=CustomPolicy(choose), mixed_precision=(
        MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)))


def by_lambda(model):
    return FSDP(model, auto_wrap_policy=functools.partial(
        lambda_auto_wrap_policy, lambda_fn=lambda m: m is model.embedding),
        ignored_modules=[model.decoder])


def by_transformer_policy(model):
    model = FSDP(model, auto_wrap_policy=functools.partial(
        transformer_auto_wrap_policy, transformer_layer_cls=LAYER_CLASSES))
    apply_activation_checkpointing(
        model, checkpoint_wrapper_fn=functools.partial(checkpoint_wrapper),
        check_fn=lambda m: isinstance(m, nn.TransformerEncoderLayer))


def by_hand(model):
    with enable_wrap(wrapper_cls=FSDP, sharding_strategy="SHARD_GRAD_OP"):
        model.embedding = wrap(model.embedding)
        for i, layer in enumerate(model.transformer.decoder.layers):
            model.transformer.decoder.layers[i] = wrap(layer)


class Module(Toy):
    """A LightningModule with its hook."""
    device_mesh = property(lambda self: self._device_mesh)

    def configure_model(self):
        parallelize_module(self, self.device_mesh["tensor_parallel"],
                           {"net1": ColwiseParallel()})
        fully_shard(self.net1, mesh=self.device_mesh["data_parallel"])


def every_second_matmul(model, world_mesh):
    """A policy that counts, as torchtitan's."""
    import torch.utils.checkpoint as checkpoint

    def contexts():
        count = [0]

        def policy(context, op, *args, **kwargs):
            count[0] += op is torch.ops.aten.mm.default
            return checkpoint.CheckpointPolicy.MUST_SAVE if count[0] % 2 else \
                checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
        return checkpoint.create_selective_checkpoint_contexts(policy)

    for name, block in model.layers.named_children():
        block = checkpoint_wrapper(block, context_fn=contexts,
                                   preserve_rng_state=False)
        model.layers.register_module(name, torch.compile(block, fullgraph=True))
    fully_shard(model, mesh=world_mesh["dp_shard_cp"])


def alternating(model, mesh):
    for i, block in enumerate(model.layers):
        style = ColwiseParallel() if i % 2 else RowwiseParallel()
        parallelize_module(block.feed_forward, mesh["tp"], {"w1": style})


def named_dims(model):
    mesh = init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("rep", "dp", "tp"))
    parallelize_module(model, mesh["tp"], {"output": ColwiseParallel()})
    hybrid = types.SimpleNamespace(shard="dp", replicate="rep")
    flat = types.SimpleNamespace(shard=("rep", "dp"), replicate=None)
    for block in model.layers:
        fully_shard(block, mesh=mesh, dp_mesh_dims=hybrid)
    fully_shard(model, mesh=mesh, dp_mesh_dims=flat)


class Suggested(Llama):
    """A model with a tp_plan, as those of transformers."""
    tp_plan = {"output": "colwise_gather_output", "tok_embeddings": "embedding_rowwise",
               "layers.*.feed_forward.w1": "colwise",
               "layers.*.feed_forward.w3": "packed_colwise",
               "layers.*.feed_forward.w2": "rowwise",
               "layers.*.attention_norm": "replicated_with_grad_allreduce",
               "layers.*.experts": "moe_tp_experts"}


def tied_weights(model):
    model.output.weight = model.tok_embeddings.weight
    fully_shard(model.output)


def data_parallel(model):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return DDP(model.to("cuda"), device_ids=[torch.cuda.current_device()])


def frozen(model, mesh):
    model.tok_embeddings.requires_grad_(False)
    for block in model.layers:
        block.attention.requires_grad_(False)
    model.layers[1].feed_forward.w1.weight.requires_grad = False
    fully_shard(model, mesh=mesh)


def placements(model, tp_mesh, dp_mesh):
    for block in model.layers[:3]:
        weight = block.feed_forward.w1.weight
        block.feed_forward.w1.weight = nn.Parameter(
            distribute_tensor(weight, tp_mesh, [Shard(0)]))
    parallelize_module(model, tp_mesh, {"layers.*.attention": (
        PrepareModuleInputOutput(
            input_layouts=(Shard(1), None),
            desired_input_layouts=(Replicate(), None),
            output_layouts=Replicate(), desired_output_layouts=Shard(1)))})
    fully_shard(model, mesh=dp_mesh)


def by_selective_checkpoints(model):
    from torch.utils.checkpoint import create_selective_checkpoint_contexts as c
    ops = [torch.ops.aten._scaled_dot_product_flash_attention.default]
    for name, child in list(model.layers.named_children()):
        model.layers.register_module(name, checkpoint_wrapper(
            child, context_fn=functools.partial(c, ops)))
    FSDP(model, auto_wrap_policy=always_wrap_policy)


# Functions with a default mesh, and with what PDL lacks

def whole_tensor_mesh(model, mesh):
    parallelize_module(model, mesh, {
        "layers.*.feed_forward.w[13]": ColwiseParallel(),
        "layers.*.feed_forward.w2": RowwiseParallel()})


def whole_hybrid_mesh(model, mesh):
    FSDP(model, device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD)


def constructed_mesh(model):
    mesh = DeviceMesh("cuda", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    assert isinstance(mesh, DeviceMesh) and mesh.shape == (2, 2)
    assert torch.distributed.get_world_size(mesh.get_group("tp")) == 2
    with mesh["dp"]:
        fully_shard(model)
    parallelize_module(model, mesh["tp"], {"output": ColwiseParallel()})


class Unknown(ParallelStyle):
    def _apply(self, module, device_mesh):
        return module


def without_counterpart(model, mesh):
    for block in model.layers:
        parallelize_module(block, mesh["tp"], {"attention_norm": Unknown(),
                                               "feed_foward.w1": ColwiseParallel(),
                                               "feed_forward.w1": ColwiseParallel()})
        fully_shard(block, mesh=mesh["fsdp"], reshard_after_forward=4)
    model.bfloat16()


def patched_forward(model):
    import torch.utils.checkpoint as checkpoint
    for block in model.layers:
        block.forward = functools.partial(checkpoint.checkpoint, block.forward,
                                          use_reentrant=False)
    fully_shard(torch.compile(model))


def raises(model):
    model.layers[0].attention.n_heads = 3
    model.requires_grad_(False)
    fully_shard(model)
    raise ValueError("no such option")


def takes_config(model, mesh, config):
    parallelize_module(model, mesh["tp"], {"output": config})
