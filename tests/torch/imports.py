#!/usr/bin/env python3
"""Imports models with parc-from-torch and compares their training with PyTorch's.

  imports.py [CASE...]           needs torch, and transformers for some cases
  imports.py --record [CASE...]  writes the files to tests/data/imported

A case is imported with its weights, compiled for each mesh and trained for 20
steps on the bytes of a text; PyTorch trains the same module with the same
optimizer. Prints `N passed, N failed`.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import torch

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path[:0] = [here, os.path.join(root, "python")]

from common import batches  # noqa: E402

PARC = os.path.join(root, os.environ.get("BUILD", "build"), "parc")
TEXT = os.path.join(root, "tests", "data", "text.txt")
RECORDED = os.path.join(root, "tests", "data", "imported")
STEPS, LR = 20, 1e-3

# file, function of the model, functions for --parallelize and --optimizer, and what
# PyTorch's labels are: "next" (shifted by the data), or "same" (the model shifts them)
CASES = {
    "feed_forward": ("models/feed_forward.py", "model", "parallelize", "optimizer", "next"),
    "llama2": ("models/llama2.py", "model", "parallelize", None, "next"),
    "llama": ("models/transformers_models.py", "llama", None, None, "same"),
    "gpt2": ("models/transformers_models.py", "gpt2", None, None, "same"),
}


def load(path, name):
    spec = importlib.util.spec_from_file_location("case", os.path.join(here, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def torch_losses(model, weights, labels, batch, seq):
    from common import read_safetensors
    own = read_safetensors(weights)
    model.load_state_dict(own, strict=False)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    for x, y in batches(TEXT, batch, seq, STEPS):
        if labels == "next":
            loss = model(x, y)
        else:  # the model's own loss leaves out the last token; this one does not
            logits = model(input_ids=x, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
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


def close(at, want, mesh):
    binary, log = f"{at}/train-{mesh}", f"{at}/{mesh}.log"
    run(PARC, f"{at}/model.pdl", "--target", "cpu", "--mesh", mesh, "-D", f"optimizer.lr={LR}",
        "-D", "optimizer.weight_decay=0.01", "-o", binary)
    run(binary, "--steps", str(STEPS), "--data", f"bytes:{TEXT}", "--init",
        f"{at}/weights.safetensors", "--log", log)
    mine = [json.loads(line)["loss"] for line in open(log) if "loss" in line]
    worst = max(abs(a - b) / abs(b) for a, b in zip(mine, want))
    if len(mine) != STEPS or worst > 1e-5:
        raise RuntimeError(f"relative error {worst:.2g}, {mine[:3]} {want[:3]}")
    return True


def importing(name, out):
    """The words of the command that imports a case."""
    path, function, plan, optimizer, _ = CASES[name]
    file = os.path.join(here, path)
    words = [os.path.join(root, "scripts", "parc-from-torch"), f"{file}:{function}", "-o", out]
    for option, value in (("--parallelize", plan), ("--optimizer", optimizer)):
        words += [option, f"{file}:{value}"] if value else []
    return words


def case(tally, name):
    path, function, plan, _, labels = CASES[name]
    with tempfile.TemporaryDirectory() as at:
        if not tally.check(f"{name} is imported", lambda: run(
                *importing(name, f"{at}/model.pdl"), "--weights",
                f"{at}/weights.safetensors")):
            return
        tally.check(f"{name} is the recorded file", lambda: open(
            f"{at}/model.pdl").read() == open(f"{RECORDED}/{name}.pdl").read())
        model, example = load(path, function)()
        first = example["input_ids"] if isinstance(example, dict) else example[0]
        want = list(torch_losses(model, f"{at}/weights.safetensors", labels, *first.shape))
        axes = 2 if plan or "parallelize tp" in open(f"{at}/model.pdl").read() else 1
        for mesh in ["1x1", "2x1", "2x2"] if axes == 2 else ["1", "2", "4"]:
            tally.check(f"{name} {mesh} has PyTorch's losses", lambda m=mesh: close(at, want, m))


def main():
    os.environ["PYTHON"] = sys.executable
    tally = Tally()
    words = sys.argv[1:]
    if words[:1] == ["--record"]:
        for name in words[1:] or CASES:
            run(*importing(name, os.path.join(RECORDED, f"{name}.pdl")))
        return
    for name in words or CASES:
        case(tally, name)
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
