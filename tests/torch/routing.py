#!/usr/bin/env python3
"""Compares the experts that the tokens of each step choose with those of transformers.

  routing.py model EXAMPLE PRELUDE OUT     writes the example with one more output: for each
                                           token the experts of all layers, as bits
  routing.py batches TEXT STEPS DIR        writes the tokens of batch K as bytes to DIR/K
  routing.py check BEFORE TEXT STEPS DIR   trains BEFORE as the binary did; DIR/K.safetensors
                                           has the choices of batch K in the model after K steps
"""
import re
import sys

import torch

from common import batches, read_safetensors
from huggingface import BATCH, SEQ, load, routing, train

BITS = 24  # of the integers that f32 represents
# (pattern, replacement) of the example, each of which has the results of a mixture.
EXAMPLE = ((r"y = moe\(", "y, chosen = moe("),
           (r"return h \+ moe\((.*)\)\n", r"y, chosen = moe(\1)\n        return h + y, chosen\n"),
           (r"y, aux = moe\(", "y, aux, chosen = moe("),
           (r"return h \+ y, aux\n", "return h + y, aux, chosen\n"),
           (r"h = tok_embeddings\(tokens\)\n",
            "h = tok_embeddings(tokens)\n        routing = sum(0.0 * float(h), dim=-1)\n"),
           (r"for layer in layers \{\s*h(, aux)? = layer\(h\)",
            "for layer in layers {\n            h\\1, chosen = layer(h)\n"
            "            routing = routing * 2.0 ** experts + chosen\n"),
           (r"return (cross_entropy\(.*\)|loss), logits\n", r"return \1, logits, routing\n"))


def with_routing(example, prelude):
    """The example, and the module MoE with the bits of the choices as its last result."""
    start = prelude.index("module MoE(")
    module = prelude[start:prelude.index("\n}\n", start) + 3]
    bits = "sum(onehot(ids, experts) * exp(arange(experts) * log(2.0)), dim=(2, 3))"
    module = re.sub(r"(return y.*)\n", rf"\1, {bits}\n", module)
    for pattern, text in EXAMPLE:
        example = re.sub(pattern, text, example)
    return example + "\n" + module


def compare(step, layer, result, mine):
    """Raises an error that names the first token with other experts."""
    logits, _, choices = result
    theirs = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, choices, True)
    for token in (theirs != mine).any(-1).nonzero().flatten().tolist():
        a, b = theirs[token] & ~mine[token], mine[token] & ~theirs[token]
        row = logits[token]
        raise SystemExit(
            f"step {step}, layer {layer}, sequence {token // SEQ}, token {token % SEQ}: experts "
            f"{mine[token].nonzero().flatten().tolist()} instead of "
            f"{theirs[token].nonzero().flatten().tolist()}; logits of those that differ: "
            f"{row[b].tolist()} and {row[a].tolist()}")


def check(before, text, steps, at):
    model = load(before)
    routers = routing(model)
    for step, _ in enumerate(train(model, text, int(steps))):
        code = read_safetensors(f"{at}/{step}.safetensors")["routing"].flatten().round().long()
        experts = next(iter(routers)).num_experts
        assert len(routers) * experts <= BITS
        for layer, result in reversed(list(enumerate(routers.values()))):
            mine = (code.unsqueeze(-1) >> torch.arange(experts)) % 2 == 1
            compare(step, layer, result, mine)
            code = code >> experts
        assert not code.any()
    print(f"{steps} steps: {len(routers)} layers choose equal experts")


if __name__ == "__main__":
    kind, *args = sys.argv[1:] or [""]
    if kind == "model" and len(args) == 3:
        with open(args[0]) as example, open(args[1]) as prelude, open(args[2], "w") as out:
            out.write(with_routing(example.read(), prelude.read()))
    elif kind == "batches" and len(args) == 3:
        for step, (x, _) in enumerate(batches(args[0], BATCH, SEQ, int(args[1]))):
            with open(f"{args[2]}/{step}", "wb") as out:
                out.write(bytes(x.flatten().tolist() + [0]))
    elif kind == "check" and len(args) == 4:
        check(*args)
    else:
        sys.exit(__doc__)
