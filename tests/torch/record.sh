#!/bin/sh
# record.sh: records PyTorch's losses for the tests' weights and batches in
# tests/torch/*.losses, and its validation losses and greedy tokens in *.json.
# Needs a Python that can import torch.
set -eu
. "$(dirname "$0")/../e2e/lib.sh"
for python in "${PYTHON:-python3}" /usr/bin/python3; do
    "$python" -c 'import torch' 2>/dev/null && break
done
. "$(dirname "$0")/../e2e/lib_hf.sh"
. "$(dirname "$0")/../e2e/lib_own_data.sh"
# record MODEL [OPTIONS...]
record() {
    model=$1
    shift
    compile "$work/$model" "$model" 1x1 "$@"
    "$work/$model" --steps 0 --seed 1 --export "$work/w.safetensors" \
        --export-names parc
    "$python" "tests/torch/$model.py" losses "$work/w.safetensors" "$text" 20 \
        >"$work/losses"
    mv "$work/losses" "tests/torch/$model.losses"
}
# record_forward MODEL: after record
record_forward() {
    "$python" "tests/torch/$1.py" record "$work/w.safetensors" "$text" \
        "A prompt of some words" 40 >"$work/json"
    mv "$work/json" "tests/torch/$1.json"
}
# record_own MODEL: the models that read NumPy files
record_own() {
    own_data "$1"
    batch=8
    [ "$1" != regression ] || batch=16
    own_compile "$1" "$work/own" 1x1
    rm -rf "$work/weights"
    "$work/own" --steps 0 --seed 1 --export "$work/weights/"
    "$python" tests/torch/own_data.py "$1" "$work/weights" "$work/$1.data" \
        $batch 5 >"$work/json"
    mv "$work/json" "tests/torch/$1.json"
}
record_conv() {
    own_data conv
    "$PARC" tests/data/conv.pdl --target cpu -o "$work/conv"
    "$work/conv" --steps 0 --seed 1 --export "$work/conv.safetensors"
    "$python" tests/torch/conv.py "$work/conv.safetensors" "$work/conv.data" 20 \
        >"$work/losses"
    mv "$work/losses" tests/torch/conv.losses
}
record_batch_norm() {
    own_data batch_norm
    "$PARC" tests/data/batch_norm.pdl --target cpu --plan units -o "$work/norm"
    "$work/norm" --steps 0 --seed 1 --export "$work/norm.safetensors"
    "$python" tests/torch/batch_norm.py "$work/norm.safetensors" \
        "$work/batch_norm.data" 20 1 2 >"$work/json"
    mv "$work/json" tests/torch/batch_norm.json
}
# record_data NAME [PLAN]: a model of tests/data that reads tokens
record_data() {
    "$PARC" "tests/data/$1.pdl" --target cpu ${2:+--plan "$2"} -o "$work/$1"
    "$work/$1" --steps 0 --seed 1 --export "$work/$1.safetensors"
    "$python" "tests/torch/$1.py" "$work/$1.safetensors" "$text" 20 >"$work/losses"
    mv "$work/losses" "tests/torch/$1.losses"
}
# Without a capacity, and with one.
record_experts() {
    record_data experts units
    "$python" tests/torch/experts.py "$work/experts.safetensors" "$text" 20 1.0 >"$work/losses"
    mv "$work/losses" tests/torch/experts_capacity.losses
}
record_hf() {
    hf_weights "$1" "$work/hf-$1" || exit 1
    "$python" tests/torch/huggingface.py losses "$work/hf-$1/made" "$text" "$(hf_steps "$1")" \
        >"$work/losses"
    mv "$work/losses" "tests/torch/$1.losses"
    "$python" tests/torch/huggingface.py sample "$work/hf-$1/made" "$hf_ids" 16 >"$work/ids"
    mv "$work/ids" "tests/torch/$1.ids"
}
case $* in
hf_*)
    record_hf "$1"
    exit ;;
conv | batch_norm)
    "record_$1"
    exit ;;
topk)
    record_data topk
    exit ;;
experts)
    record_experts
    exit ;;
esac
if [ $# -gt 0 ]; then # some of these models only
    for model; do
        record_own "$model"
    done
    exit
fi
for model in $own_models; do
    record_own "$model"
done
record_conv
record_batch_norm
record_data topk
record_experts
# shellcheck disable=SC2086
record llama $llama_sizes
record_forward llama
# shellcheck disable=SC2086
record gpt2 $gpt2_sizes
record_forward gpt2
# shellcheck disable=SC2086
record transformer --plan tensor_parallel $transformer_sizes -D dropout=0.0
for which in $hf_models; do
    record_hf "$which"
done
"$PARC" tests/torch/recipe.pdl --target cpu -o "$work/recipe"
"$work/recipe" --steps 0 --seed 1 --export "$work/w.safetensors"
"$python" tests/torch/recipe.py "$work/w.safetensors" "$text" 20 \
    >"$work/losses"
mv "$work/losses" tests/torch/recipe.losses
