#!/bin/sh
# pipeline_models.sh: models whose stages exchange more than one loop's carries: they have
# the losses, the evaluation and the outputs of one rank, bit for bit.
. "$(dirname "$0")/lib.sh"

# model NAME MODULES: a model on standard input, whose plan has a pipeline @CLAUSE@
model() {
    {
        cat <<END
module Block(dim) {
    net: Linear(dim, dim)
    norm: RMSNorm(dim)
    forward(x) { return norm(x + relu(net(x))) }
}
module Gate(dim) {
    net: Linear(dim, dim)
    by: Linear(dim, dim)
    norm: RMSNorm(dim)
    forward(x, y) { return norm(x + relu(net(x)) * by(y)) }
}
module Scale(dim) {
    net: Linear(dim, dim)
    norm: RMSNorm(dim)
    forward(x, y) { return norm(x + relu(net(x)) * y) }
}
module Drop(dim) {
    block: Block(dim)
    forward(x) { return block(dropout(x, 0.1)) }
}
model M(dim=16, vocab=256) {
END
        cat
        cat <<END
}
plan stages(pp, dp, tp) { pipeline pp { @CLAUSE@ } }
train {
    batch      = 48
    seq        = 16
    accumulate = 4
    optimizer  = AdamW(lr=0.01)
}
END
    } >"$work/$1.pdl"
}

# Both arrays have layers on one of two stages.
model encoder <<'END'
    source:  Embedding(vocab, dim)
    target:  Embedding(vocab, dim)
    encoder: [4] Block(dim)
    decoder: [4] Gate(dim)
    head:    Linear(dim, vocab)
    forward(ids: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        memory = source(ids)
        for layer in encoder { memory = layer(memory) }
        x = target(ids)
        for layer in decoder { x = layer(x, memory) }
        logits = head(x)
        return cross_entropy(logits, labels), logits
    }
END
# The last stage needs what the first one has.
model skip <<'END'
    embed:  Embedding(vocab, dim)
    layers: [6] Block(dim)
    head:   Linear(dim, vocab)
    tie head.weight = embed.weight
    forward(ids: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        first = embed(ids)
        x = first
        for layer in layers { x = layer(x) }
        logits = head(x + first)
        return cross_entropy(logits, labels), logits
    }
END
# All ranks count the labels; the evaluation, without dropout, is a program of its own.
model ignored <<'END'
    embed:  Embedding(vocab, dim)
    layers: [6] Drop(dim)
    head:   Linear(dim, vocab)
    forward(ids: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        x = embed(ids)
        for layer in layers { x = layer(x) }
        logits = head(x)
        return cross_entropy(logits, labels, ignore_index=32), logits
    }
END
# Every rank computes what several stages read.
model factors <<'END'
    embed:   Embedding(vocab, dim)
    encoder: [6] Scale(dim)
    decoder: [2] Scale(dim)
    head:    Linear(dim, vocab)
    forward(ids: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        r = exp(unsqueeze(float(ids), 2) * 0.001)
        x = embed(ids)
        for layer in encoder { x = layer(x, r) }
        q = sin(unsqueeze(float(ids), 2) * 0.1)
        for layer in decoder { x = layer(x, q) }
        logits = head(x * cos(unsqueeze(float(ids), 2) * 0.1))
        return cross_entropy(logits, labels), logits
    }
END

built() { # built NAME MESH CLAUSE
    sed "s/@CLAUSE@/$3/" "$work/$1.pdl" >"$work/this.pdl"
    "$PARC" "$work/this.pdl" --target cpu --threads 1 --mesh "$2" -o "$work/$4"
}
runs() { # runs NAME: a training run, an evaluation and the outputs
    set -- "$work/$1"
    rm -rf "$1.save" "$1.log" "$1.loss" "$1.eval" "$1.npy"
    timeout 60 "$1" --steps 10 --seed 3 --data "bytes:$text" --log "$1.log" \
        --save "$1.save" &&
        timeout 60 "$1" --resume "$1.save" --eval --val "bytes:$text" \
            --val-steps 2 >"$1.eval" 2>&1 &&
        timeout 60 "$1" --resume "$1.save" --data "bytes:$text" \
            --predict "$1.npy" && jq .loss "$1.log" >"$1.loss" &&
        sed -i 's/, [0-9.]* s$//' "$1.eval"
}
same() { # same HOW: the run `this` as the run `one`
    for end in loss eval npy; do
        [ "$1" = bits ] || [ $end = loss ] || continue
        if [ "$1" = bits ]; then
            cmp "$work/one.$end" "$work/this.$end" || return
        else
            same_curve "$work/one.log" "$work/this.log" "$1"
        fi
    done
    [ -s "$work/one.loss" ]
}
row() { # row HOW MODEL MESH CLAUSE
    [ "${base:-}" = "$2" ] || {
        base=$2
        check "$2 on one rank compiles" built "$2" 1x1x1 "" one
        check "$2 on one rank runs" runs one
    }
    check "$2 on $3, $4 compiles" built "$2" "$3" "$4" this
    check "$2 on $3, $4 runs" runs this
    check "$2 on $3, $4: the same" same "$1"
}
several=schedule=interleaved
row bits encoder 2x1x1 schedule=1f1b
in_all row bits encoder 2x1x1 $several
in_all row bits encoder 3x1x1 schedule=zero_bubble
in_all row bits encoder 2x1x1 "schedule=gpipe, stages_per_rank=3"
row 1e-6 skip 2x1x1 $several
in_all row 1e-6 skip 3x1x1 "schedule=1f1b, stages_per_rank=2"
in_all row 1e-6 skip 3x1x1 schedule=zero_bubble
row bits ignored 2x1x1 $several
in_all row bits ignored 3x1x1 schedule=zero_bubble
in_all row bits factors 2x1x1 $several
in_all row bits factors 2x1x1 "schedule=gpipe, stages_per_rank=3"
in_all row bits factors 3x1x1 schedule=1f1b
finish
