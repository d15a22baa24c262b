#!/bin/sh
# cuda_collectives.sh: collectives of the CUDA runtime with stand-ins for CUDA's
# libraries: forked ranks, ranks of a launcher, queued work that runs early and
# late, and the message without NCCL.
. "$(dirname "$0")/lib.sh"
export BUILD
lib=$BUILD/standin
check "the stand-ins build" tests/standin/build
check "the test links" \
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -g -I. -Iruntime -Iruntime/cuda/device \
    tests/cuda/collectives.c "$BUILD/libparc_cuda.a" -o "$work/collectives" \
    -fopenmp -lm -ldl
# The test launches no kernels, but the stand-in needs a library of some.
check "kernels compile" tests/standin/build tests/cuda/line.cu "$work/line.so"
export STANDIN_KERNELS="$work/line.so" STANDIN_DEVICES=4

on_cuda() {
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lib env "$@"
}
# passes NAME…: runs a test; its last line must count no failure.
passes() {
    on_cuda "$@" "$work/collectives" >"$work/log" 2>&1
    status=$?
    tail -n 20 "$work/log"
    [ "$status" = 0 ] && grep -q ' passed, 0 failed' "$work/log"
}
orders=$(few_or_all late "early late 7")
for order in $orders; do
    check "forked ranks, $order" passes "STANDIN_ORDER=$order"
done
in_all check "forked ranks, PARC_SYNC=1" passes PARC_SYNC=1

# The calls of NCCL: the warm-up sends messages as long as the model's longest
# collective, or a quarter of the free memory if that is less; for an all-to-all
# half of that is sent, to both ranks of a pair. No communicator may
# use more blocks than a quarter of the GPU's multiprocessors, nor more than 32.
# asks LONGEST BLOCKS NAME=VALUE…
asks() {
    longest=$1 blocks=$2
    shift 2
    rm -f "$work/calls"
    passes STANDIN_NCCL_CALLS="$work/calls" "$@" || return
    sort "$work/calls" | uniq -c
    for kind in all_reduce reduce_scatter all_gather; do
        [ "$(sed -n "s/^$kind //p" "$work/calls" | sort -n | tail -n 1)" = \
            "$longest" ] || return
    done
    [ "$(sed -n 's/^send //p' "$work/calls" | sort -n | tail -n 1)" = \
        $((longest / 4)) ] || return
    [ "$(sed -n 's/^blocks //p' "$work/calls" | sort -u)" = "$blocks" ]
}
check "NCCL's warm-up and blocks on a large GPU" \
    asks 6291456 32 STANDIN_UNITS=132
check "NCCL's warm-up and blocks on a small GPU" \
    asks 2097152 15 STANDIN_UNITS=60 \
    STANDIN_FREE=8388608

# Ranges, as a profiler's library receives them, by NVTX's own header.
if [ -e /usr/local/cuda/include/nvtx3/nvToolsExt.h ]; then
    check "the profiler's library builds" ${CC:-cc} -std=c11 -shared -fPIC \
        -I/usr/local/cuda/include tests/cuda/profiler.c -o "$work/profiler.so"
    check "the profiled program builds" \
        ${CC:-cc} -std=c11 -DCUDA -Iruntime tests/cuda/line.c \
        "$BUILD/libparc_cuda.a" -o "$work/line" -fopenmp -lm -ldl
    check "a run with a profiler" \
        on_cuda NVTX_INJECTION64_PATH="$work/profiler.so" \
        PROFILE="$work/profile" PARC_CACHE="$work/cache" "$work/line" --steps 3
    check "the profile has the capture" grep -q '^  capture$' "$work/profile"
    check "the profile has the phases" grep -q '^    [a-z]' "$work/profile"
    check "the profile has the statements" \
        grep -q '^      [a-z]' "$work/profile"
    check "the profile has the replay of step 3" \
        test "$(tail -n 1 "$work/profile")" = "step 3"
fi

launched() {
    for rank in 0 1 2 3; do
        on_cuda RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank \
            MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$work/collectives" \
            >"$work/log.$rank" 2>&1 &
    done
    wait
    cat "$work"/log.?
    [ "$(cat "$work"/log.? | grep -c ' passed, 0 failed')" = 4 ]
}
check "ranks of a launcher" launched

# Four ranks on one GPU.
check "the loopback builds" sh -c "mkdir '$work/loopback' &&
    tests/gpu/loopback '$work/loopback/libnccl.so.2'"
shared() {
    LD_LIBRARY_PATH=$work/loopback passes STANDIN_DEVICES=1 PARC_DEVICE=0 "$@"
}
for order in $orders; do
    check "ranks that share a GPU, $order" shared "STANDIN_ORDER=$order"
done
in_all check "ranks that share a GPU, in small rounds" shared LOOPBACK_STAGE=1024

# Without NCCL: an empty file precedes the machine's own library, if any.
mkdir "$work/lib"
for file in "$lib"/*.so*; do
    case $file in
    *nccl*) ;;
    *) ln -s "$file" "$work/lib" ;;
    esac
done
without() { # without WHY
    LD_LIBRARY_PATH=$work/lib "$work/collectives" >"$work/log" 2>&1
    cat "$work/log"
    grep -qE "error: NCCL is missing: $1; install it" "$work/log"
}
: >"$work/lib/libnccl.so.2"
check "a damaged NCCL library is refused" \
    without "[^ ]*/libnccl.so.2: file too short"
rm "$work/lib/libnccl.so.2"
ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2' ||
    check "a missing NCCL is refused" \
        without "libnccl.so.2: cannot open shared object file: \
No such file or directory"
finish
