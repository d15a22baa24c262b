#!/bin/sh
# record.sh: PyTorch's losses for the weights and batches of the tests, into
# tests/torch/llama.losses. Needs a Python that can import torch.
set -eu
. "$(dirname "$0")/../e2e/lib.sh"
for python in "${PYTHON:-python3}" /usr/bin/python3; do
    "$python" -c 'import torch' 2>/dev/null && break
done
# shellcheck disable=SC2086
compile "$work/train" llama 1x1 $llama_sizes
"$work/train" --steps 0 --seed 1 --export "$work/w.safetensors"
"$python" tests/torch/llama.py losses "$work/w.safetensors" "$text" 20 \
    >"$work/losses"
mv "$work/losses" tests/torch/llama.losses
