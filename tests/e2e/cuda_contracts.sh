#!/bin/sh
# cuda_contracts.sh: the documentation of CUDA's libraries allows behaviour that
# no machine may show. The stand-ins show it on request (tests/standin/README.md):
# programs train nevertheless, or end with a message that says what to install.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
lib=$BUILD/standin
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# said TEXT: the last run printed this line.
said() {
    cat "$work/said"
    grep -qxF "$1" "$work/said"
}
# weights NAME [NAME=VALUE…]: trains tree `at` for 4 steps and exports weights.
weights() {
    to=$work/$1.st
    shift
    (
        for setting; do export "${setting?}"; done
        cuda_run "$at" fast early --steps 4 --log "$work/log" --export "$to"
    ) >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
}

# ---- NCCL: switches that add in any order (NVLS) ----

for deterministic in true false; do
    at=$work/sums-$deterministic
    check "four ranks, deterministic=$deterministic" cuda_tree "$at" \
        examples/feedforward.pdl --mesh 4x1 --arch sm_90a -D dim=24 \
        -D hidden=40 -D batch=8 -D deterministic=$deterministic
    for run in 1 2; do
        check "deterministic=$deterministic trains, run $run" \
            weights "$deterministic-$run" STANDIN_NVLS=1 NCCL_NVLS_ENABLE=1
    done
done
check "deterministic programs do not let switches add" \
    cmp "$work/true-1.st" "$work/true-2.st"
check "others do" sh -c '! cmp -s "$1" "$2"' - "$work/false-1.st" \
    "$work/false-2.st"

# ---- cuBLASLt: multiprocessors for a collective ----

at=$work/llama
# shellcheck disable=SC2086
check "Llama with tensor parallelism" cuda_tree "$at" examples/llama.pdl --mesh 2x2 \
    --arch sm_90a $llama_sizes -D precision=bf16
check "it has matmuls that leave multiprocessors" grep -q "concurrent = true" "$at/train.c"
check "it trains; choices are for those that are left" weights llama STANDIN_UNITS=40
left() { # of 40 multiprocessors a collective may hold a quarter
    grep -rhao ' sms [0-9]*' "$work/cache" | sort -u
}
check "their kernels are chosen for 30 of 40" test "$(left)" = " sms 30"

# ---- cuBLASLt: no sums in f32 beside a product ----

at=$work/gpt2
# shellcheck disable=SC2046
check "GPT-2 in bf16" cuda_tree "$at" examples/gpt2.pdl --mesh 1x1 \
    --arch sm_90a -D precision=bf16 -D vocab=64 -D dim=32 -D n_layers=2 \
    -D n_heads=4 -D batch=2 -D seq=16
matmuls=$(grep -c 'PARC_SUM_[AB]' "$at/train.c" "$at/model.c" |
    awk -F: '{ n += $2 } END { print n }')
check "GPT-2 has sums beside products" test "$matmuls" -gt 0
check "trains with sums beside products" weights sums
mv "$work/log" "$work/sums.log"
check "trains without sums beside products" weights none STANDIN_NO_SUMS=1 \
    PARC_CACHE="$work/other"
check "a note names each product without a sum" test "$matmuls" = \
    "$(grep -c "^note: cuBLASLt .* has no kernel for '.*' with sum of .* on \
parc stand-in GPU; another product computes the sum$" "$work/said")"
check "both have the same losses" same_curve "$work/sums.log" "$work/log" 1e-3

# ---- measurements on numbers as in training ----

varied() { # varied [NAME=VALUE…]: measures matmuls and attention
    rm -rf "$work/measured"
    env STANDIN_VARIED=1 PARC_CACHE="$work/measured" "$@" \
        "$standin/run" -k "$at/fast.so" "$at/train" --dry-run &&
        grep -q 'fill random' "$work"/measured/*
}
check "matmuls are measured on random numbers" varied A=
PARC_CUDNN=
LD_LIBRARY_PATH=$lib/cudnn:$LD_LIBRARY_PATH
export PARC_CUDNN
check "attention is measured on random numbers" varied PARC_CUDNN=
check "attention was measured" grep -q 'attention.* fill random' \
    "$work"/measured/*
unset PARC_CUDNN

# ---- the driver: older than the compiler ----

check "kernels compile" "$standin/build" tests/cuda/line.cu "$work/line.so"
for program in line hang; do
    # shellcheck disable=SC2086
    check "$program links" ${CC:-cc} -std=c11 -DCUDA -Iruntime \
        tests/cuda/$program.c "$BUILD/libparc_cuda.a" -o "$work/$program" \
        -fopenmp -lm -ldl
done
refused() { # refused TEXT COMMAND…: exit status 1 and this message
    text=$1
    shift
    env "$@" >"$work/said" 2>&1
    [ $? = 1 ] && said "$text"
}
remedy="is of CUDA 12.8: install a driver of CUDA 13 or newer, or build the \
program with NVRTC of CUDA 12 (PARC_NVRTC)"
check "machine code of CUDA 13 needs its driver" refused "line: error: CUDA 13 \
compiled the kernels for sm_90, and the driver of GPU 0 (parc stand-in GPU) \
$remedy" STANDIN_DRIVER=12080 STANDIN_KERNELS="$work/line.so" "$work/line" \
    --steps 1
check "a program with PTX" cuda_tree "$work/ptx" examples/toy.pdl --mesh 1x1
check "its kernels compile" "$standin/build" -fast "$work/ptx/kernels.cu" \
    "$work/ptx/fast.so"
check "PTX of CUDA 13 needs its driver" refused "train: error: CUDA 13 compiled \
the kernels for compute_80, and the driver of GPU 0 (parc stand-in GPU) \
$remedy" STANDIN_DRIVER=12080 STANDIN_CAPABILITY=10.0 \
    "$standin/run" -k "$work/ptx/fast.so" "$work/ptx/train" --steps 1
check "a driver of CUDA 13 loads both" "$standin/run" \
    -k "$work/ptx/fast.so" "$work/ptx/train" --dry-run

# ---- the driver: no memset of host memory in graphs ----

export STANDIN_KERNELS="$work/line.so"
for when in call graph; do
    check "a memset that the $when refuses" env STANDIN_NO_HOST_MEMSET=$when \
        "$work/hang" --steps 5
    check "a memset that the $when refuses, queued work late" env \
        STANDIN_NO_HOST_MEMSET=$when STANDIN_ORDER=late "$work/hang" --steps 5
done
hangs() { # hangs: a kernel that never ends is reported as with memsets
    env STANDIN_STALL=3:line_update:5 STANDIN_NO_HOST_MEMSET=call \
        STANDIN_LIMIT=300 PARC_TIMEOUT=4 "$work/hang" --steps 5 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && grep -q "step 2, which .*'a[gr][01] [dt]p w \
(hang.pdl:[23])', layer" "$work/said"
}
check "the message of a hang names the collective" hangs

# ---- the driver: no copies of rows with any distance ----

check "the test of collectives links" \
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -g -I. -Iruntime -Iruntime/cuda/device \
    tests/cuda/collectives.c "$BUILD/libparc_cuda.a" -o "$work/collectives" \
    -fopenmp -lm -ldl
rows() {
    env STANDIN_PITCH=512 STANDIN_DEVICES=4 "$work/collectives" >"$work/said" 2>&1
    status=$?
    tail -n 5 "$work/said"
    [ $status = 0 ] && grep -q ' passed, 0 failed' "$work/said"
}
check "rows are copied one by one" rows

# ---- NCCL: windows for some communicators, memory at the first use ----

dry() {
    env "$@" "$work/hang" --dry-run >"$work/said" 2>&1 || {
        cat "$work/said"
        return 1
    }
}
for window in 1 2; do
    check "a run without window $window" env STANDIN_NULL_WINDOW=$window \
        "$work/hang" --steps 3
    check "a dry run without window $window" dry STANDIN_NULL_WINDOW=$window
    check "a dry run counts the windows" said "          the arena is a \
symmetric window of 1 communicator"
done
check "a dry run, memory for each kind of call" \
    dry STANDIN_NCCL_KIND_BYTES=1048576
check "all of it is allocated before the arena" \
    said "nccl      6.0 MiB on the GPU beside the plan"
finish
