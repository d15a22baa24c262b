#!/usr/bin/env python3
"""peer.py: times the training steps of an example's model in PyTorch on a GPU.

  peer.py llama|gpt2 flash|cudnn STEPS -D NAME=VALUE …

It computes what the CUDA program of parc computes. The model is compiled
(torch.compile). Its weights, gradients and residual stream are bf16; autocast
computes norms, rotary embeddings and the loss in f32. AdamW (fused) updates an
f32 copy of the weights, from which the bf16 weights are copied. The norm of all
gradients is limited to 1. Attention runs on the named implementation. Prints
the seconds of each step, a line each, then a line that begins with '#' with the
versions.
"""
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpt2
import llama

DEFAULTS = {
    "llama": dict(vocab=32000, dim=4096, n_layers=32, n_heads=32,
                  n_kv_heads=32, hidden=11008, batch=64, seq=2048),
    "gpt2": dict(vocab=50257, dim=768, n_layers=12, n_heads=12,
                 n_positions=1024, batch=32, seq=1024),
}
ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION,
             "cudnn": SDPBackend.CUDNN_ATTENTION}
CLIP = 1.0


def sizes(model, arguments):
    c = dict(DEFAULTS[model])
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name in c:
            c[name] = int(value)
    return c


def build(model, c):
    if model == "llama":
        names = ("vocab", "dim", "n_layers", "n_heads", "n_kv_heads", "hidden")
        return llama.Llama({name: c[name] for name in names})
    return gpt2.GPT2(c["vocab"], c["dim"], c["n_layers"], c["n_heads"],
                     c["n_positions"])


class Optimizer:
    """AdamW on f32 copies of bf16 weights."""

    def __init__(self, weights):
        self.weights = weights
        self.copies = [w.detach().float() for w in weights]
        for copy in self.copies:
            copy.grad = torch.empty_like(copy)
        self.adamw = torch.optim.AdamW(self.copies, lr=3e-4, betas=(0.9, 0.95),
                                       weight_decay=0.1, fused=True)

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([c.grad for c in self.copies],
                             [w.grad for w in self.weights])
        torch.nn.utils.clip_grad_norm_(self.copies, CLIP)
        self.adamw.step()
        torch._foreach_copy_(self.weights, self.copies)
        for weight in self.weights:
            weight.grad = None


def main(model, attention, steps, arguments):
    torch.set_default_device("cuda")
    torch.set_float32_matmul_precision("high")
    c = sizes(model, arguments)
    net = build(model, c)
    net.bfloat16()
    optimizer = Optimizer(list(net.parameters()))
    compiled = torch.compile(net)
    for _ in range(steps):
        x = torch.randint(0, c["vocab"], (c["batch"], c["seq"]))
        y = torch.randint(0, c["vocab"], (c["batch"], c["seq"]))
        torch.cuda.synchronize()
        start = time.perf_counter()
        with sdpa_kernel(ATTENTION[attention]):
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(x, y)
            loss.backward()
        optimizer.step()
        loss.item()
        print(f"{time.perf_counter() - start:.6f}", flush=True)
    print(f"# PyTorch {torch.__version__}, cuDNN "
          f"{torch.backends.cudnn.version()}, {attention} attention, "
          f"{torch.cuda.max_memory_allocated()} bytes", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in DEFAULTS or \
            sys.argv[2] not in ATTENTION:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]),
         [a for a in sys.argv[4:] if a != "-D"])
