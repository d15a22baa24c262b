# lib_hf.sh: sourced by the tests of models with names of Hugging Face.
# shellcheck disable=SC2034
hf_models="hf_deepseek_moe hf_gpt2 hf_llama3 hf_mistral hf_mixtral hf_qwen3"
# A prompt, as ids.
hf_ids=84,104,101,32

# The steps that are compared with PyTorch: more where another choice of experts would show.
hf_steps() {
    case $1 in
    hf_deepseek_moe | hf_mixtral) echo 20 ;;
    *) echo 5 ;;
    esac
}

# hf_compile MODEL OUT MESH [CONFIG [FILE [OPTIONS…]]]: compiles examples/X.pdl, for the model
# hf_X, or another FILE, without clipping and schedule, at a small size or at that of a
# config.json.
hf_compile() {
    file=$root/examples/${1#hf_}.pdl
    options="-D batch=8 -D seq=32 -D precision=f32 --threads 1"
    sizes="-D vocab=256 -D dim=64 -D n_layers=2 -D n_heads=4"
    case $1 in
    hf_gpt2)
        options="$options -D clip=none -D schedule=constant -D optimizer.lr=3e-4"
        sizes="$sizes -D n_positions=32" ;;
    hf_deepseek_moe)
        options="$options -D balance_rate=0.01"
        sizes="-D vocab=256 -D dim=64 -D n_layers=3 -D dense_layers=1 -D n_heads=4 -D q_rank=24
            -D kv_rank=16 -D nope_dim=16 -D rope_dim=8 -D v_dim=16 -D hidden=128
            -D expert_hidden=32 -D experts=8 -D top_k=3 -D groups=4 -D top_groups=2
            -D rope_type=yarn -D rope_factor=4.0 -D rope_original=16 -D max_seq=64" ;;
    hf_llama3) sizes="$sizes -D n_kv_heads=2 -D hidden=128 -D max_seq=64" ;;
    *) sizes="$sizes -D n_kv_heads=2 -D hidden=128 -D max_seq=64 -D head_dim=32" ;;
    esac
    [ -z "${4:-}" ] || sizes=
    mesh=$3 out=$2 config=${4:-} file=${5:-$file}
    shift $(($# < 5 ? $# : 5))
    # shellcheck disable=SC2086
    "$PARC" "$file" --mesh "$mesh" --target cpu $options ${config:+--config "$config"} $sizes \
        -o "$out" "$@"
}

# hf_weights MODEL DIRECTORY: writes the sharded model DIRECTORY/made, in bf16, with
# weights that are a function of name and index.
hf_weights() {
    mkdir -p "$2" && hf_compile "$1" "$2/one" 1x1 &&
        "$2/one" --steps 0 --export "$2/shapes/" &&
        python3 "$root/tests/tools/weights.py" fill "$2/shapes" "$2/made" 50000
}
