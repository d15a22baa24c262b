#!/bin/sh
# head_chunk.sh: the head in chunks of tokens has the same curve. The logits of
# a batch are never stored; the head's weight is gathered once and its gradient
# reduced once.
# cpu: losses
. "$(dirname "$0")/lib.sh"

plan() { # plan MESH OPTIONS…
    mesh=$1
    shift
    # shellcheck disable=SC2086
    "$PARC" examples/llama.pdl --target cpu --threads 1 --mesh "$mesh" \
        $llama_sizes "$@" --emit json=/dev/stdout >"$work/plan.json"
}
exact() { # a run allocates what the plan says
    [ "$(jq -s '.[-1].peak_bytes' "$1")" = \
        "$(jq .memory.peak "$work/plan.json")" ]
}
tight() {
    jq -e '.memory.peak <= 1.02 * .memory.lower_bound' "$work/plan.json"
}

# 256 tokens in chunks of whole sequences, of parts, and with accumulation.
binary=$work/whole
# shellcheck disable=SC2086
check "one rank without chunks compiles" \
    compile "$binary" llama 1x1 --threads 1 $llama_sizes
check "one rank without chunks trains" \
    "$binary" --steps 8 --data "bytes:$text" --seed 1 --log \
    "$work/whole.log"
for mesh in 1x1 2x2; do
    for options in "-D head_chunk=64" "-D head_chunk=8" \
        "-D head_chunk=16 -D accumulate=2"; do
        # shellcheck disable=SC2086
        check "$mesh $options compiles" compile "$binary" llama "$mesh" \
            --threads 1 $llama_sizes $options
        check "$mesh $options trains" "$binary" --steps 8 \
            --data "bytes:$text" --seed 1 --log "$binary.log"
        check "$mesh $options curve" same_curve "$binary.log" \
            "$work/whole.log" 1e-5
        # shellcheck disable=SC2086
        plan "$mesh" $options
        check "$mesh $options allocates the planned bytes" exact "$binary.log"
        check "$mesh $options packs near the lower bound" tight
    done
done

once() { # collectives of the head's unit, over dp
    jq -e '[.collectives[] | select(.tensor == "norm+output") | .count] ==
        [1, 1]' "$work/plan.json"
}
each_chunk() { # loss parallel: all-reduces of every chunk's maximum and sums
    jq -e '[.collectives[] | select(.axis == "tp" and .kind == "all_reduce" and
        .phase == "forward") | .count] | all(. == 16) and length >= 2' \
        "$work/plan.json"
}
plan 2x2 -D head_chunk=8
check "the head's unit moves once" once
check "each chunk reduces its statistics" each_chunk
# A parameter along the tokens, of which each chunk reads a part: with its unit
# gathered in place, too.
cat >"$work/gain.pdl" <<'END'
model M(dim=16, vocab=32) {
    emb: Embedding(vocab, dim)
    out: Linear(dim, vocab)
    param gain[8, 1] = normal(1)
    forward(t: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        return cross_entropy(out(emb(t) * gain), labels)
    }
}
plan shards(dp) { fully_shard dp { model: reshard=false } }
train { batch = 4
    seq = 8
    precision = f32 }
END
gain() { # gain MESH LOG OPTIONS…
    ranks=$1 log=$2
    shift 2
    "$PARC" "$work/gain.pdl" --target cpu --threads 1 --mesh "$ranks" "$@" \
        -o "$work/gain" &&
        "$work/gain" --steps 5 --data synthetic --log "$work/$log"
}
check "a parameter along the tokens trains" gain 1 gain.whole
check "it trains in chunks" gain 2 gain.chunks -D head_chunk=4
check "both have one curve" same_curve "$work/gain.chunks" "$work/gain.whole" 1e-5

# A long model before the head: the pass visits it only once.
{
    echo "model M(dim=16, vocab=32) {"
    echo "    emb: Embedding(vocab, dim)"
    echo "    out: Linear(dim, vocab)"
    echo "    forward(t: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {"
    echo "        x = emb(t)"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        echo "        x = x * sigmoid(x)"
    done
    echo "        return cross_entropy(out(x), labels)"
    echo "    }"
    echo "}"
    echo "train { batch = 4"
    echo "    seq = 8"
    echo "    head_chunk = 8 }"
} >"$work/long.pdl"
check "a long model before the head compiles in time" \
    timeout 60 "$PARC" "$work/long.pdl" --emit json

peak() {
    plan "$@"
    jq .memory.peak "$work/plan.json"
}
less() { # one chunk of logits instead of all: at least 4 MiB less
    whole=$(peak 1x1 -D vocab=16384)
    chunked=$(peak 1x1 -D vocab=16384 -D head_chunk=32)
    echo "$whole and $chunked"
    [ $((whole - chunked)) -gt 4194304 ]
}
check "the logits of the batch are not stored" less

# One sequence of 35 tokens: chunks are parts of it.
"$PARC" examples/transformer.pdl --plan no_shard --target cpu --threads 1 \
    -D vocab=63 -D dim=32 -D n_layers=1 -D n_heads=4 -D hidden=64 -D batch=1 -D seq=35 \
    -D head_chunk=8 --emit plan >"$work/plan.txt"
check "chunks are parts of a sequence" \
    grep -q "^head        5 chunks of 7 tokens" \
    "$work/plan.txt"
finish
