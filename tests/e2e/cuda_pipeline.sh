#!/bin/sh
# cuda_pipeline.sh: CUDA programs with a pipeline, on the stand-ins: they have the
# losses of one CPU rank, whether queued work runs early or late; they evaluate,
# predict, save and resume; each rank allocates what its stage needs. The stand-in
# for NCCL buffers no transfer.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"
. "$(dirname "$0")/lib_cuda.sh"

on_cpu() { # on_cpu NAME MODEL OPTIONS…: one rank
    at=$work/$1 example=$2
    shift 2
    describe "$example"
    data_of "$example"
    staged "$example" "" >"$at.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --target cpu --threads 1 --mesh 1x1x1 $sizes "$@" \
        -o "$at" &&
        "$at" --steps 6 --seed 3 $data --log "$at.log" && rm "$at"
}

on_cuda() { # on_cuda MODEL MESH WORDS TOLERANCE BASE OPTIONS…
    at=$work/this example=$1 mesh=$2 tolerance=$4 base=$5
    staged "$1" "$3" >"$at.pdl"
    shift 5
    describe "$example"
    data_of "$example"
    rm -rf "$at"
    # shellcheck disable=SC2086
    cuda_tree "$at" "$at.pdl" --mesh "$mesh" $sizes "$@" || return
    for order in early late; do
        # shellcheck disable=SC2086
        cuda_run "$at" $kernels $order --steps 6 --seed 3 $data \
            --log "$at.$order.log" &&
            same_curve "$at.$order.log" "$work/$base.log" "$tolerance" || return
    done
}

# row MODEL MESH WORDS PRECISION OPTIONS…
row() {
    model=$1 mesh=$2 words=$3 precision=$4 tolerance=1e-5
    shift 4
    set -- -D precision="$precision" "$@"
    [ "$precision" = f32 ] || tolerance=1e-2
    base=$model-$(echo "$*" | tr -c 'a-z0-9\n' _)
    [ -e "$work/$base.log" ] ||
        check "$model on the CPU $*" on_cpu "$base" "$model" "$@"
    check "$model on $mesh, $words $*" on_cuda "$model" "$mesh" "$words" \
        $tolerance "$base" "$@"
}

kernels=fast
in_all row llama 3x1x1 "" f32 -D n_layers=4 -D accumulate=4
in_all row llama 2x1x1 schedule=interleaved f32 -D n_layers=4 -D accumulate=4
in_all row llama 3x1x1 schedule=zero_bubble f32 -D n_layers=4 -D accumulate=4
in_all row llama 2x2x2 schedule=interleaved bf16 -D n_layers=4 -D accumulate=2
in_all row gpt2 2x2x1 schedule=zero_bubble f32 -D accumulate=4 -D dropout=0.1
in_all row translation 2x1x2 schedule=interleaved f32 -D accumulate=4
in_all row translation 2x2x1 schedule=zero_bubble f32 -D accumulate=4
in_all row translation 2x1x2 "" f32
in_all row gpt2 2x1x1 "schedule=gpipe" f32 -D accumulate=2
# Every access of every kernel is checked. Without a norm, the stages are ordered by
# their own waits only.
kernels=checked
row llama 2x2x1 "" f32 -D clip=none -D accumulate=2
kernels=fast
in_all row llama 2x1x1 "" f32
in_all row llama 2x1x1 "" f32 -D accumulate=2 -D head_chunk=16
in_all row llama 2x1x1 "split=[layers.0, layers.1-3]" f32 -D n_layers=4 \
    -D accumulate=4
in_all row llama 2x2x2 "" bf16 -D accumulate=2
in_all row llama 4x1x1 "" f32 -D n_layers=4 -D accumulate=8
in_all row gpt2 2x2x1 "" f32 -D accumulate=4 -D dropout=0.1
in_all row translation 3x2x1 "" f32 -D accumulate=2
in_all row vit 2x2x1 "" f32 -D accumulate=2
in_all row vit 2x1x2 "" f32

# ---- the life of a run ----

run="--seed 3 --data bytes:$text"
# shellcheck disable=SC2046
check "three_d on the CPU compiles" compile "$work/cpu" three_d 1x1x1 --threads 1 \
    $(sizes three_d) -D precision=f32
# shellcheck disable=SC2046
check "three_d compiles" cuda_tree "$work/three" examples/three_d.pdl \
    --mesh 2x2x1 $(sizes three_d) -D precision=f32
lives() {
    # shellcheck disable=SC2086
    "$work/cpu" $run --steps 12 --log "$work/cpu.log" &&
        cuda_run "$work/three" fast late $run --steps 6 --save "$work/save" \
            --log "$work/first.log" &&
        cuda_run "$work/three" fast early $run --steps 12 \
            --resume "$work/save" --log "$work/second.log" &&
        jq -c 'select(.step > 6)' "$work/cpu.log" >"$work/rest.log" &&
        same_curve "$work/second.log" "$work/rest.log" 1e-5
}
check "a run is saved and resumed" lives
evaluates() { # evaluates TREE
    tree=$1
    set -- --resume "$work/save" --eval --val "bytes:$text" --val-steps 2
    "$work/cpu" "$@" >"$work/cpu.out" 2>&1 &&
        cuda_run "$tree" fast late "$@" >"$work/cuda.out" 2>&1 ||
        return
    for at in cpu cuda; do
        grep -o 'val_loss [0-9.]*' "$work/$at.out" >"$work/$at.eval"
    done
    cmp "$work/cpu.eval" "$work/cuda.eval" && [ -s "$work/cpu.eval" ]
}
check "an evaluation is the same" evaluates "$work/three"
several() { # two stages on each rank
    sed 's/schedule=1f1b/schedule=interleaved/' examples/three_d.pdl \
        >"$work/several.pdl"
    # shellcheck disable=SC2046
    cuda_tree "$work/several" "$work/several.pdl" --mesh 2x2x1 $(sizes three_d) \
        -D precision=f32 && evaluates "$work/several" &&
        cuda_run "$work/several" fast late --resume "$work/save" \
            --sample "The " --tokens 4 >"$work/several.out" &&
        "$work/cpu" --resume "$work/save" --sample "The " --tokens 4 \
            >"$work/cpu.out" && cmp "$work/several.out" "$work/cpu.out"
}
in_all check "so it is with two stages on each rank" several
# shellcheck disable=SC2086
in_all check "a run is traced" cuda_run "$work/three" fast late $run --steps 4 \
    --trace "$work/trace"
in_all check "the trace has transfers of both stages" jq -e '[.traceEvents[] |
    select(.name | test("^(sd|rc)[0-9]+$")) | .pid] | unique | length == 4' \
    "$work/trace"
# shellcheck disable=SC2086
in_all check "each statement runs alone" env PARC_SYNC=1 "$standin/run" \
    -k "$work/three/fast.so" "$work/three/train" $run --steps 2

# A kernel of the second stage, ranks 2 and 3, never ends: the message names it.
hangs() {
    kernel=$(sed -n 's/.*"\(k[0-9]*_cross_entropy[a-z_]*\)".*/\1/p' \
        "$work/three/model.c" | head -n 1)
    # shellcheck disable=SC2086
    PARC_TIMEOUT=5 STANDIN_STALL=2:$kernel:40 cuda_run "$work/three" fast early \
        $run --steps 100 >"$work/said" 2>&1
    status=$?
    cat "$work/said"
    [ $status = 1 ] && grep -qE "rank [23] has not reached|rank [23] waited 5 s for its \
GPU to finish step [0-9]+" "$work/said"
}
check "a stage that hangs is named" hangs

# Stages of different sizes: the first has an embedding of 6 MiB, the last a head.
by_stage() {
    # shellcheck disable=SC2046
    set -- $(sizes three_d) -D precision=f32 -D vocab=16384
    cuda_tree "$work/large" examples/three_d.pdl --mesh 3x1x1 "$@" \
        -D n_layers=4 &&
        "$PARC" examples/three_d.pdl --target cuda --mesh 3x1x1 "$@" \
            -D n_layers=4 --emit json |
        jq '.pipeline.stages[].memory' >"$work/planned" &&
        cuda_run "$work/large" fast late --dry-run |
        sed -n 's/^ *\([0-9]*\) bytes at pp=[0-9]*$/\1/p' >"$work/allocated" &&
        cat "$work/planned" && cmp "$work/planned" "$work/allocated" &&
        [ "$(sed -n 2p "$work/planned")" -lt "$(sed -n 1p "$work/planned")" ]
}
check "each stage has the memory that it needs" by_stage
in_all check "and trains in it" cuda_run "$work/large" fast late --steps 2
finish
