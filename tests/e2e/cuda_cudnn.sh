#!/bin/sh
# cuda_cudnn.sh: attention by cuDNN. The real library, where it is installed,
# makes a plan of each of our graphs for described GPUs. A stand-in computes
# what our descriptors say; its results are the CPU's. Programs train with cuDNN
# as without it. If the library is missing or refuses a graph, our own kernels
# run, and --dry-run prints the reason.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
cc="${CC:-cc} -std=c11 -D_GNU_SOURCE -g -O1 -Iruntime -Iruntime/cuda/device"

# ---- the real library: plans ----
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcudnn\.so\.9 .*=> //p' | head -n 1)
real=${PARC_TEST_CUDNN:-$real}
if [ -z "${CHECK_ALL:-}" ]; then
    : # cuDNN takes long to plan
elif [ -n "$real" ]; then
    mkdir "$work/stub"
    # shellcheck disable=SC2086
    check "a permissive stand-in driver builds" $cc -shared -fPIC \
        -Wl,-soname,libcuda.so.1 tests/cuda/driver_stub.c \
        -o "$work/stub/libcuda.so.1"
    # shellcheck disable=SC2086
    check "the test of cuDNN's plans builds" $cc tests/cuda/cudnn_plans.c \
        "$BUILD/libparc_cuda.a" -fopenmp -lm -ldl -o "$work/plans"
    LD_LIBRARY_PATH=$work/stub:$(dirname "$real") "$work/plans" "$real" \
        >"$work/said" 2>&1
    status=$?
    if [ "$status" = 77 ]; then
        echo "SKIPPED cuda_cudnn.sh, plans: $(cat "$work/said")" >&2
    else
        check "cuDNN has plans for our graphs" test "$status" = 0
    fi
else
    echo "SKIPPED cuda_cudnn.sh, plans: libcudnn.so.9 is not installed" >&2
fi

# ---- the stand-in: numbers ----
objects=
for name in attention/rt_cudnn dnn/rt_cudnn_graph dnn/rt_cudnn_library core/rt_cuda_load \
    attention/rt_cudnn_attention; do
    # shellcheck disable=SC2086
    $cc -c -o "$work/$(basename $name).o" "runtime/cuda/$name.c" || exit 1
    objects="$objects $work/$(basename $name).o"
done
# shellcheck disable=SC2086
check "the test of descriptors builds" "$standin/build" -program -fopenmp \
    "$standin/cudnn_test.c" $objects "$BUILD/libparc_rt.a" -ldnnl -lm \
    -o "$work/numbers"
check "descriptors compute attention" env \
    LD_LIBRARY_PATH="$BUILD/standin/cudnn" "$work/numbers"

# ---- programs ----
export LD_LIBRARY_PATH="$BUILD/standin/cudnn"
small="-D vocab=64 -D dim=32 -D n_heads=4 -D batch=4 -D seq=16"
llama="-D n_layers=2 -D n_kv_heads=2 -D hidden=48"
gpt2="-D n_layers=2 -D n_positions=16 -D dropout=0.0"
transformer="-D n_layers=2 -D hidden=48 -D dropout=0.0"

# trains NAME MODEL OPTIONS…: with cuDNN the losses are the CPU's within 1% in
# every order of queued work; they are not bit-identical as with our own
# kernels.
trains() {
    at=$work/$1 model=$2
    shift 2
    cuda_tree "$at" "examples/$model.pdl" --arch sm_90a "$@" &&
        "$PARC" "examples/$model.pdl" --target cpu --threads 1 "$@" \
            -o "$at.cpu" &&
        "$at.cpu" --steps 4 --log "$at.cpu.log" || return
    PARC_CUDNN=0 cuda_run "$at" fast early --steps 4 --export "$at.own.st" ||
        return
    for order in early late ahead; do
        PARC_CUDNN=1 cuda_run "$at" fast $order --steps 4 \
            --log "$at.log" --export "$at.$order.st" &&
            same_curve "$at.cpu.log" "$at.log" 1e-2 || return
    done
    cmp "$at.early.st" "$at.late.st" && cmp "$at.early.st" "$at.ahead.st" &&
        ! cmp -s "$at.early.st" "$at.own.st"
}
# shellcheck disable=SC2086
{
    check "llama in bf16" trains llama llama $small $llama -D precision=bf16
    check "llama in f16 on 2x2" trains llama_f16 llama --mesh 2x2 $small \
        $llama -D precision=f16
    in_all check "gpt2 in bf16" trains gpt2 gpt2 $small $gpt2 -D precision=bf16
    in_all check "a decoder in bf16" trains transformer transformer --plan \
        full_shard $small \
        $transformer -D precision=bf16
}

# Convolutions and their gradients. Weights of 16 bits have gradients in f32, which cuDNN
# computes in 16 bits.
# convolves NAME TOLERANCE OPTIONS…
convolves() {
    at=$work/$1 tolerance=$2
    shift 2
    cuda_tree "$at" tests/data/conv.pdl --arch sm_90a "$@" &&
        "$PARC" tests/data/conv.pdl --target cpu --threads 1 "$@" -o "$at.cpu" &&
        "$at.cpu" --steps 4 --log "$at.cpu.log" || return
    PARC_CUDNN=0 cuda_run "$at" fast late --steps 4 --export "$at.own.st" &&
        PARC_CUDNN=1 cuda_run "$at" fast early --steps 4 --export "$at.early.st" &&
        PARC_CUDNN=1 cuda_run "$at" fast late --steps 4 --export "$at.st" --log "$at.log" &&
        same_curve "$at.cpu.log" "$at.log" "$tolerance" &&
        cmp "$at.early.st" "$at.st" && ! cmp -s "$at.st" "$at.own.st"
}
check "convolutions in f32" convolves convs 2e-5
check "convolutions in bf16 on 2x2" convolves convs_bf16 1e-2 --mesh 2x2 -D precision=bf16
# says_of NAME REASON [NAME=VALUE…]: --dry-run prints the choice for all convolutions.
says_of() {
    at=$work/$1 reason=$2
    shift 2
    env PARC_CUDNN=1 "$@" "$standin/run" -k "$at/fast.so" "$at/train" --dry-run >"$work/said" 2>&1
    cat "$work/said"
    [ "$(grep -c '^convolution ' "$work/said")" -gt 6 ] &&
        ! grep '^convolution ' "$work/said" | grep -vqF "$reason"
}
check "--dry-run reports convolutions" says_of convs "cuDNN 91900, engine 2"
check "PARC_CUDNN=0: own kernels convolve" says_of convs "own kernels (PARC_CUDNN=0)" PARC_CUDNN=0
check "no engine: own kernels convolve" says_of convs "own kernels (no engine for it)" \
    STANDIN_CUDNN=refuse
check "an engine whose sums vary is refused" says_of convs_bf16 "engine 2"

# `deterministic = true`, and gradients that several ranks compute, use the graph
# that stores ds instead of summing dq with atomics.
# engine NAME ENGINE: a dry run prints this engine for the backward pass.
engine() {
    at=$work/$1 wanted=$2
    "$standin/run" -k "$at/fast.so" "$at/train" --dry-run >"$work/said" 2>&1
    grep "^attention backward" "$work/said"
    grep -q "^attention backward of .*: cuDNN 91900, engine $wanted" "$work/said"
}
export PARC_CUDNN=1
# shellcheck disable=SC2086
{
    check "a deterministic program trains" trains ordered llama $small $llama \
        -D precision=bf16 -D deterministic=true
    check "a deterministic program has an engine whose results repeat" \
        engine ordered 2
    sed '/layers\.\*\.attention[:.]/d' examples/llama.pdl >"$work/same.pdl"
    check "ranks that compute the same gradient: tree" cuda_tree "$work/same" \
        "$work/same.pdl" --mesh 1x2 --arch sm_90a $small $llama \
        -D precision=bf16
    check "ranks that compute the same gradient: kernels" \
        "$standin/build" -fast "$work/same/kernels.cu" \
        "$work/same/fast.so"
    check "ranks that compute the same gradient: deterministic engine" \
        engine same 2
    check "ranks that compute parts: any engine" engine llama_f16 0
}
unset PARC_CUDNN

# run [NAME=VALUE…] OPTIONS…: runs llama. says TEXT: it printed TEXT.
run() {
    at=$work/llama
    (
        while :; do
            case $1 in *=*) export "${1?}" && shift ;; *) break ;; esac
        done
        "$standin/run" -k "$at/fast.so" "$at/train" "$@"
    ) >"$work/said" 2>&1
}
says() {
    grep -qF "$1" "$work/said" || { cat "$work/said" && false; }
}
# own REASON [NAME=VALUE…]: our own kernels run, for the given reason.
own() {
    reason=$1
    shift
    run "$@" --dry-run && says "own kernels ($reason" && ! says ": cuDNN"
}
check "PARC_CUDNN=1 selects cuDNN" run PARC_CUDNN=1 --dry-run
check "--dry-run reports the forward pass" says \
    "attention forward of [4, 16, 4, 8]: cuDNN 91900, engine 2"
check "--dry-run reports the backward pass" says \
    "attention backward of [4, 16, 4, 8]: cuDNN 91900, engine 0"
check "cuDNN runs with PARC_NANCHECK=1" \
    run PARC_CUDNN=1 PARC_NANCHECK=1 --steps 2
check "cuDNN runs with PARC_SYNC=1" run PARC_CUDNN=1 PARC_SYNC=1 --steps 2
check "cuDNN runs with --trace" \
    run PARC_CUDNN=1 --steps 6 --trace "$work/t.json"
check "the trace has the names of attention calls" \
    jq -e '[.traceEvents[] | select(.cat == "attention")
    | .name] | length > 0' "$work/t.json"
check "PARC_CUDNN=0 selects our own kernels" own "PARC_CUDNN=0" PARC_CUDNN=0
check "PARC_CUDNN=no is refused" sh -c "! PARC_CUDNN=no STANDIN_FAST=1 \
    '$standin/run' -k '$work/llama/fast.so' '$work/llama/train' --dry-run \
    2>'$work/said'"
check "PARC_CUDNN=no is reported" \
    says "PARC_CUDNN is 'no' in the environment; it takes 0 or 1"
mkdir "$work/none"
: >"$work/none/libcudnn.so.9"
check "a missing cuDNN: our own kernels run" \
    own "cuDNN is missing: " PARC_CUDNN=1 \
    LD_LIBRARY_PATH="$work/none"
check "an old cuDNN: our own kernels run" \
    own "cuDNN 90100 is older than 91002)" PARC_CUDNN=1 \
    STANDIN_CUDNN_VERSION=90100
check "no engine: our own kernels run" \
    own "no engine for it)" PARC_CUDNN=1 STANDIN_CUDNN=refuse
check "a version whose padding is wrong runs" run PARC_CUDNN=1 \
    STANDIN_CUDNN_VERSION=91400 --dry-run
check "a version whose padding is wrong runs the forward pass" \
    says "[4, 16, 4, 8]: cuDNN 91400"
check "a version whose padding is wrong: reason" \
    says "own kernels (this version's gradients are wrong"
check "a failing call of cuDNN ends the run" \
    sh -c "! PARC_CUDNN=1 STANDIN_CUDNN=fail '$standin/run' \
    -k '$work/llama/fast.so' '$work/llama/train' --steps 1 2>'$work/said'"
check "a failing call of cuDNN is named" \
    says "error: rank 0: cuDNN 91900's attention in 'attention"
check "a failing call of cuDNN: the message proposes PARC_CUDNN=0" says \
    "CUDNN_STATUS_EXECUTION_FAILED; PARC_CUDNN=0 runs without it"

# Ranks under a launcher, one of which has another library, or none: rank 0's
# library decides. A rank that lacks it reports an error. If rank 0 has none,
# all ranks use our own kernels, with the same bits as when cuDNN is disabled.
rank() { # rank R [NAME=VALUE…]: one rank of 2x2
    as=$1
    shift
    exec env RANK="$as" WORLD_SIZE=4 LOCAL_RANK="$as" MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$port STANDIN_KERNELS="$work/llama_f16/fast.so" \
        LD_LIBRARY_PATH="$BUILD/standin:$BUILD/standin/cudnn" PARC_CUDNN=1 \
        "$@" "$work/llama_f16/train" --steps 4 --export "$work/ranks.st" \
        2>"$work/said.$as"
}
ranks() { # ranks STATUS RANK NAME=VALUE…: RANK alone has these variables
    status=$1 who=$2
    shift 2
    port=$((port + 1))
    rm -f "$work"/rc.*
    for r in 0 1 2 3; do
        {
            if [ $r = "$who" ]; then (rank $r "$@"); else (rank $r); fi
            echo $? >"$work/rc.$r"
        } &
    done
    wait
    cat "$work"/said.? >"$work/said"
    cat "$work"/rc.? "$work/said"
    [ "$(sort -u "$work"/rc.?)" = "$status" ]
}
# refuses TEXT: rank 2, which lacks the library, prints TEXT once.
refuses() {
    cat "$work/said"
    [ "$(grep -c 'error: ' "$work/said")" = 1 ] &&
        says "error: rank 2: attention runs on cuDNN 91900's engine 2 on rank \
0, and cannot here ($1" &&
        says "Install the same cuDNN everywhere, or set PARC_CUDNN=0"
}
nowhere=LD_LIBRARY_PATH=$BUILD/standin:$work/none
check "launched ranks with equal libraries" \
    ranks 0 2 STANDIN_CUDNN_VERSION=91900
check "launched ranks compute the weights of forked ones" \
    cmp "$work/ranks.st" "$work/llama_f16.early.st"
check "rank 2 lacks cuDNN: the run ends" ranks 1 2 "$nowhere"
check "rank 2 lacks cuDNN: message" refuses "cuDNN is missing: "
check "rank 2 has an old cuDNN: the run ends" \
    ranks 1 2 STANDIN_CUDNN_VERSION=90100
check "rank 2 has an old cuDNN: message" \
    refuses "cuDNN 90100 is older than 91002)"
check "rank 2 has a newer cuDNN: the run ends" \
    ranks 1 2 STANDIN_CUDNN_VERSION=92600
check "rank 2 has a newer cuDNN: message" refuses "cuDNN 92600 takes engine 2)"
check "rank 2 has no engine: the run ends" ranks 1 2 STANDIN_CUDNN=refuse
check "rank 2 has no engine: message" refuses "no engine for it)"
check "rank 0 lacks cuDNN: the run succeeds" ranks 0 0 "$nowhere"
check "rank 0 lacks cuDNN: all ranks use our own kernels" \
    cmp "$work/ranks.st" "$work/llama_f16.own.st"
check "rank 0 has an old cuDNN: the run succeeds" \
    ranks 0 0 STANDIN_CUDNN_VERSION=90100
check "rank 0 has an old cuDNN: all ranks use our own kernels" \
    cmp "$work/ranks.st" "$work/llama_f16.own.st"

# Measurements are stored in the cache.
export PARC_CACHE="$work/measured"
check "a slow cuDNN: our own kernels run" \
    own "they are faster here)" PARC_CUDNN= STANDIN_CUDNN=slow
check "a slow cuDNN: the cache has the choice" \
    own "they are faster here)" PARC_CUDNN=
check "the cache has both passes" test \
    "$(cat "$work/measured"/matmul-* | grep -c ' attention ')" = 2
finish
