#!/bin/sh
# recipe.sh: clipping and schedules: one curve on every mesh, and no additional
# collective.
# cpu: losses
. "$(dirname "$0")/lib.sh"

sizes="-D vocab=512 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=64 -D batch=8 -D seq=16 -D precision=f32 --threads 1"
recipe="-D clip=0.5 -D optimizer.lr=0.01 -D schedule=cosine(steps=15,warmup=5,min_lr=0.001)"

# lr_is STEP LR: the learning rate in the log of 1x1.
lr_is() {
    jq -es ".[$1 - 1].lr - $2 | fabs < 1e-12" "$work/1x1.log"
}

# collectives [OPTION…]: prints the number of calls per step.
collectives() {
    # shellcheck disable=SC2086
    "$PARC" examples/llama.pdl --target cpu --mesh 2x2 $sizes "$@" \
        --emit json | jq '[.collectives[].count] | add'
}

for mesh in 1x1 2x1 2x2; do
    # shellcheck disable=SC2086
    check "$mesh compiles" compile "$work/$mesh" llama $mesh $sizes $recipe
    check "$mesh trains" "$work/$mesh" --steps 20 --data "bytes:$text" \
        --seed 1 --log "$work/$mesh.log"
    check "$mesh curve" same_curve "$work/$mesh.log" "$work/1x1.log" 1e-5
done
check "norms are above the limit" jq -es 'map(.grad_norm) | min > 0.5' \
    "$work/1x1.log"
check "lr warms up" lr_is 1 0.002
check "lr has its full value after the warm-up" lr_is 5 0.01
check "lr is half way down in the middle" lr_is 10 0.0055
check "lr ends at min_lr" lr_is 15 0.001
check "lr stays at min_lr" lr_is 20 0.001
check "clipping needs no collective" test "$(collectives)" = \
    "$(collectives -D clip=0.5)"
# The loss is divided by the counted tokens of all microbatches.
for accumulate in 1 4; do
    check "accumulate=$accumulate compiles" "$PARC" tests/torch/recipe.pdl \
        --target cpu --threads 1 --mesh 2x1 -D ignored=32 -D clip=1.0 \
        -D "optimizer=SGD(lr=0.5)" -D accumulate=$accumulate \
        -o "$work/counted"
    check "accumulate=$accumulate trains" "$work/counted" --steps 20 \
        --data "bytes:$text" --log "$work/$accumulate.log"
done
check "accumulation changes no curve" same_curve "$work/4.log" "$work/1.log" \
    1e-5

# Losses reduced with "sum", and with "none" and then weighted: one curve on
# every mesh. The weighted sum of the single losses equals the sum.
as() { # as NAME BEFORE REDUCTION AFTER: recipe.pdl with this loss
    sed "s/return \(.*\))\$/return $2\1, reduction=$3)$4/" \
        tests/torch/recipe.pdl >"$work/$1.pdl" &&
        grep -q "return $2cross_entropy(.*, reduction=$3)$4\$" "$work/$1.pdl"
}
trains_as() { # trains_as NAME MESH
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh "$2" \
        -D ignored=32 -D clip=1.0 -D "optimizer=AdamW(lr=0.01)" \
        -o "$work/$1-$2" && "$work/$1-$2" --steps 15 --seed 1 \
        --data "bytes:$text" --log "$work/$1-$2.log"
}
check "a mean compiles and trains" as mean "" mean ""
check "a sum compiles and trains" as sum "" sum ""
check "a sum of single losses compiles and trains" as each "sum(" none ")"
check "squares of single losses compile and train" \
    as squares "mean(square(" none "))"
for mesh in 1x1 2x2 1x4; do
    for loss in sum each squares; do
        check "$loss on $mesh trains" trains_as $loss $mesh
        check "$loss on $mesh" same_curve "$work/$loss-$mesh.log" \
            "$work/$loss-1x1.log" 1e-5
    done
done
check "the gradients of single losses are clipped" \
    jq -es 'map(.grad_norm) | min > 1' \
    "$work/sum-1x1.log"
check "the sum of single losses is the sum" same_curve "$work/each-1x1.log" \
    "$work/sum-1x1.log" 1e-5
check "a mean trains" trains_as mean 1x1
# The number of labels in the first batch that are not blanks.
counted=$(tail -c +2 "$text" | head -c 128 | tr -d ' ' | wc -c)
check "some labels are ignored" test "$counted" -gt 64 -a "$counted" -lt 128
check "a sum is the mean times the labels that count" jq -en \
    --slurpfile s "$work/sum-1x1.log" --slurpfile m "$work/mean-1x1.log" \
    --argjson n "$counted" \
    '$s[0].loss / $m[0].loss / $n - 1 | fabs < 1e-5'

# Class weights and label smoothing of the counted tokens.
sed 's/return cross.*/y = out(h)\
        weight = reshape(embedding(classes, labels), batch, seq)\
        losses = cross_entropy(y, labels, ignore_index=ignored, reduction=none)\
        hard = sum(losses * weight) \/ sum(weight * (labels != ignored))\
        return 0.9 * hard - 0.1 * mean(log_softmax(y))/
    s/^    out: .*/&\
    buffer classes[vocab, 1] = reshape(1.0 + 0.01 * arange(vocab), vocab, 1)/' \
    tests/torch/recipe.pdl >"$work/weighted.pdl"
for mesh in 1x1 2x2 1x4; do
    check "weighted on $mesh trains" trains_as weighted $mesh
    check "weighted on $mesh" same_curve "$work/weighted-$mesh.log" \
        "$work/weighted-1x1.log" 1e-5
done

# If all labels are ignored, nothing is learned and no number is NaN.
printf '%200s' "" >"$work/blank.txt"
check "ignored labels compile" "$PARC" tests/torch/recipe.pdl --target cpu \
    --threads 1 --mesh 2x2 -D ignored=32 -D clip=1.0 \
    -D "optimizer=SGD(lr=0.5)" -o "$work/ignored"
check "nothing but ignored labels" "$work/ignored" --steps 3 \
    --data "bytes:$work/blank.txt" --log "$work/blank.log" \
    --export "$work/after.st"
check "no loss, no gradient" jq -es 'all(.loss == 0 and .grad_norm == 0)' \
    "$work/blank.log"
check "initial weights are exported" "$work/ignored" --steps 0 \
    --export "$work/before.st"
check "ignored labels change no weight" cmp "$work/before.st" "$work/after.st"
check "a model with warm-up only compiles" \
    compile "$work/warm" llama 1x1 $sizes -D warmup=4
check "a model with warm-up only trains" \
    "$work/warm" --steps 2 --data "bytes:$text" \
    --log "$work/warm.log"
check "warm-up sets the second step's lr" \
    jq -es '.[1].lr - 1.5e-4 | fabs < 1e-12' \
    "$work/warm.log"
finish
