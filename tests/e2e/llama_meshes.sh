#!/bin/sh
# llama_meshes.sh: llama.pdl has one loss curve on every mesh, which is
# PyTorch's for the same weights and batches (recorded by tests/torch/llama.py).
# cpu: losses
. "$(dirname "$0")/lib.sh"

torch_curve() {
    jq -c '{loss: .}' "$root/tests/torch/llama.losses" >"$work/torch.log" &&
        same_curve "$work/llama-1x1.log" "$work/torch.log" 1e-4
}

for mesh in 1x1 2x1 1x2 2x2 4x2; do
    binary=$work/llama-$mesh
    # shellcheck disable=SC2086
    check "$mesh compiles" compile "$binary" llama "$mesh" $llama_sizes
    check "$mesh trains" "$binary" --steps 20 --data "bytes:$text" --seed 1 \
        --log "$binary.log"
    check "$mesh curve" same_curve "$binary.log" "$work/llama-1x1.log" 1e-5
done
check "the curve is PyTorch's" torch_curve
check "2x2 trains a second time" \
    "$work/llama-2x2" --steps 20 --data "bytes:$text" \
    --seed 1 --log "$work/again.log" --export "$work/again.st"
check "2x2 trains a third time" \
    "$work/llama-2x2" --steps 20 --data "bytes:$text" \
    --seed 1 --log "$work/again2.log" --export "$work/again2.st"
check "both runs give the same bits" cmp "$work/again.st" "$work/again2.st"
check "the curve falls" jq -es '.[-1].loss < .[0].loss - 0.5' \
    "$work/llama-1x1.log"
finish
