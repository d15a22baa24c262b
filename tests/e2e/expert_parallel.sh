#!/bin/sh
# expert_parallel.sh: the loss curve does not depend on the axes that split experts, nor on how
# tokens reach them: beside FSDP, tensor parallelism, pipelines, accumulation, checkpoints, and
# where the axes split the batch, sequences, or neither. A run is saved and resumed on any
# mesh. PyTorch's losses are those of one rank (experts.sh).
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_plans.sh"

model=tests/data/experts.pdl
spec=bytes:$text

check "one rank" trains one one 1
check "gather, ep=2" agrees one gather2 gather 1x2
check "gather, dp=2 ep=2" agrees one gather4 gather 2x2
in_all check "gather, ep=4" agrees one gather1x4 gather 1x4
check "all_to_all, ep=4" agrees one swap4 swap 1x4
check "all_to_all, dp=2 ep=2, microbatches" agrees one swap22 swap 2x2 -D accumulate=2
in_all check "all_to_all, dp=2 ep=4" agrees one swap8 swap 2x4
in_all check "gather, microbatches" agrees one parts gather 2x2 -D accumulate=2
check "no units" agrees one bare whole 2x1
check "replicas of shards" agrees one replicas replicas 2x2
check "tensor parallelism, experts on tp" agrees one tensor tensor 2x2
check "tokens exchanged over tp" agrees one tensor_swap tensor_swap 2x2
check "tokens exchanged over dp and tp" agrees one tensor_folded tensor_folded 2x2
check "tokens exchanged over two axes" agrees one two_axes two_axes 2x2
in_all check "tokens exchanged over tp=4" agrees one tensor_swap4 tensor_swap 1x4
in_all check "tokens exchanged over dp=2 and ep=4" agrees one two_axes8 two_axes 2x4
in_all check "tokens exchanged over dp=4 and tp=2" agrees one tensor_folded8 tensor_folded 4x2
check "tensor parallelism, columns of experts on tp" agrees one columns columns 2x2
check "experts on cp" agrees one sequences sequences 2x2
check "experts on dp and cp" agrees one folded folded 2x2
in_all check "experts on dp and cp, gathered" agrees one folded_gather folded_gather 2x2
check "recomputation" agrees one recomputed recomputed 2x2
in_all check "chunks of the head" agrees one chunks swap 1x2 -D head_chunk=16
check "a pipeline" agrees one stages stages 2x2 -D accumulate=2
in_all check "a pipeline, experts on dp and tp" agrees one sequence_stages sequence_stages \
    2x2x2 -D accumulate=2

check "resume on ep=4, all_to_all" resumed one swap4
check "resume on dp=2 ep=2, gather" resumed swap4 gather4
check "resume on cp" resumed gather4 sequences
check "resume on one rank" resumed stages one

# Steps that need more rows than the buffers have are repeated in rounds.
steps_over() { # steps_over NAME: how many steps of the run overflowed
    jq -s 'map(select(.overflow)) | length' "$work/$1.log"
}
edited() { # edited SCRIPT NAME PLAN MESH: sed changes the plans, and the losses stay
    sed "$1" tests/data/experts.pdl >"$work/$2.pdl"
    model=$work/$2.pdl
    agrees one "$2" "$3" "$4"
    status=$?
    model=tests/data/experts.pdl
    return $status
}
check "buffers for all choices" edited \
    's/layers.\*.moe: dispatch=gather/layers.*.moe: dispatch=gather, buffer=none/' none gather 1x4
check "no step overflows them" test "$(steps_over none)" = 0
check "steps that overflow, exchanged" test "$(steps_over swap4)" -gt 0
check "steps that overflow, a pipeline" test "$(steps_over stages)" -gt 0
check "bounded buffers need less memory" jq -en --slurpfile all "$work/none.json" \
    --slurpfile some "$work/swap4.json" '$some[0].memory.peak < $all[0].memory.peak'
check "the plan has their rows" sh -c "'$PARC' $model --plan swap --mesh 1x4 --emit plan |
    grep -A1 'layers.\*.moe: 18 rows for 48 choices, 1.5 x balanced' | grep 'up to 3 rounds'"
check "their module has them" sh -c "'$PARC' $model --plan swap --mesh 1x4 --explain layers.*.moe |
    grep 'layers.\*.moe: 18 rows for 48 choices'"

# Without an option tokens move as few bytes as possible: of two ranks, or for rows of two
# choices in buffers of 1.5 to four.
sed 's/: dispatch=gather//' tests/data/experts.pdl >"$work/free.pdl"
dispatch() { # dispatch MESH
    "$PARC" "$work/free.pdl" --plan gather --mesh "$1" --emit json | jq -r '.experts[].dispatch'
}
check "two ranks gather tokens" test "$(dispatch 2x2)" = gather
check "four ranks exchange rows" test "$(dispatch 1x4)" = all_to_all
check "the plan has both in bytes" sh -c "'$PARC' '$work/free.pdl' --plan gather --mesh 1x4 --emit plan |
    grep 'to experts and back: all_to_all 10.12 KiB per call, gather 13.50 KiB'"

# All tokens at two experts of two ranks.
model=tests/data/tied_experts.pdl
check "all tokens at two experts, one rank" trains tied one 1
check "all tokens at two experts, gathered on four" agrees tied tied_gather gather 1x4
check "all tokens at two experts, exchanged on four" agrees tied tied_swap swap 2x4
check "every step overflows" test "$(steps_over tied_swap)" = 8
model=tests/data/experts.pdl

val_loss() { # val_loss NAME
    "$work/$1" --steps 2 --seed 3 --data "$spec" --val "$spec" --val-steps 2 --log "$work/val" &&
        jq -e 'select(.val_loss) | {step, loss: .val_loss}' "$work/val" | jq -c . >"$work/$1.val"
}
evaluates() {
    val_loss one && val_loss swap4 && same_curve "$work/swap4.val" "$work/one.val" 1e-5
}
check "evaluation in rounds" evaluates
# Both sum the rows without a place over the layers, and the evaluation a loss of balance too.
check "outputs are those of the evaluation" sh -c "'$PARC' examples/mixtral.pdl --mesh 2x2 \
    -D vocab=256 -D dim=64 -D n_layers=2 -D n_heads=4 -D n_kv_heads=4 -D hidden=64 -D seq=64 \
    -D batch=8 -D aux_loss=0.01 --emit ir | grep -A1 '^purpose outputs' | grep 'repeats loss'"

# No rank gathers weights of other ranks' experts; tokens or rows move, once each way.
calls() { # calls NAME KIND PHASE
    jq "[.collectives[] | select(.kind == \"$2\" and .phase == \"$3\" and
         (.why | startswith(\"expert_parallel\")))] | length" "$work/$1.json"
}
check "gather: tokens, choices and weights" test "$(calls gather2 all_gather forward)" = 3
check "gather: one reduction" test "$(calls gather2 reduce_scatter forward)" = 1
check "all_to_all: rows with ends and weights; results" test "$(calls swap4 all_to_all forward)" = 2
check "recomputation, saved rows" edited \
    '/^plan recomputed/,/^}/s/{ layers.\*, balanced }/{ layers.*: keep=all_to_all, balanced }/' \
    kept recomputed 2x2
check "they are exchanged once" test "$(calls kept all_to_all backward)" = \
    $(($(calls recomputed all_to_all backward) - 1))
check "all_to_all over tp: rows; results" test "$(calls tensor_swap all_to_all forward)" = 2
check "all_to_all over two axes: rows; results" test "$(calls two_axes all_to_all forward)" = 2
check "all_to_all: no weights are gathered" test "$(calls swap4 all_gather forward)" = 0
check "experts on cp: no weights are gathered" test "$(calls sequences all_gather forward)" = 0
check "experts on cp: rows move" test "$(calls sequences all_to_all forward)" = 2

# Each rank has its share of the experts' work, on every mesh and with both dispatchers.
work_of() { # work_of NAME: operations of a rank's products with experts
    jq '[.work[] | select(.detail | test(" experts$")) | .flops * .count] | add' "$work/$1.json"
}
check "there are products with experts" test "$(work_of one)" -gt 0
for name in swap4 folded swap22 gather4; do
    check "$name: a quarter of the work" test "$(($(work_of $name) * 4))" = "$(work_of one)"
done

refused() { # refused MESSAGE CLAUSE OPTIONS…
    wanted=$1
    sed '/^plan /,/^}/d' $model >"$work/wrong.pdl"
    printf 'plan p(pp, dp, ep) {\n%s\n}\n' "$2" >>"$work/wrong.pdl"
    shift 2
    ! "$PARC" "$work/wrong.pdl" --emit plan "$@" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status = 0 ] && [ ! -s "$work/out" ] && grep -qF -- "$wanted" "$work/err"
}
check "experts that the axis does not divide" refused "4 ranks cannot split 6 experts" \
    "expert_parallel ep { balanced.moe }" --mesh 1x1x4
check "what the axis must divide" refused \
    "help: the product of the sizes of expert_parallel's axes must divide the number of experts" \
    "expert_parallel ep { balanced.moe }" --mesh 1x1x4
check "a module without experts" refused "no expert is called here" \
    "expert_parallel ep { layers.*.norm }" --mesh 1x1x2
check "an unknown module" refused "no module matches" "expert_parallel ep { layer.*.moe }" \
    --mesh 1x1x2
check "an unknown axis" refused "plan 'p' has no axis 'e'" "expert_parallel e { every MoE }" \
    --mesh 1x1x2
check "the axis of a pipeline" refused "needs axes that are not those of pipeline" "
    pipeline pp { schedule=1f1b }
    expert_parallel (pp, ep) { layers.*.moe }" --mesh 2x1x2 -D accumulate=2
check "weights on the same axis" refused "splits the experts of 'layers.*.moe.w1' over 'ep'" "
    parallelize ep { layers.*.moe.w1: Shard(1) }
    expert_parallel ep { layers.*.moe }" --mesh 1x1x2
check "experts that an earlier item names" refused "an earlier item names" \
    "expert_parallel ep { layers.*.moe, layers.0.moe }" --mesh 1x1x2
check "one message for experts that the axis does not divide" test "$(
    refused "16 ranks cannot split 8 experts" "expert_parallel ep { layers.*.moe }" \
        --mesh 1x1x16 -D batch=16 | grep -c error:)" = 1
check "a buffer too small for balanced experts" refused "must be a factor of at least 1" \
    "expert_parallel ep { layers.*.moe: buffer=0.5 }" --mesh 1x1x2
sed 's/y = combine_rows/h = h * 2.0 + sum(h) * 0.0\n        y = combine_rows/' \
    tests/data/tied_experts.pdl >"$work/sum.pdl"
sums() {
    ! "$PARC" "$work/sum.pdl" --plan "$1" --mesh "$2" --emit plan >"$work/out" 2>"$work/err" &&
        grep -F "works across rows of experts" "$work/err"
}
check "rows that are added up" sums swap 1x4
check "rows that are added up, one rank" sums one 1
checked() { # every result, but no unused row
    PARC_NANCHECK=1 "$work/$1" --steps 2 --seed 3 --data "$spec"
}
check "the search for NaN skips unused rows" checked swap4
check "no modules" refused "expert_parallel names no module" "expert_parallel ep { }" --mesh 1x1x2
check "two clauses" refused "a plan has one clause expert_parallel" "
    expert_parallel ep { layers.*.moe }
    expert_parallel dp { balanced.moe }" --mesh 1x2x2

# Each item has a dispatcher, and its line is the reason of its collectives.
with_plan() { # with_plan CLAUSES: a plan p
    sed '/^plan /,/^}/d' $model >"$work/items.pdl"
    printf 'plan p(dp, ep, tp) {\n%s\n}\n' "$1" >>"$work/items.pdl"
}
with_plan "    expert_parallel ep {
        layers.*.moe: dispatch=all_to_all
        balanced.moe
    }"
check "two items" "$PARC" "$work/items.pdl" --mesh 1x2x1 --emit json="$work/items.json"
line=$(grep -n 'dispatch=all_to_all$' "$work/items.pdl" | cut -d: -f1)
reasons() { # reasons DISPATCH LINE
    jq -e "[.collectives[] | select(.why | startswith(\"expert_parallel ep: dispatch=$1\"))] |
        length > 3 and all(.source | endswith(\":$2:9\"))" "$work/items.json"
}
check "the reasons of the first item" reasons all_to_all "$line"
check "those of the second" reasons gather $((line + 1))
with_plan "    parallelize tp { layers.*.moe.w1: Shard(0) }
    expert_parallel ep { layers.*.moe }"
"$PARC" "$work/items.pdl" --mesh 1x2x2 --emit json >"$work/out" 2>"$work/err"
check "experts split over another axis" grep -q "each rank of 'tp' gathers the experts of" "$work/err"

# Ranks store parts of experts that no unit shards.
"$PARC" "$model" --plan stages --mesh 2x2 -D accumulate=2 --emit plan="$work/out" 2>"$work/err"
check "no note that ranks store all of the experts" test ! -s "$work/err"

# A weight that is stored as [experts, in, out] is split too.
cat >"$work/transposed.pdl" <<'END'
module Mine(dim, hidden, experts, k) {
    gate: Linear(dim, experts, bias=false)
    param up[experts, dim, hidden] = uniform(-0.2, 0.2)
    param down[experts, dim, hidden] = uniform(-0.2, 0.2)

    forward(x) {
        weights, ids = topk(softmax(gate(x), dim=-1), k)
        pair, row, ends, needed = group_rows(ids, experts)
        h = grouped_matmul(gather_rows(x, pair, row), transpose(up, 1, 2), ends)
        by = unsqueeze(gather_pairs(weights, pair, row), -1)
        return combine_rows(grouped_matmul(tanh(h), down, ends) * by, pair, row)
    }
}
model Transposed(vocab=256, dim=16) {
    embed: Embedding(vocab, dim)
    layers: [2] Mine(dim, 24, 8, 2)
    head: Linear(dim, vocab)

    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        h = embed(tokens)
        for layer in layers { h = h + layer(h) }
        return cross_entropy(head(h), labels)
    }
}
plan one(dp) { }
plan split(dp, ep) {
    expert_parallel ep { layers.* }
    fully_shard (dp, ep) { layers.*, model }
}
train {
    batch = 4
    seq   = 16
}
END
model=$work/transposed.pdl
check "weights that are transposed, one rank" trains plain one 1
check "weights that are transposed" trains transposed split 2x2
check "they train as on one rank" same_curve "$work/transposed.log" "$work/plain.log" 1e-5
"$PARC" "$model" --plan split --mesh 2x2 --explain ep >"$work/axis" 2>"$work/err"
check "they are split by experts" grep -q "layers\.\*\.up  *f32\[2 x 8/ep, 16, 24\]" "$work/axis"
check "the axis is explained" grep -qF "\`expert_parallel\` splits experts over it" "$work/axis"

model=tests/data/biased_experts.pdl
check "biases of experts: one rank" trains biased units 1x1
check "biases of experts, ep=2, gather" agrees biased biased_gather gather 1x2
check "biases of experts, dp=2 ep=2, all_to_all" agrees biased biased_swap swap 2x2
finish
