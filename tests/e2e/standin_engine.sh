#!/bin/sh
# What runs device code and queued work on the host: right programs are let
# through, and every kind of fault is found.
. "$(dirname "$0")/lib.sh"
standin=tests/standin
$standin/build "$standin/engine_kernels.cu" "$work/kernels.so" || exit 1
for test in engine queue nccl; do
    $standin/build -program "$standin/${test}_test.c" -o "$work/$test" ||
        exit 1
    "$work/$test" "$work/kernels.so" >"$work/$test.log" || cat "$work/$test.log"
    line=$(tail -n 1 "$work/$test.log")
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
done
finish
