#!/bin/sh
# standin_engine.sh: tests the engine that runs device code and queued work on
# the host: correct programs pass, and every kind of fault is reported.
. "$(dirname "$0")/lib.sh"
standin=tests/standin
$standin/build "$standin/engine_kernels.cu" "$work/kernels.so" || exit 1
for test in engine queue nccl blas; do
    $standin/build -program "$standin/${test}_test.c" -o "$work/$test" ||
        exit 1
    "$work/$test" "$work/kernels.so" >"$work/$test.log" 2>&1 ||
        cat "$work/$test.log"
    line=$(tail -n 1 "$work/$test.log")
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
done
# The NCCL for ranks that share a GPU, over whole groups and parts of them.
tests/gpu/loopback "$work/libnccl.so.2" -Wall -Wextra -Werror || exit 1
for stage in 33554432 1024; do
    LD_LIBRARY_PATH=$work LOOPBACK_STAGE=$stage "$work/nccl" >"$work/nccl.log"
    line=$(tail -n 1 "$work/nccl.log")
    [ "$line" = "40 passed, 0 failed" ] || cat "$work/nccl.log"
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
done
finish
