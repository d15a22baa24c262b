#!/bin/sh
# nonfinite.sh: a scaled loss gives the curve of the plain one; steps whose
# gradients overflow are skipped; the message names a gradient that is not
# finite.
# cpu: numbers near the end of f32
. "$(dirname "$0")/lib.sh"

sizes="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=64 -D batch=8 -D seq=16 -D precision=f32 -D clip=0.5 --threads 1"

# One batch of tokens, so that all steps have the same batch.
head -c 129 "$text" >"$work/batch.txt"

# train NAME STEPS: runs the binary; writes its log and weights.
train() {
    "$work/$1" --steps "$2" --data "bytes:$work/batch.txt" --seed 1 \
        --log "$work/$1.log" --export "$work/$1.st"
}

# later A B SKIPPED [TOLERANCE]: B's curve is A's after SKIPPED steps.
later() {
    tail -n "+$(($3 + 1))" "$2" >"$work/rest.log" &&
        head -n "$(wc -l <"$work/rest.log")" "$1" >"$work/first.log" &&
        same_curve "$work/rest.log" "$work/first.log" "${4:-1e-5}"
}

# shellcheck disable=SC2086
{
    check "the plain model compiles" compile "$work/plain" llama 1x1 $sizes
    check "the scaled model compiles for 2x2" \
        compile "$work/scaled" llama 2x2 $sizes \
        -D loss_scale=1024
    check "a model with too large a scale compiles" \
        compile "$work/large" llama 2x2 $sizes \
        -D loss_scale=1e20
}
check "the plain model trains" train plain 16
check "the scaled model trains with PARC_NANCHECK=1" env PARC_NANCHECK=1 \
    "$work/scaled" --steps 2
check "the scaled model trains" train scaled 16
check "scaled and plain losses are equal" \
    same_curve "$work/plain.log" "$work/scaled.log" 1e-5
check "scaled and plain norms are equal" \
    jq -en --slurpfile a "$work/plain.log" \
    --slurpfile b "$work/scaled.log" \
    '[range(16) | ($a[.].grad_norm / $b[.].grad_norm - 1) | fabs] | max < 1e-4'
check "the log has the scale" jq -es 'all(.loss_scale == 1024)' \
    "$work/scaled.log"
check "the model with too large a scale trains" train large 16
skipped=$(jq -s 'map(select(.grad_norm == null)) | length' "$work/large.log")
check "steps are skipped" test "$skipped" -gt 2
check "skipping ends" test "$skipped" -lt 10
check "each skipped step halves the scale" jq -es --argjson n "$skipped" \
    '(.[0].loss_scale / .[$n].loss_scale / pow(2; $n) - 1) | fabs < 1e-6' \
    "$work/large.log"
check "skipped steps do not change the curve" later "$work/plain.log" \
    "$work/large.log" "$skipped"
check "a run of skipped steps only" train large "$skipped"
cp "$work/large.st" "$work/skipped.st"
check "a run of no steps" train large 0
check "a skipped step changes nothing" cmp "$work/large.st" "$work/skipped.st"

# In f16 gradients overflow at a scale that f32 can represent. Steps are skipped
# and the scale halves until the gradients are finite. After that the run equals
# one that began with this scale: scales are powers of 2, which change no digit
# unless a number overflows or underflows.
# shellcheck disable=SC2086
check "f16 compiles" compile "$work/half" llama 1x1 $sizes -D precision=f16
check "f16 trains" train half 16
check "f16 skips no step" jq -es \
    'all(.grad_norm != null and .loss_scale == 65536)' "$work/half.log"
for mesh in 1x1 2x2; do
    # shellcheck disable=SC2086
    check "f16 on $mesh, too large a scale" compile "$work/half-$mesh" llama \
        $mesh $sizes -D precision=f16 -D loss_scale=134217728
    check "f16 on $mesh trains" train half-$mesh 16
    n=$(jq -s 'map(select(.grad_norm == null)) | length' "$work/half-$mesh.log")
    check "f16 on $mesh: steps are skipped, then no more" jq -es \
        --argjson n "$n" '$n > 2 and $n < 12 and
            (.[$n:] | all(.grad_norm != null))' "$work/half-$mesh.log"
    check "f16 on $mesh: the loss of skipped steps is constant" \
        jq -es --argjson n "$n" \
        '.[:$n + 1] | map(.loss) | unique | length == 1' "$work/half-$mesh.log"
    check "f16 on $mesh: each halves the scale" jq -es --argjson n "$n" \
        '[.[].loss_scale] == [range(length) |
            134217728 / pow(2; [., $n] | min)]' "$work/half-$mesh.log"
    check "f16 on $mesh: the loss falls" jq -es --argjson n "$n" \
        '.[-1].loss < .[$n].loss' "$work/half-$mesh.log"
    check "f16 on $mesh: the curve continues like that of one rank" \
        later "$work/half.log" \
        "$work/half-$mesh.log" "$n" 1e-4
done

# Classes with a score of -inf contribute nothing to the loss. They give the
# same loss as very low scores, also on ranks that hold parts of the vocabulary.
unlikely() { # unlikely NAME MESH SCORE
    sed "s/output(norm(h))/output(norm(h)) + $3/" examples/llama.pdl \
        >"$work/$1.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/$1.pdl" --target cpu --mesh "$2" $sizes -D vocab=259 \
        -o "$work/$1" && train "$1" 3
}
none="where(arange(vocab) < 256, 1.0, 0.0)"
check "a model with very low scores trains" \
    unlikely low 1x1 "1e30 * ($none - 1.0)"
check "a model with scores of -inf trains" unlikely none 1x1 "log($none)"
check "a model with scores of -inf trains on 2x2" \
    unlikely none-2x2 2x2 "log($none)"
check "scores of -inf have the losses of very low ones" \
    same_curve "$work/none.log" "$work/low.log" 0
check "scores of -inf have the losses of very low ones on 2x2" \
    same_curve "$work/none-2x2.log" "$work/low.log" 1e-5

# The derivative of sqrt(y) is infinite at y = 0; times relu's 0 it is NaN.
cat >"$work/edge.pdl" <<'END'
module Layer(dim, steep) {
    net: Linear(dim, dim)
    forward(x) {
        y = net(x)
        if steep { y = sqrt(relu(y)) }
        return x + y
    }
}
model Edge(dim=8, steep=true) {
    first: [2] Layer(dim, false)
    last: Layer(dim, steep)
    head: Linear(dim, dim)
    forward(x: [batch, dim]) {
        for layer in first { x = layer(x) }
        return mean(square(head(last(x))))
    }
}
plan fsdp(dp) { fully_shard dp { first.*: reshard=false
    last, head } }
train {
    batch     = 8
    clip      = 1.0
    optimizer = AdamW(lr=1e-3)
}
END

# fails_with BINARY TEXT: exit status 1, and TEXT in the errors.
fails_with() {
    "$1" --steps 3 2>"$work/said" && return 1
    cat "$work/said"
    grep -qF "$2" "$work/said"
}

for mesh in 1 2; do
    check "edge on $mesh compiles" "$PARC" "$work/edge.pdl" --target cpu \
        --threads 1 --mesh $mesh -o "$work/edge"
    check "the parameter nearest to the loss is named" fails_with \
        "$work/edge" "error: step 1: the norm of the gradients is not a \
number: the gradient of 'last.net.bias' is not finite, nor are those of 5 \
others"
    check "the statement that made the first NaN is named" env \
        PARC_NANCHECK=1 sh -c "! '$work/edge' --steps 3 2>'$work/said'"
    check "the message has the NaN's line and step" \
        grep -qE "error: step 1, rank [01]: in \
'k[0-9]+_last_relu_grad' \(edge.pdl:4:13\), element [0-9]+ of \
$((64 / mesh)) of 'd_y' is not a number; all results before it are finite" \
        "$work/said"
    check "edge with a loss scale compiles" "$PARC" "$work/edge.pdl" \
        --target cpu --threads 1 --mesh $mesh -D loss_scale=8 -o "$work/edge"
    check "edge with a loss scale skips steps" "$work/edge" --steps 63
    check "edge with a loss scale ends after 64 skips" \
        sh -c "! '$work/edge' --steps 64"
done
# If the loss is NaN, the step is replayed, and the message names the first
# tensor that is not finite. In f16 the step is skipped, like other overflows.
sed "s/return h + feed_forward(ffn_norm(h))/return h + log(feed_forward(h))/" \
    examples/llama.pdl >"$work/log.pdl"
for mesh in 1x1 2x2; do
    # shellcheck disable=SC2086
    check "a model with a NaN on $mesh compiles" "$PARC" "$work/log.pdl" \
        --target cpu --mesh $mesh $sizes -o "$work/log"
    check "a model with a NaN on $mesh fails" \
        sh -c "! '$work/log' --steps 3 2>'$work/said'"
    check "the NaN's statement on $mesh is named" \
        grep -qE "error: step 1, rank [0-3]: in \
'k[0-9]+_layers_[a-z_]*log[a-z_]*' \(log.pdl:[0-9:]+, layer 0\), element [0-9]+ of \
[0-9]+ of '[a-z0-9._]+' is (not a number|infinite); all results before" \
        "$work/said"
    # shellcheck disable=SC2086
    check "a NaN in f16 on $mesh compiles" "$PARC" "$work/log.pdl" \
        --target cpu --mesh $mesh $sizes -D precision=f16 -o "$work/log"
    check "a NaN in f16 on $mesh: steps are skipped" \
        "$work/log" --steps 63 --log "$work/skip.log"
    check "a NaN in f16 on $mesh: every step is skipped" \
        jq -es 'length == 63 and
        all(.loss == null and .grad_norm == null)' "$work/skip.log"
    check "a NaN in f16 on $mesh: the run ends after 64 skips" \
        sh -c "! '$work/log' --steps 64 2>'$work/said'"
    check "a NaN in f16 on $mesh: the message names the limit" \
        grep -q "of 64 steps in a row" "$work/said"
done
finish
