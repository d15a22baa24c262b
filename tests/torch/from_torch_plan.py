#!/usr/bin/env python3
"""Tests parc_from_torch's plan and train blocks.

  from_torch_plan.py [PARC]

The functions of from_torch_functions.py are recorded. The test compares the
blocks with the expected text, compiles each with a PDL model of the same names,
and checks that models and modules are restored. PARC is build/parc by default.
Needs torch, no GPU. Prints `N passed, N failed`.
"""
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings

import torch
from torch import nn

import from_torch_functions as f
import from_torch_real as real
import from_torch_train as train

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from parc_from_torch.plan.defaults import plain_fsdp, transformers_plan  # noqa: E402
from parc_from_torch.plan.lightning import configure_model, fsdp_strategy  # noqa: E402
from parc_from_torch.plan.paths import Arrays, join  # noqa: E402
from parc_from_torch.plan.plan_block import plan_block  # noqa: E402
from parc_from_torch.plan.record import record  # noqa: E402
from parc_from_torch.plan.recording import RecordError  # noqa: E402
from parc_from_torch.plan.train_block import train_block  # noqa: E402

PARC = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "parc")
COUNTS = {True: 0, False: 0}
LAYERS = {"layers": 4}
STACKS = {"transformer.encoder.layers": 2, "transformer.decoder.layers": 2}


def check(name, fine, detail=""):
    COUNTS[bool(fine)] += 1
    if not fine:
        print(f"FAIL {name}\n{textwrap.indent(str(detail), '    ')}")


# The same models in PDL: an example, and options for the sizes above
PDL = {
    f.Llama: ("llama.pdl", "vocab=64 dim=16 n_layers=4 n_heads=8 n_kv_heads=8 "
                         "hidden=32 batch=8 seq=16"),
    f.Module: ("toy.pdl", ""),
    f.Toy: ("toy.pdl", ""),
    f.FeedForward: ("feedforward.pdl", "dim=16 hidden=32"),
    f.Seq2Seq: ("transformer.pdl", "vocab=64 dim=16 n_layers=2 n_heads=2 hidden=32 "
                                 "batch=8 seq=8"),
}
PDL[f.Suggested] = PDL[f.Llama]


# name, model, function, mesh to compile for, arrays, expected block
CASES = (
    ("two dims", f.Llama, f.two_dims_without_names, "2x2", LAYERS, """
plan recorded(dp, tp) {""" + f.TENSOR_PARALLEL + """
    fully_shard dp { every TransformerBlock, model }
}"""),
    ("tensor parallel", f.Llama, f.tensor_parallel, "2", LAYERS, """
plan recorded(tp) {""" + f.TENSOR_PARALLEL + """
}"""),
    ("typical FSDP2", f.Llama, f.typical_fsdp2, "2x2", LAYERS, """
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
    ("flat mesh", f.Llama, f.flat_mesh, "2x2", LAYERS, """
plan recorded(dp_shard, cp) {
    fully_shard (dp_shard, cp) {
        [layers.*.attention_norm, layers.*.attention]: strategy=full_shard
        [layers.*.ffn_norm, layers.*.feed_forward]:    strategy=full_shard
        model:                                         strategy=full_shard, reshard=true
    }
}"""),
    ("hybrid FSDP1", f.Toy, f.hybrid_fsdp1, "2x2", {}, """
plan recorded(DP, FSDP) {
    fully_shard (DP, FSDP) { model }
}"""),
    ("hybrid FSDP2", f.Toy, f.hybrid_fsdp2, "2x2", {}, """
plan recorded(DP, FSDP) {
    fully_shard FSDP { model }
}"""),
    ("FSDP2 and TP", f.Toy, f.fsdp2_and_tp, "2x2", {}, """
plan recorded(FSDP, TP) {
    parallelize TP {
        net1: ColwiseParallel
    }
    fully_shard FSDP { model: reshard=true }
}"""),
    ("Lightning", f.FeedForward, f.ModelParallelStrategy(f.parallelize_feedforward), "2x2",
     {}, """
plan recorded(data_parallel, tensor_parallel) {
    parallelize tensor_parallel {
        w1: ColwiseParallel
        w2: RowwiseParallel
        w3: ColwiseParallel
    }
    fully_shard data_parallel { w1, w2, w3 }
}"""),
    ("FSDPStrategy", f.Seq2Seq, fsdp_strategy(
        auto_wrap_policy=f.LAYER_CLASSES, cpu_offload=True,
        activation_checkpointing_policy=f.LAYER_CLASSES), "2", STACKS, """
plan recorded(dp) {
    fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer, model }
    checkpoint { every TransformerEncoderLayer, every TransformerDecoderLayer }
    offload { parameters, optimizer }
}"""),
    ("HYBRID_SHARD", f.Seq2Seq, fsdp_strategy(
        auto_wrap_policy=f.LAYER_CLASSES, sharding_strategy="HYBRID_SHARD"), "2x2",
     STACKS, """
plan recorded(rep, dp) {
    fully_shard (rep, dp) {
        every TransformerEncoderLayer
        every TransformerDecoderLayer
        model
    }
}"""),
    ("by size", f.Seq2Seq, f.by_size, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp {
        every TransformerEncoderLayer
        every TransformerDecoderLayer
        embedding
        decoder
        model
    }
}"""),
    ("custom policy", f.Seq2Seq, f.by_custom_policy, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp {
        every TransformerEncoderLayer
        decoder: strategy=shard_grad_op
        model
    }
}"""),
    ("lambda policy", f.Seq2Seq, f.by_lambda, "2", STACKS, """
plan recorded(dp) {
    # decoder is ignored by FSDP: parc replicates it, and sums its gradients
    fully_shard dp {
        embedding
        decoder: strategy=no_shard
        model
    }
}"""),
    ("transformer policy", f.Seq2Seq, f.by_transformer_policy, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer, model }
    checkpoint { every TransformerEncoderLayer }
}"""),
    ("by hand", f.Seq2Seq, f.by_hand, "2", STACKS, """
plan recorded(dp) {
    fully_shard dp {
        embedding:                    strategy=shard_grad_op
        transformer.decoder.layers.*: strategy=shard_grad_op
    }
}"""),
    ("configure_model", f.Module, configure_model, "2x2", {}, """
plan recorded(data_parallel, tensor_parallel) {
    parallelize tensor_parallel {
        net1: ColwiseParallel
    }
    fully_shard data_parallel { net1 }
}"""),
    ("plain FSDP", f.Llama, plain_fsdp, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { layers.*, model }
}"""),
    ("tp_plan", f.Suggested, transformers_plan, "2x2", LAYERS, """
plan recorded(dp, tp) {
    # layers.*.feed_forward.w3: PDL has no style packed_colwise
    parallelize tp {
        output:                   ColwiseParallel(output=Replicate)
        tok_embeddings:           RowwiseParallel(input=Replicate)
        layers.*.feed_forward.w1: ColwiseParallel
        layers.*.feed_forward.w2: RowwiseParallel
    }
    fully_shard dp { layers.*, model }
}"""),
    ("counting policy", f.Llama, f.every_second_matmul, "2", LAYERS, """
plan recorded(dp_shard_cp) {
    # layers.*: the policy of selective checkpointing saves some results of a kind: PDL
    #   saves all of a kind or none
    fully_shard dp_shard_cp { model }
    checkpoint { layers.*: keep=matmul }
}"""),
    ("alternating", f.Llama, f.alternating, "2x2", LAYERS, """
plan recorded(dp, tp) {
    parallelize tp {
        layers.0-2:2.feed_forward.w1: RowwiseParallel
        layers.1-3:2.feed_forward.w1: ColwiseParallel
    }
}"""),
    ("named dims", f.Llama, f.named_dims, "2x2x2", LAYERS, """
plan recorded(rep, dp, tp) {
    parallelize tp {
        output: ColwiseParallel
    }
    fully_shard (rep, dp) {
        layers.*
        model: strategy=full_shard
    }
}"""),
    ("tied weights", f.Llama, f.tied_weights, None, LAYERS, """
plan recorded(dp) {
    fully_shard dp { output }
}"""),
    ("data parallel", f.Llama, f.data_parallel, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { model: strategy=no_shard }
}"""),
    ("frozen", f.Llama, f.frozen, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { model }
    freeze { tok_embeddings, layers.*.attention, layers.1.feed_forward.w1 }
}"""),
    ("placements", f.Llama, f.placements, "2x2", LAYERS, """
plan recorded(dp, tp) {
    parallelize tp {
        layers.*.attention:                PrepareModuleInputOutput(input=Shard(1) -> Replicate, output=Replicate -> Shard(1))
        layers.0-2.feed_forward.w1.weight: Shard(0)
    }
    fully_shard dp { model }
}"""),
    ("tensor mesh as a whole", f.Llama, f.whole_tensor_mesh, "2", LAYERS, """
plan recorded(tp) {
    parallelize tp {
        layers.*.feed_forward.w1: ColwiseParallel
        layers.*.feed_forward.w3: ColwiseParallel
        layers.*.feed_forward.w2: RowwiseParallel
    }
}"""),
    ("hybrid mesh as a whole", f.Llama, f.whole_hybrid_mesh, "2x2", LAYERS, """
plan recorded(rep, dp) {
    fully_shard (rep, dp) { model }
}"""),
    ("constructed mesh", f.Llama, f.constructed_mesh, "2x2", LAYERS, """
plan recorded(dp, tp) {
    parallelize tp {
        output: ColwiseParallel
    }
    fully_shard dp { model }
}"""),
    ("without counterpart", f.Llama, f.without_counterpart, "2x2", LAYERS, """
plan recorded(fsdp, tp) {
    # no module matches 'feed_foward.w1' in layers.*
    # reshard_after_forward=4: PDL has no partial reshard; the backward pass gathers
    #   from all shards
    # layers.*.attention_norm: PDL has no style Unknown
    # the function casts the model to bf16: parc stores parameters in f32 and computes
    #   in the type of `precision`
    parallelize tp {
        layers.*.feed_forward.w1: ColwiseParallel
    }
    fully_shard fsdp { layers.* }
}"""),
    ("patched forward", f.Llama, f.patched_forward, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { model }
    checkpoint { layers.* }
}"""),
    ("selective", f.Llama, f.by_selective_checkpoints, "2", LAYERS, """
plan recorded(dp) {
    fully_shard dp { every RMSNorm, every Linear, tok_embeddings }
    checkpoint { layers.*: keep=attention }
}"""),
)


def compiles(kind, lines, mesh, train_lines=None):
    """Compiles the block with the example's model; returns parc's messages, ""
    if there are no errors."""
    example, sizes = PDL[kind]
    with open(os.path.join(ROOT, "examples", example), encoding="utf-8") as file:
        text = file.read()
    text = text[:text.index("\nplan ")] + "\n" + "\n".join(lines) + "\n"
    text += "\n".join(train_lines or text_of_train(example)) + "\n"
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.pdl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        options = [w for s in sizes.split() for w in ("-D", s)]
        done = subprocess.run([PARC, path, "--mesh", mesh, "--emit", "plan",
                               *options], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def text_of_train(example):
    seq = ["    seq = 16"] if example in ("llama.pdl", "transformer.pdl") else []
    return ["train {", "    batch = 8", *seq, "}"]


def snapshot(model):
    """What a recording must not change."""
    modules = {name: {k: repr(v) for k, v in vars(m).items()
                      if not k.startswith("_")} for name, m in model.named_modules()}
    tensors = {name: (id(p), p.data_ptr(), p.requires_grad)
               for name, p in model.named_parameters()}
    here = {k: id(v) for k, v in vars(f).items()}
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


def run_errors():
    """Functions that cannot be recorded, and arguments."""
    for function, part in ((f.raises, "ValueError: no such option at "
                            "from_torch_functions.py:"),
                           (f.takes_config, "needs a value of 'config'"),
                           (3, "neither a function nor a strategy")):
        model = f.Llama()
        before = snapshot(model)
        try:
            record(function, model)
            message = "no error"
        except RecordError as error:
            message = str(error)
        check(f"error: {part}", part in message, message)
        check(f"error: {part}: restored", before == snapshot(model))
    recording = record(f.takes_config, f.Llama(),
                       arguments={"config": f.ColwiseParallel()})
    check("arguments", len(recording.styles) == 1, recording)


def run_real():
    """The units of recordings are those that PyTorch itself makes."""
    with real.process_group():
        for function, kind, axes in real.CASES:
            recording = record(function, kind())
            made = real.units(function, kind(), axes)
            check(f"{function.__name__}: units of PyTorch",
                  real.recorded_units(recording) == made, made)


def run_paths():
    """Patterns of paths, also of arrays inside arrays."""
    nested = {"stages": 3, "stages.0.blocks": 2, "stages.1.blocks": 2,
              "stages.2.blocks": 3}
    every = [f"stages.{i}.blocks.{j}.w" for i in range(3) for j in range(2 + i // 2)]
    for sizes, paths, expected in (
            ({"a": 4}, ["a.0", "a.1", "a.2"], ["a.0-2"]),
            ({"a": 4}, ["a.3", "a.1", "b", "a.0", "a.2"], ["a.*", "b"]),
            ({"a": 9}, ["a.1", "a.4", "a.7"], ["a.1-7:3"]),
            ({"a": 9}, ["a.1", "a.3", "a.8"], ["a.1", "a.3", "a.8"]),
            ({}, ["a.0", "a.1"], ["a.0", "a.1"]),
            ({"a": 2, "a.*.b": 2}, ["a.0.b.1", "a.1.b.1", "a.1.b.0"],
             ["a.0.b.1", "a.1.b.*"]),
            (nested, every, ["stages.*.blocks.*.w"]),
            (nested, every[:-1], ["stages.0-1.blocks.*.w", "stages.2.blocks.0-1.w"])):
        found = join(paths, Arrays(sizes))
        check(f"paths: {expected}", found == expected, found)


def run_types():
    """Precision, sizes of the mesh, and paths that PDL has under other names."""
    recording = record(f.by_custom_policy, f.Seq2Seq())
    check("precision", (recording.precision, recording.reduce) == ("bf16", "bf16"))
    recording = record(f.hybrid_fsdp1, f.Toy())
    check("mesh", recording.mesh() == "DP=2,FSDP=4", recording.mesh())
    recording = record(f.two_dims_without_names, f.Llama())
    lines, found = plan_block(
        recording, {"blocks": 4}, "renamed",
        rename=lambda p: None if p == "norm" else p.replace("layers", "blocks"),
        classes={"TransformerBlock": "Layer"}, inputs={"blocks.*.attention": 2})
    text = "\n".join(lines)
    for part in ("plan renamed(dp, tp)", "every Layer", "blocks.*.attention.wq:",
                 "PrepareModuleInput(Shard(1) -> Replicate, none)"):
        check(f"rename: {part}", part in text, text)
    check("rename: lost", found == ["norm is not in the model in PDL"], found)


def train_case(name, model, make, expected, parts):
    """One optimizer and scheduler: the setting, its warnings, and that parc takes
    the block."""
    optimizer, scheduler = make(model)
    first = optimizer[0] if isinstance(optimizer, list) else optimizer
    lr = first.param_groups[0]["lr"]
    lines, found = train_block(optimizer, scheduler, 8, 16, "bf16", 1.0,
                               model=model, arrays=LAYERS)
    text = "\n".join(lines)
    key = "optimizer" if scheduler is None else "schedule"
    setting = [line.split("=", 1)[1].strip() for line in lines
               if line.split("=")[0].strip() == key]
    check(f"{name}: text", setting == ([expected] if expected else []), text)
    check(f"{name}: warnings", len(found) == len(parts)
          and all(p in w for p, w in zip(parts, found)), found)
    check(f"{name}: restored", first.param_groups[0]["lr"] == lr)
    return lines


def run_train():
    model = f.Llama()
    for name, make, *expected in train.OPTIMIZERS:
        lines = train_case(name, model, lambda m: (make(m), None), *expected)
        if name == "groups":
            messages = compiles(f.Llama, [], "2", lines)
            check(f"{name}: compiles", not messages, messages)
    for name, make, *expected in train.SCHEDULES:
        def both(m):
            optimizer = train.adamw(m)
            return optimizer, make(optimizer)
        lines = train_case(name, model, both, *expected)
        messages = compiles(f.Llama, [], "2", lines)
        check(f"{name}: compiles", not messages, messages)
    lines, _ = train_block(None, None, 64, None, "32-true", None, reduce="bf16",
                           accumulate=4)
    check("settings", lines == ["train {", "    batch      = 64",
                                "    reduce     = bf16", "    accumulate = 4", "}"],
          lines)


def main():
    warnings.simplefilter("ignore")
    run_cases()
    run_errors()
    run_paths()
    run_types()
    run_real()
    run_train()
    print(f"{COUNTS[True]} passed, {COUNTS[False]} failed")
    return 1 if COUNTS[False] else 0


if __name__ == "__main__":
    sys.exit(main())
