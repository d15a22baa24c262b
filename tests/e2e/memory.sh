#!/bin/sh
# A rank allocates what the plan printed, to the byte; packing stays within
# 5% of the lower bound; the heap does not grow after the first steps.
. "$(dirname "$0")/lib.sh"

as_planned() { # as_planned LOG PLAN
    jq -en --slurpfile log "$1" --slurpfile plan "$2" '
        ($log | map(.peak_bytes) | unique) as $have |
        if $have == [$plan[0].memory.peak] then true
        else error("\($have) allocated, \($plan[0].memory.peak) planned")
        end'
}
well_packed() {
    jq -e '.memory | if .peak <= 1.05 * .lower_bound then true
           else error("\(.peak) for \(.lower_bound)") end' "$1"
}
heap_peak() { # heap_peak BINARY STEPS: bytes of the largest process
    rm -f "$work/peak"
    MALLOC_PEAK_FILE=$work/peak LD_PRELOAD=$work/malloc_peak.so \
        "$1" --threads 1 --steps "$2" >/dev/null 2>&1 || return 1
    od -An -td8 "$work/peak" | tr -d ' '
}
# One thread, so that the peak does not depend on which threads meet inside
# oneDNN; what is kept a step would show a hundred times.
no_growth() {
    a=$(heap_peak "$1" 3) && b=$(heap_peak "$1" 103) || return 1
    echo "$a bytes in 3 steps, $b in 103"
    [ -n "$a" ] && [ "$a" -gt 0 ] && [ $((b - a)) -lt 100 ]
}

try() { # try LABEL MODEL MESH OPTIONS…
    label=$1 model=$2 mesh=$3
    shift 3
    check "$label compiles" compile "$work/$label" "$model" "$mesh" "$@"
    "$PARC" "examples/$model.pdl" --target cpu --mesh "$mesh" "$@" \
        --emit json >"$work/$label.json"
    check "$label runs" "$work/$label" --steps 2 --log "$work/$label.log"
    check "$label as planned" as_planned "$work/$label.log" "$work/$label.json"
    check "$label well packed" well_packed "$work/$label.json"
    [ "${CHECK_ASAN:-}" ] || check "$label heap" no_growth "$work/$label"
}

[ "${CHECK_ASAN:-}" ] ||
    check "interposer" cc -shared -fPIC -O1 -o "$work/malloc_peak.so" \
        tests/tools/malloc_peak.c
try toy toy 2x2
try feedforward feedforward 2x2 -D dim=64 -D hidden=128 -D batch=8
# shellcheck disable=SC2086
try llama-1x1 llama 1x1 $llama_sizes
# shellcheck disable=SC2086
try llama-2x2 llama 2x2 $llama_sizes
# shellcheck disable=SC2086
try llama-4x1 llama 4x1 $llama_sizes
# Plans of every example as its file stands, on both targets.
for model in toy feedforward llama; do
    for mesh in 1x1 2x2 8x1 1x2; do
        for target in cpu cuda; do
            "$PARC" "examples/$model.pdl" --mesh $mesh --target $target \
                -D precision=f32 --threads 1 --emit json >"$work/plan.json"
            check "$model $mesh $target" well_packed "$work/plan.json"
        done
    done
done
finish
