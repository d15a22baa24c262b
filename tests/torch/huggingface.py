#!/usr/bin/env python3
"""Compares models with names of Hugging Face with the package transformers.

  huggingface.py losses DIR TEXT STEPS      one loss per line
  huggingface.py sample DIR IDS N           IDS and the N tokens that follow, the
                                            most probable one each time
  huggingface.py eval DIR TEXT N LOSS       the mean loss of N batches is LOSS
  huggingface.py make CONFIG DIR            writes a randomly initialized model
                                            of a directory with config.json,
                                            sharded, in bf16
  huggingface.py check BEFORE AFTER TEXT STEPS LOSSES
                                            trains BEFORE as the binary did, and
                                            compares with its losses and with
                                            the model AFTER that it exported

DIR, BEFORE and AFTER are directories that from_pretrained loads.
"""
import json
import logging
import sys
import warnings

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as hf_logging

from common import batches

SEED = 5
BATCH, SEQ = 8, 32
BALANCE_RATE = 0.01  # lib_hf.sh


class Messages(logging.Handler):
    """Collects warnings of transformers: none is expected."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def load(path):
    messages = Messages()
    hf_logging.disable_default_handler()
    hf_logging.add_handler(messages)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, info = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, output_loading_info=True)
    hf_logging.remove_handler(messages)
    assert not messages.texts, messages.texts
    assert not any(info.values()), info
    return model


def logits_of(model, x):
    model.eval()
    with torch.no_grad():
        return model(x).logits


def routing(model):
    """{router: its last result: logits, weights and choices of experts}, by forward hooks."""
    last = {}
    for m in model.modules():
        if type(m).__name__.endswith("Router"):
            last[m] = None
            m.register_forward_hook(lambda m, _, result: last.update({m: result}))
    return last


def balance(router, choices):
    """Changes the bias of a router of DeepSeek V3 as the MoE of PDL does."""
    counts = choices.flatten().bincount(minlength=router.num_experts).float()
    router.e_score_correction_bias += BALANCE_RATE * torch.sign(counts.mean() - counts)


def train(model, text, steps):
    """The losses of the examples' AdamW."""
    model.train()
    routers = routing(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4,
                                  betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    for x, y in batches(text, BATCH, SEQ, steps):
        loss = torch.nn.functional.cross_entropy(
            model(x).logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for router, (_, _, choices) in routers.items():
            if hasattr(router, "e_score_correction_bias"):
                balance(router, choices)
        yield loss.item()


def make(config, directory):
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(config))
    model.to(torch.bfloat16).save_pretrained(directory, max_shard_size="50KB")


def sample(model, ids, n):
    """The tokens, and the least distance of the two largest logits."""
    distance = float("inf")
    for _ in range(n):
        top = logits_of(model, torch.tensor([ids]))[0, -1].topk(2)
        distance = min(distance, (top.values[0] - top.values[1]).item())
        ids = ids + [top.indices[0].item()]
    return ids, distance


def evaluate(model, text, n, loss):
    model.eval()
    with torch.no_grad():
        all = [torch.nn.functional.cross_entropy(
            model(x).logits.flatten(0, 1), y.flatten())
            for x, y in batches(text, BATCH, SEQ, n)]
    wanted = sum(x.item() for x in all) / n
    assert abs(loss - wanted) < 1e-5 * wanted, (loss, wanted)


def check(before, after, text, steps, losses):
    model, trained = load(before), load(after)
    with open(losses) as file:
        found = [json.loads(line)["loss"] for line in file]
    wanted = list(train(model, text, steps))
    assert len(found) == steps, found
    worst = max(abs(a - b) / b for a, b in zip(found, wanted))
    x = next(batches(text, BATCH, SEQ, 1))[0]
    a, b = logits_of(model, x), logits_of(trained, x)
    apart = ((a - b).abs().max() / a.abs().max()).item()
    print(f"losses differ by {worst:.1e}, the first by "
          f"{abs(found[0] - wanted[0]) / wanted[0]:.1e}; logits after "
          f"{steps} steps by {apart:.1e}")
    assert worst < 1e-5 and apart < 1e-4


if __name__ == "__main__":
    kind, *args = sys.argv[1:] or [""]
    if kind == "losses" and len(args) == 3:
        for loss in train(load(args[0]), args[1], int(args[2])):
            print(f"{loss:.9g}", flush=True)
    elif kind == "sample" and len(args) == 3:
        ids, distance = sample(load(args[0]),
                               [int(x) for x in args[1].split(",")],
                               int(args[2]))
        assert distance > 1e-4, distance
        print(*ids)
    elif kind == "eval" and len(args) == 4:
        evaluate(load(args[0]), args[1], int(args[2]), float(args[3]))
    elif kind == "make" and len(args) == 2:
        make(*args)
    elif kind == "check" and len(args) == 5:
        check(args[0], args[1], args[2], int(args[3]), args[4])
    else:
        sys.exit(__doc__)
