#!/bin/sh
# strategies.sh: one loss curve of llama.pdl under every sharding strategy; the
# collectives of a step; memory as planned. (curves.sh has more models and
# meshes.)
# cpu: losses
. "$(dirname "$0")/lib.sh"

# with_plan OUT AXES SHARD OPTIONS: writes llama.pdl whose plan has the axes and
# shards over SHARD, each unit with the options.
with_plan() {
    awk -v axes="$2" -v shard="$3" -v options="${4:+: $4}" '
        /^plan / { sub(/\(.*\)/, "(" axes ")") }
        /fully_shard/ {
            print "    fully_shard " shard " {"
            print "        tok_embeddings" options
            print "        layers.*" options
            print "        [norm, output]" options
            print "    }"
            next
        }
        { print }' examples/llama.pdl >"$1"
}
as_planned() { # as_planned LOG PLAN
    jq -n -e --slurpfile log "$1" --slurpfile plan "$2" '
        ($log | map(.peak_bytes) | unique) as $have |
        $plan[0].memory as $m |
        if $have != [$m.peak] then
            error("\($have) allocated, \($m.peak) planned")
        elif $m.peak > 1.02 * $m.lower_bound then
            error("\($m.peak) for \($m.lower_bound)")
        else true end'
}
plan() { # plan MODEL MESH [TARGET]
    # shellcheck disable=SC2086
    "$PARC" "$1" --target "${3:-cpu}" --threads 1 --mesh "$2" $sizes \
        --emit json >"$work/plan.json"
}
sizes="$llama_sizes -D n_layers=2 -D vocab=96 -D dim=32 -D hidden=48"

# run LABEL MESH: the curve of $work/LABEL.pdl equals that of one rank
run() {
    binary=$work/$1-$2
    # shellcheck disable=SC2086
    check "$1 $2 compiles" "$PARC" "$work/$1.pdl" --target cpu --threads 1 \
        --mesh "$2" $sizes -o "$binary"
    check "$1 $2 trains" "$binary" --threads 1 --steps 12 --seed 1 \
        --data "bytes:$work/text" --log "$binary.log"
    check "$1 $2 curve" same_curve "$binary.log" "$work/one.log" 1e-5
    plan "$work/$1.pdl" "$2"
    check "$1 $2 memory" as_planned "$binary.log" "$work/plan.json"
}
# Only bytes below 96, as the vocabulary is small.
tr 'a-z' 'A-Z' <"$text" | tr -c ' -_' ' ' >"$work/text"

with_plan "$work/full.pdl" "dp, tp" dp "strategy=full_shard"
with_plan "$work/again.pdl" "dp, tp" dp "reshard=true, prefetch=2"
with_plan "$work/once.pdl" "dp, tp" dp "strategy=shard_grad_op"
with_plan "$work/replicas.pdl" "dp, tp" dp "strategy=no_shard"
with_plan "$work/hybrid.pdl" "rep, dp, tp" "(rep, dp)" "strategy=hybrid_shard"
with_plan "$work/hybrid-once.pdl" "rep, dp, tp" "(rep, dp)" "reshard=false"
with_plan "$work/both.pdl" "rep, dp, tp" "(rep, dp)" "strategy=full_shard"
with_plan "$work/both-once.pdl" "rep, dp, tp" "(rep, dp)" \
    "strategy=shard_grad_op"
ln -s full-1x1.log "$work/one.log"
run full 1x1
# Units by size. A layer of two has 7744 parameters, its attention and its
# feed_forward 3072 and 4608, a matrix at most 1536. Other parameters belong to
# the unit of the layer or of the model.
sed 's/fully_shard .*/fully_shard dp { min_params=3000 }/' \
    examples/llama.pdl >"$work/sized.pdl"
run sized 2x2
units() { # units UNIT…: in order of their first parameter
    have=$(jq -r '.params[].unit' "$work/plan.json" | uniq | tr '\n' ' ')
    echo "$have, $* wanted"
    [ "$have" = "$* " ]
}
check "units by size" units tok_embeddings 'layers.*' 'layers.*.attention' \
    'layers.*' 'layers.*.feed_forward' Llama output
sed 's/fully_shard .*/fully_shard dp { min_params=4609 }/' \
    examples/llama.pdl >"$work/sized.pdl"
plan "$work/sized.pdl" 2x2
check "an element of an array is as large as one" units Llama 'layers.*' Llama
sed 's/fully_shard .*/fully_shard dp { min_params=22000 }/' \
    examples/llama.pdl >"$work/sized.pdl"
plan "$work/sized.pdl" 2x2 2>"$work/error"
check "a min_params above the largest module is refused" \
    grep -q "the largest module has 21664" "$work/error"
run again 2x2
run once 2x2
run once 4x2
run replicas 2x2
run hybrid 2x2x2
run hybrid-once 2x2x2
run both 2x2x2
run both 4x1x2
run both-once 2x2x2

# The exported weights are equal too, and can be loaded and printed.
check "weights are exported" "$work/once-2x2" --threads 1 --steps 3 --seed 1 \
    --data "bytes:$work/text" --export "$work/once.st"
check "weights are loaded on another mesh" \
    "$work/once-4x2" --threads 1 --steps 0 \
    --init "$work/once.st" --export "$work/again.st"
check "loaded weights are unchanged" cmp "$work/once.st" "$work/again.st"
for strategy in again once; do
    "$work/$strategy-2x2" --threads 1 --steps 0 --seed 1 \
        --print-shards layers.1 >"$work/$strategy.shards" 2>/dev/null
done
check "--print-shards prints the shards" test -s "$work/once.shards"
check "loaded weights have the same shards" \
    cmp "$work/again.shards" "$work/once.shards"

# Collectives of a step over the data axes, with L layers and two more units: in
# the forward pass, in the backward pass, reductions; also under checkpoint.
counts() { # counts FORWARD BACKWARD REDUCTIONS
    have=$(jq -r '[.collectives[] | select(.axis != "tp" and .bytes > 64)
        | {kind: (if .kind == "all_gather" then .phase else "sum" end),
           count}] | group_by(.kind) | map({(.[0].kind): (map(.count) | add)})
        | add | "\(.forward // 0) \(.backward // 0) \(.sum)"' "$work/plan.json")
    echo "$have, $* wanted"
    [ "$have" = "$*" ]
}
for clause in '' 'checkpoint { layers.* }'; do
    for row in 'full 2x2 4 2 4' 'again 2x2 4 3 4' 'once 2x2 4 0 4' \
        'replicas 2x2 0 0 4' 'hybrid 2x2x2 4 2 8' 'hybrid-once 2x2x2 4 0 8' \
        'both 2x2x2 4 2 4' 'both-once 2x2x2 4 0 4'
    do
        # shellcheck disable=SC2086
        set -- $row
        awk -v clause="$clause" '{ print } /^plan / { print clause }' \
            "$work/$1.pdl" >"$work/counted.pdl"
        plan "$work/counted.pdl" "$2"
        check "$1, $clause: number of collectives" counts "$3" "$4" "$5"
    done
done

# Memory: parameters are gathered, all other tensors sharded. On the CPU a rank
# counts its share of the shared gathered memory, and gathers add none.
total() { jq '[.params[] | .count * (.shape | reduce .[] as $d (1; . * $d))]
              | add * 4' "$work/plan.json"; }
class() { jq ".memory.$1" "$work/plan.json"; }
near() { # near IS WANTED: equal except for alignment
    echo "$1, $2 wanted"
    [ "$1" -ge "$2" ] && [ "$1" -le $(($2 + 256 * 12)) ]
}
in_place() { # the number of gathers that move no data, and of all gathers
    jq -r '[.collectives[] | select(.kind == "all_gather")] |
        "\(map(select(.in_place)) | length) \(length)"' "$work/plan.json"
}
plan "$work/once.pdl" 4x1
check "shard_grad_op on the CPU: parameters are shared" \
    near "$(class params)" $(($(total) / 4))
check "shard_grad_op on the CPU: gathers are in place" \
    test "$(in_place)" = "3 3"
plan "$work/full.pdl" 4x1
updates=$(jq -r '.work[].id' "$work/plan.json" | grep -c adamw_layers_)
check "updates have their parameter's name" test "$updates" = 9
check "full_shard on the CPU: no gathered buffers" test "$(class gathered)" = 0
check "full_shard on the CPU: gathers are in place" test "$(in_place)" = "4 4"
plan "$work/once.pdl" 4x1 cuda
check "shard_grad_op on CUDA: no gather is in place" test "$(in_place)" = "0 3"
all=$(total)
check "shard_grad_op on CUDA: parameters are stored whole" \
    near "$(class params)" "$all"
check "shard_grad_op on CUDA: states are sharded" \
    near "$(class optimizer)" $((all / 2))
check "shard_grad_op on CUDA: no second copy of parameters" \
    test "$(class gathered)" = 0
plan "$work/full.pdl" 4x1
check "full_shard on the CPU: parameters are sharded" \
    near "$(class params)" $((all / 4))
# Sharding over two axes equals sharding over one axis of their product.
plan "$work/both.pdl" 2x2x1 cuda
both=$(jq -c '[.memory, (.collectives | map([.kind, .bytes, .count]))]' \
    "$work/plan.json")
plan "$work/full.pdl" 4x1 cuda
check "sharding over two axes equals one axis of their product" \
    test "$both" = "$(jq -c '[.memory,
    (.collectives | map([.kind, .bytes, .count]))]' "$work/plan.json")"
plan "$work/replicas.pdl" 4x1
check "no_shard: states are replicated" near "$(class optimizer)" $((2 * all))
finish
