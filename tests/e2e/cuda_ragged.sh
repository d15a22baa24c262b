#!/bin/sh
# cuda_ragged.sh: rows whose length is not a multiple of the vector width still
# use vectors. The kernels of tests/data/ragged*.pdl run on the host, wherever a
# row is stored: they are compared with the CPU's kernels, and the engine checks
# alignment, bounds and races. Losses over 50257 scores (GPT-2) and 33278 (the
# translator) use 16-byte accesses. Layers of such rows, as stacked tensors and
# as resident parameters, train as on the CPU.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

# runs MODEL N TYPE PLACE KERNEL: `epilogues=none` leaves biases to kernels. If
# rows are short, each barrier is also removed in turn.
runs() {
    options="tests/data/$1.pdl --mesh 1 --target cuda -D epilogues=none \
        -D n=$2 -D precision=$3"
    sites=
    [ "$2" -gt 5000 ] || sites=--sites
    # shellcheck disable=SC2086
    "$PARC" $options --emit plan 2>"$work/log" >"$work/plan"
    check "rows of $2, $3: $5 in $4" grep -q " $4 .*$5" "$work/plan"
    # shellcheck disable=SC2086
    "$PARC" $options --emit ir 2>"$work/log" >"$work/program.ir"
    # shellcheck disable=SC2086
    check "$1 of $2, $3" "$BUILD/unit/kernels_cuda" $sites "$work/program.ir"
}

in_all runs ragged 1001 f32 registers cross_entropy
runs ragged 1001 bf16 registers cross_entropy
in_all runs ragged 1001 f16 registers cross_entropy
in_all runs ragged 1002 bf16 registers cross_entropy
in_all runs ragged 16387 f32 streamed cross_entropy
runs ragged 32771 bf16 streamed cross_entropy
in_all runs ragged 41801 f32 streamed cross_entropy
in_all runs ragged 83603 bf16 streamed cross_entropy
in_all runs ragged_norm 1001 f32 registers norm_grad
runs ragged_norm 4099 f32 shared norm_grad
in_all runs ragged_norm 4098 bf16 shared norm_grad
runs ragged_norm 11001 f32 streamed norm_grad
in_all runs rows 4099 f32 shared cross_entropy
runs rows 8195 f32 streamed cross_entropy

# kernel TREE NAME: prints the text of a kernel, from its comment to its end.
kernel() {
    awk -v name="$2" '/^\/\* k[0-9]/ { on = $2 ~ name "$" } on' "$1/kernels.cu"
}

# wide PRECISION VECTOR NAMES MODEL OPTIONS…: the loops over the loss's rows
# access tensors of these names only in vectors; remainders have no loop.
wide() {
    precision=$1 vector=$2 names=$3 model=$4
    shift 4
    "$PARC" "examples/$model.pdl" --target cuda -D precision="$precision" \
        -S "$work/$model" "$@" || return 1
    kernel "$work/$model" cross_entropy_and_grad >"$work/loss"
    grep -q "vectors of $vector, ragged" "$work/loss" &&
        awk -v wide="$vector);" -v type="$precision" -v names="$names" '
            { depth = match($0, /[^ ]/) }
            / for \(.* (j|at) = head / { on = 1; top = depth; loops++ }
            on && /}/ && depth == top { on = 0 }
            on && $0 ~ "parc_(read|write)_" type {
                moves++
                bad += $NF != wide
            }
            on && $0 ~ "(" names ")\\[" { bad++ }
            END { print loops " loops, " moves " moves, " bad " scalar"
                exit !(loops >= 2 && moves >= 3 && !bad) }' "$work/loss"
}

# aligned MODEL OPTIONS…: in 16-bit types the pass `pad` pads the scores to
# whole vectors, for the matmuls.
aligned() {
    model=$1
    shift
    "$PARC" "examples/$model.pdl" --target cuda -D precision=bf16 \
        -S "$work/$model" "$@" || return 1
    kernel "$work/$model" cross_entropy_and_grad >"$work/loss"
    grep 'vectors of 8, ' "$work/loss" && ! grep -w ragged "$work/loss" &&
        ! grep ' = head' "$work/loss"
}

# loss MODEL NAMES OPTIONS…
loss() {
    model=$1 names=$2
    shift 2
    check "$model's loss in bf16 has aligned rows" aligned "$model" "$@"
    check "$model's loss in f32 moves vectors of 4" \
        wide f32 4 "$names" "$model" "$@"
}
loss gpt2 'lm_head_out|d_shifted' --mesh 1x1
loss transformer 'decoder_out|d_shifted' --mesh 8 --plan full_shard \
    -D batch=16

trained() { # trained TREE
    cuda_run "$1" checked late --steps 2 --seed 3 --log "$1.json"
}

# layers MESH PLAN N PRECISION: 1000 elements in three runs need padding.
layers() {
    name="layers of $3, $2 over $1, $4" at=$work/layers-$1-$2-$3-$4
    options="tests/data/ragged_layers.pdl --plan $2 -D n=$3 -D precision=$4"
    tolerance=1e-5
    [ "$4" = f32 ] || tolerance=1e-2
    # shellcheck disable=SC2086
    {
        check "$name: on the CPU compiles" "$PARC" $options --target cpu \
            --mesh 1 -o "$at-cpu"
        check "$name: compiles" cuda_tree "$at" $options --mesh "$1"
    }
    check "$name: trains on the CPU" \
        "$at-cpu" --steps 2 --seed 3 --log "$at-cpu.json"
    check "$name: trains" trained "$at"
    check "$name: the CPU's losses" same_curve "$at-cpu.json" "$at.json" \
        $tolerance
}

in_all layers 1 sharded 1001 f32
layers 1 sharded 1001 bf16
in_all layers 2 kept 1001 f32
layers 2 kept 1001 bf16
in_all layers 3 kept 1000 f32
finish
