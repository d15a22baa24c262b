#!/bin/sh
# auto_plan.sh: plans that parc writes (--plan auto, --emit pdl-plan): equal to the examples'
# own, valid PDL that can be kept and edited, the same losses, never slower by forecast, and
# errors.
. "$(dirname "$0")/lib.sh"

# bare MODEL: $work/MODEL.pdl, the example without its plans.
bare() {
    awk '/^plan / { skip = 1 } !skip { print } /^}/ { skip = 0 }' "examples/$1.pdl" \
        >"$work/$1.pdl"
}
# program FILE OPTIONS…: the final program without what names lines of the plan.
program() {
    to=$1
    shift
    "$PARC" "$@" --dump-after sync --stop-after sync 2>"$work/err" |
        sed -E 's/ @[0-9]+:[0-9]+:[0-9]+(\+[0-9]+)?//g; /^source/d; /^  style /d
            s/^plan "[a-z_]*"/plan/; s/ split\([^)]*\)//g' \
            >"$to" && [ -s "$to" ]
}
# writes_own MODEL OPTIONS…: without a plan, the program of the example's own.
writes_own() {
    model=$1
    shift
    bare "$model"
    program "$work/own" "examples/$model.pdl" "$@" &&
        program "$work/auto" "$work/$model.pdl" --plan auto "$@" &&
        diff "$work/own" "$work/auto"
}
# keeps MODEL OPTIONS…: the printed block, added to the file, makes the same program, and
# is printed again as it is.
keeps() {
    model=$1
    shift
    bare "$model"
    "$PARC" "$work/$model.pdl" --plan auto "$@" --emit pdl-plan="$work/block" &&
        cat "$work/$model.pdl" "$work/block" >"$work/kept.pdl" &&
        program "$work/kept" "$work/kept.pdl" "$@" &&
        program "$work/auto" "$work/$model.pdl" --plan auto "$@" &&
        diff "$work/kept" "$work/auto" &&
        "$PARC" "$work/kept.pdl" "$@" --emit pdl-plan | diff "$work/block" -
}
seconds() { # seconds OPTIONS…: of a step, by forecast
    "$PARC" "$@" --emit json 2>/dev/null | jq -e .time.step_seconds
}
# not_slower FILE PLAN OPTIONS…: the automatic plan, which may be PLAN, than PLAN.
not_slower() {
    as_fast "$1" "$@"
}
# not_slower_bare MODEL PLAN OPTIONS…: the automatic plan of the example without its plans.
not_slower_bare() {
    model=$1
    shift
    bare "$model"
    as_fast "$work/$model.pdl" "examples/$model.pdl" "$@"
}
as_fast() { # as_fast FILE OTHER PLAN OPTIONS…: the automatic plan of FILE, as PLAN of OTHER
    file=$1 other=$2 plan=$3
    shift 3
    own=$(seconds "$other" --plan "$plan" "$@") &&
        auto=$(seconds "$file" --plan auto "$@") &&
        echo "$plan $own, auto $auto" &&
        jq -en --argjson own "$own" --argjson auto "$auto" '$auto <= $own'
}
# prints TEXT OPTIONS…: the plan block has the line.
prints() {
    wanted=$1
    shift
    "$PARC" "$@" --emit pdl-plan >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/out" "$work/err"
    [ $status = 0 ] && sed 's/  */ /g' "$work/out" | grep -qF -- "$wanted"
}
# notes TEXT OPTIONS…
notes() {
    wanted=$1
    shift
    "$PARC" "$@" --emit pdl-plan >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status = 0 ] && grep -qF -- "$wanted" "$work/err"
}
# refused TEXT OPTIONS…
refused() {
    wanted=$1
    shift
    "$PARC" "$@" --emit pdl-plan="$work/refused" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status != 0 ] && [ $status -le 2 ] && [ ! -e "$work/refused" ] &&
        grep -qF -- "$wanted" "$work/err"
}

check "llama on 8x8: the example's plan" writes_own llama --mesh 8x8
check "gpt2 on 8x8: the example's plan" writes_own gpt2 --mesh 8x8 -D dim=1024 \
    -D n_heads=16
check "three_d with a pipeline: the example's plan" writes_own three_d --mesh 2x2x2
for model in $(few_or_all llama \
    "llama gpt2 transformer translation vit mistral regression toy"); do
    check "$model: the printed plan is kept" keeps $model --mesh 2x2
done
check "a plan with a pipeline is kept" keeps three_d --mesh pp=2,dp=2,tp=2
check "two axes for the batch" keeps llama --mesh replicate=2,dp=2,tp=2

# Heads that the axis does not divide, a sequence that it does not divide.
bare gpt2
check "12 heads on 8 ranks stay whole" prints "h.*.mlp.c_fc: ColwiseParallel" \
    "$work/gpt2.pdl" --plan auto --mesh 8x8
check "the note says so" grep -q "without splitting h.*.attn.c_attn.q" "$work/err"
check "one axis splits the batch" prints "plan auto(dp) {" "$work/gpt2.pdl" --plan auto \
    --mesh 8
check "a small unit joins the embedding, which the head shares" prints "[wte, wpe, ln_f]" \
    "$work/gpt2.pdl" --plan auto --mesh 8

check "neither heads nor sequence can be split" prints "h.*.mlp.c_fc: ColwiseParallel" \
    "$work/gpt2.pdl" --plan auto --mesh 8x8 -D seq=1020
bare translation
check "classes that 3 ranks do not divide stay whole" prints "shared: RowwiseParallel" \
    "$work/translation.pdl" --plan auto --mesh 8x3

# Weights that are no module's only one, or whose result is not the module's output.
raw() { # raw NAME: a model whose layers are this module
    cat >"$work/raw.pdl"
    cat >>"$work/raw.pdl" <<END
model M(dim=64) {
    layers: [2] $1
    forward(x: [batch, seq, dim]) {
        for l in layers { x = x + l(x) }
        return mean(x * x)
    }
}
train {
    batch = 8
    seq   = 16
}
END
    keep_raw
}
keep_raw() { # the printed plan is valid
    "$PARC" "$work/raw.pdl" --plan auto --mesh 2x2 --emit pdl-plan="$work/block" &&
        cat "$work/raw.pdl" "$work/block" >"$work/kept.pdl" &&
        "$PARC" "$work/kept.pdl" --mesh 2x2 --emit plan >"$work/plan"
}
has() { tr -s ' ' <"$work/block" | grep -qF -- "$1"; }
check "parameters of one module" raw "FF(dim, 128)" <<'END'
module FF(d, h) {
    norm: LayerNorm(d)
    param a[h, d] = normal(0.1)
    param b[h, d] = normal(0.1)
    param c[d, h] = normal(0.1)
    forward(x) {
        y = norm(x)
        return einsum("bsh,dh->bsd", silu(einsum("bsd,hd->bsh", y, a)) *
                      einsum("bsd,hd->bsh", y, b), c)
    }
}
END
check "are split by columns" has "layers.*.a: Shard(0)"
check "and by rows" has "layers.*.c: Shard(1)"
check "a module whose output is not its weight's" raw "Attention(dim, 4)" <<'END'
module Heads(d, n) {
    param weight[d, d] = normal(0.1)
    forward(x) { return heads(einsum("bsd,fd->bsf", x, weight), n) }
}
module Attention(d, n) {
    q:  Heads(d, n)
    k:  Heads(d, n)
    v:  Heads(d, n)
    wo: Linear(d, d)
    forward(x) { return wo(merge_heads(attention(q(x), k(x), v(x)))) }
}
END
check "its weight has a placement" has "layers.*.q.weight: Shard(0)"
check "a module of the name model" raw "Pair(dim)" <<'END'
module Pair(d) {
    model: Linear(d, 2 * d)
    down:  Linear(2 * d, d)
    forward(x) { return down(gelu(model(x))) }
}
END
check "in an array it has a line" has "layers.*.model: ColwiseParallel"

# By time.
for machine in h100-sxm $(few_or_all "" a100-sxm-80); do
    check "llama on $machine is not slower" not_slower examples/llama.pdl tp_fsdp \
        --mesh 8x8 --machine $machine
done
in_all check "gpt2 is not slower" not_slower examples/gpt2.pdl tp_fsdp --mesh 4x2 \
    --machine h200
in_all check "three_d is not slower" not_slower examples/three_d.pdl three_d --mesh 2x2x2 \
    --machine h100-sxm
for plan in no_shard $(few_or_all "" "full_shard shard_grad_op"); do
    check "transformer is not slower than $plan" not_slower examples/transformer.pdl $plan \
        --mesh 4 -D batch=64 --machine h100-sxm
done
check "the losers are listed" notes "note: not without splitting output, " \
    examples/llama.pdl --plan auto --mesh 8x8 --machine h100-sxm
check "--search limits the plans" notes "of 3 tried" examples/llama.pdl --plan auto \
    --mesh 8x8 --machine h100-sxm --search 3
check "the file's plan is a candidate" grep -q "note: not the file's plan tp_fsdp: " \
    "$work/err"
check "and says what it left out" grep -q "note: --search 3 left out" "$work/err"
twice() { # the choice depends on nothing but the command
    for i in 1 2; do
        "$PARC" examples/gpt2.pdl --plan auto --mesh 4x2 --machine h100-sxm \
            --emit pdl-plan="$work/$i" 2>"$work/err$i" || return 1
    done
    diff "$work/1" "$work/2" && diff "$work/err1" "$work/err2"
}
in_all check "the choice is repeatable" twice
check "with --mesh auto" notes "note: --plan auto is " examples/llama.pdl --plan auto \
    --mesh auto --ranks 64 --machine h100-sxm
check "the mesh is chosen too" grep -q "note: --mesh auto is dp=64,tp=1: " "$work/err"
check "--mesh auto without --machine" notes "note: --mesh auto is dp=8,tp=8: " \
    examples/llama.pdl --plan auto --mesh auto --ranks 64

# Memory.
check "less recomputation where it is faster" prints "# with recompute = elementwise" \
    examples/llama.pdl --plan auto --mesh 8x8 --machine h100-sxm
check "collectives beside matmuls where that is faster" \
    grep -qx "# with async_tp = 4" "$work/out"
check "both settings apply" grep -q \
    "note: the plan is for -D async_tp=4 -D recompute=elementwise, which apply$" "$work/err"
check "but not if the user has chosen" notes \
    "note: --plan auto is tensor and sequence parallelism with FSDP: " examples/llama.pdl \
    --plan auto --mesh 8x8 --machine h100-sxm -D recompute=all -D async_tp=1
check "recomputation where memory lacks" prints "checkpoint {" examples/llama.pdl \
    --plan auto --mesh 8x8 --machine h100-sxm --device-memory 6G
check "without --machine the first change that fits" notes \
    "note: the plan is for -D accumulate=2, which applies" examples/llama.pdl --plan auto \
    --mesh 8x8 --device-memory 7G
check "the block names a setting that it needs" grep -qx "# with accumulate = 2" "$work/out"
check "no mesh fits without changes of the plan" notes "note: the plan is for -D accumulate=2" \
    examples/llama.pdl --plan auto --mesh auto --ranks 64 --device-memory 6G
check "the one that needs the least memory is taken" grep -qF \
    "note: --mesh auto is dp=8,tp=8, which needs the least memory: a rank needs" "$work/err"
check "a plan that fits nowhere" refused "no automatic plan fits the memory" \
    examples/llama.pdl --plan auto --mesh 8x8 --device-memory 300M
check "it says how much is missing" grep -q "note: nearest: .* more than it may use" \
    "$work/err"

# Losses: the chosen plan's equal those of one rank.
small="--target cpu -D vocab=256 -D dim=64 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2
    -D hidden=96 -D batch=8 -D seq=32 -D precision=f32"
losses() { # losses FILE PARC_OPTIONS…
    to=$1
    shift
    "$PARC" "$@" --no-eval -o "$work/train" 2>"$work/err" &&
        "$work/train" --data "bytes:$text" --steps 6 --log "$work/log" >"$work/out" 2>&1 &&
        jq -r 'select(.loss) | .loss' "$work/log" >"$to" && [ "$(wc -l <"$to")" = 6 ]
}
same_losses() { # same_losses MODEL MESH OPTIONS…: of the model without its plans
    model=$1 mesh=$2
    shift 2
    bare "$model"
    # shellcheck disable=SC2086
    losses "$work/one" "$work/$model.pdl" $small --mesh 1 "$@" &&
        losses "$work/many" "$work/$model.pdl" $small --plan auto --mesh "$mesh" "$@" && agree
}
agree() {
    paste "$work/one" "$work/many" |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4) bad = 1 }
             END { exit bad || NR != 6 }'
}
check "the losses are those of one rank" same_losses llama 2x2
in_all check "on a pipeline too" same_losses llama pp=2,dp=1,tp=2 -D accumulate=2

# Mixtures of experts.
experts="-D head_dim=16"
moe() { # moe MESH OPTIONS…
    # shellcheck disable=SC2086
    same_losses mixtral "$@" $experts
}
says() { grep -qF -- "$1" "$work/err"; }
check "experts over tp" moe 2x2
check "the note says so" says "parallelism with FSDP, experts over tp;"
check "experts over ep" moe dp=2,ep=2
check "the note says so" says "FSDP, experts over ep;"
check "experts that no axis divides: each is split" moe 2x2 -D experts=5
check "the note says so" says "is without expert parallelism;"
edited() { # experts over dp too, each split over tp: the losses of one rank
    # shellcheck disable=SC2086
    "$PARC" "$work/mixtral.pdl" $small $experts -D experts=5 --plan auto --mesh 2x2 \
        --emit pdl-plan="$work/block" 2>"$work/err" &&
        sed 's/^    fully_shard/    expert_parallel dp { layers.*.moe: dispatch=all_to_all }\n&/' \
            "$work/block" | cat "$work/mixtral.pdl" - >"$work/edited.pdl" &&
        losses "$work/one" "$work/mixtral.pdl" $small $experts --mesh 1 &&
        losses "$work/many" "$work/edited.pdl" $small $experts --mesh 2x2 && agree
}
check "such a plan is edited: experts over dp" edited
in_all check "experts beside a pipeline" moe pp=2,dp=1,tp=2 -D accumulate=2
experts="-D dense_layers=1 -D n_layers=3 -D q_rank=24 -D kv_rank=16 -D nope_dim=16 -D rope_dim=8
    -D v_dim=16 -D expert_hidden=32 -D experts=8 -D top_k=3 -D groups=4 -D top_groups=2"
small=$(echo "$small" | sed 's/-D n_kv_heads=2//')
deepseek() { # deepseek MESH OPTIONS…
    # shellcheck disable=SC2086
    same_losses deepseek_moe "$@" $experts
}
check "experts in groups, over ep" deepseek dp=2,ep=2
in_all check "experts in groups, over tp" deepseek 2x2
check "mixtral: the printed plan is kept" keeps mixtral --mesh 2x2
in_all check "deepseek_moe: the printed plan is kept" keeps deepseek_moe --mesh dp=2,ep=2
check "the plan has experts over tp" prints "expert_parallel tp {" "$work/mixtral.pdl" --plan auto \
    --mesh 8x8 -D batch=64 --machine h100-sxm
check "a loser has its reason" says \
    "note: not experts over (dp, tp): 64 ranks cannot split 8 experts"
check "--search limits them" notes "of 2 tried" "$work/mixtral.pdl" --plan auto --mesh 8x8 \
    -D batch=64 --machine h100-sxm --search 2
sed '/^plan /,/^}/d' examples/mixtral.pdl >"$work/again.pdl"
printf 'plan again(dp, tp) {\n fully_shard dp { layers.* }\n checkpoint { layers.* }\n}\n' \
    >>"$work/again.pdl"
check "parc makes its plan fit where only the file's does" notes \
    "is tensor and sequence parallelism with FSDP, experts over tp, -D accumulate=2:" \
    "$work/again.pdl" --plan auto --mesh 16x8 -D batch=256 --machine h100-sxm --device-memory 80G
check "it tried to recompute, too" says "checkpoint { layers.*: every=2 }: 5"
cat >"$work/raw.pdl" <<'END'
model M(dim=16, experts=8) {
    param up[experts, dim, 24] = normal(0.2)
    param down[experts, dim, 24] = normal(0.2)
    forward(x: [batch, seq, dim]) {
        weights, ids = topk(slice(x, 0, experts), 2)
        pair, row, ends, needed = group_rows(ids, experts)
        h = tanh(grouped_matmul(gather_rows(x, pair, row), transpose(up, 1, 2), ends))
        return mean(combine_rows(grouped_matmul(h, down, ends), pair, row))
    }
}
train { batch = 8 }
END
check "experts of the model itself" keep_raw
check "each is split, one matrix transposed" prints "up: Shard(2)" "$work/raw.pdl" --plan auto \
    --mesh 2x2 -D experts=5
check "they are over tp" sh -c "grep -A1 'expert_parallel tp {' '$work/block' | grep -x ' *model'"
fast_on() { # fast_on MODEL MESH BATCH: the plan that parc writes takes no more time
    check "$1 on $2 is not slower" not_slower_bare "$1" tp_fsdp --mesh "$2" -D batch="$3" \
        --machine h100-sxm
}
fast_on mixtral 8x8 64
fast_on deepseek_moe 64x8 512
in_all fast_on mixtral 16x8 256
in_all fast_on mixtral 64x8 1024
in_all fast_on deepseek_moe 128x8 1024
check "nor with the example's plan in the file" not_slower examples/mixtral.pdl tp_fsdp --mesh 16x8 \
    -D batch=256 --machine h100-sxm

# Errors.
dump_has_none() {
    "$PARC" examples/toy.pdl --mesh 1x1 --dump-after lower --stop-after lower \
        >"$work/dump.ir" 2>"$work/err" || return 1
    refused "an IR dump has no plan block" "$work/dump.ir" --start-after lower
}
check "an axis that is given twice" refused "axis 'tp' is given twice" \
    examples/llama.pdl --plan auto --mesh tp=2,tp=2
check "too many axes for the batch" refused "at most 2 axes that split the batch" \
    examples/llama.pdl --plan auto --mesh a=2,b=2,c=2
check "four sizes without names" refused "needs the names of 4 axes" \
    examples/llama.pdl --plan auto --mesh 2x2x2x2
check "a keyword is no name" refused "'if' is not an axis with a size" \
    examples/llama.pdl --plan auto --mesh if=2,tp=2
check "an IR dump has no plan block" dump_has_none
check "a name that is none" refused "is not an axis with a size" examples/llama.pdl --plan auto \
    --mesh '2=2,tp=2'
check "a size that is none" refused "error: " examples/llama.pdl --plan auto \
    --mesh dp=x,tp=2
check "a model with errors" refused "error: unknown" /dev/stdin --plan auto --mesh 2 <<'END'
model M { forward(x: [batch, 4]) { return nothing(x) } }
train { batch = 2 }
END
check "no plan to print" refused "--plan auto writes one" "$work/llama.pdl" --mesh 2
check "--search without a choice" refused "--search has no effect" examples/llama.pdl \
    --mesh 8x8 --search 4 --machine h100-sxm
cat >"$work/named.pdl" <<'END'
model Named(dim=64) {
    up: Linear(dim, dim)
    forward(x: [batch, dim]) { return mean(up(x)) }
}
plan auto(tp) { parallelize tp { up: ColwiseParallel } }
train { batch = 64 }
END
check "the file's own plan of this name" prints "plan auto(tp) {" "$work/named.pdl" \
    --plan auto --mesh 2
finish
