#!/bin/sh
# Device code that is written by hand, on the host: the numbers of the CPU's
# functions, and no access that races or falls outside.
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
"$BUILD/unit/instances" --text >"$work/checked.cu"
"$BUILD/unit/instances" --text fast >"$work/fast.cu"
# shellcheck disable=SC2086
$standin/build "$work/checked.cu" "$work/checked.so" &&
    $standin/build -fast "$work/fast.cu" "$work/fast.so" &&
    $standin/build -program $standin/device_test.c $objects \
        "$BUILD/libparc_rt.a" -fopenmp -ldnnl -lm -o "$work/device_test" ||
    exit 1
check "no race" "$work/device_test" "$work/checked.so"
check "all sizes" "$work/device_test" "$work/fast.so" fast
finish
