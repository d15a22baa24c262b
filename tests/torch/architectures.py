#!/usr/bin/env python3
"""Imports architectures of transformers with parc-from-torch and compares their training
with PyTorch's.

  architectures.py [NAME...]            needs torch and transformers
  architectures.py --import [NAME...]   prints the files, and trains nothing

Each function with the decorator `case` in architectures_*.py returns a small random
model. It is imported without and with training mode. The first is compiled for 1, 2 and 4 ranks
and trained for 5 or 20 steps of AdamW from the module's weights: the first loss is
PyTorch's within 1e-5, the others within 1e-4. The file with dropout must evaluate to
PyTorch's loss in evaluation mode, and if the model has none, it is trained as well. Prints `N passed, N failed`.
"""
import dataclasses
import fnmatch
import glob
import importlib
import json
import os
import re
import sys
import tempfile
import time

import numpy
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path[:0] = [here, os.path.join(root, "python")]
sys.modules.setdefault("architectures", sys.modules[__name__])  # for `case`

from imports import PARC, Tally, run  # noqa: E402

STEPS, LR = 5, 1e-3
FIRST, LATER = 1e-5, 1e-4  # tolerances of the first loss and of the others


@dataclasses.dataclass
class Case:
    """`inputs`: a function of the example inputs; `colwise`, `rowwise`: patterns of the
    linear modules that are split on tp; `shifts`: the model shifts its labels itself;
    `trains`: training mode draws no random numbers, and differs from evaluation. A model with
    experts is also trained with its experts on 2 and 4 ranks."""

    model: object
    inputs: object
    colwise: tuple = ()
    rowwise: tuple = ()
    shifts: bool = False
    trains: bool = False
    steps: int = STEPS

    def made(self, train):
        torch.manual_seed(0)
        return self.model().train(train), self.inputs()

    def meshes(self):
        """One axis dp, and if modules are split an axis tp."""
        return ("1x1", "2x1", "2x2") if self.colwise or self.rowwise else ("1", "2", "4")

    def parallelize(self, model, mesh):
        """Columns and rows on tp, and an FSDP unit for each element of a list."""
        for patterns, style in ((self.colwise, ColwiseParallel), (self.rowwise, RowwiseParallel)):
            for name, _ in list(model.named_modules()):
                if any(fnmatch.fnmatch(name, p) for p in patterns):
                    parallelize_module(model, mesh["tp"], {name: style()})
        for module in list(model.modules()):
            if isinstance(module, torch.nn.ModuleList):
                for layer in module:
                    fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])


CASES = {}


def case(inputs, **options):
    def note(function):
        assert function.__name__ not in CASES, function.__name__
        CASES[function.__name__] = Case(function, inputs, **options)
        return function
    return note


def imported(case, train):
    """The text of the file."""
    from parc_from_torch.convert import import_model
    made = import_model(lambda: case.made(train))
    return "\n".join(made.file(case.parallelize).lines) + "\n"


class Trained:
    """The data of a case, its first weights, and PyTorch's losses in one of the modes."""

    def __init__(self, case, at, train=False):
        self.case, self.at = case, at
        model, _ = case.made(train)
        with open(f"{at}/weights.safetensors", "wb") as f:
            from parc_from_torch.__main__ import safetensors
            f.write(safetensors(model))
        steps = [case.inputs() for _ in range(case.steps)]
        names = [n for n, x in steps[0].items() if isinstance(x, torch.Tensor)]
        self.arrays = {n: torch.cat([s[n] for s in steps]) for n in names}
        if case.shifts:  # the data shift the labels; the last token has one as well
            labels = torch.randint(0, int(steps[0]["labels"].max()) + 1, (case.steps, 1))
            for s, last in zip(steps, labels):
                s["labels"] = torch.cat([s["labels"][:, 1:],
                                         last.expand(len(s["labels"]), 1)], 1)
            self.arrays["labels"] = torch.cat([s["labels"] for s in steps])
        for n, x in self.arrays.items():
            numpy.save(f"{at}/{n}.npy", (x if x.is_floating_point() else x.int()).numpy())
        self.data = ",".join(f"{n}={at}/{n}.npy" for n in names)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
        self.want = []
        for inputs in steps:
            loss = loss_of(case, model, inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.want.append(loss.item())

    def binary(self, file, mesh):
        run(PARC, file, "--target", "cpu", "--mesh", mesh, "-D", "precision=f32", "-D",
            f"optimizer.lr={LR}", "-D", "optimizer.weight_decay=0.01", "-o", f"{self.at}/train")
        return f"{self.at}/train"

    def words(self):
        return ("--init", f"{self.at}/weights.safetensors")

    def trains(self, file, mesh):
        log = f"{self.at}/{mesh}.log"
        run(self.binary(file, mesh), "--steps", str(self.case.steps), "--data", self.data, "--log", log,
            *self.words())
        mine = [json.loads(line)["loss"] for line in open(log) if "loss" in line]
        errors = [abs(a - b) / abs(b) for a, b in zip(mine, self.want)]
        if len(mine) != self.case.steps or errors[0] > FIRST or max(errors) > LATER:
            raise RuntimeError(f"{mesh}: {mine} instead of {self.want}")
        return True

    def evaluates(self, file):
        done = run(self.binary(file, self.case.meshes()[0]), "--eval", "--val", self.data, "--val-steps", "1",
                   *self.words())
        mine = json.loads(done.stdout)["val_loss"]
        if abs(mine / self.want[0] - 1) > FIRST:
            raise RuntimeError(f"{mine} instead of {self.want[0]}")
        return True


def loss_of(case, model, inputs):
    if not case.shifts:
        return model(**inputs)[0]
    logits = model(**{n: x for n, x in inputs.items() if n != "labels"})[0]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(),
                                             inputs["labels"].flatten())


def with_experts(path):
    """(mesh, file with another plan) for experts on 2 and 4 ranks, if the model has some."""
    with open(path) as f:
        text = f.read()
    experts = re.search(r"^module (\w+)\((?:(?!^}).)*grouped_matmul", text, re.M | re.S)
    for mesh, how in (("1x2", "gather"), ("2x2", "all_to_all"), ("1x4", "gather")):
        units = re.search(r"fully_shard dp (\{[^}]*\})", text)[1]
        plan = f"""plan experts(dp, ep) {{
    expert_parallel ep {{ every {experts[1]}: dispatch={how} }}
    fully_shard (dp, ep) {units}
}}
""" if experts else ""
        if plan:
            with open(f"{path[:-4]}-{mesh}.pdl", "w") as f:
                f.write(re.sub(r"^plan .*?^}\n", plan, text, flags=re.M | re.S))
            yield mesh, f.name


def test(tally, name, case):
    with tempfile.TemporaryDirectory() as at:
        files = {}
        for train in (False, True):
            mode = "training" if train else "evaluation"

            def write(train=train, mode=mode):
                text = imported(case, train)
                files[train] = f"{at}/{mode}.pdl"
                with open(files[train], "w") as f:
                    f.write(text)
                return True
            tally.check(f"{name} is imported in {mode} mode", write)
        if not files:
            return
        trained = Trained(case, at)
        for mesh in case.meshes() if False in files else ():
            tally.check(f"{name} {mesh} has PyTorch's losses",
                        lambda m=mesh: trained.trains(files[False], m))
        for mesh, file in with_experts(files[False]) if False in files else ():
            tally.check(f"{name} {mesh} with experts on their ranks has PyTorch's losses",
                        lambda f=file, m=mesh: trained.trains(f, m))
        if True in files:
            tally.check(f"{name} with dropout evaluates to PyTorch's loss",
                        lambda: trained.evaluates(files[True]))
        if not case.trains or True not in files:
            return
        trained = Trained(case, at, train=True)
        for mesh in case.meshes():
            tally.check(f"{name} {mesh} has PyTorch's losses in training mode",
                        lambda m=mesh: trained.trains(files[True], m))


def main():
    for path in sorted(glob.glob(os.path.join(here, "architectures_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    words = sys.argv[1:]
    show = "--import" in words
    tally = Tally()
    for name in [w for w in words if w != "--import"] or CASES:
        if show:
            print(imported(CASES[name], False))
            continue
        start = time.monotonic()
        before = tally.failed
        test(tally, name, CASES[name])
        print(f"{name}: {'failed' if tally.failed > before else 'ok'}, "
              f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if not show:
        print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
