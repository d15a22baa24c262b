#!/bin/sh
# prelude.sh: functions of the prelude have the losses of the same formulas written by hand,
# on meshes that split the logits and the sequence.
# cpu: losses
. "$(dirname "$0")/lib.sh"

model() { # model LOSS: a model of logits y
    cat <<END
model Small(vocab=64, dim=16, ignored=7) {
    table: Embedding(vocab, dim)
    up:    Linear(dim, 32)
    out:   Linear(32, vocab)

    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        h = up(table(tokens))
        y = out(h)
        counts = labels != ignored
        total = maximum(sum(counts), 1.0)
$1
    }
}
plan p(dp, tp) {
    parallelize tp {
        up:  ColwiseParallel(output=Replicate)
        out: ColwiseParallel(output=Shard(-1))
    }
    fully_shard dp { table, [up, out] }
}
train {
    batch = 8
    seq = 12
    precision = f32
    optimizer = AdamW(lr=1e-2, eps=1e-5) # of small gradients rounding decides the sign
}
END
}
run() { # run NAME LOSS MESH
    binary=$work/$1-$3
    model "$2" >"$binary.pdl"
    check "$1 $3 compiles" "$PARC" "$binary.pdl" --target cpu --threads 1 --mesh "$3" \
        -o "$binary"
    check "$1 $3 trains" "$binary" --threads 1 --steps 10 --seed 5 --data "bytes:$work/text" \
        --log "$binary.log"
}
compare() { # compare NAME LOSS BY_HAND
    run "$1-hand" "        return $3" 1x1
    for mesh in $(few_or_all 2x2 "1x1 2x2"); do
        run "$1" "        return $2" "$mesh"
        check "$1 on $mesh: losses" same_curve "$work/$1-$mesh.log" "$work/$1-hand-1x1.log" 1e-5
    done
}
tr -cd '\n -Z' <"$text" | tr '\n -Z' '\000-\073' >"$work/text"
picked='sum(log_softmax(y) * onehot(labels, vocab), dim=-1)'
log_sum='log(sum(exp(y), dim=-1))'
compare losses 'cross_entropy(y, labels, label_smoothing=0.1) +
            cross_entropy(y, labels, z_loss=0.01) + mean(logsumexp(h, dim=1, keep=true))' \
    "-0.9 * mean($picked) - 0.1 * mean(log_softmax(y)) - mean($picked) +
            0.01 * mean(square($log_sum)) + mean(log(sum(exp(h), dim=1, keep=true)))"
compare ignored 'cross_entropy(y, labels, ignore_index=ignored, label_smoothing=0.1,
            z_loss=0.01)' \
    "-sum((0.9 * $picked + 0.1 * mean(log_softmax(y), dim=-1) -
            0.01 * square($log_sum)) * counts) / total"
ids='concat(unsqueeze(tokens, -1), unsqueeze(labels, -1), dim=-1)'
hot='sum(y * onehot(tokens, vocab), dim=-1, keep=true) * onehot(tokens, vocab)'
next=$(echo "$hot" | sed 's/tokens/labels/g')
compare lookups "mean(square(y - scatter_add(y, $ids, gather(y, $ids)))) + mean(square(gather(y, $ids)))" \
    "mean(square($hot + $next)) +
            0.5 * mean(square(sum(y * onehot(tokens, vocab), dim=-1))) +
            0.5 * mean(square(sum(y * onehot(labels, vocab), dim=-1)))"
# At the bounds themselves gradients differ; no element is equal to one.
compare parts 'mean(square(clamp(y, -0.3, 0.2) - 1.0)) + mean(clamp(y, max=0.1)) +
            mean(square(h - 0.5 * roll(h, 3, dim=1) + roll(h, -40))) +
            mean(square(select(h, 5, dim=1) + select(h, -2 + 12, dim=1)))' \
    'mean(square(where(y < -0.3, -0.3, where(y > 0.2, 0.2, y)) - 1.0)) +
            mean(where(y > 0.1, 0.1, y)) +
            mean(square(h - 0.5 * concat(slice(h, 9, 3, dim=1), slice(h, 0, 9, dim=1), dim=1) +
            concat(slice(h, 8, 24), slice(h, 0, 8)))) +
            mean(square(reshape(slice(h, 5, 1, dim=1) + slice(h, 10, 1, dim=1), batch, 32)))'
small='(y * 1e-6)'
turned='onehot(int(63.0 - arange(64)), 64)'
compare order 'mean(flip(y) * y) + mean(square(flip(h, 1) - 0.5 * h)) +
            mean(square(slice(h, 28, 4, step=-3) - slice(h, 3, 4)))' \
    "mean(einsum(\"bsv, wv -> bsw\", y, $turned) * y) +
            mean(square(einsum(\"bsd, ts -> btd\", h, $(echo "$turned" |
                sed 's/63/11/; s/64/12/g')) - 0.5 * h)) +
            mean(square(concat(slice(h, 28, 1), slice(h, 25, 1), slice(h, 22, 1), slice(h, 19, 1)) -
            slice(h, 3, 4)))"
compare dropout 'mean(square(drop_path(y, 0.5))) + mean(square(dropout(h, 0.25, dim=(0, 2))))' \
    'mean(square(y * 2.0 * floor(random(batch, 1, 1) + 0.5))) +
            mean(square(h * where(random(size(h, 0), 1, 32) < 0.25, 0.0, 1.0 / 0.75)))'
compare logarithms "mean(square(1e6 * log1p$small)) + mean(square(1e6 * expm1$small)) +
            mean(log1p(square(y))) + mean(square(expm1(y)))" \
    "mean(square(y - 0.5 * y * $small)) + mean(square(y + 0.5 * y * $small)) +
            mean(log(1.0 + square(y))) + mean(square(exp(y) - 1.0))"
# conv2d chooses between matmuls, sums of products and the op of `convolution`.
image='reshape(h, size(h, 0), 4, 12, 8)'
weight='reshape(table.weight, 64, 4, 2, 2)'
point='reshape(table.weight, 256, 4, 1, 1)'
depth='reshape(slice(reshape(table.weight, 1024), 0, 16), 4, 1, 2, 2)'
compare convolutions "mean(square(conv2d($image, $weight, stride=2, dilation=2))) +
            mean(square(conv2d($image, $weight, stride=2, padding=(1, 0)))) +
            mean(square(conv2d($image, $point, padding=(0, 2)))) +
            mean(square(conv2d($image, $depth, stride=(3, 1), padding=1, dilation=(1, 3), groups=4)))" \
    "mean(square(convolution($image, $weight, (2, 2), (0, 0), (2, 2), 1, (5, 3)))) +
            mean(square(convolution($image, $weight, (2, 2), (1, 0), (1, 1), 1, (7, 4)))) +
            mean(square(convolution($image, $point, (1, 1), (0, 2), (1, 1), 1, (12, 12)))) +
            mean(square(convolution($image, $depth, (3, 1), (1, 1), (1, 3), 4, (5, 7))))"

refused() { # refused LOSS MESSAGE
    model "        return $1" >"$work/bad.pdl"
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" && grep -F -- "$2" "$work/err"
}
check "squeeze of another size" refused 'sum(squeeze(h, 1))' "does not have the size 1"
check "negative padding" refused "sum(conv2d($image, $weight, padding=-1))" \
    "the padding must be at least 0"

# Only the low-rank adapter is trained. A handwritten module of the same name has the same
# losses.
adapter() { # adapter NAME MESH
    model "        return cross_entropy(y, labels)" | sed '
        s/up:    Linear(dim, 32)/up: LoRALinear(dim, 32, rank=4, alpha=6.0)/
        s/up:  Colwise.*/up.base_layer: ColwiseParallel/
        s/out: Colwise/up.lora_B: ColwiseParallel\n        &/
        s/fully_shard dp.*/fully_shard dp { table, [up, out] }\n    freeze { table, out, up.base_layer }/
        ' >>"$work/$1.pdl"
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh "$2" -o "$work/$1-$2" &&
        "$work/$1-$2" --steps 10 --seed 5 --data "bytes:$work/text" --log "$work/$1-$2.log" \
            --export "$work/$1-$2.st"
}
cat >"$work/hand.pdl" <<END
module LoRALinear(i, o, rank, alpha) {
    base_layer: Linear(i, o)
    lora_A: Linear(i, rank, bias=false)
    lora_B: Linear(rank, o, bias=false, init=zeros)
    forward(x) { return 1.5 * lora_B(lora_A(x)) + base_layer(x) }
}
END
check "an adapter by hand trains" adapter hand 1x1
for mesh in $(few_or_all 2x2 "1x1 2x2"); do
    check "an adapter on $mesh trains" adapter lora "$mesh"
    check "an adapter on $mesh: losses" same_curve "$work/lora-$mesh.log" \
        "$work/hand-1x1.log" 1e-5
    rm "$work/lora.pdl"
done
finish
