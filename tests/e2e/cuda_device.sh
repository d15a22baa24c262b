#!/bin/sh
# Device code that is written by hand, on the host: the numbers of the CPU's
# functions, no access that races or falls outside, no barrier for nothing.
. "$(dirname "$0")/lib.sh"
standin=tests/standin
export BUILD
flags="-std=c11 -D_GNU_SOURCE -g -O1 -Iruntime -Iruntime/cuda"
objects=
for name in rt_attention rt_contract rt_copy rt_embedding; do
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -include $standin/device_names.h \
        -c -o "$work/$name.o" "runtime/cuda/$name.c" || exit 1
    objects="$objects $work/$name.o"
done
"$BUILD/unit/instances" --text >"$work/device.cu"
# shellcheck disable=SC2086
$standin/build "$work/device.cu" "$work/device.so" &&
    $standin/build -program $standin/device_test.c $objects \
        "$BUILD/libparc_rt.a" -fopenmp -ldnnl -lm -o "$work/device_test" ||
    exit 1
"$work/device_test" "$work/device.so"
