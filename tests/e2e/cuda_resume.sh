#!/bin/sh
# cuda_resume.sh: CUDA programs, run on the host, are saved and resumed. With
# offloaded parameters and optimizer states, low-precision copies, accumulation
# and clipping, a resumed run is the uninterrupted one bit by bit, whether queued
# work runs early or late. A run moves from the CPU to CUDA and back, on another
# mesh, within 1e-5 in f32 and 2e-3 in bf16 and f16.
#
# RESUME=all (make resume) runs more examples in all precisions.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"
. "$(dirname "$0")/lib_cuda.sh"

step3=step-00000003
step6=step-00000006

# options MODEL PRECISION: sets the options of parc and of the program.
options() {
    describe "$1"
    sizes="$sizes -D clip=$clip -D precision=$2 -D accumulate=2"
    options="--steps 6 --seed 3"
    data_of "$1"
    options="$options ${data:+--shuffle $data}"
    tolerance=1e-5
    [ "$2" = f32 ] || tolerance=2e-3
}
# source_of MODEL MESH CLAUSE
source_of() {
    variant "$1" "$2" full_shard no |
        awk -v c="    $3" '{ print } /^plan curve/ { print c }'
}
build_cuda() { # build_cuda MODEL
    source_of "$1" 2x2 'offload { optimizer, parameters }' >"$work/on.pdl"
    # shellcheck disable=SC2086
    cuda_tree "$work/cuda" "$work/on.pdl" --plan curve --mesh 2x2 $sizes
}
build_cpu() { # build_cpu MODEL
    source_of "$1" 1x2 "" >"$work/cpu.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/cpu.pdl" --plan curve --target cpu --threads 1 \
        --mesh 1x2 $sizes -o "$work/cpu"
}
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
half() { jq -c 'select(.step > 3)' "$1" >"$1.half"; }

row() { # row MODEL PRECISION
    name="$1 in $2"
    options "$1" "$2"
    check "$name: the CUDA program builds" build_cuda "$1"
    check "$name: the CPU program builds" build_cpu "$1"
    # shellcheck disable=SC2086
    check "$name: a CUDA run is saved" cuda early $options \
        --save "$work/gpu" --save-every 3 --log "$work/gpu.log"
    for order in early late; do
        check "$name: a CUDA run is resumed, $order" cuda $order --steps 6 \
            --resume "$work/gpu/$step3" --save "$work/gpu.$order" \
            --log "$work/gpu.$order.log"
        check "$name: losses of the resumed CUDA run, $order" \
            same_results "$work/gpu.log" "$work/gpu.$order.log"
        check "$name: state of the resumed CUDA run, $order" \
            same_state "$work/gpu/$step6" "$work/gpu.$order/$step6"
    done
    # shellcheck disable=SC2086
    check "$name: a CPU run is saved" cpu $options --save "$work/host" \
        --save-every 3 --log "$work/host.log"
    half "$work/gpu.log"
    half "$work/host.log"
    check "$name: a CUDA run moves to the CPU" cpu --steps 6 \
        --resume "$work/gpu/$step3" --log "$work/moved.log"
    check "$name: its curve on the CPU" same_curve "$work/gpu.log.half" \
        "$work/moved.log" $tolerance
    check "$name: a CPU run moves to CUDA" cuda late --steps 6 \
        --resume "$work/host/$step3" --log "$work/moved.log"
    check "$name: its curve on CUDA" same_curve "$work/host.log.half" \
        "$work/moved.log" $tolerance
    check "$name: a CUDA checkpoint is exported without a device" \
        "$work/cuda/train" --steps 0 --resume "$work/gpu/$step3" \
        --export "$work/gpu.st"
    check "$name: a CUDA checkpoint is exported on the CPU" cpu \
        --steps 0 --resume "$work/gpu/$step3" --export "$work/cpu.st"
    check "$name: both exports are equal" cmp "$work/gpu.st" "$work/cpu.st"
    rm -rf "$work/gpu"* "$work/host"* "$work/cuda"
}

if [ "${RESUME:-}" = all ]; then
    for model in toy llama gpt2 transformer hsdp $own_models; do
        for precision in f32 bf16 f16; do
            row $model $precision
        done
    done
else
    row llama bf16
fi
finish
