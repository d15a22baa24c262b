#!/bin/sh
# torch_curves.sh: the curves of gpt2.pdl and transformer.pdl are PyTorch's for
# the same weights and batches (tests/torch/record.sh recorded them with PyTorch
# 1.13; 2.15 differs from them by at most 3e-5).
# cpu: losses
. "$(dirname "$0")/lib.sh"

torch_curve() { # torch_curve MODEL
    jq -c '{loss: .}' "$root/tests/torch/$1.losses" >"$work/torch.log" &&
        same_curve "$work/$1.log" "$work/torch.log" 1e-4
}

parity() { # parity MODEL MESH [OPTIONS…]
    model=$1 mesh=$2
    shift 2
    check "$model $mesh compiles" compile "$work/$model" "$model" "$mesh" \
        --threads 1 "$@"
    check "$model $mesh trains" "$work/$model" --steps 20 \
        --data "bytes:$text" --seed 1 --log "$work/$model.log"
    check "$model $mesh has PyTorch's curve" torch_curve "$model"
    check "$model $mesh falls" jq -es '.[-1].loss < .[0].loss - 0.3' \
        "$work/$model.log"
}
# shellcheck disable=SC2086
parity gpt2 1x1 $gpt2_sizes
# shellcheck disable=SC2086
parity gpt2 2x2 $gpt2_sizes
# shellcheck disable=SC2086
parity transformer 1x1 --plan tensor_parallel $transformer_sizes \
    -D dropout=0.0
# shellcheck disable=SC2086
parity transformer 2x2 --plan tensor_parallel $transformer_sizes \
    -D dropout=0.0
finish
