#!/bin/sh
# forward.sh: the side program computes the loss of the training step. --eval
# on the first batch of a file gives the loss of the first step, for plans that
# store parameters in different ways, and with CUDA programs on the stand-in.
# CUDA programs sample the text of CPU programs, also under a launcher.
# (evaluate.sh and sample.sh compare with PyTorch.)
# cpu: losses
. "$(dirname "$0")/lib.sh"

# same PROGRAM [COMMAND…]: the loss of step 1 is that of an evaluation.
tolerance=1e-6
same() {
    program=$work/$1
    shift
    "$@" "$program" --steps 1 --data "bytes:$text" --log "$work/log" &&
        "$@" "$program" --eval --val "bytes:$text" --val-steps 1 \
            >"$work/eval" &&
        jq -en --slurpfile a "$work/log" --slurpfile b "$work/eval" \
            --argjson t $tolerance \
            '($a[0].loss / $b[0].val_loss - 1 | fabs) < $t'
}

# on_cpu NAME MODEL MESH OPTIONS…
on_cpu() {
    name=$1 model=$2 mesh=$3
    shift 3
    check "$name compiles" compile "$work/one" "$model" "$mesh" --threads 1 "$@"
    check "$name" same one
}
small="$llama_sizes -D n_layers=2 -D vocab=256"
# shellcheck disable=SC2086
{
    on_cpu "chunks and microbatches" llama 2x2 $small -D head_chunk=32 \
        -D accumulate=2
    on_cpu "padding, shared KV heads" llama 1x4 $small -D vocab=257 \
        -D hidden=126
    on_cpu "units that stay gathered" transformer 2 $transformer_sizes \
        --plan shard_grad_op -D dropout=0
    on_cpu "hybrid sharding" hsdp 2x2x1 -D vocab=256 -D dim=32 -D n_heads=4 \
        -D n_layers=2 -D batch=8 -D seq=32 -D accumulate=2
}
tolerance=5e-4 # attention and sums may round at other points
# shellcheck disable=SC2086
on_cpu "16 bits" llama 2x1 $small -D precision=bf16 -D accumulate=2

# ---- CUDA on the stand-in ----

. "$(dirname "$0")/lib_cuda.sh"
export STANDIN_FAST=1
tiny="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=48 -D batch=4 -D seq=16 -D precision=f32"
tolerance=2e-5
# offloaded: llama.pdl with parameters and states in host memory.
sed '/^plan /a\    offload { optimizer, parameters }' examples/llama.pdl \
    >"$work/offload.pdl"
for model in examples/llama.pdl "$work/offload.pdl"; do
    rm -rf "$work/tree"
    # shellcheck disable=SC2086
    check "$model is emitted" cuda_tree "$work/tree" "$model" --arch sm_90a \
        --mesh 2x1 $tiny -D accumulate=2
    check "$model" same tree env STANDIN_ORDER=late tests/standin/run
done
# Evaluations between steps, in graphs: training does not change.
trained() { # trained NAME OPTIONS…
    name=$1
    shift
    tests/standin/run "$work/tree" --steps 5 --data "bytes:$text" --seed 2 \
        --log "$work/$name.log" --export "$work/$name.st" "$@"
}
check "training without evaluation" trained without
check "training with evaluation" trained with --val "bytes:$text" \
    --val-every 1 --val-steps 3
check "the same weights" cmp "$work/with.st" "$work/without.st"

# Greedy text, under the built-in launcher and with a process for each rank, is
# the CPU program's, and so is the loss of an evaluation.
# shellcheck disable=SC2086
check "the CPU program compiles" compile "$work/cpu" llama 1x1 --threads 1 $tiny
check "it trains" "$work/cpu" --steps 60 --data "bytes:$text" --seed 2 \
    --export "$work/w.st"
launched() { # launched OPTIONS…: the output of rank 0
    RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        tests/standin/run "$work/tree" "$@" &
    RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        tests/standin/run "$work/tree" "$@"
    status=$?
    wait $! && return $status
}
agrees() { # agrees COMMAND…: runs the program
    "$@" --init "$work/w.st" --sample "The run" --tokens 12 >"$work/text" &&
        cmp "$work/text" "$work/text.cpu" &&
        "$@" --init "$work/w.st" --eval --val "bytes:$text" --val-steps 2 \
            >"$work/eval" &&
        jq -en --slurpfile a "$work/eval.cpu" --slurpfile b "$work/eval" \
            '($a[0].val_loss / $b[0].val_loss - 1 | fabs) < 2e-5'
}
check "the CPU program's text" sh -c '"$1" --init "$2" --sample "The run" \
    --tokens 12 >"$3"' sh "$work/cpu" "$work/w.st" "$work/text.cpu"
check "the CPU program's loss" sh -c '"$1" --init "$2" --eval --val "bytes:$3" \
    --val-steps 2 >"$4"' sh "$work/cpu" "$work/w.st" "$text" "$work/eval.cpu"
check "CUDA: forked ranks" agrees tests/standin/run "$work/tree"
check "CUDA: ranks of a launcher" agrees launched
finish
