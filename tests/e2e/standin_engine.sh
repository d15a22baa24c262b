#!/bin/sh
# The engine that runs device code on the host: right kernels are let through,
# and every kind of fault is found.
. "$(dirname "$0")/lib.sh"
standin=tests/standin
BUILD=$BUILD $standin/build "$standin/engine_kernels.cu" "$work/kernels.so" &&
    $standin/build -program $standin/engine_test.c -o "$work/engine_test" ||
    exit 1
"$work/engine_test" "$work/kernels.so"
