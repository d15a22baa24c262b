#!/bin/sh
# auto_mesh.sh: sizes that parc chooses (--mesh auto): the choice, the reason, the
# candidates that lost, and errors that say what would fit.
. "$(dirname "$0")/lib.sh"

# chooses MESH MODEL.pdl OPTIONS…
chooses() {
    mesh=$1
    shift
    "$PARC" "$@" --emit json="$work/json" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status = 0 ] && grep -q "note: --mesh auto is $mesh: " "$work/err" &&
        jq -r '[.mesh[] | "\(.name)=\(.size)"] | join(",")' "$work/json" |
        grep -qx "$mesh"
}
says() { # says TEXT: of the last run's messages
    cat "$work/err"
    grep -qF -- "$1" "$work/err"
}
says_of() { # says_of TEXT OPTIONS…: a run's messages
    wanted=$1
    shift
    "$PARC" "$@" --emit json="$work/json" 2>"$work/err"
    says "$wanted"
}
silent_of() { # silent_of TEXT OPTIONS…: they lack the text
    wanted=$1
    shift
    "$PARC" "$@" --emit json="$work/json" 2>"$work/err" && ! says "$wanted"
}
refused() { # refused TEXT OPTIONS…
    wanted=$1
    shift
    "$PARC" "$@" --emit plan="$work/plan" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status = 1 ] && [ ! -e "$work/plan" ] && grep -qF -- "$wanted" "$work/err"
}
llama=examples/llama.pdl

check "llama on 64 ranks, 8 on a node" chooses dp=8,tp=8 $llama --mesh auto \
    --ranks 64 --node-size 8
check "the reason is printed" says \
    "tp=8 spans a node of 8 ranks, dp=8 splits the batch over 8 nodes; a rank"
check "a candidate that lost has its reason" says \
    "note: not dp=16,tp=4: less tensor parallelism inside a node; a rank needs"
check "without --node-size a GPU's node has 8 ranks" chooses dp=2,tp=8 $llama \
    --mesh auto --ranks 16
check "all ranks of a CPU program are on one node" chooses dp=1,tp=4 $llama \
    --mesh auto --ranks 4 --target cpu
check "a fixed axis beside an automatic one" chooses dp=16,tp=4 $llama \
    --mesh tp=4,dp=auto --ranks 64 --node-size 8
check "a fixed size is no choice" says "tp=4 as given, dp=16 splits the batch"
check "a fixed axis for the batch" chooses dp=32,tp=2 $llama --mesh 32xauto \
    --ranks 64 --node-size 8

# 40 heads, 6 ranks on a node.
heads="-D n_heads=40 -D n_kv_heads=40 -D dim=5120 -D batch=96"
# shellcheck disable=SC2086
check "40 heads on nodes of 6 ranks" chooses dp=24,tp=2 $llama --mesh auto \
    --ranks 48 --node-size 6 $heads
check "a size that is the largest possible says so" says \
    "tp=2 is the largest size inside a node of 6 ranks that compiles and fits"
check "why 6 and 3 lost is printed" says \
    "not dp=8,tp=6: axis 'tp' of size 6 does not divide the 40 heads"

cat >"$work/one.pdl" <<'END'
model One(dim=64) {
    layers: [2] Linear(dim, dim)
    forward(x: [batch, dim]) {
        for l in layers { x = l(x) }
        return mean(x * x)
    }
}
plan data(dp) { fully_shard dp { layers.* } }
plan tensor(tp) { parallelize tp { layers.*: ColwiseParallel(output=Replicate) } }
train { batch = 64 }
END
check "a plan with one axis for the batch" chooses dp=16 "$work/one.pdl" \
    --plan data --mesh auto --ranks 16
check "a plan with one axis for tensors" chooses tp=16 "$work/one.pdl" \
    --plan tensor --mesh auto --ranks 16 --node-size 8
check "its reason says that it leaves the node" says \
    "tp=16 spans several nodes of 8 ranks: no smaller size compiles and fits"
check "hybrid sharding numbers the nodes" chooses rep=4,dp=2,tp=4 \
    examples/hsdp.pdl --mesh rep=auto,dp=auto,tp=4 --ranks 32 --node-size 8 \
    -D batch=64
sed 's/plan hsdp(rep/plan hsdp(pp, rep/; s/^ *fully_shard/    pipeline pp { }\n&/
    s/^train {/&\n    accumulate = 8/' examples/hsdp.pdl >"$work/hybrid.pdl"
check "hybrid sharding numbers the nodes of a stage" chooses \
    pp=2,rep=4,dp=2,tp=4 "$work/hybrid.pdl" --mesh pp=2,rep=auto,dp=auto,tp=4 \
    --ranks 64 --node-size 8 -D batch=512

{
    sed '/^plan /,/^}/d' tests/data/experts.pdl
    cat <<'END'
plan experts(dp, ep) { expert_parallel ep { layers.*.moe, balanced.moe } }
END
} >"$work/experts.pdl"
check "an axis that splits 6 and 8 experts" chooses dp=8,ep=2 "$work/experts.pdl" \
    --plan experts --mesh auto --ranks 16 -D batch=64
check "its losers" says "not dp=4,ep=4: 4 ranks cannot split 6 experts"
check "fewer experts" says "not dp=16,ep=1: experts are split over fewer ranks"

cat "$work/one.pdl" - >"$work/stages.pdl" <<'END'
plan staged(pp, dp, tp) {
    pipeline pp { }
    parallelize tp { layers.*: ColwiseParallel(output=Replicate) }
    fully_shard dp { layers.* }
}
END
check "the axis of a pipeline has one rank" chooses pp=1,dp=2,tp=8 \
    "$work/stages.pdl" --plan staged --mesh auto --ranks 16 --node-size 8

# fastest OPTIONS…: the dp=… of the least step_seconds among all meshes of 16 ranks.
fastest() {
    for tp in 1 2 4 8 16; do
        mesh=dp=$((16 / tp)),tp=$tp
        "$PARC" "$llama" --mesh "$mesh" "$@" --emit json="$work/$tp.json" 2>"$work/err" &&
            sed -n "s/.*\"step_seconds\": \([^,]*\),.*/\1 $mesh/p" "$work/$tp.json"
    done | sort -g | head -n 1
}
# is_fastest OPTIONS…: --mesh auto chooses it, and the plan has its time.
is_fastest() {
    best=$(fastest "$@")
    chooses "${best#* }" "$llama" --mesh auto --ranks 16 "$@" &&
        "$PARC" "$llama" --mesh auto --ranks 16 "$@" --emit json="$work/json" \
            2>"$work/err" && grep -qF "\"step_seconds\": ${best% *}," "$work/json"
}
check "with --machine the fastest mesh" is_fastest --machine h100-sxm
check "the fastest on a slower machine" is_fastest --machine a100-sxm-80 -D batch=128
check "a loser has its time and its largest loss" says ", most for collective (+"
check "the fastest that fits the memory" chooses dp=8,tp=2 $llama --mesh auto \
    --ranks 16 --machine h100-sxm --device-memory 33.5G
check "a mesh that does not fit has its bytes" says "more than it may use"
check "--search bounds the candidates" says_of "left out 3 other meshes" $llama \
    --mesh auto --ranks 16 --machine h100-sxm --search 2
check "a refusal says what was not tried" refused \
    "help: 6 other meshes were not tried: --search 7 tries them too" $llama \
    --mesh auto --ranks 64 --machine h100-sxm --device-memory 1G --search 1
check "without --device-memory the machine's memory is the limit" refused \
    "no mesh of 4 ranks compiles and fits the memory" $llama --mesh auto --ranks 4 \
    --machine h100-sxm
check "--search without a choice is refused" sh -c "
    ! '$PARC' $llama --mesh 8x2 --search 2 --emit plan 2>'$work/err' &&
        grep -q -- '--search has no effect' '$work/err'"
jq '.collective |= map(.rate.spread = 0.9)' machines/h100-sxm.json >"$work/vague.json"
staged="examples/three_d.pdl --mesh pp=auto,dp=8,tp=auto --ranks 64"
# shellcheck disable=SC2086
check "meshes tie on a machine of uncertain links" says_of \
    "a tie within the error of the model" $staged --machine "$work/vague.json"
# shellcheck disable=SC2086
check "the same meshes do not tie on a known one" silent_of \
    "a tie within the error of the model" $staged --machine h100-sxm

# Sequences are split over as few ranks as compile and fit.
context="tests/data/context.pdl --plan heads --mesh auto --ranks 4"
# shellcheck disable=SC2086
check "no sequence is split without need" chooses dp=4,cp=1 $context
check "a part of a sequence has its reason" says \
    "not dp=2,cp=2: sequences are split over more ranks"
# shellcheck disable=SC2086
check "a batch for two ranks" chooses dp=2,cp=2 $context -D batch=2
check "the reason for the parts" says \
    "cp=2 splits sequences over the fewest ranks that compile and fit"
# shellcheck disable=SC2086
check "an axis of a context as given" chooses dp=1,cp=4 tests/data/context.pdl --plan heads \
    --mesh dp=auto,cp=4 --ranks 4
check "its reason" says "cp=4 as given"

check "a model that fits no size" refused \
    "no mesh of 8 ranks compiles and fits the memory" $llama --mesh auto \
    --ranks 8 --device-memory 1G
check "each candidate has its reason" says "dp=1,tp=8: a rank needs "
check "more ranks that fit are named" refused "help: with --ranks " $llama \
    --mesh auto --ranks 2 --device-memory 80G -D dim=8192 -D n_layers=48 \
    -D n_heads=64 -D n_kv_heads=8 -D hidden=28672 -D batch=64
check "no size of an axis is left" refused \
    "no mesh of 64 ranks has the given sizes" $llama \
    --mesh dp=auto,tp=7 --ranks 64
check "auto without --ranks is refused" refused \
    "the size 'auto' needs the number of ranks" $llama --mesh auto
check "--ranks of another number is refused" refused \
    "the mesh has 16 ranks, not 32" $llama --mesh 8x2 --ranks 32
check "an axis is given once" refused "axis 'dp' is given twice" $llama \
    --mesh dp=auto,dp=2 --ranks 8
check "an axis that the plan does not have" refused "the plan's axes are dp, tp" \
    $llama --mesh fsdp=auto --ranks 8
check "errors of the model are reported" sh -c "
    echo 'model M { forward(x: [batch, 4]) { return y } }' >'$work/bad.pdl'
    ! '$PARC' '$work/bad.pdl' --mesh auto --ranks 2 --emit plan \
        >'$work/out' 2>'$work/err' && grep -q \"unknown name 'y'\" '$work/err'"
finish
