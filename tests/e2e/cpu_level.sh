#!/bin/sh
# cpu_level.sh: with --cpu LEVEL plans, dumps and sources depend neither on the
# processor nor on the number of CPUs. Programs stay within the planned memory,
# whichever kernels the machine's library has. A program that needs instructions
# which the machine lacks reports that.
. "$(dirname "$0")/lib.sh"

machine=$(uname -m)
case $machine in
x86_64) mine=x86-64-v3 ;;
*) mine=$machine ;;
esac

# ---- plans and sources ----

# The instruction sets that oneDNN is limited to. (A limit above the machine's
# own set has no effect.)
libraries=$(few_or_all "SSE41 ALL" "SSE41 AVX2 AVX512_CORE ALL")

llama_small="-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=160 -D batch=8 -D seq=32"

# written DIR LEVEL MODEL PRECISION: writes all of parc's outputs to DIR.
written() {
    mkdir "$1"
    # shellcheck disable=SC2086
    (cd "$1" && "$PARC" "$root/examples/$3.pdl" --target cpu --mesh 2x2 \
        $llama_small -D precision="$4" --cpu "$2" --emit plan=plan \
        --emit json=json --dump-after-all -S tree >dumps 2>errors)
}

# on_all_libraries LEVEL MODEL PRECISION: the outputs are the same each time;
# the level adds no warning to those of native.
on_all_libraries() {
    at=$work/$1-$2-$3
    for library in $libraries; do
        DNNL_MAX_CPU_ISA=$library written "$at-$library" "$@" || return
        diff -r "$at-SSE41" "$at-$library" || return
    done
    written "$at-native" native "$2" "$3" || return
    warnings "$at-native" >"$work/native.warnings"
    warnings "$at-ALL" | diff "$work/native.warnings" - &&
        grep -q "^cpu *$1, 1 thread " "$at-ALL/plan"
}
warnings() { # warnings DIR
    grep -E '(warning|error|note):' "$1/errors" | sed 's/^<command line>[:0-9]*//'
}
for level in $(few_or_all "aarch64 amx" "x86-64-v3 x86-64-v4 amx aarch64"); do
    for precision in $(few_or_all bf16 "f32 bf16"); do
        check "$level, $precision: outputs do not depend on the library" \
            on_all_libraries $level llama $precision
    done
done
check "the level is in the JSON" jq -e '.cpu == "amx"' \
    "$work/amx-llama-bf16-ALL/json"
check "the level is in the program's command" \
    grep -q -- '--threads 1 --cpu amx ' \
    "$work/amx-llama-bf16-ALL/tree/train.c"
native_has_threads() {
    "$PARC" examples/toy.pdl --target cpu --emit plan |
        grep "^cpu *native, $(nproc) thread"
}
check "native: as many threads as CPUs" native_has_threads

# ---- programs ----

# trains BINARY LOG…: trains within the planned memory.
trains() {
    binary=$1 plan=$2 log=$3
    shift 3
    rm -f "$log"
    env "$@" "$binary" --steps 4 --seed 3 --log "$log" >/dev/null &&
        as_planned "$log" "$plan"
}
for precision in $(few_or_all bf16 "f32 bf16"); do
    # shellcheck disable=SC2086
    check "$precision: native compiles" compile "$work/native" llama 2x2 \
        $llama_small -D precision=$precision --threads 1 \
        --emit json="$work/native.json"
    check "$precision: native trains" trains "$work/native" \
        "$work/native.json" "$work/native-$precision.log" A=
    # shellcheck disable=SC2086
    check "$precision: $mine compiles" compile "$work/mine-$precision" llama \
        2x2 $llama_small -D precision=$precision --cpu $mine \
        --emit json="$work/mine-$precision.json"
    tolerance=1e-4
    [ $precision = f32 ] || tolerance=1e-2
    for library in $libraries; do
        log=$work/mine-$precision-$library.log
        check "$precision: $mine trains with a library for $library" trains \
            "$work/mine-$precision" "$work/mine-$precision.json" "$log" \
            DNNL_MAX_CPU_ISA=$library
        check "$precision: $mine has the curve of native" same_curve "$log" \
            "$work/native-$precision.log" $tolerance
    done
done

# Without the library that was built beside parc, parc compiles its sources.
without_library() {
    mkdir "$work/alone" && cp "$PARC" "$work/alone/parc" &&
        "$work/alone/parc" examples/toy.pdl --target cpu --cpu $mine --mesh 2x2 \
            -o "$work/alone/train" && "$work/alone/train" --steps 2
}
check "a runtime compiled with the program" without_library

# ---- programs for other machines ----

# refused TEXT COMMAND…: exit status 1, no standard output, TEXT in the errors.
refused() {
    wanted=$1
    shift
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    echo "exit status $status:"
    cat "$work/out" "$work/err"
    [ $status = 1 ] && [ ! -s "$work/out" ] && grep -q "$wanted" "$work/err"
}
if [ "$machine" = x86_64 ]; then
    check "another architecture needs a compiler" refused \
        'CC=aarch64-linux-gnu-gcc' env -u CC "$PARC" examples/toy.pdl \
        --target cpu --cpu aarch64 -o "$work/arm"
    # A feature that only one discontinued line of processors had.
    if echo 'int x;' | ${CC:-cc} -mavx512er -c -xc -o "$work/er.o" - \
        2>/dev/null && ! grep -qw avx512er /proc/cpuinfo; then
        check "compiles for a machine with avx512er" \
            env CC="${CC:-cc} -mavx512er" "$PARC" examples/toy.pdl \
            --target cpu --cpu $mine -o "$work/er"
        for option in "--steps 1" --help --info; do
            # shellcheck disable=SC2086
            check "a missing avx512er is refused ($option)" refused \
                "^er: error: compiled with --cpu $mine, but this machine \
lacks .*avx512er: compile it on this machine, or with parc --cpu " \
                "$work/er" $option
        done
    else
        echo "skipped: no compiler for avx512er, or a machine that has it"
    fi
fi
if [ "${CHECK_ASAN:-}" ]; then
    echo "skipped: sanitizers need more address space than qemu provides"
elif command -v qemu-x86_64 >/dev/null; then
    haswell() {
        qemu-x86_64 -cpu Haswell-noTSX,-invpcid "$@"
    }
    for level in x86-64-v3 x86-64-v4 amx; do
        check "$level compiles" "$PARC" examples/toy.pdl --target cpu \
            --cpu $level --mesh 2x2 -o "$work/toy-$level"
    done
    in_all check "x86-64-v3 trains on a Haswell" haswell "$work/toy-x86-64-v3" \
        --steps 3 --log "$work/haswell.log"
    if [ "$machine" = x86_64 ]; then
        in_all check "x86-64-v3 trains on this machine" \
            "$work/toy-x86-64-v3" --steps 3 --log "$work/here.log"
        in_all check "both machines have one curve" \
            same_curve "$work/haswell.log" "$work/here.log" 1e-6
    fi
    check "x86-64-v4 is refused on a Haswell" \
        refused 'lacks avx512f, avx512dq, avx512cd, '\
'avx512bw, avx512vl: compile it on this machine, or with parc --cpu x86-64-v3$' \
        haswell "$work/toy-x86-64-v4" --steps 3
    check "amx is refused on a Haswell" \
        refused 'amx-tile' haswell "$work/toy-amx" --steps 3
    check "x86-64-v3 is refused on a Nehalem" refused \
        'lacks movbe, .*avx2: compile it on this machine$' \
        qemu-x86_64 -cpu Nehalem "$work/toy-x86-64-v3" --steps 3
else
    echo "skipped: there is no qemu-x86_64 to emulate a lesser machine"
fi
finish
