#!/bin/sh
# accumulate.sh: the number of microbatches of a batch changes only rounding.
# Parameters are gathered, and gradients reduced to shards, once per microbatch;
# sums over replicas are made once per step. The program's length does not
# depend on the number of microbatches, and no second set of gradients exists.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# count AXIS KIND: prints the calls per step.
count() {
    jq --arg a "$1" --arg k "$2" '[.collectives[] | select(.axis == $a and
        .kind == $k) | .count] | add // 0' "$work/plan.json"
}
counts() { # counts WANTED AXIS KIND
    n=$(count "$2" "$3")
    echo "$2 $3: $n, expected $1"
    [ "$n" = "$1" ]
}
plan() { # plan MESH OPTIONS…
    mesh=$1
    shift
    # shellcheck disable=SC2086
    "$PARC" examples/llama.pdl --target cpu --threads 1 --mesh "$mesh" \
        $llama_sizes "$@" --emit json=/dev/stdout >"$work/plan.json"
}
tight() {
    jq -e '.memory.peak <= 1.02 * .memory.lower_bound' "$work/plan.json"
}
at_most() { # at_most BYTES CLASS
    jq --arg c "$2" '.memory[$c]' "$work/plan.json"
    jq -e --argjson n "$1" --arg c "$2" '.memory[$c] <= $n' "$work/plan.json"
}
exact() { # a run allocates what the plan says
    [ "$(jq -s '.[-1].peak_bytes' "$1")" = \
        "$(jq .memory.peak "$work/plan.json")" ]
}

for mesh in $(few_or_all "1x1 2x2" "1x1 2x1 1x2 2x2"); do
    for n in 1 4; do
        binary=$work/llama-$mesh-$n
        # shellcheck disable=SC2086
        check "$mesh x $n compiles" compile "$binary" llama "$mesh" \
            --threads 1 $llama_sizes -D accumulate=$n
        check "$mesh x $n trains" "$binary" --steps 8 --data "bytes:$text" \
            --seed 1 --shuffle --log "$binary.log"
        check "$mesh x $n curve" same_curve "$binary.log" \
            "$work/llama-1x1-1.log" 1e-5
    done
    plan $mesh -D accumulate=4
    check "$mesh allocates the planned bytes" exact "$binary.log"
    check "$mesh packs near the lower bound" tight
done

L=3
plan 2x2 -D accumulate=4
check "parameters are gathered in each iteration" \
    counts $((4 * (2 * L + 2))) dp all_gather
check "gradients are reduce-scattered in each iteration" \
    counts $((4 * (L + 2))) dp reduce_scatter
sed 's/\(fully_shard dp {\).*/\1 model, layers.*: gather=step, reduce=step }/' \
    examples/llama.pdl >"$work/per_step.pdl"
per_step() { # per_step KIND: the layers' call is one for all microbatches
    # shellcheck disable=SC2086
    "$PARC" "$work/per_step.pdl" --mesh 2x2 $llama_sizes -D accumulate=4 \
        --emit json | jq -e --arg k "$1" '[.collectives[] |
            select(.axis == "dp" and .kind == $k) | .count] | sort == [1, 4]'
}
check "gather=step gathers all layers once" per_step all_gather
check "reduce=step reduces all layers once" per_step reduce_scatter
check "norm weights' gradients are reduced once" \
    sh -c "jq -e '[.collectives[] | select(.phase ==
    \"backward\" and .axis == \"tp\" and .kind == \"all_reduce\") | .count] ==
    [1]' '$work/plan.json'"
check "the loss and the gradient norm are reduced once" \
    counts 2 dp,tp all_reduce

# Under hybrid_shard too: gradients that are scattered over dp are summed over
# rep once, in one bucket; replicated gradients are summed over both axes.
hsdp="-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 -D batch=16 -D seq=16 \
 -D precision=f32"
hybrid() { # hybrid MICROBATCHES MESH
    # shellcheck disable=SC2086
    "$PARC" examples/hsdp.pdl --target cpu --threads 1 --mesh $2 $hsdp \
        -D accumulate=$1 -o "$work/hsdp-$2-$1" --emit json="$work/plan.json" &&
        "$work/hsdp-$2-$1" --steps 8 --data "bytes:$text" --seed 1 \
            --log "$work/hsdp-$2-$1.log"
}
check "hsdp compiles and trains on one rank" hybrid 1 1x1x1
for n in 1 4; do
    check "hsdp x $n trains" hybrid $n 2x2x2
    check "hsdp x $n curve" same_curve "$work/hsdp-2x2x2-$n.log" \
        "$work/hsdp-1x1x1-1.log" 1e-5
    # Two layers, the embedding, norm and head.
    check "hsdp x $n reduce-scatters in each iteration" \
        counts $((4 * n)) dp reduce_scatter
    check "hsdp x $n sums over both axes once" counts 1 rep,dp all_reduce
done
check "hsdp sums over rep once" counts 1 rep all_reduce
shards() { # bytes of those gradients, and of the tensors summed over rep
    jq -e '([.params[] | select(.unit != "positions")
             | .local_elements * .count * 4] | add) as $have |
        [.collectives[] | select(.axis == "rep") | .bytes] == [$have]' \
        "$work/plan.json"
}
check "hsdp sums all reduce-scattered gradients over rep" shards

# A table that sequence-parallel ranks read in parts. Its gradient is summed
# over the batch, then gathered, then reduced to shards, all after the loop. The
# rest of its unit is reduced to shards in every iteration.
cat >"$work/positions.pdl" <<'EOF'
module Positions(dim) {
    param weight[seq, dim] = normal(0.1)
    param gain[1] = ones
    forward(x) { return x * gain + weight }
}
model M(vocab=256, dim=24) {
    emb: Embedding(vocab, dim)
    pos: Positions(dim)
    head: Linear(dim, vocab)
    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        x = tanh(pos(emb(tokens))) + pos(emb(labels))
        return cross_entropy(head(x), labels)
    }
}
plan p(rep, dp, tp) {
    parallelize tp { pos: SequenceParallel }
    fully_shard (rep, dp) { pos }
}
train {
    batch = 8
    seq = 4
    optimizer = SGD(lr=0.1)
}
EOF
positions() { # positions MICROBATCHES MESH
    "$PARC" "$work/positions.pdl" --target cpu --threads 1 --mesh "$2" \
        -D accumulate="$1" -o "$work/positions-$2-$1" \
        --emit json="$work/plan.json" &&
        "$work/positions-$2-$1" --steps 8 --data "bytes:$text" --seed 1 \
            --log "$work/positions-$2-$1.log"
}
check "positions compile and train on one rank" positions 1 1x1x1
for n in 1 2; do
    check "positions x $n trains" positions $n 2x2x2
    check "positions x $n curve" same_curve "$work/positions-2x2x2-$n.log" \
        "$work/positions-1x1x1-1.log" 1e-5
done
check "positions gathered once" counts 1 tp all_gather
check "the gain is scattered in each iteration, positions once" \
    counts 3 dp reduce_scatter

cat >"$work/replicas.pdl" <<'EOF'
model Deep(dim=64, n_layers=8) {
    layers: [n_layers] Linear(dim, dim)
    forward(x: [batch, dim]) {
        for layer in layers { x = relu(layer(x)) }
        return mean(square(x))
    }
}
train {
    batch = 16
    accumulate = 4
    optimizer = SGD(lr=0.1)
}
EOF
"$PARC" "$work/replicas.pdl" --target cpu --threads 1 --mesh 2 \
    --emit json=/dev/stdout >"$work/plan.json" 2>/dev/null
check "replicated gradients and the loss are summed once" counts 2 dp all_reduce
gradients=$((4 * 8 * (64 * 64 + 64)))
check "only one set of gradients is allocated" \
    at_most $((gradients + 4 * 64 * 64 + 1024)) grads

one_size() { # ignores sizes in texts, which change where lines break
    two=$(cat "$work"/two/*.c | wc -l) eight=$(cat "$work"/eight/*.c | wc -l)
    echo "$two and $eight lines"
    [ $((50 * (two - eight))) -le "$two" ] &&
        [ $((50 * (eight - two))) -le "$two" ]
}
plan 2x2 -D batch=32 -D accumulate=2 -S "$work/two"
plan 2x2 -D batch=32 -D accumulate=8 -S "$work/eight"
check "the program's length does not depend on the microbatches" one_size
finish
