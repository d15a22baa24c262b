#!/bin/sh
# imported.sh: the files that parc-from-torch wrote for the models in tests/torch/models
# (tests/torch/imports.py records them in tests/data/imported) compile with all their
# plans, have one curve on several meshes, and are parc's own text of their syntax trees.
# cpu: losses
. "$(dirname "$0")/lib.sh"
files=tests/data/imported

imported() { # imported MODEL MESH
    check "$1 $2 compiles" "$PARC" "$files/$1.pdl" --target cpu \
        --mesh "$2" -o "$work/$1-$2"
    check "$1 $2 trains" "$work/$1-$2" --steps 5 --data "${3:-bytes:$text}" --seed 1 \
        --log "$work/$1-$2.log"
}
curve() { # curve MODEL MESH MESH [DATA]
    imported "$1" "$2" "${4:-}"
    imported "$1" "$3" "${4:-}"
    check "$1 has one curve" same_curve "$work/$1-$2.log" "$work/$1-$3.log" 1e-5
}
curve llama2 1x1 2x2
curve encoder_decoder 1 4 synthetic
in_all curve feed_forward 1x1 2x2
in_all curve llama 1x1 2x2
in_all curve gpt2 1 2
in_all curve bert 1 2
in_all curve toy 1x1 2x2 synthetic
in_all curve feed_forward_block 1x1 2x2 synthetic

# The plans of the other functions, each for two ranks of every axis.
plans() { # plans MODEL
    cat "$files/$1.pdl" "$files/$1.plans" >"$work/$1.pdl"
    sed -n 's/^plan \([a-z0-9_]*\)(\([^)]*\)).*/\1 \2/p' "$files/$1.plans" |
        while read -r plan axes; do
            mesh=$(echo "$axes" | sed 's/[A-Za-z_][A-Za-z_]*/2/g; s/[, ]\{1,\}/x/g')
            echo "$1 $plan on $mesh"
            "$PARC" "$work/$1.pdl" --plan "$plan" --mesh "$mesh" --emit plan \
                >"$work/plan" || exit 1
        done
}
for list in "$files"/*.plans; do
    name=$(basename "$list" .plans)
    check "the plans of $name compile" plans "$name"
done

check "a model with dropout plans" "$PARC" "$files/encoder_decoder_dropout.pdl" \
    --mesh 2 --emit plan

# parc's own print of the file differs in white space and the notation of numbers only,
# and is its own print.
same_tree() { # same_tree FILE
    "$PARC" "$1" --emit ast >"$work/ast.pdl" || return 1
    "$PARC" "$work/ast.pdl" --emit ast | diff "$work/ast.pdl" - || return 1
    python3 tests/tools/same_tokens.py "$1" "$work/ast.pdl"
}
for file in "$files"/*.pdl; do
    check "$(basename "$file") is the text of its tree" same_tree "$file"
done

# An imported file is at most half as long again as the example that a person wrote, names
# the lines of the classes, calls modules of the prelude, and has its sizes as formals.
lines() { # lines FILE: without comments and blank lines
    grep -cv '^ *\(#.*\)\{0,1\}$' "$1"
}
# written MODEL EXAMPLE SOURCE TEXT…
written() {
    file=$files/$1.pdl example=$2 source=$3
    shift 3
    echo "$(lines "$file") lines, $example has $(lines "examples/$example.pdl")"
    [ $((2 * $(lines "$file"))) -le $((3 * $(lines "examples/$example.pdl"))) ] || return 1
    [ "$(grep -c "^# \($source\|pytorch_utils.py\):[0-9]*$" "$file")" = "$(grep -cE '^(module|model) ' "$file")" ] ||
        return 1
    for words; do grep -F "$words" "$file" || return 1; done
}
# resized MODEL MESH OPTION…: compiles and trains a step
resized() {
    file=$files/$1.pdl mesh=$2
    shift 2
    "$PARC" "$file" --target cpu --mesh "$mesh" -D batch=2 -D seq=16 "$@" -o "$work/resized" &&
        "$work/resized" --steps 1 --data "bytes:$text" --log "$work/resized.log" &&
        jq -es 'length == 1' "$work/resized.log"
}
check "GPT-2 is as a person writes it" written gpt2 gpt2 modeling_gpt2.py \
    "LayerNorm(n_embd, eps=layer_norm_epsilon)" "[n_layer] GPT2Block(" "causal=true" \
    "for block in h {" "gelu(c_fc(" "tie lm_head.weight = transformer.wte.weight"
check "Llama is as a person writes it" written llama llama modeling_llama.py \
    "RMSNorm(hidden_size, eps=rms_norm_eps)" "[num_hidden_layers] LlamaDecoderLayer(" \
    "rope(query_states, rope_theta, style=half)" "down_proj(silu(gate_proj(x)) * up_proj(x))"
check "BERT is as a person writes it" written bert bert modeling_bert.py \
    "LayerNorm(hidden_size, eps=layer_norm_eps)" "[num_hidden_layers] BertLayer(" \
    "attention(query_layer, key_layer, value_layer)" "for block in layer {"
check "GPT-2 has other sizes" resized gpt2 1 -D n_layer=3 -D n_embd=96 -D n_head=6
check "Llama has other sizes" resized llama 1x1 -D num_hidden_layers=5 -D hidden_size=96 \
    -D num_key_value_heads=4 -D intermediate_size=64
check "BERT has other sizes" resized bert 1 -D num_hidden_layers=3 -D hidden_size=96 \
    -D num_attention_heads=6 -D intermediate_size=128

check "a larger model plans" "$PARC" "$files/llama2.pdl" --mesh 8x8 \
    -D n_layers=32 -D dim=4096 -D n_heads=32 -D n_kv_heads=32 -D hidden_dim=11008 -D vocab_size=32000 \
    -D batch=64 -D seq=2048 -D precision=bf16 --emit plan
check "an encoder and decoder with a billion parameters plan" sh -c \
    "'$PARC' '$files/encoder_decoder.pdl' --mesh 8 -D nlayers=32 -D ninp=1024 -D nhead=64 \
        -D nhid=4096 -D vocab_size=33278 -D batch=64 -D seq=128 --emit plan |
        grep -E '^parameters +1.01 G in the model'"
finish
