#!/bin/sh
# edges.sh: limits of tensor parallelism: the model of tests/data/edges.pdl has
# one loss curve on every mesh.
. "$(dirname "$0")/lib.sh"

model=$root/tests/data/edges.pdl

# curve NAME PLAN MESH [OPTIONS…]: trains and compares with the first mesh of
# the NAME.
curve() {
    label=$1 plan=$2 mesh=$3
    shift 3
    run=$work/$label-$plan-$mesh
    [ -e "$work/$label.log" ] || run=$work/$label
    "$PARC" "$model" --target cpu --threads 1 --plan "$plan" --mesh "$mesh" \
        "$@" -o "$run" --emit json="$run.json" &&
        "$run" --steps 8 --seed 1 --data "bytes:$text" --log "$run.log" \
            --export "$run.st" &&
        same_curve "$run.log" "$work/$label.log" 1e-5
}
# of NAME FILTER: runs jq on the plan's JSON.
of() {
    jq -e "$2" "$work/$1.json"
}

# ---- biases and a tied embedding --------------------------------------------
check "biases, 1x1" curve plain sequence 1x1
for plan in sequence whole; do
    check "biases, $plan, 2x2" curve plain $plan 2x2
done
for plan in sequence whole; do
    check "$plan: the tied weight is one parameter" of plain-$plan-2x2 '[.params[]
        | select(.name == "embedding.weight" or .name == "head.weight")]
        | length == 1 and .[0].placement == {"dp": "S(0)", "tp": "S(0)"}'
done
check "the tied weight's unit is that of its name" of plain-sequence-2x2 \
    '.params[] | select(.name == "embedding.weight") | .unit == "embedding"'
check "the tied weight's unit may be that of its other name" \
    of plain-whole-2x2 \
    '.params[] | select(.name == "embedding.weight") | .unit == "norm+head"'
check "the tied weight's gradient is reduced once" \
    of plain-sequence-2x2 '[.collectives[]
    | select(.kind == "reduce_scatter" and .axis == "dp" and
             (.tensor | test("embedding"))) | .count] | add == 1'

# ---- sizes that tp does not divide ------------------------------------------
uneven="-D vocab=257 -D hidden=97 -D n_heads=6 -D n_kv_heads=6 -D dim=36 \
 -D seq=12 -D dropout=0.2"
# shellcheck disable=SC2086
for run in "sequence 1x1" "whole 2x2" "sequence 1x3"; do
    check "uneven sizes, $run" curve uneven $run $uneven
done
# shellcheck disable=SC2086
in_all check "uneven sizes, sequence 1x2" curve uneven sequence 1x2 $uneven
# Not all ranks have rows; 17 is a size of PyTorch's tests.
for hidden in $(few_or_all 3 "3 17"); do
    for mesh in $(few_or_all "1x1 4x2" "1x1 1x4 2x2 4x2"); do
        check "hidden $hidden, $mesh" curve hidden$hidden sequence $mesh \
            -D hidden=$hidden
    done
done
check "shapes exclude padding" of uneven-sequence-1x3 '[.params[] | .shape]
    | index([[257, 36]]) != null and index([[97, 36]]) != null and
      all(.[][]; . != 258 and . != 99)'
true_sizes() { # the initial weights have the same bytes on every mesh
    "$work/uneven" --steps 0 --seed 3 --export "$work/a.st" &&
        "$work/uneven-sequence-1x3" --steps 0 --seed 3 --export "$work/b.st" &&
        cmp "$work/a.st" "$work/b.st" &&
        "$work/uneven-whole-2x2" --steps 0 --seed 4 --init "$work/a.st" \
            --export "$work/c.st" && cmp "$work/a.st" "$work/c.st"
}
check "exported and loaded weights exclude padding" true_sizes
shards() {
    "$work/uneven-sequence-1x3" --steps 0 --print-shards embedding.weight \
        >"$work/shards" && grep -q "f32\[257, 36\]" "$work/shards" &&
        grep -q "3060 elements and 36 of padding: rows 172 .. 256" \
            "$work/shards"
}
check "--print-shards" shards

# ---- the tied weight's uneven shards, with recomputed layers ----------------
tied="-D vocab=257 -D hidden=97 -D batch=12 -D dropout=0.2"
# shellcheck disable=SC2086
check "tied and uneven, 1x1" curve tied sequence 1x1 $tied
sed 's/^    fully_shard/    checkpoint { layers.* }\n&/' "$model" \
    >"$work/again.pdl"
model=$work/again.pdl
again() { # again PLAN MESH
    # shellcheck disable=SC2086
    check "tied, uneven and recomputed, $1 $2" curve tied "$1" "$2" $tied
}
again sequence 3x2
again whole 2x2
in_all again sequence 3x1
in_all again sequence 2x2
in_all again whole 3x2
check "layers are recomputed" of tied-sequence-3x2 '.recomputed_flops > 0'
check "without checkpoint no layer is recomputed" \
    of tied '.recomputed_flops // 0 == 0'
check "the table is one parameter, uneven over both axes" of \
    tied-sequence-3x2 '[.params[] | select(.shape == [257, 32])] |
        length == 1 and .[0].placement == {"dp": "S(0)", "tp": "S(0)"}'
check "the uneven table's gradient is reduced once" \
    of tied-sequence-3x2 '[.collectives[]
    | select(.kind == "reduce_scatter" and .axis == "dp" and
             (.tensor | test("embedding"))) | .count] | add == 1'
model=$root/tests/data/edges.pdl

# ---- kv heads fewer than tp -------------------------------------------------
# Queries are split over all of tp, keys and values only over the kv heads. No
# rank waits for another's heads; only ranks with a common head sum gradients.
for kv in 1 2; do
    for run in "sequence 1x1" "sequence 1x4" "whole 2x4"; do
        # shellcheck disable=SC2086
        check "$kv kv heads, $run" curve kv$kv $run -D n_heads=8 -D dim=48 \
            -D n_kv_heads=$kv
    done
    check "$kv kv heads: no all-gather of heads" of kv$kv-sequence-1x4 \
        '[.collectives[] | select(.kind == "all_gather" and .dtype == "f32" and
            (.tensor | test("^(q|k|v|wq|wk|wv|rotary|attention)([.]|$)")))]
         | length == 0'
    check "$kv kv heads: no all_to_all" of kv$kv-whole-2x4 \
        '[.collectives[] | select(.kind == "all_to_all")] | length == 0'
    check "$kv kv heads: reports show the given mesh" of \
        kv$kv-whole-2x4 '.mesh == [{"name": "dp", "size": 2},
                                   {"name": "tp", "size": 4}]'
done
check "keys are split over their heads" of kv2-sequence-1x4 '.params[]
    | select(.name == "layers.*.attention.wk.weight")
    | .placement.tp == "S(0) over tp.kv" and .shape == [12, 48]'
check "a single kv head is replicated" of kv1-sequence-1x4 \
    '.params[] | select(.name == "layers.*.attention.wk.weight")
    | .placement.tp == "R"'
check "ranks that share a kv head sum its weights' gradients" of \
    kv2-sequence-1x4 '[.collectives[] | select(.axis == "tp.rep")]
    | length == 1 and (.[0] | .kind == "all_reduce" and .group_size == 2 and
                                  .phase == "backward" and .count == 1)'

# ---- a kernel with more reductions than a tensor has dims -------------------
{
    echo 'model Sums() {'
    echo '    a: Linear(16, 16)'
    echo '    forward(x: [batch, 16]) {'
    echo '        h = a(x)'
    echo '        y = mean(h)'
    for factor in 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        echo "        y = y + mean(sin(h * $factor.0))"
    done
    echo '        return y'
    echo '    }'
    echo '}'
    echo 'train { batch = 4 }'
} >"$work/sums.pdl"
for target in cpu cuda; do
    check "fifteen sums in a kernel, $target" "$PARC" "$work/sums.pdl" \
        --mesh 1 --target $target -S "$work/sums-$target"
done
finish
