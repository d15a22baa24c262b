#!/bin/sh
# cuda_device.sh: runs the hand-written device code on the host. It computes
# what the CPU's functions compute, no access races or is out of bounds, and no
# barrier is redundant; attention with a window computes few scores outside of it.
. "$(dirname "$0")/lib.sh"
standin=tests/standin
export BUILD
flags="-std=c11 -D_GNU_SOURCE -g -O1 -Iruntime -Iruntime/cuda/device -DGROUPED_MOST_BLOCKS=3"
objects=
for name in attention/rt_attention_own conv/rt_conv_own rt_kernels rt_cuda_experts; do
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -include $standin/device_names.h \
        -c -o "$work/$(basename $name).o" "runtime/cuda/$name.c" || exit 1
    objects="$objects $work/$(basename $name).o"
done
"$BUILD/unit/instances" --text >"$work/device.cu"
# shellcheck disable=SC2086
$standin/build "$work/device.cu" "$work/device.so" &&
    $standin/build -program $standin/device_test.c $standin/device_attention.c \
        $standin/device_experts.c $objects \
        "$BUILD/libparc_rt.a" -fopenmp -ldnnl -lm -o "$work/device_test" ||
    exit 1
"$work/device_test" "$work/device.so"
