#!/usr/bin/env python3
"""Imports models with parc-from-torch and compares their training with PyTorch's.

  imports.py [CASE...]           needs torch, and transformers for some cases
  imports.py --record [CASE...]  writes the files to tests/data/imported

A case is imported with its weights, compiled for the meshes of each plan and trained
for 20 steps; PyTorch trains the same module with the same optimizer. The command
imports the first plan, the others are recorded in this process, as tracing is slow.
Prints `N passed, N failed`.
"""
import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_model

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path[:0] = [here, os.path.join(root, "python")]

import from_torch_units as units  # noqa: E402
from common import batches, read_safetensors  # noqa: E402

PARC = os.path.join(root, os.environ.get("BUILD", "build"), "parc")
TEXT = os.path.join(root, "tests", "data", "text.txt")
RECORDED = os.path.join(root, "tests", "data", "imported")
STEPS, LR = 20, 1e-3


@dataclasses.dataclass
class Case:
    """`plans`: functions for --parallelize, the first by the command; `shifts`: the model
    shifts its labels itself; `losses`: they do not depend on random numbers."""

    file: str
    model: str
    plans: tuple = (None,)
    optimizer: str = None
    shifts: bool = False
    losses: bool = True


FILES = {n: f"models/{n}.py" for n in ("feed_forward", "llama2", "toy", "encoder_decoder")}
HF = "models/transformers_models.py"
CASES = {
    "feed_forward": Case(FILES["feed_forward"], "model", ("parallelize",), "optimizer"),
    "feed_forward_fsdp": Case(FILES["feed_forward"], "model", ("by_class",), "optimizer"),
    "feed_forward_block": Case(FILES["feed_forward"], "block", ("strategy",), "optimizer"),
    "toy": Case(FILES["toy"], "model", ("hybrid_fsdp1", "fsdp1", "fsdp2", "hybrid_fsdp2",
                                        "fsdp2_and_tp"), "optimizer"),
    "llama2": Case(FILES["llama2"], "model", (
        "parallelize", "tensor_parallel", "sequence_parallel", "loss_parallel", "two_dims")),
    "encoder_decoder": Case(FILES["encoder_decoder"], "model", (
        "by_class", "whole", "by_layer_class", "by_size", "every_module", "by_lambda",
        "by_settings", "by_hand", "shard_grad_op", "no_shard", "hybrid_shard",
        "hybrid_shard_zero2", "hybrid_mesh", "offloaded", "checkpointed", "mixed_precision",
        "units_of_child"), "optimizer"),
    "encoder_decoder_dropout": Case(FILES["encoder_decoder"], "with_dropout",
                                    ("checkpointed",), "optimizer", losses=False),
    "llama": Case(HF, "llama", (None, "units_of_child"), shifts=True),
    "gpt2": Case(HF, "gpt2", shifts=True),
    "bert": Case(HF, "bert", shifts=True),
}


@functools.cache
def module_of(path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), os.path.join(here, path))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # for source lines
    spec.loader.exec_module(module)
    return module


def load(path, name):
    return getattr(module_of(path), name)


class Data:
    """The inputs of all steps, and the value of --data."""

    def __init__(self, case, model, example, at):
        inputs = list(example.values()) if isinstance(example, dict) else list(example)
        batch, *rest = inputs[0].shape
        if case.shifts or list(rest) and not inputs[0].is_floating_point():
            self.steps = list(batches(TEXT, batch, rest[0], STEPS))
        else:
            self.steps = [[torch.randn(x.shape) for x in inputs] for _ in range(STEPS)]
        names = list(inspect.signature(type(model).forward).parameters)[1:]
        self.option = f"bytes:{TEXT}"
        if not case.shifts and names[:2] != ["tokens", "labels"]:
            arrays = {n: torch.cat([s[i] for s in self.steps]) for i, n in
                      enumerate(names[:len(self.steps[0])])}
            for n, x in arrays.items():
                x = x if x.is_floating_point() else x.int()
                numpy.save(f"{at}/{n}.npy", x.numpy())
            self.option = ",".join(f"{n}={at}/{n}.npy" for n in arrays)


def torch_losses(case, model, data, steps=STEPS, train=True):
    model.train(train)
    optimizer = load(case.file, case.optimizer)(model) if case.optimizer else \
        torch.optim.AdamW(model.parameters(), lr=LR)
    for inputs in data.steps[:steps]:
        if case.shifts:  # the model's own loss leaves out the last token, this one does not
            x, y = inputs
            logits = model(input_ids=x, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        else:
            loss = model(*inputs)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield loss.item()


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done


class Tally:
    passed = failed = 0

    def check(self, what, function):
        try:
            good = function()
        except Exception as e:  # reported as a failure
            good, what = False, f"{what}: {e}"
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print(f"FAILED {what}", flush=True)
        return good


class Trained:
    """A case in its directory: its data, and PyTorch's losses and trained model."""

    def __init__(self, case, at):
        self.case, self.at = case, at
        self.model, example = load(case.file, case.model)()
        self.model.load_state_dict(read_safetensors(f"{at}/weights.safetensors"),
                                   strict=False)
        torch.manual_seed(1)
        self.data = Data(case, self.model, example, at)
        self.want = list(torch_losses(case, self.model, self.data))

    def binary(self, mesh, plan):
        optimizer = [] if self.case.optimizer else [
            "-D", f"optimizer.lr={LR}", "-D", "optimizer.weight_decay=0.01"]
        run(PARC, f"{self.at}/{plan}.pdl", "--target", "cpu", "--mesh", mesh,
            "-D", "precision=f32", *optimizer, "-o", f"{self.at}/train")
        return f"{self.at}/train"

    def close(self, mesh, plan):
        log, out = f"{self.at}/{plan}-{mesh}.log", f"{self.at}/trained.safetensors"
        run(self.binary(mesh, plan), "--steps", str(STEPS), "--data", self.data.option,
            "--init", f"{self.at}/weights.safetensors", "--log", log, "--export", out)
        mine = [json.loads(line)["loss"] for line in open(log) if "loss" in line]
        worst = max(abs(a - b) / abs(b) for a, b in zip(mine, self.want))
        if len(mine) != STEPS or worst > 1e-5:
            raise RuntimeError(f"relative error {worst:.2g}, {mine[:3]} {self.want[:3]}")
        return True

    def as_torch(self, plan, function):
        """Whether the units of the plan are PyTorch's."""
        with open(f"{self.at}/{plan}.pdl") as f:
            axes = axes_of(f.read())
        made = run(PARC, f"{self.at}/{plan}.pdl", "--mesh", "x".join("2" for _ in axes),
                   "--emit", "json")
        model, _ = load(self.case.file, self.case.model)()
        mine = units.of_parc(json.loads(made.stdout), [n for n, _ in model.named_parameters()])
        theirs = units.of_torch(load(self.case.file, function), model, axes)
        if mine != theirs:
            raise RuntimeError(f"{mine}\n{theirs}")
        return True

    def loss(self, model):
        model.eval()
        with torch.no_grad():
            return list(torch_losses(self.case, model, self.data, 1, train=False))[0]

    def returns(self):
        """Whether PyTorch loads the exported weights: every parameter, also a tied one,
        and no other name. Their loss is that of the model that PyTorch trained."""
        model, _ = load(self.case.file, self.case.model)()
        missing, unknown = load_model(model, f"{self.at}/trained.safetensors", strict=False)
        missing = set(missing) - {n for n, _ in model.named_buffers()}
        if missing or unknown:
            raise RuntimeError(f"missing {missing}, unknown {unknown}")
        return abs(self.loss(model) / self.loss(self.model) - 1) < 1e-5

    def is_pretrained(self):
        """Whether from_pretrained of transformers loads the weights without a message."""
        os.makedirs(f"{self.at}/hf", exist_ok=True)
        self.model.config.save_pretrained(f"{self.at}/hf")
        shutil.copy(f"{self.at}/trained.safetensors", f"{self.at}/hf/model.safetensors")
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            model, info = type(self.model).from_pretrained(
                f"{self.at}/hf", output_loading_info=True)
        if any(info.values()) or "warn" in said.getvalue().lower():
            raise RuntimeError(f"{info} {said.getvalue()}")
        return abs(self.loss(model) / self.loss(self.model) - 1) < 1e-5


def importing(case, out):
    """The words of the command that imports a case."""
    file = os.path.join(here, case.file)
    words = [os.path.join(root, "scripts", "parc-from-torch"), f"{file}:{case.model}", "-o", out]
    for option, value in (("--parallelize", case.plans[0]), ("--optimizer", case.optimizer)):
        words += [option, f"{file}:{value}"] if value else []
    return words


def axes_of(text):
    return re.search(r"^plan recorded\((.*)\) \{$", text, re.M)[1].split(", ")


def meshes(text):
    """Meshes for a plan: one rank, two and four."""
    return ["1x1", "2x1", "2x2"] if len(axes_of(text)) == 2 else ["1", "2", "4"]


def more_plans(case):
    """(function, text of the file) of all plans, in one import."""
    from parc_from_torch.convert import import_model
    imported = import_model(load(case.file, case.model),
                            f"{os.path.basename(case.file)}:{case.model}")
    optimizer = case.optimizer and load(case.file, case.optimizer)
    for name in case.plans:
        made = imported.file(name and load(case.file, name), optimizer)
        yield name, "\n".join(made.lines) + "\n"


def plan_of(text, name):
    """The plan block of a file, with a name."""
    return re.search(r"^plan recorded.*?^\}$", text, re.M | re.S)[0].replace(
        "plan recorded", f"plan {name}", 1) + "\n"


def recorded(name, end="pdl"):
    with open(f"{RECORDED}/{name}.{end}") as f:
        return f.read()


def test(tally, name, case):
    with tempfile.TemporaryDirectory() as at:
        if not tally.check(f"{name} is imported", lambda: run(
                *importing(case, f"{at}/model.pdl"), "--weights",
                f"{at}/weights.safetensors")):
            return
        text = open(f"{at}/model.pdl").read()
        tally.check(f"{name} is the recorded file", lambda: text == recorded(name))
        if not case.losses:
            return
        trained = Trained(case, at)
        for mesh in meshes(text):
            tally.check(f"{name} {mesh} has PyTorch's losses",
                        lambda m=mesh: trained.close(m, "model"))
        tally.check(f"{name}: PyTorch loads the trained weights", trained.returns)
        if case.shifts:
            tally.check(f"{name}: from_pretrained loads them", trained.is_pretrained)
        if callable(case.plans[0] and load(case.file, case.plans[0])):
            tally.check(f"{name}: units of PyTorch",
                        lambda: trained.as_torch("model", case.plans[0]))
        if len(case.plans) == 1:
            return
        (_, first), *others = more_plans(case)
        tally.check(f"{name}: the command writes what convert makes", lambda: first == text)
        tally.check(f"{name}: the plans are the recorded ones", lambda: "\n".join(
            plan_of(t, n) for n, t in others) == recorded(name, "plans"))
        for plan, text in others:
            with open(f"{at}/{plan}.pdl", "w") as f:
                f.write(text)
            if plan == "mixed_precision":
                tally.check(f"{name} {plan} is in the block train", lambda t=text: re.search(
                    r"^ +precision += bf16$", t, re.M))
            tally.check(f"{name} {plan}: units of PyTorch",
                        lambda p=plan: trained.as_torch(p, p))
            for mesh in meshes(text)[1:]:
                tally.check(f"{name} {plan} {mesh} has PyTorch's losses",
                            lambda m=mesh, p=plan: trained.close(m, p))


def record(name, case):
    run(*importing(case, os.path.join(RECORDED, f"{name}.pdl")))
    if len(case.plans) > 1:
        _, *others = more_plans(case)
        with open(f"{RECORDED}/{name}.plans", "w") as f:
            f.write("\n".join(plan_of(t, n) for n, t in others))


def main():
    os.environ["PYTHON"] = sys.executable
    tally = Tally()
    words = sys.argv[1:]
    if words[:1] == ["--record"]:
        for name in words[1:] or CASES:
            record(name, CASES[name])
        return
    for name in words or CASES:
        test(tally, name, CASES[name])
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
