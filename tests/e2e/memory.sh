#!/bin/sh
# memory.sh: a rank allocates exactly the bytes that the plan printed. Packing
# is within 5% of the lower bound. The heap does not grow after the first steps.
# cpu: workspace of matmuls
. "$(dirname "$0")/lib.sh"

well_packed() {
    jq -e '.memory | if .peak <= 1.02 * .lower_bound then true
           else error("\(.peak) for \(.lower_bound)") end' "$1"
}
heap_peak() { # heap_peak STEPS BINARY OPTIONS…: peak bytes of any process
    steps=$1
    shift
    rm -f "$work/peak"
    MALLOC_PEAK_FILE=$work/peak LD_PRELOAD=$work/malloc_peak.so \
        "$@" --steps "$steps" >/dev/null 2>&1 || return 1
    od -An -td8 "$work/peak" | tr -d ' '
}
# A block that each step leaks has at least 24 bytes and would show a hundred times. The
# peak of a long run may include the 288 bytes of one more thread that is starting.
no_growth() { # no_growth BINARY OPTIONS…
    a=$(heap_peak 3 "$@") && b=$(heap_peak 103 "$@") || return 1
    echo "$a bytes in 3 steps, $b in 103"
    [ -n "$a" ] && [ "$a" -gt 0 ] && [ $((b - a)) -lt 2000 ]
}

try() { # try LABEL MODEL MESH OPTIONS…
    label=$1 model=$2 mesh=$3
    shift 3
    check "$label compiles" compile "$work/$label" "$model" "$mesh" "$@"
    "$PARC" "examples/$model.pdl" --target cpu --mesh "$mesh" "$@" \
        --emit json >"$work/$label.json"
    check "$label runs" "$work/$label" --steps 2 --log "$work/$label.log"
    check "$label allocates the planned bytes" \
        as_planned "$work/$label.log" "$work/$label.json"
    check "$label packs near the lower bound" well_packed "$work/$label.json"
    [ "${CHECK_ASAN:-}" ] || check "$label heap" no_growth "$work/$label" \
        --threads 1
}

[ "${CHECK_ASAN:-}" ] ||
    check "the malloc interposer builds" \
        cc -shared -fPIC -O1 -o "$work/malloc_peak.so" \
        tests/tools/malloc_peak.c
try toy toy 2x2
try feedforward feedforward 2x2 -D dim=64 -D hidden=128 -D batch=8
# shellcheck disable=SC2086
try llama-1x1 llama 1x1 $llama_sizes
# shellcheck disable=SC2086
check "llama with two threads compiles" compile "$work/two" llama 1x1 \
    --threads 2 $llama_sizes
if [ -z "${CHECK_ASAN:-}" ]; then
    check "the heap does not grow with two threads" no_growth "$work/two"
    check "the heap does not grow with --trace" \
        no_growth "$work/two" --trace "$work/two.trace"
fi
# shellcheck disable=SC2086
try llama-2x2 llama 2x2 $llama_sizes
# Without memfd_create ranks share anonymous memory.
no_file() { # no_file BINARY
    cc -shared -fPIC -o "$work/no_file.so" tests/tools/no_memory_file.c &&
        LD_PRELOAD=$work/no_file.so "$1" --steps 2 --log "$work/no_file.log" &&
        same_curve "$work/no_file.log" "$1.log" 0
}
[ "${CHECK_ASAN:-}" ] || check "no memory file" no_file "$work/llama-2x2"
# shellcheck disable=SC2086
try llama-4x1 llama 4x1 $llama_sizes
# shellcheck disable=SC2086
try gpt2-2x2 gpt2 2x2 $gpt2_sizes -D dropout=0.1
# shellcheck disable=SC2086
in_all try transformer-2x2 transformer 2x2 --plan tensor_parallel $transformer_sizes
# Every plan of every example, at the file's sizes, for both targets.
plans() { # plans MODEL PLAN MESHES [OPTIONS…]: make check has the last mesh
    model=$1 plan=$2 meshes=$(few_or_all "${3##* }" "$3")
    shift 3
    for mesh in $meshes; do
        for target in cpu cuda; do
            for precision in $(few_or_all bf16 "f32 bf16"); do
                label="$model $plan $mesh $target $precision"
                "$PARC" "examples/$model.pdl" --plan "$plan" --mesh "$mesh" \
                    --target $target -D precision=$precision --threads 1 "$@" \
                    --emit json >"$work/plan.json"
                check "$label packs near the lower bound" \
                    well_packed "$work/plan.json"
            done
        done
    done
}
plans toy two_axes '1x1 8x1 1x2 2x2'
plans feedforward tp_fsdp '1x1 8x1 1x2 2x2'
plans llama tp_fsdp '1x1 8x1 1x2 2x2'
plans gpt2 tp_fsdp '1x1 8x1 1x2 2x2'
plans hsdp hsdp '1x1x1 1x2x2 2x4x1 1x1x2 2x2x2'
plans transformer tensor_parallel '1x1 8x1 1x2 2x2' -D batch=8
for plan in full_shard shard_grad_op no_shard full_shard_checkpoint; do
    plans transformer $plan '1 2 8' -D batch=8
done
finish
