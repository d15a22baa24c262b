#!/bin/sh
# recompute.sh: the setting `recompute` changes no loss; what is saved, gathered and
# recomputed follows it; a run allocates the planned bytes.
# cpu: losses
. "$(dirname "$0")/lib.sh"

run() { # run LABEL
    "$work/$1" --threads 1 --steps 6 --data "bytes:$text" --seed 1 --log "$work/$1.log"
}
peak() { jq .memory.peak "$work/$1.json"; }
more_memory() { # more_memory A B: A needs more than B
    echo "$(peak "$1") and $(peak "$2") bytes"
    [ "$(peak "$1")" -gt "$(peak "$2")" ]
}
gathers() { # gathers LABEL N: gathers over tp of the backward pass, per step
    n=$(jq '[.collectives[] | select(.phase == "backward" and .axis == "tp" and
        .kind == "all_gather") | .count] | add // 0' "$work/$1.json")
    echo "$n gathers"
    [ "$n" -eq "$2" ]
}

case_of() { # case_of MODEL MESH PRECISION SIZES…
    case=$1-$2-$3
    model=$1 mesh=$2 precision=$3
    shift 3
    for word in all elementwise fused; do
        check "$case $word compiles" compile_for_cpu "$case-$word" "$model" "$mesh" "$@" \
            -D "precision=$precision" -D "recompute=$word"
        check "$case $word trains" run "$case-$word"
        check "$case $word allocates the planned bytes" as_planned \
            "$work/$case-$word.log" "$work/$case-$word.json"
    done
    for word in elementwise fused; do
        check "$case $word has the losses of all" \
            same_curve "$work/$case-$word.log" "$work/$case-all.log" "$tolerance"
    done
    check "$case fused needs more memory" more_memory "$case-fused" "$case-all"
}
# In f32 a saved value is the one that would be recomputed.
tolerance=0
# shellcheck disable=SC2086
case_of llama 2x2 f32 $llama_sizes -D n_layers=3
# shellcheck disable=SC2086
in_all case_of gpt2 1x1 f32 $gpt2_sizes -D n_layers=2 -D batch=16 -D dropout=0.1
# In bf16 a kernel that recomputes a value need not round it.
tolerance=1e-2
# shellcheck disable=SC2086
case_of llama 1x2 bf16 $llama_sizes -D n_layers=3

# In each of 3 layers the gradients of two modules are gathered, and that of the embedding;
# with `all` the inputs of these modules are re-gathered, and that of the head.
check "all re-gathers inputs" gathers llama-2x2-f32-all 14
check "elementwise saves gathered inputs" gathers llama-2x2-f32-elementwise 7
check "elementwise needs more memory" \
    more_memory llama-2x2-f32-elementwise llama-2x2-f32-all

# Under checkpoint the modules are recomputed, gathers too.
sed 's/^    fully_shard dp.*/&\
    checkpoint { layers.* }/' examples/llama.pdl >"$work/checkpoint.pdl"
checkpointed() { # checkpointed WORD
    # shellcheck disable=SC2086
    "$PARC" "$work/checkpoint.pdl" --target cpu --mesh 2x2 $llama_sizes \
        -D "recompute=$1" --emit json | jq '[.collectives[] | select(.phase == "backward" and
            .axis == "tp") | .count] | add'
}
same_collectives() {
    echo "$(checkpointed all) and $(checkpointed fused)"
    [ "$(checkpointed all)" -eq $(($(checkpointed fused) + 1)) ]
}
check "checkpoint recomputes its modules; the head's input is saved" same_collectives

# A plan that does not fit is told of the setting that needs less.
no_memory() {
    # shellcheck disable=SC2086
    if "$PARC" examples/llama.pdl --target cpu --mesh 2x2 $llama_sizes -D recompute=fused \
        -D n_layers=3 --device-memory "$(($(peak llama-2x2-f32-fused) - 1))" --emit plan; then
        return 1
    fi 2>&1 | grep -F -- '-D recompute=elementwise'
}
check "a plan that does not fit proposes it" no_memory
unknown_word() {
    if "$PARC" examples/llama.pdl -D recompute=none --emit plan; then
        return 1
    fi 2>&1 | grep -F "all, elementwise or fused"
}
check "a word that is unknown is an error" unknown_word

finish
