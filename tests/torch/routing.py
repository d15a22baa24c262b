#!/usr/bin/env python3
"""Compares the experts that the tokens of each step choose with those of transformers.

  routing.py model EXAMPLE PRELUDE OUT     writes the example with one more output: for each
                                           token the experts of all layers, as bits
  routing.py record BEFORE TEXT STEPS DIR  trains BEFORE as the binaries do; DIR/K has the
                                           tokens of batch K as bytes, DIR/routing the
                                           routers' logits and choices of all steps
  routing.py check DIR RUN…                compares with DIR/routing; RUN/K.safetensors has the
                                           choices of batch K in the model after K steps
"""
import re
import sys

import torch

from common import batches, read_safetensors

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
           (r"return (.*), logits\n", r"return \1, logits, routing\n"))


def with_routing(example, prelude):
    """The example, and the module MoE with the bits of the choices as its last result."""
    start = prelude.index("module MoE(")
    module = prelude[start:prelude.index("\n}\n", start) + 3]
    bits = "sum(onehot(ids, experts) * exp(arange(experts) * log(2.0)), dim=(2, 3))"
    module = re.sub(r"(return y.*)\n", rf"\1, {bits}\n", module)
    for pattern, text in EXAMPLE:
        example = re.sub(pattern, text, example)
    for text in (", chosen = moe(", ", chosen = layer(h)", ", logits, routing\n"):
        assert text in example, f"no pattern of EXAMPLE makes '{text}'"
    return example + "\n" + module


def record(before, text, steps, at):
    from huggingface import BATCH, SEQ, load, routing, train
    model = load(before)
    routers = routing(model)
    results = []
    for _ in train(model, text, steps):
        results.append([(logits.detach(), choices) for logits, _, choices in routers.values()])
    torch.save(results, f"{at}/routing")
    for step, (x, _) in enumerate(batches(text, BATCH, SEQ, steps)):
        with open(f"{at}/{step}", "wb") as out:
            out.write(bytes(x.flatten().tolist() + [0]))


def compare(where, logits, theirs, mine, seq):
    """Raises an error that names the first token with other experts."""
    for token in (theirs != mine).any(-1).nonzero().flatten().tolist():
        a, b = theirs[token] & ~mine[token], mine[token] & ~theirs[token]
        row = logits[token]
        raise SystemExit(
            f"{where}, sequence {token // seq}, token {token % seq}: experts "
            f"{mine[token].nonzero().flatten().tolist()} instead of "
            f"{theirs[token].nonzero().flatten().tolist()}; logits of those that differ: "
            f"{row[b].tolist()} and {row[a].tolist()}")


def check(results, run):
    for step, layers in enumerate(results):
        found = read_safetensors(f"{run}/{step}.safetensors")["routing"]
        code = found.flatten().round().long()
        experts = layers[0][0].shape[-1]
        assert len(layers) * experts <= BITS
        for layer, (logits, choices) in reversed(list(enumerate(layers))):
            theirs = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, choices, True)
            mine = (code.unsqueeze(-1) >> torch.arange(experts)) % 2 == 1
            compare(f"{run}: step {step}, layer {layer}", logits, theirs, mine, found.shape[-1])
            code = code >> experts
        assert not code.any()
    print(f"{run}: {len(results)} steps: {len(results[0])} layers choose equal experts")


if __name__ == "__main__":
    kind, *args = sys.argv[1:] or [""]
    if kind == "model" and len(args) == 3:
        with open(args[0]) as example, open(args[1]) as prelude, open(args[2], "w") as out:
            out.write(with_routing(example.read(), prelude.read()))
    elif kind == "record" and len(args) == 4:
        record(args[0], args[1], int(args[2]), args[3])
    elif kind == "check" and len(args) > 1:
        for run in args[1:]:
            check(torch.load(f"{args[0]}/routing"), run)
    else:
        sys.exit(__doc__)
