#!/bin/sh
# config.sh: --config takes a model's sizes from the config.json of Hugging Face, as
# published, and refuses what the model does not compute.
. "$(dirname "$0")/lib.sh"
plan() { # plan MODEL OPTION…: the lowered program, which has every number
    model=$1
    shift
    "$PARC" "examples/$model.pdl" "$@" --mesh 2x1 --stop-after lower --emit ir
}

# The file's sizes are those of the options.
same() { # same MODEL FILE OPTIONS…
    model=$1 file=$2
    shift 2
    plan "$model" --config "$file" >"$work/config" && plan "$model" "$@" >"$work/defines" &&
        diff "$work/config" "$work/defines"
}
published=tests/data/config
check "Llama 3 8B" same llama3 $published/llama3.json
check "Mistral 7B" same mistral $published/mistral.json
check "Mixtral 8x7B" same mixtral $published/mixtral.json
check "DeepSeek V3" same deepseek_moe $published/deepseek_v3.json -D rope_type=yarn \
    -D max_seq=163840
check "Qwen 3 0.6B" same qwen3 $published/qwen3.json
check "GPT-2" same gpt2 $published/gpt2.json -D dropout=0.1

# changed NAME SCRIPT: the path of a published file that jq changed
changed() {
    jq "$2" "$published/$1.json" >"$work/$1.json" && echo "$work/$1.json"
}
check "Llama 3 70B" same llama3 "$(changed llama3 '.hidden_size = 8192 |
    .num_hidden_layers = 80 | .num_attention_heads = 64 | .intermediate_size = 28672')" \
    -D dim=8192 -D n_layers=80 -D n_heads=64 -D hidden=28672
scaling='factor: 8.0, high_freq_factor: 4.0, low_freq_factor: 1.0,
    original_max_position_embeddings: 8192, rope_type: "llama3"'
check "Llama 3.1 8B" same llama3 "$(changed llama3 ".max_position_embeddings = 131072 |
    .rope_scaling = {$scaling}")" -D max_seq=131072 -D rope_type=llama3
check "Llama 3.2 1B" same llama3 "$(changed llama3 "del(.rope_theta, .rope_scaling) |
    .rope_parameters = {rope_theta: 500000.0, $scaling} | .rope_parameters.factor = 32.0 |
    .hidden_size = 2048 | .num_hidden_layers = 16 | .intermediate_size = 8192 |
    .head_dim = 64 | .tie_word_embeddings = true")" -D rope_type=llama3 -D rope_factor=32.0 \
    -D dim=2048 -D n_layers=16 -D hidden=8192 -D tied=true
check "Qwen 3 8B" same qwen3 "$(changed qwen3 '.hidden_size = 4096 |
    .num_hidden_layers = 36 | .num_attention_heads = 32 | .intermediate_size = 12288 |
    .tie_word_embeddings = false')" \
    -D dim=4096 -D n_layers=36 -D n_heads=32 -D hidden=12288 -D tied=false
check "Mistral 7B v0.1" same mistral "$(changed mistral '.sliding_window = 4096 |
    .rope_theta = 10000.0')" -D window=4096 -D rope_theta=10000.0
check "Mistral Nemo" same mistral "$(changed mistral '.hidden_size = 5120 |
    .num_hidden_layers = 40 | .head_dim = 128')" -D dim=5120 -D n_layers=40 -D head_dim=128
check "Mixtral 8x22B" same mixtral "$(changed mixtral '.hidden_size = 6144 |
    .num_hidden_layers = 56 | .num_attention_heads = 48 | .intermediate_size = 16384 |
    .max_position_embeddings = 65536 | .vocab_size = 32768')" -D dim=6144 -D n_layers=56 \
    -D n_heads=48 -D hidden=16384 -D max_seq=65536 -D vocab=32768
check "DeepSeek V3 of transformers 5" same deepseek_moe "$(changed deepseek_v3 \
    '.rope_parameters = {rope_theta: 10000.0, rope_type: "default"} |
    del(.rope_theta, .rope_scaling) | .first_k_dense_replace = 1 | .n_group = 1 |
    .topk_group = 1')" -D max_seq=163840 -D dense_layers=1 -D groups=1 -D top_groups=1
check "GPT-2 XL" same gpt2 "$(changed gpt2 '.n_embd = 1600 | .n_layer = 48 | .n_head = 25 |
    .attn_pdrop = 0 | .resid_pdrop = 0 | .embd_pdrop = 0')" \
    -D dim=1600 -D n_layers=48 -D n_heads=25

# The configuration of a model of several parts has that of the language model inside.
parts() { # parts NAME: prints the path of a file
    jq '{architectures: ["SeveralForConditionalGeneration"], model_type: "several",
        vision_config: {model_type: "vision", hidden_size: 7},
        thinker_config: {text_config: .}, image_token_id: 5}' "$published/$1.json" \
        >"$work/parts.json" && echo "$work/parts.json"
}
check "the text_config of several" same llama3 "$(parts llama3)"
check "rope_parameters of a text_config" same qwen3 "$(parts qwen3)"
part_refused() { # the entry of the part differs
    file=$(parts llama3) && jq '.thinker_config.text_config.mlp_bias = true' "$file" \
        >"$work/part.json" && ! plan llama3 --config "$work/part.json" 2>"$work/err" &&
        grep "part.json:[0-9]*:[0-9]*: error: 'mlp_bias' is true; the model has false" "$work/err"
}
check "an entry of a part" part_refused

# A directory; -D overrides.
mkdir "$work/model"
cp $published/llama3.json "$work/model/config.json"
check "a directory" same llama3 "$work/model"
overridden() {
    plan llama3 --config "$work/model" -D n_layers=2 -D dim=2048 >"$work/config" &&
        plan llama3 -D n_layers=2 -D dim=2048 >"$work/defines" &&
        diff "$work/config" "$work/defines"
}
check "-D overrides the file" overridden

# A vision model, whose labels are counted.
vit() {
    cat >"$work/vit.json" <<'END'
{"architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": 32,
 "num_channels": 3, "patch_size": 8, "hidden_size": 64, "num_hidden_layers": 2,
 "num_attention_heads": 4, "intermediate_size": 128, "layer_norm_eps": 1e-06,
 "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
 "id2label": {"0": "cat", "1": "dog", "2": "bird"}, "label2id": {"cat": 0}, "qkv_bias": true,
 "encoder_stride": 16}
END
    same vit "$work/vit.json" -D classes=3 -D size=32 -D patch=8 -D dim=64 -D n_layers=2 \
        -D n_heads=4 -D hidden=128 -D norm_eps=1e-6
}
check "ViT" vit

# Files that are none.
bad() { # bad TEXT MESSAGE
    printf '%s' "$1" >"$work/bad.json"
    if plan llama3 --config "$work/bad.json" >"$work/out" 2>"$work/err"; then return 1; fi
    grep -F "$2" "$work/err"
}
# refused NAME SCRIPT MESSAGE [MODEL]: the changed file is an error with this message, which
# names the file and writes nothing
refused() {
    file=$(changed "$1" "$2") || return 1
    if plan "${4:-$1}" --config "$file" >"$work/out" 2>"$work/err"; then return 1; fi
    [ ! -s "$work/out" ] && grep -F "$3" "$work/err" && grep -F "$file:" "$work/err"
}
bad_scaling() {
    file=$(changed llama3 ".rope_scaling = {$scaling} | .rope_scaling.rope_type = \"dynamic\"") &&
        ! plan llama3 --config "$file" 2>"$work/err" &&
        grep "must be default, linear, llama3, yarn or yarn_exact, not 'dynamic'" "$work/err"
}
check "scaled rope of another name" refused llama3 \
    '.rope_scaling = {type: "dynamic", factor: 8.0}' "the file has no 'rope_scaling.low_freq_factor'"
check "scaled rope" refused qwen3 '.rope_parameters = {rope_type: "yarn", factor: 4.0,
    original_max_position_embeddings: 32768, rope_theta: 1000000}' \
    "the model has no entry 'rope_type'"
check "no part is the model" refused llama3 '{model_type: "several", text_config: {model_type:
    "other"}}' "this is no config.json of 'llama'"
check "activation" refused llama3 '.hidden_act = "gelu"' \
    "'hidden_act' is 'gelu'; the model has 'silu'"
check "a bias" refused llama3 '.mlp_bias = true' "'mlp_bias' is true; the model has false"
check "some layers with a window" refused qwen3 '.layer_types[1] = "sliding_attention"' \
    "the model has no entry 'layer_types'"
check "head_dim" refused llama3 '.head_dim = 64' "'head_dim' is 64; the model has 128"
check "two dropouts" refused gpt2 '.attn_pdrop = 0.2' "'attn_pdrop' is 0.2; the model has 0.1"
check "scores of another scale" refused gpt2 '.scale_attn_weights = false' \
    "'scale_attn_weights' is false; the model has true"
check "a quantized model" refused llama3 '.quantization_config = {bits: 4}' \
    "the model has no entry 'quantization_config'"
check "an object for a number" refused llama3 '.hidden_act = {name: "silu"}' \
    "'hidden_act' is an object; the model has 'silu'"
check "an object for a size" refused llama3 '.hidden_size = {}' "the file has no 'hidden_size'"
check "a list of objects for a number" refused llama3 '.hidden_act = [{name: "silu"}]' \
    "'hidden_act' is an object; the model has 'silu'"
check "a list of objects" refused llama3 '.architectures = [{}]' "'architectures' is an object"
check "infinity" bad '{"rope_theta": 1e999}' "bad.json:1:"
check "a part of a scaling" refused llama3 '.rope_scaling = {rope_type: "yarn", factor: 4.0}' \
    "the file has no 'rope_scaling.low_freq_factor'"
check "an unknown scaling" bad_scaling
check "weights that are not tied" refused mistral '.tie_word_embeddings = true' \
    "'tie_word_embeddings' is true; the model has false"
check "labels of a language model" same gpt2 "$(changed gpt2 '.id2label = {"0": "LABEL_0"} |
    .label2id = {"LABEL_0": 0}')" -D dropout=0.1
check "half a layer" refused llama3 '.num_hidden_layers = 2.5' "'n_layers' is 2.5"
check "a size above 64 bits" refused llama3 '.hidden_size = 99999999999999999999' \
    "'dim' is 1e+20"
check "no number of heads" refused llama3 'del(.num_key_value_heads)' \
    "the file has no 'num_key_value_heads'"
check "another model" refused qwen3 . "this is no config.json of 'llama'" llama3
check "no block of names" refused llama3 . "names hf" llama

check "no JSON" bad 'hidden_size = 1' "bad.json:1:1"
check "an empty file" bad '' "bad.json:1:1"
check "an end too early" bad '{"hidden_size": 40' "bad.json:1:"
check "text after the object" bad '{} {}' "bad.json:1:4: error: the file goes on after its object"
check "deep lists" bad "{\"a\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}" "nested too deeply"
absent() {
    ! plan llama3 --config "$work/absent" 2>"$work/err" && grep "cannot read '$work/absent'" "$work/err"
}
check "no file" absent
finish
