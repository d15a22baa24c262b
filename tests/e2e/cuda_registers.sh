#!/bin/sh
# cuda_registers.sh: kernels do not spill registers, on the architectures that
# differ: attention for heads of each usual size; rows of fused kernels in
# registers, in shared memory and streamed; and their low-shared-memory
# variants. `make check` compiles each kind of row once, for sm_90a; the heads of
# the examples are in nvrtc.sh. ARCHS and TYPES select others.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nvrtc.sh"
archs=${ARCHS:-$(few_or_all sm_90a sm_80,sm_90a,sm_100)}
narchs=$(echo "$archs" | tr , '\n' | wc -l)

spills_nothing() { # spills_nothing LABEL MODEL.pdl OPTIONS…
    label=$1 model=$2
    shift 2
    check "$label compiles" tree "$work/tree" "$model" --arch "$archs" "$@"
    check "$label spills nothing" no_spills "$work/tree" "$narchs"
    rm -rf "$work/tree"
}

# f16 code equals bf16 code except for the names of instructions.
for type in ${TYPES:-$(few_or_all "" "f32 bf16")}; do
    spills_nothing "heads, $type" tests/data/heads.pdl -D precision="$type"
    spills_nothing "heads, parts of the queries, $type" tests/data/heads.pdl \
        -D precision="$type" --mesh 1x2
done
# Tiles of 64 rows, with sizes that are no vectors, and of 128 rows.
for type in $(few_or_all bf16 "f32 bf16"); do
    in_all spills_nothing "experts of odd sizes, $type" tests/data/experts.pdl --plan units \
        -D precision="$type" -D hidden=43
    spills_nothing "large experts, $type" tests/data/experts.pdl --plan units \
        -D precision="$type" -D batch=96 -D dim=128 -D hidden=256
done
for type in $(few_or_all f32 "f32 bf16"); do
    for n in $(few_or_all 5000 "4096 5000 9000 100001"); do
        spills_nothing "rows of $n, $type" tests/data/rows.pdl \
            -D precision=$type -D n=$n
    done
    spills_nothing "softmax over 20000, $type" tests/data/long_rows.pdl \
        -D precision=$type -D n=20000
    for n in $(few_or_all 50257 "1001 50257"); do
        spills_nothing "ragged rows of $n, $type" tests/data/ragged.pdl \
            -D precision=$type -D n=$n -D epilogues=none
    done
    for n in $(few_or_all 4099 "4099 50257"); do
        spills_nothing "sums by column of $n, $type" \
            tests/data/ragged_norm.pdl -D precision=$type -D n=$n
    done
done
for what in $(few_or_all 3 "0 2 3"); do
    spills_nothing "sums $what behind a maximum" tests/data/online.pdl \
        -D n=100000 -D what=$what
done
in_all spills_nothing "long rows" examples/llama.pdl -D precision=f32 \
    -D dim=16384 -D n_heads=128 -D n_kv_heads=128 -D hidden=1024 \
    -D vocab=131072 -D batch=2 -D seq=128
finish
