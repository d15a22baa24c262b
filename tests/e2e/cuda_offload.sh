#!/bin/sh
# cuda_offload.sh: offload on CUDA, run on the host. Losses, gradient norms and
# weights equal those without offload bit by bit, for every mesh, precision,
# accumulation and clipping, and whether queued work runs early or late. Device
# and host hold exactly the planned bytes, the device fewer than without
# offload.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

sizes="-D batch=4 -D seq=16 -D n_layers=3 -D vocab=256 -D dim=32 -D n_heads=4"
text=examples/toy.pdl
clause='offload { optimizer, parameters }'

# model FILE CLAUSE: the model with the clause in its plan.
model() {
    awk -v c="    $2" '{ print } /^    fully_shard/ { print c }' "$1"
}

# built NAME FILE CLAUSE [OPTIONS…]: writes the tree, and its plan as JSON.
built() {
    at=$work/$1 of=$2 with=$3
    shift 3
    model "$of" "$with" >"$at.pdl"
    # shellcheck disable=SC2086
    cuda_tree "$at" "$at.pdl" $sizes "$@" --emit json="$at.plan" >/dev/null
}

# ran NAME ORDER [NAME=VALUE…]: runs four steps on text.
ran() {
    at=$work/$1 order=$2
    shift 2
    (
        for setting; do export "${setting?}"; done
        cuda_run "$at" fast "$order" --steps 4 --seed 3 --data "bytes:$text" \
            --log "$at.$order.json" --export "$at.$order.st"
    ) >"$at.$order.out" 2>&1 || {
        tail -5 "$at.$order.out" >&2
        return 1
    }
}

losses() {
    jq -c '[.step, .loss]' "$1"
}

# Norms are summed in other pieces if updates are made by layer.
same_norms() {
    jq -es '.[0:length / 2] as $a | .[length / 2:] as $b |
        [range($a | length) | ($a[.].grad_norm / $b[.].grad_norm - 1) | fabs]
        | max < 1e-6' "$1" "$2" >/dev/null
}

# The bytes in the log are those of the plan.
as_planned() {
    jq -es --slurpfile plan "$1.plan" '$plan[0].memory as $m |
        all(.peak_bytes == $m.peak and
            (.host_bytes // 0) == $m.host)' "$1.$2.json" >/dev/null
}

smaller() {
    jq -es '.[0].memory.peak < .[1].memory.peak and .[0].memory.host > 0' \
        "$1.plan" "$2.plan" >/dev/null
}

# compare NAME FILE OPTIONS…: compares a run with the clause and one without.
compare() {
    row=$1 file=$2
    shift 2
    check "$row: the plain program builds" built "$row-off" "$file" "" "$@"
    check "$row: the offloaded program builds" \
        built "$row-on" "$file" "$clause" "$@"
    check "$row: the plain program runs" ran "$row-off" early
    for order in early late; do
        on=$work/$row-on off=$work/$row-off
        check "$row, $order: runs" ran "$row-on" $order
        losses "$off.early.json" >"$work/want"
        losses "$on.$order.json" >"$work/have"
        check "$row, $order: losses" cmp "$work/want" "$work/have"
        check "$row, $order: norms" same_norms "$off.early.json" \
            "$on.$order.json"
        check "$row, $order: weights" cmp "$off.early.st" "$on.$order.st"
        check "$row, $order: memory" as_planned "$on" $order
    done
    check "$row: the device holds less" smaller "$on" "$off"
}

llama='-D n_kv_heads=2 -D hidden=48'
# shellcheck disable=SC2086
{
    in_all compare llama examples/llama.pdl --mesh 1x1 $llama -D precision=f32
    compare llama-mesh examples/llama.pdl --mesh 2x2 $llama \
        -D precision=bf16 -D clip=0.5 -D accumulate=2
    in_all compare gpt2 examples/gpt2.pdl --mesh 1x1 -D precision=bf16 \
        -D accumulate=2
    in_all compare gpt2-mesh examples/gpt2.pdl --mesh 2x2 -D precision=f32 \
        -D clip=0.5
    # A state is stored after the last fetch of its old value.
    sizes="" compare averages tests/data/averages.pdl --mesh 2x1 -D precision=f32
}

# Checks the table of docs/memory.md.
in_table() {
    model examples/llama.pdl "$1" >"$work/large.pdl"
    figures=$("$PARC" "$work/large.pdl" --target cuda --mesh 8x1 --emit json \
        -D n_layers=32 -D dim=4096 -D hidden=14336 -D n_heads=32 \
        -D n_kv_heads=8 -D vocab=128256 -D batch=8 -D seq=2048 |
        jq -r '.memory | "\(.peak) \(.host)"') &&
        tr -s ' ' <"$root/docs/memory.md" |
        grep -qxF "${1:-without offload} $figures"
}
check "the table: without offload" in_table ""
check "the table: optimizer" in_table "offload { optimizer }"
check "the table: both" in_table "$clause"

# Other options of a run.
on=$work/llama-mesh-on
in_all check "offload with PARC_NANCHECK=1" ran llama-mesh-on early PARC_NANCHECK=1
check "offload without a graph" ran llama-mesh-on late PARC_GRAPH=0
in_all check "offload with PARC_SYNC=1" ran llama-mesh-on early PARC_SYNC=1
check "offload with the queued work of other streams first" ran llama-mesh-on ahead
check "all orders of queued work give the same weights" \
    cmp "$on.early.st" "$on.ahead.st"

# Weights are read and written through the mirror, with a device and without.
weights() { # weights NAME: reads and writes the weights of the run without
    cuda_run "$work/$1" fast late --steps 0 --init "$off.early.st" \
        --export "$work/out.st" && cmp "$work/out.st" "$off.early.st"
}
shards() { # shards NAME
    "$work/$1/train" --init "$off.early.st" --print-shards layers.0 \
        >"$work/$1.shards" && grep -q values "$work/$1.shards"
}
off=$work/llama-mesh-off
check "offloaded weights are loaded and exported" weights llama-mesh-on
check "shards are printed without offload" shards llama-mesh-off
check "shards are printed with offload" shards llama-mesh-on
check "offload changes no shard" cmp "$off.shards" "$on.shards"
cuda_run "$on" fast early --dry-run >"$work/said" 2>&1
check "a dry run reports the bytes in host memory" grep -q "^host .*pinned" \
    "$work/said"

# The trace has the transfers under the plan's ids, as often as planned.
cuda_run "$on" fast late --steps 5 --seed 3 --data "bytes:$text" \
    --trace "$work/trace.json" >"$work/said" 2>&1
check "an offloaded run writes a trace" test $? = 0
check "the trace has the planned transfers" jq -es '
    ([.[1].transfers[] | {key: .id, value: (.count * 3)}] | from_entries) ==
    ([.[0].traceEvents[] | select(.cat == "transfer" and .pid == 0) | .name] |
        group_by(.) | map({key: .[0], value: length}) | from_entries)' \
    "$work/trace.json" "$on.plan"
# A parameter is fetched before the gather that reads it, which is prefetched as early as
# possible.
sed "s/fully_shard dp { [^}]*}/fully_shard dp { layers.*: prefetch=16 }\\
    $clause/" examples/llama.pdl >"$work/early.pdl"
check "the longest prefetch of a parameter in host memory" "$PARC" "$work/early.pdl" \
    --mesh 8x2 --emit plan
finish
