#!/bin/sh
# forecast.sh: the time of a step with --machine: the section of the plan, the JSON,
# --explain, wrong machines, and the machine files, which follow from the tables.
. "$(dirname "$0")/lib.sh"

llama="examples/llama.pdl --mesh 8x8"
# shellcheck disable=SC2086
timed() { "$PARC" $llama --machine h100-sxm "$@"; }
check "a plan with times" timed --emit plan="$work/plan" --emit json="$work/json"
has() { grep -qE "$1" "$work/plan"; }
check "the step's time and MFU" has '^Time on h100-sxm: [0-9.]+ ms per step, \+- [0-9]+%'
check "the times of classes" has '^  matmul +[0-9.]+ ms +[0-9.]+%$'
check "the times of phases" has '^  backward +[0-9.]+ ms +[0-9.]+%$'
check "the times of modules" has '^  layers\.\*\.attention\.wq +[0-9.]+ ms +[0-9.]+%$'
check "a collective that is waited for" has '^  rs4 +[0-9.]+ ms of [0-9.]+ ms'
check "what it waits for" has 'after wo_out; before k05_ffn_norm'
check "losses" has 'waiting for collectives over tp'
check "remedies" has "remedy: .async_tp=2. computes one half of a microbatch while"

json() { jq -e "$1" "$work/json"; }
check "classes sum to the step" json '.time |
    ([.by_class[]] | add) + .between_seconds + .bubble_seconds - .step_seconds |
    fabs < 1e-9'
check "phases sum to the step" json '.time |
    ([.by_phase[]] | add) + .between_seconds + .bubble_seconds - .step_seconds |
    fabs < 1e-9'
check "statements are those of the work" json \
    '[.time.statements[].id] == [.work[].id]'
check "every number has a unit" json '.units as $u | .time | keys |
    map(select(IN("machine", "losses", "statements") | not) | "time." + .) |
    all(. as $k | $u | has($k))'
check "matmuls have sizes" json '[.work[] | select(.kind == "matmul") |
    2 * .calls * .batch * .m * .n * .k == .flops] | all and length > 0'
check "statements have streams and waits" json \
    '.work[] | select(.id == "rs4") | .stream == "tensor" and .after == ["wo_out"]'
check "without --machine the plan has no times" sh -c "
    '$PARC' $llama --emit plan | sed '/^Time on /,\$d' >'$work/none' &&
        sed '/^Time on /,\$d' '$work/plan' | sed '\$d' | cmp - '$work/none'"

# Stages without layers, stages that do not overlap, a node of two ranks.
stages() { # stages WORDS OPTIONS…
    words=$1
    shift
    sed "s/{ schedule=1f1b }/{ $words }/" examples/three_d.pdl >"$work/stages.pdl"
    "$PARC" "$work/stages.pdl" --machine h100-sxm "$@" --emit json="$work/stages"
}
check "a stage without layers" stages "schedule=1f1b, stages_per_rank=3" --mesh 4x1x1 \
    -D accumulate=8
check "more stages than layers divide" stages "schedule=interleaved" --mesh 5x1x1
step() { jq .time.step_seconds "$work/stages"; }
check "one rank" stages "schedule=1f1b" --mesh 1x1x1 -D accumulate=1 -D batch=8
one=$(step)
check "stages one after another" stages "schedule=1f1b" --mesh 8x1x1 -D accumulate=1 \
    -D batch=8
check "take as long as one rank" sh -c "jq -n '$one / $(step)' | grep -q '^[01]\.[09]'"

explains() { timed --explain "$1" | grep "^time on h100-sxm: "; }
for name in rs4 dp layers.*.attention wq k05_ffn_norm model; do
    check "the time of $name" explains "$name"
done

refused() { # refused TEXT OPTIONS…
    text=$1
    shift
    "$PARC" examples/toy.pdl "$@" --emit plan="$work/no" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ $status = 1 ] && [ ! -e "$work/no" ] && grep -qF -- "$text" "$work/err"
}
check "an unknown machine" refused "parc knows" --machine h101
check "a GPU for CPU ranks" refused "is for --target cuda" --machine h100-sxm \
    --target cpu
sed 's/"from": "[^"]*", //' machines/h100-sxm.json >"$work/no_source.json"
check "a constant without a source" refused "needs its source" \
    --machine "$work/no_source.json"
sed '/"wave":/d' machines/h100-sxm.json >"$work/missing.json"
sed 's/"ranks": {"value": 8.0/"ranks": {"value": 0.5/' machines/h100-sxm.json \
    >"$work/half.json"
check "half a rank" refused "node.ranks" --machine "$work/half.json"
check "a missing constant" refused "matmul.wave is missing" \
    --machine "$work/missing.json"
head -c 2000 machines/h100-sxm.json >"$work/cut.json"
check "a file that was cut off" refused "cut.json:" --machine "$work/cut.json"
sed 's/"name": "h100-sxm"/"name": "mine"/' machines/h100-sxm.json >"$work/mine.json"
own() {
    # shellcheck disable=SC2086
    "$PARC" $llama --machine "$work/mine.json" --emit json="$work/own" &&
        jq -e '.time.machine == "mine"' "$work/own"
}
check "a machine of one's own" own

check "--from without a machine" refused "has no effect" --from x

# Changes of a program that are for speed are faster, by forecast.
step() { # step MESH OPTIONS…
    mesh=$1
    shift
    "$PARC" examples/llama.pdl --mesh "$mesh" --machine h100-sxm "$@" --emit json |
        jq .time.step_seconds
}
faster() { # faster X Y
    echo "$1 and $2 seconds"
    jq -en "$1 < $2"
}
check "recompute=elementwise" faster "$(step 8x8 -D recompute=elementwise)" \
    "$(step 8x8)"
check "recompute=fused on one GPU" faster \
    "$(step 1x1 -D batch=4 -D recompute=fused)" "$(step 1x1 -D batch=4)"
# Gradients of a layer are converted and accumulated while the next layer computes.
overlapped() { # overlapped PREFETCH OPTIONS…: the step is at least 3% faster with overlap
    for overlap in true false; do
        sed "s/layers\.\*, \[norm/layers.*: prefetch=$1, overlap=$overlap, [norm/" \
            examples/llama.pdl >"$work/overlap_$overlap.pdl"
    done
    shift
    set -- --mesh 64x1 --node-size 8 -D batch=256 --machine h100-sxm "$@" --emit json
    "$PARC" "$work/overlap_true.pdl" "$@" >"$work/beside.json" &&
        "$PARC" "$work/overlap_false.pdl" "$@" >"$work/apart.json" &&
        jq -es '(.[0].time.step_seconds | debug) < 0.97 * (.[1].time.step_seconds | debug)' \
            "$work/beside.json" "$work/apart.json"
}
check "gradients are converted beside other layers" overlapped 1 -D reduce=bf16
check "gradients are accumulated beside other layers" overlapped 1 -D accumulate=2
check "and with a prefetch distance of three" overlapped 3 -D accumulate=2
# The Llama 1B of tests/gpu/cases, with as many sequences as a GPU has memory for.
one_gpu() {
    "$PARC" examples/llama.pdl --mesh 1x1 -D vocab=128256 -D dim=2048 -D n_layers=16 \
        -D n_heads=32 -D n_kv_heads=8 -D hidden=8192 -D rope_theta=500000.0 -D batch=128 \
        -D seq=4096 -D accumulate=16 -D recompute=fused -D clip=1.0 --machine h100-sxm \
        --device-memory 80G --emit json="$work/one.json" &&
        jq -e '.time.mfu | debug | . >= 0.56' "$work/one.json"
}
check "Llama 1B on one GPU takes 56% of its peak" one_gpu
# Llama 3 70B, with copy engines that gather inside nodes.
large() {
    "$PARC" examples/llama.pdl --mesh 8x8 --node-size 8 -D vocab=128256 -D dim=8192 \
        -D n_layers=80 -D n_heads=64 -D n_kv_heads=8 -D hidden=28672 -D rope_theta=500000.0 \
        -D batch=64 -D seq=4096 -D recompute=fused -D async_tp=4 -D copy_engines="$1" \
        --machine h100-sxm --emit json="$work/large-$1.json" && jq .time.mfu "$work/large-$1.json"
}
check "70B on 8x8 with gathers by kernels" large false
check "70B on 8x8 takes 53% of its peak with copy engines" large true
check "it does" jq -en --slurpfile a "$work/large-false.json" --slurpfile b "$work/large-true.json" \
    '$b[0].time.mfu >= 0.53 and $b[0].time.mfu > 1.02 * $a[0].time.mfu'
waited() { # waited JQ: of a collective over tp, with an overlapping matmul
    "$PARC" examples/llama.pdl --mesh 8x8 --machine h100-sxm -D recompute=fused \
        --emit json="$work/overlap" && jq -e "[.time.statements[] |
            select(.id == \"rs16\" or .id == \"ag17\")] | length == 2 and all($1)" "$work/overlap"
}
check "a matmul overlaps collectives over tp" \
    waited ".exposed_seconds < .run_seconds * 0.6"
# Kernels for the A100 are not persistent: nothing is left.
a100() {
    "$PARC" examples/llama.pdl --mesh 8x8 --machine a100-sxm-80 -D recompute=fused \
        --emit json="$work/a100" && jq -e '[.time.statements[] | select(.id == "rs16")] |
            all(.exposed_seconds < .run_seconds * 0.8)' "$work/a100"
}
check "on an A100 too" a100

# 128 GPUs: long sequences on the axis of a context, and 64 experts on 64 ranks. Exposed
# collectives are named with what they wait for; the others run beside statements.
cat examples/llama3.pdl - >"$work/long.pdl" <<'END'
plan long(dp, cp) {
    context cp { attention: exchange=ring }
    fully_shard (dp, cp) { tok_embeddings, layers.*, [norm, output] }
    checkpoint { layers.* }
}
END
sed 's/^plan tp_fsdp.*/plan wide(dp, ep) {\
    expert_parallel ep { layers.*.moe }\
    fully_shard (dp, ep) { tok_embeddings, dense.*, layers.*, [norm, output] }\
    checkpoint { dense.*, layers.* }\
}\
&/' examples/deepseek_moe.pdl >"$work/wide.pdl"
on_128() { # on_128 NAME MESH OPTIONS…: PLAN is NAME
    name=$1 mesh=$2
    shift 2
    "$PARC" "$work/$name.pdl" --plan "$name" --mesh "$mesh" --node-size 8 --machine h100-sxm "$@" \
        --emit plan="$work/$name.plan" --emit json="$work/$name.json" &&
        grep '^Time on' "$work/$name.plan"
}
hidden() { # hidden NAME PART JQ: less than this part of some collectives' time is waited for
    jq -e "([.collectives[] | select($3) | .id]) as \$of |
        [.time.statements[] | select(.id | IN(\$of[]))] |
        {run: (map(.run_seconds) | add), exposed: (map(.exposed_seconds) | add)} | debug |
        .run > 0 and .exposed < $2 * .run" "$work/$1.json"
}
check "cp=8, 131072 tokens" on_128 long 16x8 -D seq=131072 -D batch=16
check "attention hides most shifts" hidden long 0.1 '.kind == "shift"'
check "an exposed shift is named" grep -A1 '^  sh.* ms of .* shift over cp' "$work/long.plan"
set -- -D experts=64 -D top_k=6 -D dim=2048 -D n_layers=27 -D dense_layers=1 -D n_heads=16 \
    -D hidden=10944 -D expert_hidden=1408 -D shared=2 -D groups=1 -D top_groups=1
check "64 experts on 64 ranks" on_128 wide 2x64 -D batch=128 "$@"
check "rows are exchanged" test "$(jq -r '.experts[0].dispatch' "$work/wide.json")" = all_to_all
check "rows, their ends and weights are one exchange" jq -e \
    '[.collectives[] | select(.tensor == "rows_in, ends, by")] | length == 1' "$work/wide.json"
nic=$(jq .node.nic.value machines/h100-sxm.json)
check "what leaves a node passes the NIC of its rank" jq -e --argjson nic "$nic" '
    .time.statements as $s | [.collectives[] | select(.kind == "all_to_all") as $c |
        $s[] | select(.id == $c.id) |
        .run_seconds >= $c.count * $c.sent_between_nodes / $nic] | length > 4 and all' \
    "$work/wide.json"
# One NIC for each rank: the exchanges take longer than all that a layer computes.
check "recomputed ops, shared experts and gradients hide a part of them" hidden wide 0.75 \
    '.kind == "all_to_all"'
check "an exposed exchange has its reason" grep -A1 '^  aa.* ms of .* all_to_all over ep' "$work/wide.plan"

# That order needs more memory: it is given up where only the program's own order fits. parc
# reserves 1/32 of the memory.
peak() { jq ".memory.peak" "$work/$1.json"; }
slower() { jq -en --slurpfile a "$work/wide.json" --slurpfile b "$work/tight.json" \
    '$a[0].time.step_seconds < $b[0].time.step_seconds'; }
tight() {
    sed 's/^plan wide/plan tight/' "$work/wide.pdl" >"$work/tight.pdl"
    on_128 tight 2x64 -D batch=128 "$@" --device-memory $((($(peak wide) - 1) * 32 / 31)) \
        2>"$work/err"
}
check "a rank with less memory" tight "$@"
check "the plan says that exchanges overlap nothing" jq -e \
    '.settings.expert_parallel == [{axes: "ep", paths: ["layers.*.moe"],
        dispatch: "all_to_all", buffer: 1.5, overlap: false}]' "$work/tight.json"
check "a note says why" grep -q "units and experts that do not say it have overlap=false: with" "$work/err"
check "it needs less memory" test "$(peak tight)" -lt "$(peak wide)"
check "it is slower" slower

check "64 experts on the 8 ranks of a node" on_128 wide 16x8 -D batch=512 "$@"
check "two thirds of their exchanges are hidden" hidden wide 0.33 \
    '.why | startswith("expert_parallel")'

# The machine files follow from the tables, and docs/forecast.md has their errors.
mkdir "$work/machines"
check "the tables are fitted" python3 scripts/forecast_fit.py "$work/machines"
check "the machine files are those of the tables" diff -r machines "$work/machines"
documented() {
    python3 scripts/forecast_fit.py --errors | awk 'NF == 6 && NR > 1 {
        printf "| %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6 }' >"$work/rows"
    grep -E '^\| [a-z0-9-]+ \| [a-z]+ \| [0-9]+ \|' docs/forecast.md | diff - "$work/rows"
}
check "the documented errors are those of the tables" documented
finish
