#!/bin/sh
# huggingface.sh: models that transformers initializes and saves are loaded,
# trained, evaluated, sampled and exported by binaries on several meshes; the
# losses, the tokens, and the logits of the exported model in transformers, are
# those of PyTorch.
#
#   PYTHON=venv/bin/python tests/torch/huggingface.sh [MODEL…]
#
# Needs the packages torch and transformers (recorded with 2.15 and 5.23). `make
# check` compares with recorded losses instead: tests/e2e/huggingface.sh.
. "$(dirname "$0")/../e2e/lib.sh"
. "$root/tests/e2e/lib_hf.sh"
python=${PYTHON:-python3}
weights() {
    python3 "$root/tests/tools/weights.py" "$@"
}
torch_routing() {
    "$python" "$root/tests/torch/routing.py" "$@"
}
torch() {
    "$python" "$root/tests/torch/huggingface.py" "$@"
}

# sampled RUN WHICH: the binary continues with the tokens of transformers.
sampled() {
    "$1/train" --init "$2/made" --sample-ids "$hf_ids" --tokens 16 \
        >"$1/ids" && cmp "$1/ids" "$2/ids"
}
# evaluated RUN WEIGHTS: prints the binary's loss of three batches
evaluated() {
    "$1/train" --init "$2" --eval --val "bytes:$text" --val-steps 3 \
        2>"$work/err" | jq .val_loss
}
# Meshes and plans on which tokens choose transformers' experts: MESH PLAN OPTIONS…. The plans
# are the examples' own, and those of routing_plans.pdl.
routing_meshes="1x1 tp_fsdp
2x2 tp_fsdp
1x2 gathered
1x4 gathered
1x2 exchanged
1x4 exchanged
2x2 exchanged -D accumulate=2
2x2 tensor
2x2 sequences
2x2 stages -D accumulate=2"

# routes MODEL DIRECTORY STEPS MESH PLAN OPTIONS…: trains, and writes the choices of each step.
routes() {
    model=$1 dir=$2 steps=$3 mesh=$4 plan=$5
    run=$dir/routing/$mesh-$plan
    runs="$runs $run"
    shift 5
    mkdir "$run" &&
        hf_compile "$model" "$run/train" "$mesh" "" "$dir/routing/model.pdl" --plan "$plan" "$@" &&
        "$run/train" --steps $((steps - 1)) --init "$dir/before" --data "bytes:$text" \
            --save "$run/saved" --save-every 1 || return 1
    from="--init $dir/before"
    for step in $(seq 0 $((steps - 1))); do
        # shellcheck disable=SC2086
        "$run/train" $from --data "bytes:$dir/routing/$step" \
            --predict "$run/$step.safetensors" || return 1
        from="--resume $run/saved/step-$(printf %08d $((step + 1)))"
    done
}
# all_routes MODEL DIRECTORY STEPS: in each step and on all meshes the tokens choose
# transformers' experts.
all_routes() {
    made=$2/routing/example.pdl runs=
    mkdir "$2/routing" &&
        torch_routing model "$root/examples/${1#hf_}.pdl" "$root/frontend/prelude.pdl" "$made" &&
        cat "$made" "$root/tests/torch/routing_plans.pdl" >"$2/routing/model.pdl"
    check "$1: transformers' choices of experts" torch_routing record "$2/before" "$text" "$3" \
        "$2/routing"
    echo "$routing_meshes" >"$work/meshes"
    while read -r row; do
        # shellcheck disable=SC2086
        check "$1 $row chooses experts" routes "$1" "$2" "$3" $row
    done <"$work/meshes"
    # shellcheck disable=SC2086
    check "$1: they are transformers'" torch_routing check "$2/routing" $runs
    grep ' equal experts$' "$work/check.log" | sed 's/.*routing.//'
}
# configured MODEL DIRECTORY: compiled with the configuration that transformers wrote, the
# model has the losses of the one with these sizes.
configured() {
    hf_compile "$1" "$2/configured" 1x1 "$2/before" &&
        for binary in train configured; do
            "$2/$binary" --steps 3 --init "$2/before" --data "bytes:$text" \
                --log "$2/$binary.log" && jq .loss "$2/$binary.log" >"$2/$binary.losses" ||
                return 1
        done && cmp "$2/train.losses" "$2/configured.losses"
}
for which in ${*:-$hf_models}; do
    at=$work/$which steps=$(hf_steps "$which")
    mkdir "$at"
    check "$which compiles" hf_compile "$which" "$at/train" 1x1
    check "$which: configuration" "$at/train" --steps 0 --export "$at/shapes/"
    check "$which: made by transformers" torch make "$at/shapes" "$at/before"
    check "$which: --config of transformers" configured "$which" "$at"
    check "$which: unchanged" "$at/train" --steps 0 --init "$at/before" \
        --export "$at/same/" --export-dtype bf16 --export-shard-size 50KB
    check "$which: the same tensors" weights same "$at/before" "$at/same"
    check "$which: made by a formula" hf_weights "$which" "$at"
    torch sample "$at/made" "$hf_ids" 16 >"$at/ids" 2>"$work/err" ||
        cat "$work/err"
    for mesh in 1x1 2x2; do
        run=$at/$mesh
        mkdir "$run"
        check "$which $mesh compiles" hf_compile "$which" "$run/train" $mesh
        check "$which $mesh trains" "$run/train" --steps "$steps" \
            --init "$at/before" --data "bytes:$text" --log "$run/log" \
            --export "$run/after/" --export-shard-size 100KB
        check "$which $mesh is transformers'" torch check "$at/before" \
            "$run/after" "$text" "$steps" "$run/log"
        tail -1 "$work/check.log"
        check "$which $mesh samples" sampled "$run" "$at"
        check "$which $mesh evaluates" torch eval "$at/before" "$text" 3 \
            "$(evaluated "$run" "$at/before")"
    done
    case $which in *mixtral | *moe) all_routes "$which" "$at" "$steps" ;; esac
done
finish
