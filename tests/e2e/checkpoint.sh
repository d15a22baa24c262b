#!/bin/sh
# checkpoint.sh: recomputing modules in the backward pass needs less memory and
# changes no loss, on one rank and on four.
# cpu: losses
. "$(dirname "$0")/lib.sh"

as_planned() { # as_planned LABEL: the run allocates the plan's bytes, few gaps
    jq -en --slurpfile log "$work/$1.log" --slurpfile plan "$work/$1.json" '
        $plan[0].memory as $m | ($log | map(.peak_bytes) | unique) as $have |
        if $have != [$m.peak] then error("\($have), planned \($m.peak)")
        elif $m.peak > 1.02 * $m.lower_bound
        then error("\($m.peak) for \($m.lower_bound)") else true end'
}
peak() { jq .memory.peak "$work/$1.json"; }
less_memory() { # less_memory A B: A needs less than B
    echo "$(peak "$1") and $(peak "$2") bytes"
    [ "$(peak "$1")" -lt "$(peak "$2")" ]
}
flops() { # flops LABEL FIELD
    jq ".flops.$2" "$work/$1.json"
}
# Recomputation is counted in the backward pass, and as recomputation.
work_counted() { # work_counted LABEL PLAIN
    jq -en --slurpfile a "$work/$1.json" --slurpfile b "$work/$2.json" '
        $a[0].recomputed_flops > 0 and $b[0].recomputed_flops == 0 and
        $a[0].flops.forward == $b[0].flops.forward and
        $a[0].flops.backward ==
            $b[0].flops.backward + $a[0].recomputed_flops'
}
# Model flops exclude recomputation, and the product that attention's gradient
# repeats.
model_flops() { # model_flops LABEL FLOPS: FLOPS of attention's forward pass
    jq -en --slurpfile a "$work/$1.json" --argjson forward "$2" '
        ($a[0].flops | add) - $a[0].recomputed_flops - $a[0].model_flops ==
            $forward / 2'
}
count() { # count LABEL PHASE AXIS KIND: calls per step
    jq --arg p "$2" --arg a "$3" --arg k "$4" '[.collectives[]
        | select(.phase == $p and .axis == $a and .kind == $k) | .count]
        | add // 0' "$work/$1.json"
}
as_many() { # as_many A B MORE PHASE AXIS KIND
    a=$(count "$1" "$4" "$5" "$6") b=$(count "$2" "$4" "$5" "$6")
    echo "$4 $5 $6: $a and $b"
    [ "$a" = $((b + $3)) ]
}

# model [ITEM]: llama.pdl with checkpoint ITEM.
model() {
    sed "s/^    fully_shard dp.*/&${1:+\\
    checkpoint { $1 \}}/" examples/llama.pdl >"$work/llama.pdl"
}
# plan LABEL MESH [ITEM]: plans, compiles and runs the model.
plan() {
    label=$1 mesh=$2
    model "${3:-}"
    # shellcheck disable=SC2086
    "$PARC" "$work/llama.pdl" --target cpu --threads 1 --mesh "$mesh" \
        $llama_sizes -D n_layers=6 --emit json="$work/$label.json" -o "$work/$label" &&
        "$work/$label" --threads 1 --steps 3 --log "$work/$label.log"
}

for mesh in 1x1 2x2; do
    check "$mesh without checkpoint" plan plain-$mesh $mesh
    kinds='all attention matmul every2 some'
    if [ $mesh = 1x1 ]; then
        kinds=$(few_or_all "every2" "$kinds")
    else
        kinds="$kinds ffn"
    fi
    for kind in $kinds; do
        case $kind in
        every2) item='layers.*: every=2' ;;
        some) item='layers.1, layers.2, layers.4.attention: keep=attention' ;;
        all) item='layers.*' ;;
        ffn) item='every FeedForward' ;;
        *) item="layers.*: keep=$kind" ;;
        esac
        l=$kind-$mesh
        check "$l compiles and trains" plan $l $mesh "$item"
        check "$l loss" same_curve "$work/$l.log" "$work/plain-$mesh.log" 1e-6
        check "$l allocates the planned bytes" as_planned $l
        check "$l memory" less_memory $l plain-$mesh
        check "$l counts recomputation" work_counted $l plain-$mesh
        check "$l model flops" model_flops $l 6291456
    done
    [ $mesh != 1x1 ] || [ "${CHECK_ALL:-}" ] || continue
    check "$mesh: every=2 needs more memory than all layers" \
        less_memory all-$mesh every2-$mesh
    check "$mesh: keep=attention needs more memory than no keep" \
        less_memory all-$mesh attention-$mesh
    check "$mesh: keep=matmul needs more memory than keep=attention" \
        less_memory attention-$mesh matmul-$mesh
done

# However the layers are split over loops, each parameter keeps its name and
# initial value, and is loaded by its name.
names() { # names LABEL
    jq -r '.params[].name' "$work/$1.json"
}
# Compares A's initial weights, and the weights that A reads from B's file.
same_weights() { # same_weights A B
    "$work/$2" --threads 1 --steps 0 --export "$work/$2.st" &&
        "$work/$1" --threads 1 --steps 0 --export "$work/own.st" &&
        "$work/$1" --threads 1 --steps 0 --init "$work/$2.st" \
            --export "$work/read.st" &&
        cmp "$work/own.st" "$work/read.st"
}
check "names of layers with every=2" test "$(names every2-1x1 | grep -c \
    '^layers\.[01]-[45]:2\.attention\.wq\.weight$')" = 2
check "names of layers under an explicit list" \
    test "$(names some-2x2 | grep w1 | tr '\n' ' ')" = \
    "layers.0.feed_forward.w1.weight layers.1-2.feed_forward.w1.weight \
layers.3.feed_forward.w1.weight layers.4.feed_forward.w1.weight \
layers.5.feed_forward.w1.weight "
check "layers by a pattern" sh -c "'$work/every2-1x1' --steps 0 --threads 1 \
    --print-shards 'layers.*.ffn_norm' | grep -c '^layers' | grep -qx 6"
model layers.1
# shellcheck disable=SC2086
explained=$("$PARC" "$work/llama.pdl" --mesh 2x2 $llama_sizes -D n_layers=6 \
    --explain layers.1.ffn_norm.weight)
check "--explain of one layer" test "${explained%% :*}" = \
    "parameter layers.1.ffn_norm.weight"
check "weights with every=2" same_weights every2-1x1 plain-1x1
check "weights with an explicit list on 2x2" same_weights some-2x2 plain-1x1
check "--print-shards of a layer by its number" \
    sh -c "'$work/every2-2x2' --steps 0 --threads 1 \
    --print-shards layers.3.ffn_norm.weight |
    grep -q '^layers.3.ffn_norm.weight: '"
# Each rank stores half of the 64 elements; a pattern selects a part of a name.
every_value() {
    "$work/every2-2x2" --print-shards 'layers.3.*_norm' --all \
        >"$work/shards" || return 1
    cat "$work/shards"
    ! grep -q '…' "$work/shards" &&
        [ "$(awk '/^rank/ { for (i = 1; i < NF; i++)
            if ($(i + 1) ~ /^elements?:?$/) n += $i }
            /^ *values/ { v += NF - 1 } END { print (n > 0 && n == v) }' \
            "$work/shards")" = 1 ] &&
        [ "$(grep -c '^layers' "$work/shards")" = 2 ]
}
check "--print-shards --all prints every value" every_value
# One reduction of each layer is repeated: that of the attention's output.
# Without checkpoint the inputs' gathers are repeated too; units share theirs.
check "checkpoint repeats tp reduce-scatters" \
    as_many all-2x2 plain-2x2 6 backward tp reduce_scatter
check "checkpoint adds no tp all-gathers" \
    as_many all-2x2 plain-2x2 0 backward tp all_gather
check "checkpoint adds no dp all-gathers" \
    as_many all-2x2 plain-2x2 0 backward dp all_gather
check "checkpoint adds no dp reduce-scatters" \
    as_many all-2x2 plain-2x2 0 backward dp reduce_scatter
check "checkpoint changes no forward collective" \
    as_many all-2x2 plain-2x2 0 forward tp all_gather
finish
