#!/bin/sh
# trace.sh: the file of --trace has every kernel, matmul and collective of the
# plan, under its id and as often as it runs. Slices nest and leave no gap.
. "$(dirname "$0")/lib.sh"

# Compares ids and numbers of calls of the plan and of the trace.
complete() { # complete TRACE PLAN RANKS STEPS
    jq -en --slurpfile t "$1" --slurpfile p "$2" --argjson ranks "$3" \
        --argjson steps "$4" '
        ($p[0].work | map({key: .id, value: (.count * $ranks * $steps)})
            | from_entries) as $want |
        ["step", "phase", "input", "wait", "move"] as $own |
        ($t[0].traceEvents | map(select(.ph == "X" and
            (.cat | IN($own[]) | not))) | group_by(.name) |
            map({key: .[0].name, value: length}) | from_entries) as $have |
        if $want == $have and ($want | length) > 0 then true
        else error("plan \($want), trace \($have)") end'
}
# The trace describes each statement as the plan does, with its loop.
described() { # described TRACE PLAN
    jq -en --slurpfile t "$1" --slurpfile p "$2" '
        ($p[0].work | map({key: .id, value: .}) | from_entries) as $w |
        [$t[0].traceEvents[] | select(.args.phase) |
            select($w[.name] as $p | .cat != $p.kind or
                .args.phase != $p.phase or .args.source != $p.source or
                .args.bytes != $p.bytes or (.args.flops // 0) != $p.flops or
                ($p.count > 1 and (.args | has("layer") or has("micro") | not)))] |
        if . == [] then true else error("\(.[0])") end'
}
# A step consists of its input and its statements in sequence. A collective
# consists of waiting and moving, except for a gather in place that no rank
# waits for. Other statements that waited state how long.
gapless() { # gapless TRACE
    jq -en --slurpfile t "$1" '
        [$t[0].traceEvents[] | select(.ph == "X")] |
        def total(f): map(select(f) | .dur) | add // 0;
        [group_by(.pid)[] |
            (total(.cat == "step") - total(.args.phase) -
                total(.cat == "input")),
            (total(.cat == "collective" and
                   (.args.wait_us or (.args.what | endswith("in place") | not)))
                + (map(select(.cat != "collective") | .args.wait_us // 0) | add)
                - total(.cat | IN("wait", "move"))),
            (total(.cat == "step") - total(.cat | IN("phase", "input")))] |
        if all(fabs < 1) and length > 0 then true else error("\(.)") end'
}
# On a CPU each statement that computes has its CPU time.
has_cpu_times() { # has_cpu_times TRACE
    jq -e '[.traceEvents[] | select(.args.phase and .cat != "collective")] | length > 0 and
        all(.args.cpu_us >= 0 and .args.cpu_us <= .dur + 1000)' "$1"
}
# The kinds of statements that wait for ranks.
waiting() { # waiting TRACE KINDS
    have=$(jq -r '[.traceEvents[] | select(.args.wait_us) | .cat] |
        unique | join(" ")' "$1")
    echo "these wait: $have, expected: $2"
    [ "$have" = "$2" ]
}
# Of two microbatches with two layers, only the four chunks run eight times.
chunks() { # chunks PLAN
    line=$(sed -n '/return cross_entropy/=' examples/gpt2.pdl)
    jq -e --arg line ":$line:" '[.work[] | select(.count == 8 and
        (.source | contains($line)))] | length > 0' "$1"
}
steps_are() { # steps_are TRACE "3 4 5"
    have=$(jq -r '[.traceEvents[] | select(.cat == "step" and .pid == 0) |
        .name[5:]] | join(" ")' "$1")
    echo "steps $have, wanted $2"
    [ "$have" = "$2" ]
}
fails_with() { # fails_with STATUS TEXT COMMAND…
    status=$1 words=$2
    shift 2
    "$@" >"$work/fail.log" 2>&1
    have=$?
    cat "$work/fail.log"
    [ $have = "$status" ] && grep -qF -- "$words" "$work/fail.log"
}

try() { # try LABEL MODEL MESH RANKS OPTIONS…
    label=$1 model=$2 mesh=$3 ranks=$4
    shift 4
    check "$label compiles" compile "$work/$label" "$model" "$mesh" \
        --threads 1 "$@"
    "$PARC" "examples/$model.pdl" --target cpu --mesh "$mesh" --threads 1 \
        "$@" --emit json >"$work/$label.json"
    check "$label runs" "$work/$label" --steps 5 --trace "$work/$label.trace"
    check "$label: the trace is complete" complete "$work/$label.trace" \
        "$work/$label.json" "$ranks" 3
    check "$label: statements are described as in the plan" \
        described "$work/$label.trace" "$work/$label.json"
    check "$label: slices have no gaps" gapless "$work/$label.trace"
    check "$label: the traced steps" steps_are "$work/$label.trace" "3 4 5"
}

try toy toy 2x2 4
check "statements have CPU times" has_cpu_times "$work/toy.trace"
# shellcheck disable=SC2086
try llama-1x1 llama 1x1 1 $llama_sizes
# shellcheck disable=SC2086
try llama-2x2 llama 2x2 4 $llama_sizes

# shellcheck disable=SC2086
try llama-micro llama 2x1 2 $llama_sizes -D accumulate=2

try gpt2-2x1 gpt2 2x1 2 -D vocab=512 -D dim=384 -D n_layers=2 -D n_heads=6 \
    -D n_positions=16 -D batch=8 -D seq=8
for trace in gpt2-2x1 llama-2x2; do
    check "only collectives have a wait in $trace" \
        waiting "$work/$trace.trace" "collective"
done

try feedforward feedforward 2x2 4 -D dim=64 -D hidden=64
# shellcheck disable=SC2086
try gpt2-chunks gpt2 2x2 4 $gpt2_sizes -D n_layers=2 -D precision=bf16 \
    -D accumulate=2 -D head_chunk=16
check "the trace has the head's chunks" chunks "$work/gpt2-chunks.json"
# shellcheck disable=SC2086
try transformer transformer 2 2 --plan full_shard_checkpoint \
    $transformer_sizes
try hsdp hsdp 2x2x2 8 -D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 \
    -D batch=16 -D seq=16

toy=$work/toy
check "a short run writes a trace" "$toy" --steps 2 --trace "$work/t"
check "a short run traces all steps" steps_are "$work/t" "1 2"
check "--trace-steps 1 writes a trace" \
    "$toy" --steps 9 --trace-steps 1 --trace "$work/t"
check "--trace-steps 1 traces step 3" steps_are "$work/t" "3"
check "no temporary file is left next to the trace" sh -c "! ls '$work'/t.*"
check "--trace without a step is refused" \
    fails_with 2 "no step to trace" "$toy" --steps 0 \
    --trace "$work/t"
check "--trace to a missing directory is refused" \
    fails_with 1 "cannot write" "$toy" --trace "$work/none/t"
check "--trace to a full disk fails" \
    fails_with 1 "No space left" "$toy" --steps 3 \
    --trace /dev/full
finish
