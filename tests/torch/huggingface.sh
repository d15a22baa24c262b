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
# routes MODEL DIRECTORY STEPS RUN: in each step the tokens choose transformers' experts.
routes() {
    mkdir -p "$4/routing" &&
        torch_routing model "$root/examples/${1#hf_}.pdl" "$root/frontend/prelude.pdl" \
            "$4/routing.pdl" &&
        hf_compile "$1" "$4/routes" "$mesh" "" "$4/routing.pdl" &&
        "$4/routes" --steps $(($3 - 1)) --init "$2/before" --data "bytes:$text" \
            --save "$4/saved" --save-every 1 || return 1
    torch_routing batches "$text" "$3" "$4/routing" && from="--init $2/before"
    for step in $(seq 0 $(($3 - 1))); do
        # shellcheck disable=SC2086
        "$4/routes" $from --data "bytes:$4/routing/$step" \
            --predict "$4/routing/$step.safetensors" || return 1
        from="--resume $4/saved/step-$(printf %08d $((step + 1)))"
    done
    torch_routing check "$2/before" "$text" "$3" "$4/routing"
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
        case $which in *mixtral | *moe)
            check "$which $mesh chooses transformers' experts" routes "$which" "$at" "$steps" "$run"
            tail -1 "$work/check.log" ;;
        esac
        check "$which $mesh samples" sampled "$run" "$at"
        check "$which $mesh evaluates" torch eval "$at/before" "$text" 3 \
            "$(evaluated "$run" "$at/before")"
    done
done
finish
