#!/bin/sh
# calibrate.sh: parc calibrate: the program that measures, the machine file of its trace,
# plans on that machine, and traces that are none.
. "$(dirname "$0")/lib.sh"

# calibrates MESH PRECISION: the machine file $work/MESH-PRECISION.json
calibrates() {
    at=$work/$1-$2
    "$PARC" calibrate --target cpu --mesh "$1" -D precision="$2" -o "$at" &&
        "$at" --steps 4 --trace "$at.trace" 2>"$work/said" &&
        "$PARC" calibrate --target cpu --mesh "$1" -D precision="$2" \
            --from "$at.trace" -o "$at.json"
}
# Each rate is between those of its slowest and its fastest machine by a factor of 10^5.
plausible() {
    jq -e '[.peak.bf16, .peak.f32, .hbm.rate, .attention[].rate] |
        all(.value > 1e7 and .value < 1e15 and .from != "" and .date != "")' "$1"
}
for mesh in $(few_or_all 2x1 "1x1 2x1 1x2 2x2"); do
    check "a machine of $mesh" calibrates "$mesh" f32
    check "its rates" plausible "$work/$mesh-f32.json"
    check "a plan on it" "$PARC" examples/llama.pdl --target cpu --mesh "$mesh" \
        $llama_sizes --machine "$work/$mesh-f32.json" --emit json="$work/plan"
    check "its times" jq -e '.time | .step_seconds > 0 and
        ((([.by_class[]] | add) + .between_seconds - .step_seconds | fabs) < 1e-9)' "$work/plan"
done
in_all check "a machine in bf16" calibrates 1x1 bf16
# Ranks that wait for a processor, so that statements take twice as long, have the same
# rates, and wait longer.
contended() {
    jq '.traceEvents[] |= if .args.cpu_us and .cat != "collective"
        then .args.cpu_us = ([.args.cpu_us, .dur] | min) | .dur += .args.cpu_us
        else . end' "$work/2x1-f32.trace" >"$work/slow.trace" &&
        "$PARC" calibrate --target cpu --mesh 2x1 -D precision=f32 \
            --from "$work/slow.trace" -o "$work/slow.json" &&
        jq -en --slurpfile fast "$work/2x1-f32.json" --slurpfile slow "$work/slow.json" '
            $fast[0].peak.f32.value == $slow[0].peak.f32.value and
            ($slow[0].device.straggler.value - $fast[0].device.straggler.value - 1 |
             fabs < 0.01)'
}
check "a contended processor changes no rate" contended
alone() { # no statement takes longer than alone: a CPU rank has one stream
    "$PARC" examples/llama.pdl --target cpu --mesh "$1" $llama_sizes --machine "$2" \
        --emit json | jq -e '[.work, [.time.statements[]]] | transpose |
        all(.[1].run_seconds <= .[0].count * .[1].alone_seconds * 1.001)'
}
check "times of two ranks" alone 2x1 "$work/2x1-f32.json"
check "times of a mesh that was not measured" alone 2x2 "$work/2x1-f32.json"
check "times of a pipeline" "$PARC" examples/three_d.pdl --target cpu --mesh 2x1x1 \
    --machine "$work/2x1-f32.json" --emit plan
check "collectives of a group" jq -e '[.collective[] | select(.ranks == 2) | .kind] |
    index("reduce_scatter")' "$work/2x1-f32.json"

# The trace of another model.
check "llama runs" compile "$work/llama" llama 1x1 --threads 1 $llama_sizes
check "its trace" "$work/llama" --steps 4 --trace "$work/llama.trace"
check "a machine of its trace" "$PARC" calibrate examples/llama.pdl --target cpu \
    --mesh 1x1 --threads 1 $llama_sizes --from "$work/llama.trace" -o "$work/own.json"
check "its rates are plausible" plausible "$work/own.json"

refused() { # refused STATUS TEXT ARGUMENTS…
    status=$1 text=$2
    shift 2
    "$PARC" calibrate "$@" 2>"$work/err"
    is=$?
    cat "$work/err"
    [ $is = "$status" ] && [ ! -e "$work/no" ] && grep -qF -- "$text" "$work/err"
}
check "no output" refused 2 "needs -o PROGRAM" --target cpu
check "no output for a trace" refused 2 "needs -o FILE" --target cpu --from x
check "a trace that does not exist" refused 1 "cannot read" --target cpu \
    --from "$work/none" -o "$work/no"
check "the trace of another program" refused 1 "no statement of this program" \
    examples/toy.pdl --target cpu --from "$work/llama.trace" -o "$work/no"
check "a GPU's trace" refused 1 "is for --target cpu" --from "$work/llama.trace" \
    -o "$work/no"
head -c 3000 "$work/llama.trace" >"$work/cut.trace"
check "a trace that was cut off" refused 1 "it is no trace" --target cpu \
    --from "$work/cut.trace" -o "$work/no"
check "an unknown option" refused 2 "unknown option" --mash 2 -o "$work/no"
check "a machine for GPUs" sh -c "! '$PARC' examples/toy.pdl \
    --machine '$work/1x1-f32.json' --emit plan 2>&1 | grep -q '^Time'"
finish
