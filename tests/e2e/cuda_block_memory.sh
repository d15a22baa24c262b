#!/bin/sh
# Training with heads of up to 256 columns where a block may have 99 KiB of
# shared memory, as on GPUs of compute capability 8.6, 8.9 and 12.0, and where
# it may have more: the losses of the CPU's program either way.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
least=101376

trained() { # trained TREE BYTES
    STANDIN_SHARED=$2 cuda_run "$1" fast early --steps 2 --seed 3 \
        --log "$1-$2.json"
}

for precision in f32 bf16; do
    tolerance=1e-5
    [ $precision = f32 ] || tolerance=1e-2
    at=$work/$precision
    check "$precision on the CPU compiles" "$PARC" tests/data/heads.pdl \
        --target cpu -D precision=$precision -o "$at-cpu"
    check "$precision on the CPU" "$at-cpu" --steps 2 --seed 3 \
        --log "$at-cpu.json"
    check "$precision compiles" cuda_tree "$at" tests/data/heads.pdl \
        -D precision=$precision
    for bytes in $least 232448; do
        check "$precision, $bytes bytes" trained "$at" $bytes
        check "$precision, $bytes bytes: the CPU's losses" same_curve \
            "$at-cpu.json" "$at-$bytes.json" $tolerance
    done
done
check "less is too little" sh -c "! STANDIN_SHARED=$((least - 16)) \
    '$standin/run' -k '$work/f32/fast.so' '$work/f32/train' --steps 1 \
    >'$work/less' 2>&1 && grep -q 'bytes of shared memory' '$work/less'"
finish
