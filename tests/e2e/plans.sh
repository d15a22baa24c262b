#!/bin/sh
# plans.sh: the clauses of plans: each plan below trains llama.pdl, or the model
# next to it, with the curve and the weights of one rank.
. "$(dirname "$0")/lib.sh"
sizes="$llama_sizes -D n_layers=4 -D n_kv_heads=4 -D batch=8 -D seq=16"

# without_plan MODEL: prints its text without plans
without_plan() {
    awk '/^plan / { skip = 1 } !skip { print } /^}/ { skip = 0 }' "$1"
}
without_plan examples/llama.pdl >"$work/llama"

# curve LABEL BASE MESH [ONE]: trains $work/BASE under the plan on standard
# input; the curve is that of the run ONE.
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
        --emit json >"$work/$1.json" 2>/dev/null
    check "$1 memory" as_planned "$work/$1.log" "$work/$1.json"
}
places() { # places LABEL NAME TEXT: the placement of a parameter
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

# Parameters frozen by patterns.
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
reduced() { # reduced LABEL REGEX: how many of these gradients are reduced
    jq --arg name "$2" '[.collectives[].why |
        select(test("^gradients? of (unit )?(" + $name + ")"))] | length' \
        "$work/$1.json"
}
check "parameters that are not frozen are trained" \
    test "$(reduced frozen output)" -gt 0
check "frozen parameters are not trained" \
    test "$(reduced frozen 'layers.0|.*norm')" = 0

# ---- parameters that modules declare themselves ----
sizes=
cat >"$work/own" <<'END'
module Experts(n, dim, hidden) {
    param gate[n, dim] = normal(0.1)
    param w1[n, hidden, dim] = normal(0.1)
    param w2[n, dim, hidden] = normal(0.1)
    forward(x) {
        g = softmax(einsum("bsk,nk->bsn", x, gate))
        h = relu(einsum("bsk,nfk->bsnf", x, w1))
        return einsum("bsnf,nkf->bsk", h * unsqueeze(g, 3), w2)
    }
}
module Project(in, out) {
    param w[in, out] = normal(0.1)
    param b[out] = zeros
    forward(x) { return x @ w + b }
}
module Block(dim) {
    norm: RMSNorm(dim)
    up:   Project(dim, 3 * dim)
    down: Project(3 * dim, dim)
    moe:  Experts(6, dim, 2 * dim)
    forward(x) {
        x = x + down(silu(up(norm(x))))
        return x + moe(x)
    }
}
model M(dim=16) {
    embed:  Embedding(256, dim)
    layers: [2] Block(dim)
    head:   Linear(dim, 256)
    forward(tokens: int(256)[batch, seq], labels: int(256)[batch, seq]) {
        h = embed(tokens)
        for layer in layers { h = layer(h) }
        return cross_entropy(head(h), labels)
    }
}
train {
    batch = 8
    seq = 16
    optimizer = AdamW(lr=1e-2)
}
END
curve own-one own 1 <<'END'
plan one(dp) {}
END
curve placed own 2x2 own-one <<'END'
plan p(dp, tp) {
    parallelize tp {
        layers.*.moe.w*:   Shard(0)
        layers.*.moe.gate: Shard(1)
        layers.0.up.w:     Shard(-1)
        layers.0.down.w:   Shard(0)
        layers.1.*.b:      Shard(0)
        head:              ColwiseParallel
        head.bias:         Replicate
    }
    fully_shard dp { layers.*, [embed, head] }
}
END
check "experts are split" places placed layers.0.moe.w2 \
    '{"dp":"flat","tp":"S(0)"}'
check "a bias stays whole" places placed head.bias '{"dp":"S(0)","tp":"R"}'
curve own-weights own 2x2 own-one <<'END'
plan p(dp, tp) {
    parallelize tp {
        layers.*.up:   ColwiseParallel
        layers.*.down: RowwiseParallel
        head:          ColwiseParallel
    }
    fully_shard dp { layers.*, embed }
}
END
check "columns of a module's own parameter are split" \
    places own-weights 'layers.*.up.w' \
    '{"dp":"S(0)","tp":"S(1)"}'
check "the bias of split columns is split" \
    places own-weights 'layers.*.up.b' '{"dp":"S(0)","tp":"S(0)"}'
check "rows of a module's own parameter are split" \
    places own-weights 'layers.*.down.w' \
    '{"dp":"S(0)","tp":"S(0)"}'
check "the bias of split rows stays whole" \
    places own-weights 'layers.*.down.b' \
    '{"dp":"S(0)","tp":"R"}'
curve placed-4 own 1x4 own-one <<'END'
plan p(dp, tp) {
    parallelize tp { layers.*.moe.*: Shard(0) }
}
END
finish
