#!/bin/sh
# cuda_block_memory.sh: trains where a block may have 99 KiB of shared memory,
# as on GPUs of compute capability 8.6, 8.9 and 12.0, and where it may have
# more. The losses are those of the CPU's program. The models have attention
# with heads of up to 256 columns; softmax, norms and losses over rows that fit
# only the larger size; and column sums that fit both.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
least=101376

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
    check "$name on the CPU compiles" "$PARC" "$model" --target cpu --mesh 1 \
        "$@" -o "$at-cpu"
    check "$name on the CPU" "$at-cpu" --steps 2 --seed 3 --log "$at-cpu.json"
    check "$name compiles" cuda_tree "$at" "$model" --mesh 1 "$@"
    check "$name has low-shared-memory variants" grep -q '_low_shared' "$at/model.c"
    for bytes in $least 166912 232448; do
        check "$name trains with $bytes bytes" trained "$at" $bytes
        check "$name, $bytes bytes: the CPU's losses" same_curve \
            "$at-cpu.json" "$at-$bytes.json" $tolerance
    done
}

for precision in f32 bf16; do
    trains "heads $precision" tests/data/heads.pdl -D precision=$precision
    trains "rows of 5000 $precision" tests/data/rows.pdl -D n=5000 \
        -D precision=$precision
    trains "rows of 9000 $precision" tests/data/rows.pdl -D n=9000 \
        -D precision=$precision
    trains "softmax of 20000 $precision" tests/data/long_rows.pdl -D n=20000 \
        -D precision=$precision
done
trains "loss of 32000 f32" tests/data/long_rows.pdl -D n=32000
trains "loss of 40000 f32" tests/data/long_rows.pdl -D n=40000
trains "loss of 72000 bf16" tests/data/long_rows.pdl -D n=72000 \
    -D precision=bf16
check "less shared memory than a kernel needs is refused" \
    sh -c "! STANDIN_SHARED=$((least - 16)) \
    '$standin/run' -k '$work/heads_f32/fast.so' '$work/heads_f32/train' \
    --steps 1 >'$work/less' 2>&1 &&
    grep -q 'bytes of shared memory' '$work/less'"
finish
