#!/bin/sh
# plan_warnings.sh: warnings about a plan: collectives that no style asks for,
# and computation that ranks repeat. The examples have none. The lines that a
# warning proposes remove it.
. "$(dirname "$0")/lib.sh"

# plan FILE OPTIONS…: writes the plan's JSON and standard error.
plan() {
    "$PARC" "$@" --emit json >"$work/plan.json" 2>"$work/said"
}

# Every collective has an origin, none is implied, and there is no warning.
clean() {
    plan "$@" && jq -e '.warnings == [] and
        ([.collectives[].origin] | index("") == null and
         index("implied") == null)' "$work/plan.json" &&
        ! grep -qE "warning|in no unit" "$work/said"
}
for target in cpu cuda; do
    for mesh in $(few_or_all 2x4 "1x2 2x2 2x4"); do
        at="--target $target --threads 1 --mesh $mesh"
        # shellcheck disable=SC2086
        {
            check "llama $at" clean examples/llama.pdl $at $llama_sizes
            check "llama $at, GQA, microbatches, chunks" clean \
                examples/llama.pdl $at $llama_sizes -D n_kv_heads=1 \
                -D accumulate=2 -D head_chunk=16 -D clip=1.0
            check "gpt2 $at" clean examples/gpt2.pdl $at $gpt2_sizes
            check "toy $at" clean examples/toy.pdl $at
            check "feedforward $at" clean examples/feedforward.pdl $at
            check "hsdp $at" clean examples/hsdp.pdl --target $target \
                --threads 1 --mesh 2x$mesh -D n_layers=2
            check "transformer $at" clean examples/transformer.pdl $at \
                --plan tensor_parallel $transformer_sizes
            check "vit $at" clean examples/vit.pdl $at $vit_sizes
            check "translation $at" clean examples/translation.pdl $at \
                $translation_sizes
            check "regression $at" clean examples/regression.pdl $at
        }
    done
    for strategy in full_shard shard_grad_op no_shard full_shard_checkpoint; do
        # shellcheck disable=SC2086
        check "transformer $target $strategy" clean examples/transformer.pdl \
            --mesh 4 --target $target --threads 1 --plan $strategy \
            $transformer_sizes
    done
done

# sent OPTIONS…: the bytes that a rank sends in a step.
sent() {
    "$PARC" "$@" --emit json 2>/dev/null | jq '[.collectives[] |
        select(.in_place | not) | .count * .bytes * (.group_size - 1) /
        .group_size * (if .kind == "all_reduce" then 2 else 1 end)] | add'
}
# The hints' numbers are those of the plan without and with their lines.
true_savings() { # true_savings OPTIONS…, of $work/spoilt.pdl, fixed.pdl
    jq -e --argjson now "$(sent "$work/spoilt.pdl" "$@")" \
        --argjson later "$(sent "$work/fixed.pdl" "$@")" '.hints |
        def near($a; $b): ($a - $b | fabs) <= 1e-9 * $b;
        near(.sent; $now) and near(.sent_after; $later)' "$work/plan.json"
}

# Damaged plans: a warning names the line, and its help fixes the plan.
# apply: replaces lines of $work/spoilt.pdl by the proposed lines for the same
# modules.
apply() {
    jq -r '.warnings[].help[]' "$work/plan.json" | sort -u >"$work/lines"
    [ -s "$work/lines" ] || return 1
    awk -F: -v lines="$work/lines" '
        BEGIN { while ((getline l < lines) > 0) {
                    split(l, part, ":")
                    text[part[1]] = l
                } }
        { path = $1; gsub(/ /, "", path) }
        inside && path in text { next }
        { print }
        /parallelize tp/ { inside = 1; for (p in text) print text[p] }
        /^    }/ { inside = 0 }' "$work/spoilt.pdl" >"$work/fixed.pdl"
}

sizes= # options of the plans of `fixed`
# shellcheck disable=SC2086
fixed() { # fixed KIND LINE SED-SCRIPT…: of examples/llama.pdl
    kind=$1 line=$2
    shift 2
    sed "$@" examples/llama.pdl >"$work/spoilt.pdl"
    plan "$work/spoilt.pdl" --mesh 2x4 $sizes || return 1
    cat "$work/said"
    jq -e --arg kind "$kind" --arg line "spoilt.pdl:$line:" '.warnings | map(
        select(.kind == $kind and (.source | startswith($line)))) |
        length == 1' "$work/plan.json" &&
        grep -q "^$work/spoilt.pdl:$line:.*: warning: " "$work/said" &&
        apply && true_savings --mesh 2x4 $sizes &&
        clean "$work/fixed.pdl" --mesh 2x4 $sizes
}
# A warning without help, since the plan with the style sends more: the weight
# is gathered, and the activations move by all-to-all.
# shellcheck disable=SC2086
unhelped() { # unhelped LINE SED-SCRIPT…
    line=$1
    shift
    sed "$@" examples/llama.pdl >"$work/spoilt.pdl"
    plan "$work/spoilt.pdl" --mesh 2x4 $sizes || return 1
    jq -e --arg line "spoilt.pdl:$line:" '.warnings | length == 1 and
        (.[0].source | startswith($line)) and .[0].help == []' \
        "$work/plan.json" &&
        grep "parc tried [0-9]* other plans .* none costs less" \
            "$work/said" && [ "$(sent "$work/spoilt.pdl" --mesh 2x4)" -lt \
            "$(sent examples/llama.pdl --mesh 2x4)" ]
}
check "wo has no style" unhelped 40 -e '/attention.wo:/d'
check "embedding by columns" unhelped 64 \
    -e '/tok_emb.*Row/s/Rowwise.*/ColwiseParallel/'
check "residual, one branch whole" fixed collective 65 \
    -e '/w2:.*Rowwise/s/Shard(1)/Replicate/'
check "residual, split along another dim" fixed collective 51 \
    -e '/wo:.*Rowwise/s/Shard(1)/Shard(2)/'
check "input layouts are missing" fixed collective 25 \
    -e '/PrepareModuleInput/d'
check "w2 has no style" fixed collective 25 -e '/feed_forward.w2:/d'
# In a small model the Linear is not worth splitting without a style: its
# gradients are gathered.
sizes="-D n_layers=2 -D dim=64 -D n_heads=4 -D n_kv_heads=4 -D hidden=128
    -D vocab=256 -D batch=8 -D seq=32 --target cpu --threads 1"
for at in attention.wq:37 attention.wk:38 attention.wv:39 feed_forward.w1:25 \
    feed_forward.w3:25; do
    check "${at%:*} has no style" fixed collective "${at#*:}" \
        -e "/layers.*\.${at%:*}:/d"
done
# Hints of the golden files: with the lines the plan sends less, and there is no
# further hint.
followed() { # followed GOLDEN
    cp "tests/golden/warnings/$1.pdl" "$work/spoilt.pdl"
    at="--mesh 2x2 --target cpu --threads 1"
    # shellcheck disable=SC2086
    plan "$work/spoilt.pdl" $at || return 1
    # shellcheck disable=SC2086
    jq -e '.hints | .lines > 0 and .sent_after < .sent' "$work/plan.json" &&
        apply && true_savings $at && plan "$work/fixed.pdl" $at &&
        jq -e '.hints == null and [.warnings[].help[]] == []' \
            "$work/plan.json"
}
for model in adapter attention both_colwise residual; do
    check "the hint of $model leads to no other" followed $model
done
# The item `model` is a unit of the parameters that no other item names.
sed 's/blocks\.\* }$/blocks.*, model }/' tests/golden/warnings/unsharded.pdl \
    >"$work/sharded.pdl"
check "a unit of the rest" clean "$work/sharded.pdl" --mesh 2x2

# No help repeats the line that the plan has.
new_help() {
    sed -e '/^plan/,/^}/{/norm:/d; /Prepare/d; / output:/d; /\.w[123qkv]:/d
        s/input=.*Shard(1)/output=Replicate/}' \
        examples/llama.pdl >"$work/spoilt.pdl"
    # shellcheck disable=SC2086
    plan "$work/spoilt.pdl" --mesh 2x2 $sizes || return 1
    sed 's/^ *//; s/: */: /' "$work/spoilt.pdl" >"$work/plain"
    jq -r '.warnings[].help[]' "$work/plan.json" >"$work/lines"
    [ -s "$work/lines" ] && ! grep -Fx -f "$work/lines" "$work/plain"
}
check "help differs from the plan" new_help
sizes=
check "only the feed-forward is split" fixed repeated 40 \
    -e '/layers.*attention/d' -e '/tok_emb.*Row/d' -e '/_norm: .*Seq/d' \
    -e '/PrepareMod/d' -e '/ norm: .*Seq/d' -e '/ output: .*Col/d' \
    -e 's/output=Shard(1)/output=Replicate/'

# q, k and v are not split along the sequence: both kinds, with flops and bytes.
sed -e '/Prepare/d' -e '/\.w[123qkvo]:.*/d' examples/llama.pdl \
    >"$work/spoilt.pdl"
check "attention on every rank" plan "$work/spoilt.pdl" --mesh 2x4 \
    -D n_layers=2
check "repeated attention is reported with its flops" jq -e '
    ([.warnings[] | select(.kind == "collective") | .bytes] | add) > 1e9 and
    any(.warnings[]; .kind == "repeated" and (.what | contains("attention"))
        and .flops > 1e12 and .redundant_flops == .flops * 0.75)' \
    "$work/plan.json"
check "the warning about attention proposes a style" \
    jq -e 'any(.warnings[].help[];
    . == "layers.*.attention.wk: ColwiseParallel")' "$work/plan.json"

# A warning changes neither standard output nor exit status; an axis of one rank
# causes none.
told() {
    plan "$work/spoilt.pdl" --mesh 2x4 -D n_layers=2 &&
        jq -e . "$work/plan.json" && grep -q warning "$work/said" &&
        "$PARC" "$work/spoilt.pdl" --mesh 2x4 -D n_layers=2 --emit plan \
            2>/dev/null >"$work/plan" && ! grep -q warning "$work/plan"
}
check "warnings are on standard error only" told
check "an axis of one rank causes no warning" \
    clean "$work/spoilt.pdl" --mesh 2x1 -D n_layers=2

# A dump keeps origins: a resumed run gives the warnings of the direct run.
# Hints need the PDL file, in which they are tried.
resumed() {
    "$PARC" "$work/spoilt.pdl" --mesh 2x4 -D n_layers=2 --stop-after=storage \
        --emit ir >"$work/mid.ir" && plan "$work/mid.ir" \
        --start-after=storage && mv "$work/plan.json" "$work/resumed.json" &&
        plan "$work/spoilt.pdl" --mesh 2x4 -D n_layers=2 &&
        jq -e -n --slurpfile a "$work/resumed.json" \
            --slurpfile b "$work/plan.json" \
            '($a[0].warnings == ($b[0].warnings | map(.help = []))) and
            $a[0].warnings != []'
}
check "a resumed dump gives the same warnings" resumed

# The JSON states the unit and scope of all its numbers but settings, whose
# units docs/pdl.md gives.
units() {
    plan "$@" -D n_layers=2 && jq -e '
        .units as $u | del(.units, .settings) |
        [paths(type == "number")
         | map(select(type == "string"))
         | if .[1] == "shape" then .[:2] else . end | join(".")]
        | unique | map(select($u[.] == null)) |
        if . == [] then true else error("no unit: \(.)") end' \
        "$work/plan.json"
}
check "the JSON has the units of warnings" \
    units "$work/spoilt.pdl" --mesh 2x2 --target cpu \
    --threads 1
check "the JSON has the units of all numbers" \
    units examples/llama.pdl --mesh 2x2
# Their sums are the plan's numbers for a rank and for the mesh.
check "the flops per rank add up to those of the mesh" jq -e '
    ([.work[] | select(.phase != "optimizer") | .flops * .count] | add) as $r |
    ($r * 4 / (.flops.forward + .flops.backward) - 1 | fabs) < 1e-9' \
    "$work/plan.json"
check "tensors at the peak have source lines" jq -e '
    [.at_peak[] | select(.bytes > 1e6 and .source == "")] == []' \
    "$work/plan.json"
finish
