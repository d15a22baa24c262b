#!/bin/sh
# cuda_online.sh: trains with a loss over rows that a GPU streams and that
# blocks share (codegen/kernel/kernel_online.c): the losses are the CPU's, every
# run gives the same bits, and scores are read twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

streamed() { # streamed MODEL.pdl OPTIONS…: scores are read only twice
    "$PARC" "$@" --target cuda --emit plan >"$work/plan" || return 1
    awk '/_cross_entropy_and_grad;/ { print
            again = $(NF - 1) " " $NF == $5 " " $6
            ok = $9 == "streamed" && again }
        END { exit !ok }' "$work/plan"
}

trained() { # trained TREE ORDER
    cuda_run "$1" fast "$2" --steps 2 --seed 3 --data "bytes:$text" \
        --export "$1-$2.st" --log "$1-$2.json"
}

# trains PRECISION TOLERANCE OPTIONS…
trains() {
    precision=$1 tolerance=$2 at=$work/$1
    shift 2
    set -- examples/llama.pdl --mesh 1x1 -D n_layers=1 -D dim=16 -D n_heads=2 \
        -D n_kv_heads=2 -D hidden=16 -D batch=18 -D seq=16 \
        -D precision="$precision" "$@"
    check "$precision: scores are read twice" streamed "$@"
    check "$precision on the CPU compiles" "$PARC" "$@" --target cpu -o "$at-cpu"
    check "$precision trains on the CPU" "$at-cpu" --steps 2 --seed 3 \
        --data "bytes:$text" --log "$at-cpu.json"
    check "$precision compiles" cuda_tree "$at" "$@"
    for order in $(few_or_all late "early late"); do
        check "$precision, $order: trains" trained "$at" $order
        check "$precision, $order: the CPU's losses" same_curve \
            "$at-cpu.json" "$at-$order.json" "$tolerance"
    done
    in_all check "$precision: both orders give the same bits" \
        cmp "$at-early.st" "$at-late.st"
}

trains f32 1e-5 -D vocab=42000
in_all trains bf16 1e-2 -D vocab=84008
finish
