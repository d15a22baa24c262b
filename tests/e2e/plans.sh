#!/bin/sh
# What a plan may say: each plan below trains llama.pdl, or the model that
# stands with it, with the curve of one rank, and no other weights.
. "$(dirname "$0")/lib.sh"
sizes="$llama_sizes -D n_layers=4 -D n_kv_heads=4 -D batch=8 -D seq=16"

# without_plan MODEL: its text without plans
without_plan() {
    awk '/^plan / { skip = 1 } !skip { print } /^}/ { skip = 0 }' "$1"
}
without_plan examples/llama.pdl >"$work/llama"

# curve LABEL BASE MESH [ONE]: trains $work/BASE under the plan of standard
# input, with the curve of the run ONE
curve() {
    { cat "$work/$2" && cat; } >"$work/$1.pdl"
    # shellcheck disable=SC2086
    check "$1 compiles" "$PARC" "$work/$1.pdl" --target cpu --threads 1 \
        --mesh "$3" $sizes -o "$work/$1.bin"
    check "$1 trains" "$work/$1.bin" --threads 1 --steps 8 --seed 1 \
        --data "bytes:$text" --log "$work/$1.log" --export "$work/$1.st"
    [ -z "${4:-}" ] ||
        check "$1 curve" same_curve "$work/$1.log" "$work/$4.log" 1e-5
    # shellcheck disable=SC2086
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh "$3" $sizes \
        --emit json >"$work/$1.json"
    check "$1 memory" as_planned "$work/$1.log" "$work/$1.json"
}
places() { # places LABEL NAME TEXT: where a parameter is
    have=$(jq -r --arg name "$2" '.params[] | select(.name == $name) |
        .placement | map_values(.) | tostring' "$work/$1.json")
    echo "$2 is $have, $3 wanted"
    [ "$have" = "$3" ]
}

curve one llama 1 <<'END'
plan one(dp) {}
END

# ---- patterns ----
curve patterns llama 2x2 one <<'END'
plan p(dp, tp) {
    parallelize tp {
        layers.*.attention.w*:          ColwiseParallel
        layers.*.attention.wo:          RowwiseParallel
        layers.0-2:2.feed_forward.w1:   ColwiseParallel
        layers.0-2:2.feed_forward.w3:   ColwiseParallel
        layers.0-2:2.feed_forward.w2:   RowwiseParallel
        [layers.1-3:2.feed_*.w1, layers.1-3:2.feed_*.w3]: ColwiseParallel
        layers.1-3:2.feed_forward.*2:   RowwiseParallel
    }
    fully_shard dp { tok_*, layers.0-1, layers.2-3: reshard=false, [norm, out*] }
    checkpoint { layers.1-2, layers.3.att*: keep=attention }
}
END
placed='{"dp":"S(0)","tp":"S(0)"}'
check "a range and a star" places patterns layers.2.attention.wk.weight "$placed"
check "a more particular name" places patterns layers.3.attention.wo.weight \
    '{"dp":"S(0)","tp":"S(1)"}'
check "another range" places patterns layers.1.feed_forward.w3.weight "$placed"

# Frozen by patterns.
frozen='plan p(dp, tp) {
    parallelize tp { layers.*.attention.w*: ColwiseParallel }
    freeze { layers.0-1.*.w*, layers.*.*_norm, *norm* }
}'
curve frozen-one llama 1x1 <<END
$frozen
END
curve frozen llama 2x2 frozen-one <<END
$frozen
END
trained=$(jq -r '.collectives[] | select(.phase == "backward") | .why' \
    "$work/frozen.json" | grep -c 'layers.0\|norm')
check "frozen ones have no gradient" test "$trained" = 0
finish
