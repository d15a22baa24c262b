#!/bin/sh
# huggingface.sh: the models with a block `names hf`. Weights that are a function
# of name and index are written as a sharded bf16 model of Hugging Face; the
# binary loads it, has the losses that transformers 5.23 with PyTorch 2.15 has
# for it (recorded by tests/torch/record.sh), and exports the same tensors. A
# model with adapters starts from such a base model. tests/torch/huggingface.sh
# compares with transformers itself.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_hf.sh"
weights() {
    python3 "$root/tests/tools/weights.py" "$@"
}
recorded() { # recorded MODEL LOG
    jq -c '{loss: .}' "$root/tests/torch/$1.losses" >"$work/torch.log" &&
        same_curve "$2" "$work/torch.log" 1e-5
}

# The first recorded loss, by evaluation.
evaluated() { # evaluated MODEL DIRECTORY
    "$2/train" --init "$2/made" --eval --val "bytes:$text" --val-steps 1 |
        jq -c '{loss: .val_loss}' >"$work/eval.log" &&
        head -1 "$root/tests/torch/$1.losses" | jq -c '{loss: .}' \
            >"$work/torch.log" && same_curve "$work/eval.log" "$work/torch.log" 1e-5
}
sampled() { # sampled MODEL DIRECTORY
    "$2/train" --init "$2/made" --sample-ids "$hf_ids" --tokens 16 \
        >"$work/ids" && diff "$work/ids" "$root/tests/torch/$1.ids"
}

for which in $hf_models; do
    at=$work/$which
    check "$which: weights" hf_weights "$which" "$at"
    check "$which compiles" hf_compile "$which" "$at/train" 2x2
    check "$which trains" "$at/train" --steps "$(hf_steps "$which")" --init "$at/made" \
        --data "bytes:$text" --log "$at/log"
    check "$which has PyTorch's losses" recorded "$which" "$at/log"
    check "$which: evaluated" evaluated "$which" "$at"
    check "$which: sampled" sampled "$which" "$at"
    check "$which: exported" "$at/train" --steps 0 --init "$at/made" \
        --export "$at/same/" --export-dtype bf16 --export-shard-size 50KB
    check "$which: the same tensors" weights same "$at/made" "$at/same"
    check "$which: configuration" cmp "$at/same/config.json" \
        "$at/shapes/config.json"
    check "$which: the model's own names" "$at/train" --steps 0 \
        --init "$at/made" --export "$at/own" --export-names parc
    check "$which: own names as --init" "$at/one" --steps 0 --init "$at/own" \
        --export "$at/same/" --export-dtype bf16
    check "$which: the same tensors again" weights same "$at/made" "$at/same"
done

# notes DIRECTORY: the notes of qwen3 about config.json
notes() {
    "$qwen3/train" --dry-run --init "$1" 2>&1 >/dev/null | grep config.json
}
qwen3=$work/hf_qwen3
parts() { # the configuration inside that of a model of several parts
    jq "{model_type: \"several\", vision_config: {model_type: \"vision\"}, text_config: .}" "$1" \
        >"$work/parts.json" && mv "$work/parts.json" "$1"
}
check "an equal configuration has no notes" sh -c "! '$qwen3/train' --dry-run \
    --init '$qwen3/made' 2>&1 | grep config.json"
scaling='"rope_scaling": {"rope_type": "llama3", "factor": 8.0}'
sed "s/1000000.0/10000.0/; s/1e-06/1e-05/; s/\"tie_word.*/$scaling/" \
    "$qwen3/made/config.json" >"$work/config.json"
check "another configuration" mv "$work/config.json" "$qwen3/made/config.json"
check "inside another" parts "$qwen3/made/config.json"
check "its differences" test "$(notes "$qwen3/made" | sed 's/.*note: //')" = \
    "rms_norm_eps is 1e-05; the program has 1e-06
rope_theta is 10000; the program has 1000000
rotary embeddings are scaled ('llama3'); the program does not scale them"
check "a log over a shard" sh -c "! '$qwen3/train' --init '$qwen3/made' --log \
    '$qwen3/made/model-00001-of-00005.safetensors' 2>'$work/err' &&
    grep -F -- '--log would overwrite what --init reads' '$work/err'"

gpt2=$work/hf_gpt2
explained() {
    "$PARC" "$root/examples/gpt2.pdl" --explain "$1" | grep -F "$2"
}
check "--explain names the tensor" explained h.*.attn.c_attn.k.weight \
    'in files: transformer.h.*.attn.c_attn.weight [768, 2304], from element 768'
check "without the prefix" weights rename "$gpt2/made" "$gpt2/bare" \
    transformer. ""
check "names without the prefix" "$gpt2/train" --steps 0 --init "$gpt2/bare" \
    --export "$gpt2/same/" --export-dtype bf16
check "the prefix is optional" weights same "$gpt2/made" "$gpt2/same"

# ---- adapters (LoRA) --------------------------------------------------------
cat >"$work/lora.pdl" <<'EOF_LORA'
module Adapted(dim, rank) {
    base: Linear(dim, dim, bias=false)
    a:    Linear(dim, rank, bias=false)
    b:    Linear(rank, dim, bias=false, init=zeros)
    forward(x) { return base(x) + b(a(x)) }
}
model Lora(vocab=256, dim=64, rank=4, n_layers=2) {
    wte:    Embedding(vocab, dim)
    layers: [n_layers] Adapted(dim, rank)
    head:   Linear(dim, vocab, bias=false)
    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        h = wte(tokens)
        for layer in layers { h = layer(h) }
        return cross_entropy(head(h), labels)
    }
}
plan fsdp(dp) {
    fully_shard dp { wte, layers.0: reshard=false, layers.1, head }
    freeze { wte, layers.*.base, head }
}
train {
    batch = 4
    seq = 16
}
names hf {
    wte           -> base_model.embed
    layers.*.base -> base_model.h.*.dense: transpose
    layers.*.a    -> base_model.h.*.dense.lora_A
    layers.*.b    -> base_model.h.*.dense.lora_B
    head          -> lm_head
}
EOF_LORA
lora() {
    "$work/lora" --seed 3 --data "bytes:$text" "$@"
}
cd "$work" || exit 1
check "lora compiles" "$PARC" lora.pdl --target cpu --mesh 2 --threads 1 -o lora
check "all weights" lora --steps 0 --export all --seed 9
check "the base model" weights drop all base '*.lora_*'
check "the base model lacks adapters" sh -c '
    ! ./lora --init base --steps 0 2>lora.err &&
    grep "no tensor .base_model.h.0.dense.lora_A.weight." lora.err'
check "adapters from the seed" lora --init base --init-partial --steps 10 \
    --log first.log --export trained/
check "the base does not change" sh -c "
    python3 $root/tests/tools/weights.py drop trained left '*.lora_*' &&
    python3 $root/tests/tools/weights.py same left base"
check "the adapters learn" jq -es '.[-1].loss < .[0].loss' first.log
check "the adapters alone" weights drop trained adapters '*[de].weight'
check "--export-only writes the adapters" lora --init trained --steps 0 \
    --export only/ --export-only 'layers.*.a' --export-only 'layers.*.b'
check "and nothing else" weights same only adapters
check "base and adapters" lora --init base --init adapters --steps 0 \
    --export again
check "are the trained model" weights same again trained
cd "$root" || exit 1
finish
