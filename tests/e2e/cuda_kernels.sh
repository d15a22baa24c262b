#!/bin/sh
# cuda_kernels.sh: runs the kernels of CUDA programs on the host and compares
# them with the CPU's kernels. The engine checks bounds and races, and must
# report a race if a barrier is removed. Rows are stored in each of the
# ways that keep them on the chip. Remainders, random numbers and sums over rows
# are covered too.
. "$(dirname "$0")/lib.sh"
export BUILD

# runs NAME OPTIONS -- PARC_ARGUMENTS
runs() {
    name=$1 options=$2
    shift 2
    "$PARC" "$@" --target cuda --emit ir >"$work/program.ir" 2>"$work/log" ||
        cat "$work/log"
    # shellcheck disable=SC2086
    check "$name" "$BUILD/unit/kernels_cuda" $options "$work/program.ir"
}

# has NAME TEXT PARC_ARGUMENTS: the plan has a line with TEXT.
has() {
    name=$1 text=$2
    shift 2
    "$PARC" "$@" --target cuda --emit plan 2>"$work/log" >"$work/plan"
    check "$name" grep -q "$text" "$work/plan"
}

rows="tests/data/rows.pdl -D batch=5 --mesh 1"
long="tests/data/long_rows.pdl -D batch=3 --mesh 1"
# shellcheck disable=SC2086
{
    runs "rows of 100 in registers" --sites $rows -D n=100
    in_all runs "rows of 1001, odd, bf16" "" $rows -D n=1001 -D precision=bf16
    has "rows of 4096 lie in shared memory" ' shared .*cross_entropy' \
        $rows -D n=4096
    in_all runs "rows of 4096" "" $rows -D n=4096
    has "rows of 8192 are streamed" ' streamed .*rows too long for shared memory' \
        $rows -D n=8192
    runs "rows of 8192" "" $rows -D n=8192
    has "rows of 5000 have a variant" ' shared .*cross_.*with 99 KiB of shared memory' \
        $rows -D n=5000
    runs "rows of 5000, and streamed" --sites $rows -D n=5000
    in_all runs "rows of 9000, and sums in the workspace" "" $rows -D n=9000
    has "rows of 20000 of a softmax are read twice" ' streamed .*softmax' \
        $long -D n=20000
    runs "softmax over 20000" "" $long -D n=20000
    in_all runs "softmax over 20001, odd, bf16" "" $long -D n=20001 \
        -D precision=bf16

    # A maximum and the sums after it read x once: kernel_online.c.
    # online WHAT N AGAIN KINDS OPTIONS…: AGAIN is what a streamed kernel reads
    # more than once, KINDS are the contents of x.
    online() {
        again=$3 of_x=$4 sums="sums $1 of rows of $2"
        model="tests/data/online.pdl -D batch=2 --mesh 1 -D what=$1 -D n=$2"
        shift 4
        has "$sums: reads" " streamed .*$again\$" $model "$@"
        runs "$sums" "--sites --x $of_x" $model "$@"
    }
    kinds=any,large,rising,falling,lowest,infinite
    online 0 50000 'too long for shared memory: 390.62 KiB' $kinds
    in_all online 1 50001 '_cross_entropy; partial sums of 2 blocks: 64 B' $kinds
    in_all online 2 50000 'too long for shared memory: 1.14 MiB' $kinds,masked
    online 3 50000 'too long for shared memory: 781.25 KiB' $kinds,masked
    in_all online 0 100000 'too long for shared memory: 781.25 KiB' $kinds \
        -D precision=bf16
    online 3 90000 'k00_softmax; partial sums of 2 blocks: 32 B' $kinds,masked \
        -D precision=f16
    has "a product's softmax reads its factors twice" \
        ' streamed .*k00_softmax; rows too long for shared memory: 1.14 MiB$' \
        $long -D n=50000
    in_all runs "softmax over 50000" --sites $long -D n=50000

    runs "llama" --sites examples/llama.pdl --mesh 2x2 $llama_sizes \
        -D precision=bf16 -D n_layers=2
    in_all runs "gpt2" "" examples/gpt2.pdl --mesh 1x2 $gpt2_sizes -D n_layers=2
    runs "transformer" "" examples/transformer.pdl --mesh 2 \
        --plan full_shard $transformer_sizes
}
finish
