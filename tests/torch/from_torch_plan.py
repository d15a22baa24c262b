#!/usr/bin/env python3
"""Tests parc_from_torch's plan and train blocks.

  from_torch_plan.py [PARC]

Functions that parallelize models as PyTorch's and Lightning's documents do are
recorded. The test compares the blocks with the expected text, compiles each with
a PDL model of the same names, and checks that models and modules are restored.
PARC is build/parc by default. Needs torch, no GPU. Prints `N passed, N failed`.
"""
import functools
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings

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
    CustomPolicy, ModuleWrapPolicy, always_wrap_policy, lambda_auto_wrap_policy,
    size_based_auto_wrap_policy, transformer_auto_wrap_policy)
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput,
    RowwiseParallel, SequenceParallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import lr_scheduler

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from parc_from_torch.lightning import fsdp_strategy     # noqa: E402
from parc_from_torch.plan_block import plan_block       # noqa: E402
from parc_from_torch.record import record               # noqa: E402
from parc_from_torch.recording import RecordError       # noqa: E402
from parc_from_torch.train_block import train_block     # noqa: E402

PARC = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "parc")
COUNTS = {True: 0, False: 0}
LAYERS = {"layers": 4}
STACKS = {"transformer.encoder.layers": 2, "transformer.decoder.layers": 2}


def check(name, fine, detail=""):
    COUNTS[bool(fine)] += 1
    if not fine:
        print(f"FAIL {name}\n{textwrap.indent(str(detail), '    ')}")


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


# The same models in PDL: an example, and options for the sizes above
PDL = {
    Llama: ("llama.pdl", "vocab=64 dim=16 n_layers=4 n_heads=8 n_kv_heads=8 "
                         "hidden=32 batch=8 seq=16"),
    Toy: ("toy.pdl", ""),
    FeedForward: ("feedforward.pdl", "dim=16 hidden=32"),
    Seq2Seq: ("transformer.pdl", "vocab=64 dim=16 n_layers=2 n_heads=2 hidden=32 "
                                 "batch=8 seq=8"),
}


# Functions in the style of the tutorial for tensor parallelism

BLOCK_PLAN = {
    "attention_norm": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),),
                                    desired_input_layouts=(Replicate(),)),
    "attention.wq": ColwiseParallel(),
    "attention.wk": ColwiseParallel(),
    "attention.wv": ColwiseParallel(),
    "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
    "ffn_norm": SequenceParallel(),
    "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),),
                                       desired_input_layouts=(Replicate(),)),
    "feed_forward.w1": ColwiseParallel(),
    "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
    "feed_forward.w3": ColwiseParallel(),
}


def tensor_parallel(model, tp_mesh):
    for block in model.layers:
        block.attention.n_heads = block.attention.n_heads // tp_mesh.size()
        block.attention.n_kv_heads //= tp_mesh.size()
        parallelize_module(module=block, device_mesh=tp_mesh,
                           parallelize_plan=BLOCK_PLAN)
    return parallelize_module(model, tp_mesh, {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(),
                                          output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    })


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


# name, model, function, mesh to compile for, arrays, expected block
CASES = (
    ("two dims", Llama, two_dims_without_names, "2x2", LAYERS, """
plan recorded(dp, tp) {""" + TENSOR_PARALLEL + """
    fully_shard dp { every TransformerBlock, model }
}"""),
    ("tensor parallel", Llama, tensor_parallel, "2", LAYERS, """
plan recorded(tp) {""" + TENSOR_PARALLEL + """
}"""),
    ("typical FSDP2", Llama, typical_fsdp2, "2x2", LAYERS, """
plan recorded(dp_replicate, dp_shard) {
    fully_shard (dp_replicate, dp_shard) {
        tok_embeddings
        layers.0-2: prefetch=2
        layers.3:   reshard=false, prefetch=2
        [norm, output]
    }
    checkpoint { layers.*: every=2 }
    offload { parameters, optimizer }
}"""),
    ("flat mesh", Llama, flat_mesh, "2x2", LAYERS, """
plan recorded(dp_shard, cp) {
    fully_shard (dp_shard, cp) {
        [layers.*.attention_norm, layers.*.attention]: strategy=full_shard
        [layers.*.ffn_norm, layers.*.feed_forward]:    strategy=full_shard
        model:                                         strategy=full_shard, reshard=true
    }
}"""),
    ("hybrid FSDP1", Toy, hybrid_fsdp1, "2x2", {}, """
plan recorded(DP, FSDP) {
    fully_shard (DP, FSDP) { model }
}"""),
    ("hybrid FSDP2", Toy, hybrid_fsdp2, "2x2", {}, """
plan recorded(DP, FSDP) {
    fully_shard FSDP { model }
}"""),
    ("FSDP2 and TP", Toy, fsdp2_and_tp, "2x2", {}, """
plan recorded(FSDP, TP) {
    parallelize TP {
        net1: ColwiseParallel
    }
    fully_shard FSDP { model: reshard=true }
}"""),
    ("Lightning", FeedForward, ModelParallelStrategy(parallelize_feedforward), "2x2",
     {}, """
plan recorded(data_parallel, tensor_parallel) {
    parallelize tensor_parallel {
        w1: ColwiseParallel
        w2: RowwiseParallel
        w3: ColwiseParallel
    }
    fully_shard data_parallel { w1, w2, w3 }
}"""),
    ("FSDPStrategy", Seq2Seq, fsdp_strategy(
        auto_wrap_policy=LAYER_CLASSES, cpu_offload=True,
        activation_checkpointing_policy=LAYER_CLASSES), "2", STACKS, """
plan recorded(dp) {
    fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer, model }
    checkpoint { every TransformerEncoderLayer, every TransformerDecoderLayer }
    offload { parameters, optimizer }
}"""),
    ("HYBRID_SHARD", Seq2Seq, fsdp_strategy(
        auto_wrap_policy=LAYER_CLASSES, sharding_strategy="HYBRID_SHARD"), "2x2",
     STACKS, """
plan recorded(rep, dp) {
    fully_shard (rep, dp) {
        every TransformerEncoderLayer
        every TransformerDecoderLayer
        model
    }
}"""),
    ("by size", Seq2Seq, by_size, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp {
        every TransformerEncoderLayer
        every TransformerDecoderLayer
        embedding
        decoder
        model
    }
}"""),
    ("custom policy", Seq2Seq, by_custom_policy, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp {
        every TransformerEncoderLayer
        decoder: strategy=shard_grad_op
        model
    }
}"""),
    ("lambda policy", Seq2Seq, by_lambda, "2", STACKS, """
plan recorded(dp) {
    # decoder is ignored by FSDP: parc replicates it, and sums its gradients
    fully_shard dp {
        embedding
        decoder: strategy=no_shard
        model
    }
}"""),
    ("transformer policy", Seq2Seq, by_transformer_policy, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer, model }
    checkpoint { every TransformerEncoderLayer }
}"""),
    ("data parallel", Llama, data_parallel, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { model: strategy=no_shard }
}"""),
    ("frozen", Llama, frozen, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { model }
    freeze { tok_embeddings, layers.*.attention, layers.1.feed_forward.w1 }
}"""),
    ("placements", Llama, placements, "2x2", LAYERS, """
plan recorded(dp, tp) {
    parallelize tp {
        layers.*.attention:                PrepareModuleInputOutput(input=Shard(1) -> Replicate, output=Replicate -> Shard(1))
        layers.0-2.feed_forward.w1.weight: Shard(0)
    }
    fully_shard dp { model }
}"""),
    ("selective", Llama, by_selective_checkpoints, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { every RMSNorm, every Linear, tok_embeddings }
    checkpoint { layers.*: keep=attention }
}"""),
)


def compiles(kind, lines, mesh):
    """Compiles the block with the example's model; returns parc's messages, ""
    if there are no errors."""
    example, sizes = PDL[kind]
    with open(os.path.join(ROOT, "examples", example), encoding="utf-8") as f:
        text = f.read()
    text = text[:text.index("\nplan ")] + "\n" + "\n".join(lines) + "\n"
    text += text_of_train(example)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.pdl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        options = [w for s in sizes.split() for w in ("-D", s)]
        done = subprocess.run([PARC, path, "--mesh", mesh, "--emit", "plan",
                               *options], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def text_of_train(example):
    return "train {\n    batch = 8\n" + (
        "    seq = 16\n" if example in ("llama.pdl", "transformer.pdl") else "") + "}\n"


def snapshot(model):
    """What a recording must not change."""
    modules = {name: {k: repr(v) for k, v in vars(m).items()
                      if not k.startswith("_")} for name, m in model.named_modules()}
    tensors = {name: (id(p), p.data_ptr(), p.requires_grad)
               for name, p in model.named_parameters()}
    here = {k: id(v) for k, v in globals().items()}
    other = (id(torch.distributed.fsdp.fully_shard), id(nn.Module.to),
             id(torch.distributed.get_rank), os.environ.get("RANK"))
    return modules, tensors, here, other


def run_cases():
    for name, kind, function, mesh, arrays, expected in CASES:
        model = kind()
        before = snapshot(model)
        recording = record(function, model)
        lines, _ = plan_block(recording, arrays)
        text = "\n".join(lines)
        check(f"{name}: text", text == expected.strip(), text)
        check(f"{name}: restored", before == snapshot(model))
        if mesh is not None:
            messages = compiles(kind, lines, mesh)
            check(f"{name}: compiles", not messages, messages)


def main():
    warnings.simplefilter("ignore")
    run_cases()
    print(f"{COUNTS[True]} passed, {COUNTS[False]} failed")
    return 1 if COUNTS[False] else 0


if __name__ == "__main__":
    sys.exit(main())
