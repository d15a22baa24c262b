#!/bin/sh
# cross.sh: the compiler, the runtime and emitted sources compile for 64-bit Arm
# without warnings. (tests/aarch64/run also links and runs them in an emulator.)
. "$(dirname "$0")/lib.sh"

cc=aarch64-linux-gnu-gcc
if ! command -v $cc >/dev/null || ! echo '#include <stdio.h>' |
    $cc -fsyntax-only -xc - 2>/dev/null; then
    echo "skipped: no $cc; scripts/setup.sh emulation installs it"
    finish
    exit
fi
# oneDNN's headers are the same for all machines.
mkdir -p "$work/include" "$work/objects"
for at in /usr/include /usr/local/include; do
    [ ! -e "$at/dnnl.h" ] || cp -r "$at"/dnnl* "$at/oneapi" "$work/include"
done
warnings=$(sed -n '/^WARN = /,/[^\\]$/p' Makefile | sed 's/^WARN =//; s/\\$//')

# clean FLAGS… FILES…: compiles without a warning, also of the optimizer.
clean() {
    # shellcheck disable=SC2086
    (cd "$work/objects" && $cc -c -std=c11 $warnings -Werror -D_GNU_SOURCE \
        -isystem "$work/include" "$@")
}
check "warnings are requested" test "$(echo "$warnings" | grep -e -Wall)"
runtime="-I$root/runtime -fopenmp -ffp-contract=fast -fno-math-errno"
for part in base frontend ir passes codegen forecast report page compare autoplan driver; do
    in_all check "$part compiles for Arm" \
        clean "$(few_or_all -fsyntax-only -O1)" -I"$root" -I"$BUILD/gen" \
        $(find "$root/$part" -name '*.c')
done
# shellcheck disable=SC2086
check "the runtime compiles for Arm" clean "$(few_or_all -O0 -O2)" $runtime \
    $(find "$root/runtime" -name '*.c' ! -path '*/cpu/*' ! -path '*/cuda/*' \
        ! -path '*/mpi/*')
# shellcheck disable=SC2086
check "the CPU runtime compiles for Arm" clean "$(few_or_all -O0 -O3)" \
    -march=armv8-a $runtime $(find "$root/runtime/cpu" -name '*.c')
# shellcheck disable=SC2086
check "the CUDA runtime compiles for Arm" \
    clean "$(few_or_all -O0 -O1)" $runtime $(find "$root/runtime/cuda" -name '*.c')

for case in toy:f32 llama:bf16; do
    model=${case%:*} at=$work/$model
    # shellcheck disable=SC2086
    check "$case is emitted" "$PARC" "examples/$model.pdl" --target cpu \
        --cpu aarch64 --mesh 2x2 $([ $model = toy ] || echo "$llama_sizes") \
        -D precision="${case#*:}" -S "$at"
    check "$case compiles for Arm" \
        clean -O3 -march=armv8-a -fopenmp -ffp-contract=fast \
        -fno-math-errno -Wno-overlength-strings -I"$at/runtime" \
        "$at/train.c" "$at/model.c" "$at/kernels.c"
done
finish
