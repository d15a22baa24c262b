#!/bin/sh
# attention.sh: attention with a window or a softcap has the losses of the same arithmetic
# on all scores, on meshes that split the heads and the sequence. A window costs its part of
# the whole.
# cpu: losses
. "$(dirname "$0")/lib.sh"

model() { # model ATTENTION: a model whose attention is this expression of q, k and v
    cat <<END
module Attention(dim, heads, kv) {
    wq: Linear(dim, dim, bias=false)
    wk: Linear(dim, dim * kv / heads, bias=false)
    wv: Linear(dim, dim * kv / heads, bias=false)
    wo: Linear(dim, dim, bias=false)

    forward(x) {
        q = heads(wq(x), heads)
        k = heads(wk(x), kv)
        v = heads(wv(x), kv)
$1
        return wo(merge_heads(y))
    }
}
model Small(dim=32) {
    embed:     Embedding(64, dim)
    norm:      RMSNorm(dim)
    attention: Attention(dim, 4, 2)
    output:    Linear(dim, 64)

    forward(tokens: int(64)[batch, seq], labels: int(64)[batch, seq]) {
        h = embed(tokens)
        h = h + attention(norm(h))
        return cross_entropy(output(h), labels)
    }
}
plan p(dp, tp) {
    parallelize tp {
        norm:         SequenceParallel
        embed:        RowwiseParallel(input=Replicate, output=Shard(1))
        attention:    PrepareModuleInput(Shard(1) -> Replicate)
        attention.wq: ColwiseParallel
        attention.wk: ColwiseParallel
        attention.wv: ColwiseParallel
        attention.wo: RowwiseParallel(output=Shard(1))
        output:       ColwiseParallel(input=Shard(1), output=Shard(-1))
    }
    fully_shard dp { model }
}
train {
    batch = 4
    seq = 96
    precision = f32
    optimizer = AdamW(lr=1e-2)
}
END
}
# masked LEAST MOST [CAPPED]: scores of all pairs; a query sees keys from LEAST to MOST after
# it. CAPPED is an expression of the scores.
masked() {
    cat <<END
        at = arange(seq)
        after = unsqueeze(at, 0) - unsqueeze(at, 1)
        g = reshape(q, batch, seq, 2, 2, dim / heads)
        score = einsum("bskgd,btkd->bkgst", g, k) / sqrt(dim / heads)
        seen = where(after < $1, 0, where(after > $2, 0, 1))
        p = softmax(where(seen, ${3:-score}, -1e9))
        y = reshape(einsum("bkgst,btkd->bskgd", p, v), batch, seq, heads, dim / heads)
END
}
run() { # run NAME ATTENTION MESH LIKE
    binary=$work/$1-$3
    model "$2" >"$binary.pdl"
    check "$1 $3 compiles" "$PARC" "$binary.pdl" --target cpu --threads 1 --mesh "$3" \
        -o "$binary"
    check "$1 $3 trains" "$binary" --threads 1 --steps 10 --seed 5 --data "bytes:$work/text" \
        --log "$binary.log"
    [ "$binary.log" = "$work/$4.log" ] ||
        check "$1 $3: losses of $4" same_curve "$binary.log" "$work/$4.log" 1e-5
}
tr -cd '\n -Z' <"$text" | tr '\n -Z' '\000-\073' >"$work/text"
run hand "$(masked -9 0)" 1x1 hand-1x1
run band-hand "$(masked -9 9)" 1x1 band-hand-1x1
run cap-hand "$(masked -9 0 '0.2 * tanh(score / 0.2)')" 1x1 cap-hand-1x1
causal='        y = attention(q, k, v, causal=true, window=10)'
band='        y = attention(q, k, v, window=10)'
cap='        y = attention(q, k, v, causal=true, window=10, softcap=0.2)'
for mesh in $(few_or_all 2x2 "1x1 2x1 1x2 2x2"); do
    run causal "$causal" $mesh hand-1x1
    run band "$band" $mesh band-hand-1x1
    run cap "$cap" $mesh cap-hand-1x1
done
run all '        y = attention(q, k, v, causal=true)' 1x1 all-1x1
run whole '        y = attention(q, k, v, causal=true, window=96)' 1x1 all-1x1

# The flops of attention are the part of all pairs that the mask leaves.
flops() { # flops OPTION…
    "$PARC" examples/mistral.pdl --mesh 1x1 -D n_layers=1 -D seq=32768 -D batch=1 "$@" \
        --emit json | jq '[.work[] | select(.kind | startswith("attention")) | .flops] | add'
}
part() {
    jq -en "$(flops -D window=4096) / $(flops) == (2 * 32768 - 4096) * 4096 / 32768 / 32768"
}
check "the window's part of the work" part
refused() { # refused OPTION MESSAGE
    ! "$PARC" examples/mistral.pdl "$1" --emit plan 2>"$work/err" && grep -F -- "$2" "$work/err"
}
check "window 0" refused -Dwindow=0 "the window must be an integer of at least 1, not 0"
check "half a window" refused -Dwindow=0.5 "the window must be an integer of at least 1"
sed 's/window=window/window=window, softcap=0.0/' examples/mistral.pdl >"$work/bad.pdl"
no_softcap() {
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" &&
        grep "the softcap must be above 0, not 0" "$work/err"
}
check "softcap 0" no_softcap
finish
