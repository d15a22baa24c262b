#!/bin/sh
# device_memory.sh: --device-memory: a change that parc suggests makes a plan
# fit, and the changed plan needs the memory that parc printed. Tested on the
# GPU, and on the CPU, where ranks count shared memory in parts.
. "$(dirname "$0")/lib.sh"

# plan FILE OPTIONS…: makes the plan $chosen under the limit.
plan() {
    file=$1
    shift
    # shellcheck disable=SC2086
    "$PARC" "$file" --plan $chosen --target $target $sizes \
        --device-memory $limit "$@"
}
# change FILE SCRIPT: edits with awk; `ours` is true inside the plan.
change() {
    awk -v clause="$clause" "
        /^plan $chosen\\(/ { ours = 1 } /^}/ { ours = 0 } $2" \
        "$1" >"$work/next.pdl" && mv "$work/next.pdl" "$work/changed.pdl"
}
# Applies one line of the advice. The line ends with a size and may name two
# changes.
follow() {
    figure=${1##*: } && figure=${figure%%,*}
    on=$mesh defines=
    cp "examples/$model.pdl" "$work/changed.pdl"
    echo "${1%: *}" | sed 's/ and /\n/' >"$work/changes"
    while read -r advice; do
        case $advice in
        "'"*"' in the plan")
            clause=${advice#\'} && clause=${clause%\' in the plan}
            change "$work/changed.pdl" \
                "{ print } ours && /^plan / { print clause }" ;;
        "strategy=full_shard for every unit")
            change "$work/changed.pdl" \
                'ours { sub(/strategy=no_shard/, "strategy=full_shard") } 1' ;;
        "--mesh "*) on=${advice#--mesh } ;;
        "-D "*) defines="$defines $advice" ;;
        *) echo "what is '$advice'?" && return 1 ;;
        esac
    done <"$work/changes"
    # shellcheck disable=SC2086
    plan "$work/changed.pdl" --mesh "$on" $defines --emit plan >"$work/plan" &&
        grep "^memory" "$work/plan" &&
        grep -q "^memory  *$figure per rank" "$work/plan"
}

# row TARGET MODEL PLAN MESH LIMIT WORDS: the plan is refused, and its advice
# has these words and is right.
row() {
    target=$1 model=$2 chosen=$3 mesh=$4 limit=$5
    label="$target, $model, $limit"
    plan "examples/$model.pdl" --mesh "$mesh" >/dev/null 2>"$work/error"
    check "$label is refused" test $? = 1
    sed -n 's/^ *= help: //p' "$work/error" >"$work/advice"
    check "$label: changes are listed" test "$(wc -l <"$work/advice")" -gt 1
    check "$label: the list has '$6'" grep -qF -- "$6" "$work/advice"
    while read -r line; do
        check "$label: '$line' makes the plan fit" follow "$line"
    done <"$work/advice"
}

sizes="$llama_sizes -D n_layers=8"
for limit in 2600K 2200K; do
    row cuda llama tp_fsdp 2x2 "$limit" "in the plan: "
    row cpu llama tp_fsdp 2x2 "$limit" "in the plan: "
done
limit=100K
for target in cpu cuda; do
    plan examples/llama.pdl --mesh 2x2 >/dev/null 2>"$work/error"
    check "no change fits, $target" grep -q \
        "no change that parc tried makes it fit" "$work/error"
done
limit=64G
check "a plan below the limit is accepted" plan examples/llama.pdl --mesh 2x2
free() {
    plan examples/llama.pdl --mesh 2x2 --emit plan 2>&1 |
        grep "of 62.00 GiB stay free"
}
check "the free memory is printed" free

# Where a plan fits only if gradients are not accumulated beside the next layer, they are not.
sizes="-D batch=1024 -D seq=64 -D accumulate=2 -D dim=8192 -D n_heads=64 -D n_kv_heads=64
    -D hidden=28672"
without_overlap() { # without_overlap LIMIT OVERLAP
    limit=$1
    plan examples/llama.pdl --mesh 512x1 --emit json="$work/json" 2>"$work/message" &&
        jq -e "all(.settings.fully_shard[]; .overlap == $2)" "$work/json"
}
target=cuda
check "a plan with overlap" without_overlap 13G true
check "a plan that fits only without" without_overlap 9300M false
check "a note says why" grep -q "note: units that do not say it have overlap=false" \
    "$work/message"

# Shards instead of replicas; with less memory also chunks or recomputation.
sizes=$transformer_sizes
row cpu transformer no_shard 2 5200K "strategy=full_shard for every unit: "
row cuda transformer no_shard 2 5200K "strategy=full_shard for every unit: "
row cpu transformer no_shard 2 3800K "and strategy=full_shard for every unit: "
finish
