#!/bin/sh
# collective_counts.sh: counts the collectives of llama.pdl under its own plan,
# from --emit json: no more than the model needs.
. "$(dirname "$0")/lib.sh"

# count PHASE AXIS KIND: calls per step; PHASE may be "forward backward".
count() {
    jq --arg p "$1" --arg a "$2" --arg k "$3" '[.collectives[]
        | select((.phase | IN($p | split(" ")[])) and .axis == $a and
                 .kind == $k) | .count] | add // 0' "$work/plan.json"
}
between() { # between LOW HIGH PHASE AXIS KIND
    n=$(count "$3" "$4" "$5")
    echo "$3 $4 $5: $n, expected $1 to $2"
    [ "$n" -ge "$1" ] && [ "$n" -le "$2" ]
}
norm_weights() { # one bucket for the norm weights' gradients
    n=$(jq '[.collectives[] | select(.phase != "forward" and .axis == "tp" and
             .kind == "all_reduce" and .count == 1 and .bytes > 64)]
            | length' "$work/plan.json")
    echo "$n buckets"
    [ "$n" = 1 ]
}
grad_norm() { # scalars: one all-reduce over both axes, or one for each
    n=$(jq '[.collectives[] | select(.phase != "forward" and
             .kind == "all_reduce" and .bytes <= 64) | .count] | add // 0' \
        "$work/plan.json")
    echo "$n"
    [ "$n" -le 2 ] && [ "$n" -ge 1 ]
}
dp_loss() { # one all-reduce over dp in the forward pass
    jq -e '[.collectives[] | select(.phase == "forward" and
             .kind == "all_reduce" and (.axis | split(",") | index("dp")))
             | .count] | add == 1' "$work/plan.json"
}
none_in_layers() { # no all-reduce runs more than once
    jq -e '[.collectives[] | select(.kind == "all_reduce" and .count > 1)]
           | length == 0' "$work/plan.json"
}

for L in 1 2 5; do
    # shellcheck disable=SC2086
    "$PARC" examples/llama.pdl --target cpu --mesh 2x2 $llama_sizes \
        -D n_layers=$L --emit json=/dev/stdout >"$work/plan.json"
    two=$((2 * L + 1))
    check "$L layers: tp all-gathers, forward" \
        between $two $two forward tp all_gather
    check "$L layers: tp reduce-scatters, forward" \
        between $two $two forward tp reduce_scatter
    check "$L layers: tp all-reduces, forward" between 1 3 forward tp all_reduce
    check "$L layers: tp all-gathers, backward" \
        between $two $((2 * two)) backward tp all_gather
    check "$L layers: tp reduce-scatters, backward" \
        between $two $two backward tp reduce_scatter
    check "$L layers: one bucket for the norm weights" norm_weights
    check "$L layers: no all-reduce inside layers" none_in_layers
    check "$L layers: dp all-gathers, forward" \
        between $((L + 2)) $((L + 2)) forward dp all_gather
    check "$L layers: dp all-gathers, backward" \
        between $L $((L + 2)) backward dp all_gather
    check "$L layers: dp reduce-scatters" \
        between $((L + 2)) $((L + 2)) "forward backward optimizer" dp reduce_scatter
    check "$L layers: one dp all-reduce of the loss" dp_loss
    check "$L layers: all-reduces of the gradient norm" grad_norm
    check "$L layers: no other collective" jq -e '[.collectives[]
        | select(.kind == "all_to_all")] | length == 0' "$work/plan.json"
done
# GPT-2 under sequence parallelism has one gather and one reduce-scatter for
# each attention and each MLP, and one for the embedding and the head together.
# The backward pass gathers as many gradients, re-gathers each input (only its
# shard is saved), and gathers the gradient of the positions' table. Without
# sequence parallelism (the encoder-decoder's plan) each pass has all-reduces
# instead.
for L in 2 5; do
    # shellcheck disable=SC2086
    "$PARC" examples/gpt2.pdl --target cpu --mesh 1x2 $gpt2_sizes \
        -D n_layers=$L --emit json >"$work/plan.json"
    two=$((2 * L + 1))
    check "gpt2, $L layers: tp all-gathers, forward" \
        between $two $two forward tp all_gather
    check "gpt2, $L layers: tp reduce-scatters, forward" \
        between $two $two forward tp reduce_scatter
    check "gpt2, $L layers: tp all-gathers, backward" \
        between $((2 * two + 1)) $((2 * two + 1)) \
        backward tp all_gather
    check "gpt2, $L layers: tp reduce-scatters, backward" \
        between $two $two backward tp reduce_scatter
    check "gpt2, $L layers: one all-reduce for the norms" \
        between 1 1 backward tp all_reduce
    # shellcheck disable=SC2086
    "$PARC" examples/transformer.pdl --plan tensor_parallel --target cpu \
        --mesh 1x2 $transformer_sizes -D n_layers=$L --emit json \
        >"$work/plan.json"
    # Two in each encoder layer, three in each decoder layer, two embeddings,
    # three of the loss.
    n=$((5 * L + 2 + 3))
    check "encoder-decoder, $L layers: all-reduces, forward" \
        between $n $n forward tp all_reduce
    # Once for all layers: the head's input and the encoder's result.
    n=$((5 * L + 2))
    check "encoder-decoder, $L layers: all-reduces, backward" \
        between $n $n backward tp all_reduce
done
# shellcheck disable=SC2086
"$PARC" examples/llama.pdl --mesh 1x1 $llama_sizes --emit json \
    >"$work/plan.json"
check "1x1 has no collectives" \
    jq -e '.collectives | length == 0' "$work/plan.json"
finish
