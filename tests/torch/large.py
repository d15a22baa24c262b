#!/usr/bin/env python3
"""Imports models with smaller numbers, as large ones are, and as they are.

  large.py [NAME...]    needs torch, and transformers for some cases

The files must be equal: shrink.py changes what is traced, and not what is written. Then a model
of 1.2e9 parameters is imported, which must not fill them. Prints `N passed, N failed`.
"""
import difflib
import os
import resource
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "..", "python")]

from imports import Tally, load  # noqa: E402
from parc_from_torch.convert import import_model  # noqa: E402
from parc_from_torch.trace import few_elements  # noqa: E402

GIGABYTES = 3  # far less than the 4.8 of the parameters


def tokens(vocab, seq=64):
    ids = torch.randint(0, vocab, (2, seq))
    return {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def bert():
    import transformers as hf
    config = hf.BertConfig(vocab_size=384, hidden_size=96, num_hidden_layers=5,
                           num_attention_heads=4, intermediate_size=320)
    inputs = tokens(384)
    del inputs["use_cache"]
    return hf.BertForMaskedLM(config).eval(), inputs


def gpt2():
    import transformers as hf
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=384, n_embd=96, n_layer=5, n_head=4,
                                            n_positions=192)).eval(), tokens(384)


def vit():
    import transformers as hf
    config = hf.ViTConfig(hidden_size=96, num_hidden_layers=4, num_attention_heads=4,
                          intermediate_size=320, image_size=64, num_labels=12)
    return hf.ViTForImageClassification(config).eval(), {
        "pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 12, (2,))}


def llama(vocab=384, dim=96, layers=5):
    import transformers as hf
    config = hf.LlamaConfig(
        vocab_size=vocab, hidden_size=dim, intermediate_size=4 * dim, num_hidden_layers=layers,
        num_attention_heads=dim // 16, num_key_value_heads=2, tie_word_embeddings=True)
    return hf.LlamaForCausalLM(config).eval(), tokens(vocab)


CASES = {"feed_forward": lambda: load("models/feed_forward.py", "model")(),
         "llama2": lambda: load("models/llama2.py", "model")(),
         "bert": bert, "gpt2": gpt2, "vit": vit, "llama": llama}


def written(function, large):
    few_elements.LARGE = large
    return "\n".join(import_model(function).file().lines)


def are_equal(function):
    few, full = written(function, 1000), written(function, 1 << 40)
    if few != full:
        lines = difflib.unified_diff(full.split("\n"), few.split("\n"), "as it is",
                                     "with smaller numbers", lineterm="")
        raise RuntimeError("\n".join(lines))
    return True


def in_little_memory():
    text = written(lambda: llama(128000, 2048, 20), 1 << 20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if "hidden_size=2048" not in text or peak > GIGABYTES:
        raise RuntimeError(f"{peak:.1f} GB:\n{text}")
    return True


def main():
    tally = Tally()
    for name in sys.argv[1:] or CASES:
        tally.check(f"{name} has one file", lambda f=CASES[name]: are_equal(f))
    if not sys.argv[1:]:
        tally.check("a large model is imported in little memory", in_little_memory)
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(tally.failed > 0)


if __name__ == "__main__":
    main()
