#!/bin/sh
# shapes.sh: parameters whose sizes the ranks do not divide, with fewer rows or
# elements than ranks, and ranks without elements: one curve for every strategy.
# cpu: losses
. "$(dirname "$0")/lib.sh"

model() { # model AXES CLAUSE
    cat <<END
model Odd() {
    param scale[3] = ones
    a: Linear(3, 15)
    layers: [2] Linear(15, 15)
    b: Linear(15, 7)
    c: Linear(7, 17)
    d: Linear(17, 16)

    forward(x: [batch, 3]) {
        h = a(x * scale)
        for layer in layers { h = h + relu(layer(h)) }
        return mean(square(d(sigmoid(c(relu(b(h)))))))
    }
}
plan p($1) { $2 }
train {
    batch = 840
    seq = 1
    precision = f32
    optimizer = AdamW(lr=1e-3)
}
END
}
run() { # run LABEL MESH AXES CLAUSE
    binary=$work/$1-$2
    model "$3" "$4" >"$binary.pdl"
    check "$1 $2 compiles" "$PARC" "$binary.pdl" --target cpu --threads 1 \
        --mesh "$2" -o "$binary"
    check "$1 $2 trains" "$binary" --threads 1 --steps 10 --seed 5 \
        --log "$binary.log" --export "$binary.st"
    check "$1 $2 curve" same_curve "$binary.log" "$work/one.log" 1e-5
}
ln -s full-1.log "$work/one.log"
for ranks in 1 2 3 5 8; do
    run full $ranks dp "fully_shard dp { model, layers.* }"
done
for ranks in 4 6 7; do
    run once $ranks dp "fully_shard dp { model, layers.*, d: reshard=false }"
done
run replicas 3 dp "fully_shard dp { model: strategy=no_shard }"
run hybrid 2x3 "rep, dp" "fully_shard (rep, dp) { model, layers.* }"
run hybrid-once 1x8 "rep, dp" \
    "fully_shard (rep, dp) { model, layers.*: reshard=false }"

# Shards: six of eight ranks have none of three elements, or few rows.
"$work/full-8" --threads 1 --steps 0 --print-shards scale >"$work/scale"
check "three ranks store one element each" \
    test "$(grep -c ': 1 element: ' "$work/scale")" = 3
check "the other ranks store no element" \
    test "$(grep -c ': 0 elements and 1 of padding$' "$work/scale")" = 5
"$work/full-8" --threads 1 --steps 0 --print-shards a.weight >"$work/rows"
check "a parameter of fifteen rows is split" \
    grep -q 'rank 7:.*: 3 elements and 3 of padding: ' "$work/rows"
# Weights trained on seven ranks continue on three.
check "weights of seven ranks are loaded on three" \
    "$work/full-3" --threads 1 --steps 0 \
    --init "$work/once-7.st" --export "$work/moved.st"
check "loaded weights are unchanged" cmp "$work/moved.st" "$work/once-7.st"
finish
