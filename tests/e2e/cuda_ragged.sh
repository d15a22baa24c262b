#!/bin/sh
# cuda_ragged.sh: rows that no vectors fill have them all the same. The kernels
# of tests/data/ragged.pdl on the host, wherever a row stays: numbers against
# the CPU's kernels, alignment, bounds and races by the tests' engine. GPT-2's
# loss, over 50257 scores, moves 16 bytes at once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

# runs N TYPE PLACE: `epilogues=none` leaves biases to kernels. --sites takes
# barriers away.
runs() {
    options="tests/data/ragged.pdl --mesh 1 --target cuda -D epilogues=none \
        -D n=$1 -D precision=$2"
    sites=
    [ "$1" != 1001 ] || sites=--sites
    # shellcheck disable=SC2086
    "$PARC" $options --emit plan 2>"$work/log" >"$work/plan"
    check "rows of $1, $2: in $3" grep -q " $3 .*cross_entropy" "$work/plan"
    # shellcheck disable=SC2086
    "$PARC" $options --emit ir 2>"$work/log" >"$work/program.ir"
    # shellcheck disable=SC2086
    check "rows of $1, $2" "$BUILD/unit/kernels_cuda" $sites "$work/program.ir"
}

runs 1001 f32 registers
runs 1001 bf16 registers
runs 1001 f16 registers
runs 1002 bf16 registers
runs 16387 f32 shared
runs 32771 bf16 shared
runs 41801 f32 streamed
runs 83603 bf16 streamed

# kernel TREE NAME: the text of a kernel, from its comment to its end.
kernel() {
    awk -v name="$2" '/^\/\* k[0-9]/ { on = $2 ~ name "$" } on' "$1/kernels.cu"
}

# wide PRECISION VECTOR: all that the loops over a row move is vectors; what is
# left to elements is no loop.
wide() {
    tree=$work/gpt2-$1
    "$PARC" examples/gpt2.pdl --mesh 1x1 --target cuda -D precision="$1" \
        -S "$tree" || return 1
    kernel "$tree" cross_entropy_and_grad >"$work/loss"
    grep -q "vectors of $2, ragged" "$work/loss" &&
        awk -v wide="$2);" -v type="$1" '
            { depth = match($0, /[^ ]/) }
            / for \(.* j = / { on = 1; top = depth; loops++ }
            on && /}/ && depth == top { on = 0 }
            on && $0 ~ "parc_(read|write)_" type {
                moves++
                bad += $NF != wide
            }
            on && /(dlm_head|lm_head)\[/ { bad++ }
            END { print loops " loops, " moves " moves, " bad " scalar"
                exit !(loops >= 2 && moves >= 3 && !bad) }' "$work/loss"
}
check "gpt2's loss in bf16 moves vectors of 8" wide bf16 8
check "gpt2's loss in f32 moves vectors of 4" wide f32 4
finish
