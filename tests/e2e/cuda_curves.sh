#!/bin/sh
# cuda_curves.sh: runs the unmodified emitted CUDA program on the host. Its
# losses over 10 steps are those of the CPU's program on one rank, within 1e-5
# in f32 and 1% in bf16, on every mesh (`make check` has one for each model), and
# whether queued work runs early or late. Some programs also check every access
# of every kernel for races (cuda_barriers.sh has the other models); all check
# that work on shared memory is ordered.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"
. "$(dirname "$0")/lib_cuda.sh"

options() { # options MODEL ACCUMULATE
    describe "$1"
    options="$sizes -D clip=$clip"
    [ "$2" = 1 ] || options="$options -D accumulate=$2"
    data=
    ! grep -q 'int(' "examples/$1.pdl" || data="--data bytes:$text"
}

reference() { # reference MODEL
    at=$work/$1-reference
    options "$1" 1
    variant "$1" 1x1 full_shard no >"$at.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --plan curve --target cpu --threads 1 --mesh 1x1 \
        $options -o "$at" &&
        "$at" --steps 10 --seed 3 $data --log "$at.json" >"$at.out" 2>&1 &&
        rm "$at"
}

# Compiles one program, runs it early and late, and compares the losses. The precision
# bf16_reduced also reduces gradients in bf16. The node size is 0 for no --node-size.
program() { # program NAME KIND PRECISION MODEL MESH STRATEGY CHECKPOINT MICRO NODE
    at=$work/$1 kind=$2 precision=$3 model=$4
    options "$4" "$8"
    [ "$9" = 0 ] || options="$options --node-size $9"
    [ "$3" = f32 ] || options="$options -D precision=bf16"
    [ "$3" != bf16_reduced ] || options="$options -D reduce=bf16"
    variant "$4" "$5" "$6" "$7" >"$at.pdl"
    # shellcheck disable=SC2086
    cuda_tree "$at" "$at.pdl" --plan curve --mesh "$5" $options || return
    tolerance=1e-5
    [ "$precision" = f32 ] || tolerance=1e-2
    for order in early late; do
        # shellcheck disable=SC2086
        cuda_run "$at" "$kind" "$order" --steps 10 --seed 3 $data \
            --log "$at-$order.json" &&
            agree "$model" "$at-$order.json" "$work/$model-reference.json" \
                $tolerance &&
            touch "$at-$order.fine"
        kind=fast
    done
    rm -rf "$at"
}

labels=
row() { # row PRECISION KIND MODEL MESH STRATEGY CHECKPOINT MICRO [NODE]
    label=$3-$4-$5-$6-$7-$1-${8:-0}
    precision=$1 kind=$2
    shift 2
    [ -e "$work/$1-reference.json" ] || check "$1 on the CPU" reference "$1"
    labels="$labels $label"
    [ $# -eq 6 ] || set -- "$@" 0
    job program "$label" "$kind" "$precision" "$@" >"$work/$label.out" 2>&1
}

in_all row f32 fast toy 1x1 full_shard no 1
in_all row f32 fast toy 2x1 full_shard no 1
in_all row f32 fast toy 1x2 full_shard no 1
row f32 checked toy 2x2 shard_grad_op no 1
in_all row f32 fast feedforward 1x1 full_shard no 1
in_all row f32 fast feedforward 2x1 full_shard no 1
in_all row f32 fast feedforward 1x2 full_shard no 1
in_all row f32 checked feedforward 2x2 no_shard no 1
in_all row f32 fast llama 1x1 full_shard no 1
in_all row f32 fast llama 2x1 full_shard no 1
in_all row f32 fast llama 1x2 full_shard yes 1
row f32 checked llama 2x2 full_shard no 1
# Each node has two of the four ranks: gathers and reductions are two each.
in_all row f32 fast llama 4x1 full_shard no 1 2
in_all row bf16 checked gpt2 4x1 full_shard yes 4 2
in_all row f32 fast transformer 1x4 full_shard no 1 2
in_all row f32 fast gpt2 1x1 full_shard no 1
in_all row f32 fast gpt2 2x1 shard_grad_op no 1
in_all row f32 fast gpt2 1x2 full_shard no 1
in_all row f32 fast gpt2 2x2 full_shard yes 1
in_all row f32 fast transformer 1x1 full_shard no 1
in_all row f32 fast transformer 2x1 full_shard no 4
in_all row f32 fast transformer 2x1 per_step no 4
in_all row bf16 checked gpt2 2x2 per_step yes 4
in_all row f32 fast llama 4x1 per_step no 4 2
in_all row f32 fast transformer 1x2 full_shard no 1
in_all row f32 fast transformer 2x2 full_shard no 1
row bf16 fast llama 4x1 full_shard yes 1 2
# Kernels on the stream of the reductions convert and accumulate gradients.
row bf16_reduced checked llama 2x2 full_shard no 4
in_all row f32 checked llama 2x1 full_shard no 4
in_all row f32 fast llama 4x1 full_shard no 4 2
in_all row f32 fast llama 2x2 no_shard no 4
in_all row bf16_reduced fast gpt2 4x1 full_shard yes 1 2
in_all row bf16 fast llama 2x2 full_shard no 1
in_all row bf16 fast gpt2 2x2 full_shard no 1
in_all row bf16 fast transformer 2x2 full_shard no 1
wait
for label in $labels; do
    for order in early late; do
        if [ -e "$work/$label-$order.fine" ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAILED cuda_curves: $label, $order" >&2
            tail -20 "$work/$label.out" | sed 's/^/    /' >&2
        fi
    done
done
finish
