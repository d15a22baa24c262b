#!/bin/sh
# attention.sh: attention with a window, a softcap, documents, padding, sinks or a bias has the
# losses of the same arithmetic on all scores, on meshes that split the heads and the sequence. A window
# costs its part of the whole.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# model ATTENTION [CHILD]: a model whose attention is this expression of q, k and v, and has
# this child
model() {
    cat <<END
module Attention(dim, heads, kv) {
    wq: Linear(dim, dim, bias=false)
    wk: Linear(dim, dim * kv / heads, bias=false)
    wv: Linear(dim, dim * kv / heads, bias=false)
    wo: Linear(dim, dim, bias=false)
    ${2-}

    forward(x, ids, lengths) {
        q = heads(wq(x), heads)
        k = heads(wk(x), kv)
        v = heads(wv(x), kv)
$1
        return wo(merge_heads(y))
    }
}
# Numbers that grow where a token is below 8, and lengths from the first tokens.
module Documents() {
    forward(tokens) {
        t = float(tokens)
        first = squeeze(slice(t, 0, 1), 1)
        return int(cumsum(where(t < 8, 1, 0))), int(33 + first)
    }
}
model Small(dim=32) {
    embed:     Embedding(64, dim)
    norm:      RMSNorm(dim)
    attention: Attention(dim, 4, 2)
    # documents of 1 to 64 tokens; lengths of 33 to 96
    start:     Documents()
    output:    Linear(dim, 64)

    forward(tokens: int(64)[batch, seq], labels: int(64)[batch, seq]) {
        h = embed(tokens)
        ids, lengths = start(tokens)
        h = h + attention(norm(h), ids, lengths)
        return cross_entropy(output(h), labels)
    }
}
plan p(dp, tp) {
    parallelize tp {
        norm:         SequenceParallel
        embed:        RowwiseParallel(input=Replicate, output=Shard(1))
        attention:    PrepareModuleInput((Shard(1), none, none) ->
                                         (Replicate, none, none))
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
# masked LEAST MOST [CAPPED [SEEN]]: scores of all pairs; a query sees keys from LEAST to MOST
# after it. CAPPED is an expression of the scores, SEEN one that is 1 for other keys seen.
masked() {
    cat <<END
        at = arange(seq)
        after = unsqueeze(at, 0) - unsqueeze(at, 1)
        g = reshape(q, batch, seq, 2, 2, dim / heads)
        score = einsum("bskgd,btkd->bkgst", g, k) / sqrt(dim / heads)
        own = unsqueeze(float(ids), 2)
        documents = own == transpose(own, 1, 2)
        padding = unsqueeze(where(unsqueeze(at, 0) < unsqueeze(float(lengths), 1), 1, 0), 1)
        near = where(after < $1, 0, where(after > $2, 0, 1))
        seen = unsqueeze(unsqueeze(near * ${4:-(documents * 0 + 1)}, 1), 1)
        p = softmax(where(seen, ${3:-score}, -1e9)) * seen
        y = reshape(einsum("bkgst,btkd->bskgd", p, v), batch, seq, heads, dim / heads)
END
}
run() { # run NAME ATTENTION MESH LIKE [CHILD]
    binary=$work/$1-$3
    model "$2" "${5-}" >"$binary.pdl"
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
documents='        y = attention(q, k, v, causal=true, documents=ids)'
padded='        y = attention(q, k, v, padding=lengths, softcap=0.2)'
both='        y = attention(q, k, v, documents=ids, padding=lengths)'
run documents-hand "$(masked -96 0 '' documents)" 1x1 documents-hand-1x1
run padded-hand "$(masked -96 96 '0.2 * tanh(score / 0.2)' padding)" 1x1 padded-hand-1x1
run both-hand "$(masked -96 96 '' 'documents * padding')" 1x1 both-hand-1x1
# Biases: a trained number for each head and distance, and one for each sequence and key; and
# one that only masks keys.
table='table: Embedding(191, heads)'
distance='        at = arange(seq)
        far = int(unsqueeze(at, 1) - unsqueeze(at, 0) + (seq - 1))
        bias = transpose(transpose(table(far), 1, 2), 0, 1)'
first='        bias = reshape(slice(x, 0, 1) * 3, batch, 1, 1, seq)'
keys='        bias = reshape(where(ids < 3, -1e30 * 2, 0.5), batch, 1, 1, seq)'
every="$distance
        bias = bias + reshape(slice(x, 0, 1), batch, 1, 1, seq)"
added='reshape(broadcast(bias, batch, heads, seq, seq), batch, 2, 2, seq, seq)'
run distance-hand "$distance
$(masked -96 0 "score + $added")" 1x1 distance-hand-1x1 "$table"
run first-hand "$first
$(masked -96 96 "score + $added")" 1x1 first-hand-1x1
run every-hand "$every
$(masked -9 0 "0.2 * tanh(score / 0.2) + $added")" 1x1 every-hand-1x1 "$table"
run keys-hand "$keys
$(masked -96 96 "score + $added")" 1x1 keys-hand-1x1
# A learned number for each head, one more key with value 0.
sinks='param sinks[heads] = normal(2.0)'
run sinks-hand "$(masked -9 0 | sed 's/^ *p = .*/        row = broadcast(reshape(sinks, 1, 2, 2, 1, 1), batch, 2, 2, seq, 1)\
        p = slice(softmax(concat(where(seen, score, -1e9), row)), 0, seq)/')" 1x1 \
    sinks-hand-1x1 "$sinks"
for mesh in $(few_or_all 2x2 "1x1 2x1 1x2 2x2"); do
    run sinks '        y = attention(q, k, v, causal=true, window=10, sinks=sinks)' $mesh \
        sinks-hand-1x1 "$sinks"
    run distance "$distance
        y = attention(q, k, v, causal=true, bias=bias)" $mesh distance-hand-1x1 "$table"
    run first "$first
        y = attention(q, k, v, bias=bias)" $mesh first-hand-1x1
    run keys "$keys
        y = attention(q, k, v, bias=bias)" $mesh keys-hand-1x1
    run every "$every
        y = attention(q, k, v, causal=true, window=10, softcap=0.2, bias=bias)" $mesh \
        every-hand-1x1 "$table"
done
for mesh in $(few_or_all 2x2 "1x1 2x1 1x2 2x2"); do
    run causal "$causal" $mesh hand-1x1
    run band "$band" $mesh band-hand-1x1
    run cap "$cap" $mesh cap-hand-1x1
    run documents "$documents" $mesh documents-hand-1x1
    run padded "$padded" $mesh padded-hand-1x1
    run both "$both" $mesh both-hand-1x1
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
model '        y = attention(q, k, v, documents=lengths)' >"$work/bad.pdl"
no_documents() {
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" &&
        grep -F "the documents must be integers [4, 96], not" "$work/err"
}
check "documents of lengths" no_documents
model '        y = attention(q, k, v, padding=x)' >"$work/bad.pdl"
no_padding() {
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" &&
        grep -F "the padding must be the lengths of sequences, integers [4]" "$work/err"
}
check "padding of floats" no_padding
model '        y = attention(q, k, v, bias=x)' >"$work/bad.pdl"
no_bias() {
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" &&
        grep -F "the bias must be floats that broadcast to the scores [4, 4, 96, 96]" \
            "$work/err"
}
check "a bias of other dims" no_bias
model '        y = attention(q, k, v, sinks=x)' >"$work/bad.pdl"
no_sinks() {
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" &&
        grep -F "the sinks must be floats [4], one for each head, not" "$work/err"
}
check "sinks of other dims" no_sinks
finish
