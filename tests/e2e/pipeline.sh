#!/bin/sh
# pipeline.sh: programs with a pipeline: what several stages
# read and carry, with microbatches, shards in 16 bits and nodes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

# compiles MODEL OPTIONS…: the verifier checks the program after each pass
compiles() {
    model=$work/$1.pdl
    shift
    "$PARC" "$model" --emit ir="$work/ir" "$@" 2>&1 &&
        grep -q '@pp=0' "$work/ir"
}
refused() { # refused TEXT MODEL OPTIONS…
    wanted=$1 model=$work/$2.pdl
    shift 2
    "$PARC" "$model" --emit plan="$work/plan" "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status = 1 ] && [ ! -e "$work/plan" ] && grep -qF -- "$wanted" "$work/out"
}

ends() { # ends MODEL PRECISION UNITS: adds the plan and the settings
    cat >>"$work/$1.pdl" <<END
plan stages(pp, dp) {
    pipeline pp { }
    fully_shard dp { $3 }
}
train {
    batch     = 16
    precision = $2
    clip      = 1.0
}
END
}

# A value of parameters that the loops of two arrays read, and the op between.
cat >"$work/gate.pdl" <<'END'
module Block(dim) {
    net: Linear(dim, dim)
    forward(x, g) { return x + net(x) * g }
}
model Gated(dim=8) {
    first: Linear(dim, dim)
    param scale[dim] = ones
    encoder: [4] Block(dim)
    decoder: [3] Block(dim)
    forward(x: [batch, dim]) {
        g = sigmoid(scale)
        x = first(x) * g
        for layer in encoder { x = layer(x, g) }
        for layer in decoder { x = layer(x, g) }
        return mean(x * x * g)
    }
}
END
ends gate f32 "first, encoder.*, decoder.*"

# A loss of each layer, summed over two arrays.
cat >"$work/losses.pdl" <<'END'
module Block(dim) {
    net: Linear(dim, dim)
    forward(x, sum) {
        y = net(x)
        return x + y, sum + mean(y * y)
    }
}
model Losses(dim=8) {
    encoder: [4] Block(dim)
    decoder: [3] Block(dim)
    forward(x: [batch, dim]) {
        sum = mean(x)
        for layer in encoder { x, sum = layer(x, sum) }
        for layer in decoder { x, sum = layer(x, sum) }
        return mean(x * x) + sum * 0.1
    }
}
END
ends losses f32 "encoder.*, decoder.*"

# A module that all layers share and an op before them reads.
cat >"$work/shared.pdl" <<'END'
module Block(dim) {
    net: Linear(dim, dim, bias=false)
    forward(x) { return x + net(x) }
}
model Shared(dim=8) {
    shared: Linear(dim, dim, bias=false)
    layers: [4] Block(dim)
    forward(x: [batch, dim]) {
        x = shared(x)
        for layer in layers { x = layer(shared(x)) }
        return mean(x * x)
    }
}
END
ends shared bf16 "shared, layers.*"

# No array: each stage has modules of the model.
cat >"$work/modules.pdl" <<'END'
model Modules(dim=8) {
    first: Linear(dim, dim)
    last: Linear(dim, dim)
    forward(x: [batch, dim]) {
        x = last(tanh(first(x)))
        return mean(x * x)
    }
}
END
ends modules f32 "first, last"

# Dropout in layers of layers: keys of a stage's iterations.
cat >"$work/nested.pdl" <<'END'
module Inner(dim) {
    net: Linear(dim, dim)
    forward(x) { return x + dropout(net(x), 0.1) }
}
module Outer(dim) {
    inner: [3] Inner(dim)
    forward(x) {
        for layer in inner { x = layer(x) }
        return x
    }
}
model Nested(dim=8) {
    first: Linear(dim, dim)
    outer: [4] Outer(dim)
    forward(x: [batch, dim]) {
        x = first(x)
        for layer in outer { x = layer(x) }
        return mean(x * x)
    }
}
END
ends nested f32 "first, outer.*"

for target in cpu cuda; do
    check "values of two arrays' layers, $target" compiles gate --mesh 2x2 \
        --target $target
    check "the same in microbatches, $target" compiles gate --mesh 2x2 \
        -D accumulate=2 --target $target
    check "a sum through two arrays in microbatches, $target" compiles losses \
        --mesh 3x1 -D accumulate=2 --target $target
    check "a parameter of all stages in bf16, $target" compiles shared \
        --mesh 2x2 --target $target
    check "stages without arrays, $target" compiles modules --mesh 2x2 \
        --target $target
    check "dropout in nested arrays, $target" compiles nested --mesh 2x2 \
        --target $target
    check "a stage on each node, $target" compiles gate --mesh 2x2 --node-size 2 \
        --target $target
done
check "several stages on each node, cuda" compiles gate --mesh 4x1 --node-size 2 \
    --target cuda
check "beside an axis that a node has, cuda" compiles gate --mesh 4x2 \
    --node-size 4 --target cuda
check "several stages on each node, cpu" refused "a node has several stages of the \
pipeline over 'pp', but not all" gate --mesh 4x1 --node-size 2 --target cpu
sed 's/pipeline pp { }/pipeline pp { schedule=zero_bubble, stages_per_rank=2 }/' \
    "$work/gate.pdl" >"$work/zero.pdl"
check "zero_bubble has one stage on each rank" refused \
    "the schedule 'zero_bubble' has one stage on each rank" zero --mesh 2x2

# Two loops run one array.
cat >"$work/twice.pdl" <<'END'
module Layer(dim) {
    w: Linear(dim, dim)
    forward(x) { return x + w(x) }
}
model Twice(dim=16, n=4) {
    layers: [n] Layer(dim)
    forward(x: [batch, dim]) {
        for l in layers { x = l(x) }
        for l in layers { x = l(x) }
        return mean(x * x)
    }
}
END
ends twice f32 "layers.*"
check "an array that two loops run on other stages is refused" refused \
    "several loops run these layers" twice --mesh 2x1

# The text of a program grows neither with microbatches nor with stages.
written() { # written SCHEDULE RANKS MICROBATCHES
    sed "s/schedule=1f1b/schedule=$1/" examples/three_d.pdl >"$work/three.pdl"
    "$PARC" "$work/three.pdl" --target cpu --threads 1 --mesh "$2x1x1" \
        -D vocab=256 -D dim=64 -D n_layers=32 -D n_heads=4 -D hidden=128 \
        -D batch=64 -D seq=16 -D precision=f32 -D accumulate="$3" \
        -S "$work/$1-$2-$3"
}
parts() { # parts DIR: its functions and statements
    grep -cE '^void ' "$1/train.c"
    grep -c 'parc_mark(' "$1/train.c"
}
same_size() { # same_size SCHEDULE RANKS MICROBATCHES: as 2 ranks, 8 of them
    parts "$work/$1-$2-$3" >"$work/parts"
    parts "$work/$1-2-8" >"$work/base"
    cat "$work/parts" && diff "$work/base" "$work/parts"
}
table() { # table SCHEDULE: the lines of the tables grow by 1% at most
    a=$(wc -l <"$work/$1-2-8/model.c") b=$(wc -l <"$work/$1-2-64/model.c")
    echo "$a and $b lines"
    [ $((b * 100)) -le $((a * 101)) ]
}
for schedule in 1f1b interleaved zero_bubble; do
    check "$schedule, 2 ranks, 8 microbatches" written $schedule 2 8
    check "$schedule, 2 ranks, 64 microbatches" written $schedule 2 64
    check "$schedule: nothing more for 64 microbatches" same_size $schedule 2 64
    check "$schedule: the tables do not grow" table $schedule
    check "$schedule, 8 ranks, 8 microbatches" written $schedule 8 8
    check "$schedule: nothing more for 8 ranks" same_size $schedule 8 8
done

sed 's/^    pipeline pp.*/&\n    checkpoint { layers.*: every=2 }/' examples/three_d.pdl \
    >"$work/every.pdl"
listed() {
    "$PARC" "$work/every.pdl" --mesh 2x1x1 --emit plan | grep "^  [01] " |
        tee "$work/out" | grep -q " layers.0-14:2, layers.1-15:2, embed$" &&
        grep -q " layers.16-30:2, layers.17-31:2, norm, head$" "$work/out"
}
check "the plan has each stage's part of an array with two kinds of layers" listed

# Units that do not say it are gathered and reduced once per step, if that fits.
units() { # units GATHER REDUCE: three_d.pdl with units that say it
    sed "s/embed, layers\.\*, \[norm, head\]/embed: gather=$1, reduce=$2, layers.*: \
gather=$1, reduce=$2, [norm, head]: gather=$1, reduce=$2/" examples/three_d.pdl
}
mesh3=2x2x2
plan3() { # plan3 MODEL OPTIONS…: its memory, and how often the first unit is exchanged
    model=$1
    shift
    "$PARC" "$model" --mesh $mesh3 "$@" --emit json="$work/json" 2>"$work/err" &&
        jq -r '.memory.peak, (.settings.fully_shard | map(.gather, .reduce) |
            unique | join(" "))' "$work/json"
}
for gather in step microbatch; do
    for reduce in step microbatch; do
        units $gather $reduce >"$work/$gather-$reduce.pdl"
        check "gather=$gather, reduce=$reduce" plan3 "$work/$gather-$reduce.pdl"
        plan3 "$work/$gather-$reduce.pdl" | head -n 1 >"$work/$gather-$reduce"
    done
done
# The plan of $defaults in the memory of another plan, less some bytes. parc
# reserves 1/32 of the memory.
defaults=examples/three_d.pdl
fits() { # fits GATHER REDUCE PLAN BYTES
    limit=$(($(cat "$work/$3") - $4))
    # shellcheck disable=SC2086
    plan3 $defaults --device-memory $((limit * 32 / 31 + 31)) >"$work/out"
    cat "$work/err" "$work/out"
    jq -e --arg g "$1" --arg r "$2" 'all(.settings.fully_shard[];
        .gather == $g and .reduce == $r)' "$work/json"
}
check "gathers and reductions once per step" fits step step step-step 0
check "only gathers once per step" fits step microbatch step-step 4096
check "a note says why" grep -q "have gather=step and reduce=microbatch: with 'step' \
for both a rank needs more than" "$work/err"
sed '/gather=/s/reduce=[a-z]*/&, overlap=false/g' "$work/step-microbatch.pdl" >"$work/apart.pdl"
plan3 "$work/apart.pdl" | head -n 1 >"$work/apart"
check "only gathers, and no overlap" fits step microbatch step-microbatch 4096
check "the note says so" grep -q "have overlap=false" "$work/err"
check "none once per step" fits microbatch microbatch apart 4096
# Of plans whose memory is not in this order, the first that fits.
small="-D dim=256 -D hidden=256 -D vocab=32000 -D n_layers=24 -D seq=2048 -D batch=128"
sparing() { # sparing MODEL: with a schedule and recomputation that spare memory
    sed "s/schedule=1f1b }/schedule=zero_bubble }\\
    checkpoint { layers.*: every=2 }/" "$1"
}
mesh3=4x2x1 defaults="$work/defaults.pdl $small"
sparing examples/three_d.pdl >"$work/defaults.pdl"
choices="step-step step-microbatch microbatch-step microbatch-microbatch"
for choice in $choices; do
    sparing "$work/$choice.pdl" >"$work/sparing.pdl"
    # shellcheck disable=SC2086
    plan3 "$work/sparing.pdl" $small | head -n 1 >"$work/sparing-$choice"
done
for limit in $choices; do
    for first in $choices; do
        [ "$(cat "$work/sparing-$first")" -gt "$(cat "$work/sparing-$limit")" ] || break
    done
    check "in the memory of $limit, $first" fits "${first%-*}" "${first#*-}" \
        "sparing-$limit" 0
done

# 405B on 512 GPUs.
large="-D dim=16384 -D n_layers=126 -D n_heads=128 -D n_kv_heads=8 -D hidden=53248
    -D vocab=128256 -D batch=256 -D seq=8192 -D accumulate=32"
staged llama "" >"$work/large.pdl"
# Stage 0 has the embedding only; the groups of heads divide tp in two.
check "a stage without layers, with two parts of tp" "$PARC" "$work/large.pdl" \
    --mesh pp=4,dp=1,tp=4 -D vocab=4096 -D dim=64 -D n_heads=4 -D n_kv_heads=2 \
    -D hidden=96 -D n_layers=2 -D batch=8 -D seq=16 -D accumulate=4 --target cpu \
    --threads 1 --emit plan="$work/plan"
check "that stage has no layer" grep -q "^  0 .* tok_embeddings$" "$work/plan"
moved() {
    # shellcheck disable=SC2086
    "$PARC" "$work/large.pdl" --mesh 8x8x8 $large --emit json="$work/json" 2>&1 &&
        jq -e '[.collectives[] | select(.axis == "dp") |
            .bytes * .count * (.group_size - 1) / .group_size] | add |
            if . <= 40e9 then . else error("\(.) bytes") end' "$work/json"
}
check "405B: a rank sends 40 GB of parameters and gradients" moved
fewest() {
    # shellcheck disable=SC2086
    "$PARC" "$work/large.pdl" --mesh auto --ranks 512 --node-size 8 $large \
        --device-memory 80G --emit plan="$work/plan" 2>"$work/err"
    cat "$work/err"
    grep -qF "auto is pp=8,dp=8,tp=8: pp=8 has the fewest stages that fit, tp=8 \
spans a node of 8 ranks, dp=8 splits the batch over 8 nodes" "$work/err"
}
check "405B: as few stages as fit" fewest
finish
