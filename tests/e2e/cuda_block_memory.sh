#!/bin/sh
# cuda_block_memory.sh: trains where a block may have 99 KiB of shared memory,
# as on GPUs of compute capability 8.6, 8.9 and 12.0, and where it may have
# more. The losses are those of the CPU's program. The models have attention
# with heads of up to 256 columns; norms, losses and gradients of a softmax over
# rows that fit only the larger size; and column sums that fit both.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
least=101376
sizes=$(few_or_all $least "$least 166912 232448")

trained() { # trained TREE BYTES
    STANDIN_SHARED=$2 cuda_run "$1" fast early --steps 2 --seed 3 \
        --log "$1-$2.json"
}

# trains NAME MODEL.pdl OPTIONS…
trains() {
    name=$1 model=$2
    shift 2
    at=$work/$(echo "$name" | tr ' ' _)
    tolerance=1e-5
    case $* in *bf16*) tolerance=1e-2 ;; esac
    check "$name on the CPU compiles" "$PARC" "$model" --target cpu \
        "$@" -o "$at-cpu"
    check "$name on the CPU" "$at-cpu" --steps 2 --seed 3 --log "$at-cpu.json"
    check "$name compiles" cuda_tree "$at" "$model" "$@"
    check "$name has low-shared-memory variants" grep -q '_low_shared' "$at/model.c"
    for bytes in $sizes; do
        check "$name trains with $bytes bytes" trained "$at" $bytes
        check "$name, $bytes bytes: the CPU's losses" same_curve \
            "$at-cpu.json" "$at-$bytes.json" $tolerance
    done
}

row() { # row PRECISION WHAT N: a model of tests/data
    case $2 in
    heads) trains "heads $1" tests/data/heads.pdl -D precision="$1" ;;
    rows) trains "rows of $3 $1" tests/data/rows.pdl -D n="$3" \
        -D precision="$1" ;;
    *) trains "$2 of $3 $1" tests/data/long_rows.pdl -D n="$3" \
        -D precision="$1" ;;
    esac
}
row f32 rows 5000
in_all row f32 heads
in_all row bf16 heads
in_all row bf16 rows 5000
in_all row f32 rows 9000
in_all row bf16 rows 9000
in_all row f32 loss 32000
in_all row f32 loss 40000
in_all row bf16 loss 40000
in_all check "less shared memory than a kernel needs is refused" \
    sh -c "! STANDIN_SHARED=$((least - 16)) \
    '$standin/run' -k '$work/heads_f32/fast.so' '$work/heads_f32/train' \
    --steps 1 >'$work/less' 2>&1 &&
    grep -q 'bytes of shared memory' '$work/less'"
finish
