#!/bin/sh
# cuda_resume.sh: CUDA programs, run on the host, are saved and resumed. With
# offloaded parameters and optimizer states, low-precision copies, accumulation
# and clipping, a resumed run is the uninterrupted one bit by bit, whether queued
# work runs early or late. A run moves from the CPU to CUDA and back, on other
# meshes, within 2e-3 in bf16.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

sizes="-D batch=4 -D seq=16 -D n_layers=2 -D vocab=256 -D dim=32 -D n_heads=4
    -D n_kv_heads=2 -D hidden=48 -D precision=bf16 -D clip=0.5 -D accumulate=2"
step3=step-00000003
step6=step-00000006
run="--steps 6 --seed 3 --shuffle --data bytes:examples/toy.pdl"

# model CLAUSE: the example with the clause in its plan.
model() {
    awk -v c="    $1" '{ print } /^    fully_shard/ { print c }' \
        examples/llama.pdl
}
build_cuda() {
    model 'offload { optimizer, parameters }' >"$work/on.pdl"
    # shellcheck disable=SC2086
    cuda_tree "$work/cuda" "$work/on.pdl" --mesh 2x2 $sizes
}
build_cpu() {
    # shellcheck disable=SC2086
    "$PARC" examples/llama.pdl --target cpu --threads 1 --mesh 1x2 $sizes \
        -o "$work/cpu"
}
check "the CUDA program builds" build_cuda
check "the CPU program builds" build_cpu

cuda() { cuda_run "$work/cuda" fast "$@"; }
cpu() { "$work/cpu" "$@"; }
results() { jq -c 'select(.step > 3) | [.step, .loss, .grad_norm, .lr]' "$1"; }
same_results() {
    results "$1" >"$work/want" && results "$2" >"$work/have" &&
        cmp "$work/want" "$work/have"
}
same_state() {
    for file in "$1"/rank-*.safetensors; do
        cmp "$file" "$2/${file##*/}" || return 1
    done
}
second_half() { jq -c 'select(.step > 3)' "$1" >"$1.half"; }

# shellcheck disable=SC2086
check "a CUDA run is saved" cuda early $run --save "$work/gpu" \
    --save-every 3 --log "$work/gpu.log"
for order in early late; do
    check "a CUDA run is resumed, $order" cuda $order --steps 6 \
        --resume "$work/gpu/$step3" --save "$work/gpu.$order" \
        --log "$work/gpu.$order.log"
    check "losses of the resumed CUDA run, $order" \
        same_results "$work/gpu.log" "$work/gpu.$order.log"
    check "state of the resumed CUDA run, $order" \
        same_state "$work/gpu/$step6" "$work/gpu.$order/$step6"
done
# shellcheck disable=SC2086
check "a CPU run is saved" cpu $run --save "$work/host" --save-every 3 \
    --log "$work/host.log"
second_half "$work/gpu.log"
second_half "$work/host.log"
check "a CUDA run moves to the CPU" cpu --steps 6 \
    --resume "$work/gpu/$step3" --log "$work/moved.log"
check "its curve" same_curve "$work/gpu.log.half" "$work/moved.log" 2e-3
check "a CPU run moves to CUDA" cuda late --steps 6 \
    --resume "$work/host/$step3" --log "$work/moved.log"
check "its curve, back" same_curve "$work/host.log.half" "$work/moved.log" 2e-3
check "a CUDA checkpoint is exported without a device" "$work/cuda/train" \
    --steps 0 --resume "$work/gpu/$step3" --export "$work/gpu.st"
check "a CUDA checkpoint is exported on the CPU" cpu \
    --steps 0 --resume "$work/gpu/$step3" --export "$work/cpu.st"
check "both exports are equal" cmp "$work/gpu.st" "$work/cpu.st"
finish
