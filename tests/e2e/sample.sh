#!/bin/sh
# sample.sh: greedy samples are PyTorch's for the same weights
# (tests/torch/record.sh recorded them) and equal on every mesh; samples with a
# temperature depend on the seed alone.
# cpu: logits
. "$(dirname "$0")/lib.sh"

prompt=65,32,112,114,111,109,112,116,32,111,102,32,115,111,109,101,32,119,111,114,100,115
ids() { # ids PROGRAM [OPTIONS…]
    program=$1
    shift
    "$work/$program" --seed 1 --sample-ids "$prompt" --tokens 40 "$@"
}
is_torchs() { # is_torchs PROGRAM RECORD
    jq -e '.margin > 1e-4' "tests/torch/$2.json" &&
        jq -r '.ids | map(tostring) | join(" ")' "tests/torch/$2.json" \
            >"$work/want" &&
        ids "$1" >"$work/ids" && diff "$work/ids" "$work/want"
}
for model in llama gpt2; do
    eval "sizes=\$${model}_sizes"
    for mesh in 1x1 2x2; do
        # shellcheck disable=SC2086
        check "$model $mesh compiles" compile "$work/$model-$mesh" $model \
            $mesh --threads 1 $sizes
        check "$model $mesh: the tokens are PyTorch's" \
            is_torchs "$model-$mesh" "$model"
    done
done

# A byte-level model on meshes that split batch, sequence and vocabulary. 1x4
# splits 250 tokens unevenly.
for mesh in 1x1 2x2 4x1 1x4; do
    # shellcheck disable=SC2086
    check "bytes $mesh compiles" compile "$work/bytes-$mesh" llama $mesh \
        --threads 1 $llama_sizes -D vocab=250 -D n_kv_heads=4 \
        -D accumulate=2
done
# Trained weights: the margins between logits are wide.
check "trains, then samples" sh -c '"$1" --steps 30 --data "bytes:$2" \
    --export "$3" --sample "abc" --tokens 5 >"$4"' sh "$work/bytes-2x2" \
    "$text" "$work/w.st" "$work/after"
text_of() { # text_of MESH [OPTIONS…]
    mesh=$1
    shift
    "$work/bytes-$mesh" --init "$work/w.st" --sample "The run" --tokens 60 \
        "$@" >"$work/text.$mesh"
}
equal() { # equal [OPTIONS…]: on all meshes
    for mesh in 1x1 2x2 4x1 1x4; do
        text_of $mesh "$@" && od -c "$work/text.$mesh" &&
            cmp "$work/text.$mesh" "$work/text.1x1" || return 1
    done
    [ "$(wc -c <"$work/text.1x1")" = 68 ]
}
check "greedy text is equal on all meshes" equal
check "so is text of a temperature" equal --temperature 0.9 --seed 5
cp "$work/text.1x1" "$work/seed5"
check "and of the most probable tokens" equal --temperature 0.9 --top-k 4 \
    --seed 5
check "another seed" text_of 1x1 --temperature 0.9 --seed 6
check "gives another text" sh -c '! cmp "$1" "$2"' sh "$work/text.1x1" \
    "$work/seed5"
check "top-k 1 is greedy" text_of 1x1 --temperature 0.9 --top-k 1
check "equal to greedy" text_of 2x2
check "the same text" cmp "$work/text.1x1" "$work/text.2x2"
check "text begins with the prompt" grep -q '^The run' "$work/text.1x1"
check "sampling after training continues it" \
    sh -c '[ "$(head -c 3 "$1")" = abc ] && [ "$(wc -c <"$1")" -gt 8 ]' sh \
    "$work/after"
check "a prompt longer than the sequence" text_of 1x1 --sample \
    "A prompt of more than thirty-two bytes, of which the last are read"

# says STATUS TEXT PROGRAM OPTIONS…: it prints TEXT and ends with STATUS.
says() {
    want=$1 phrase=$2 program=$3
    shift 3
    "$work/$program" "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status = "$want" ] && grep -qF -- "$phrase" "$work/out"
}
check "weights that are not trained: a note" says 0 \
    "the weights are initial values" llama-1x1 --sample-ids 1 --tokens 1
check "text for a model of words" says 1 "--sample-ids takes token ids" \
    llama-1x1 --sample hello
check "an id beyond the vocabulary" says 1 \
    "--sample-ids: token 512 is beyond the vocabulary of 512" llama-1x1 \
    --sample-ids 1,512
check "no id" says 1 "needs at least one token" llama-1x1 --sample-ids ,
check "text as ids" says 1 "not 'x1'" llama-1x1 --sample-ids "3,x1"
check "too many tokens" says 1 "--tokens takes at most 1073741824" \
    llama-1x1 --sample-ids 1 --tokens 4611686018427387902
# Weights that are not numbers: safetensors with f32 of NaN.
"$work/llama-1x1" --steps 0 --export "$work/nan.st" 2>"$work/log"
check "makes weights of NaN" python3 - "$work/nan.st" <<'EOF'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
first = 8 + struct.unpack("<Q", data[:8])[0]
data[first:] = struct.pack("<f", float("nan")) * ((len(data) - first) // 4)
open(sys.argv[1], "wb").write(data)
EOF
check "logits of NaN" says 1 "cannot sample token 1: 'logits' is not finite" \
    llama-1x1 --sample-ids 1 --init "$work/nan.st"
check "--temperature alone" says 2 "--temperature needs --sample" \
    llama-1x1 --temperature 1
check "a negative temperature" says 2 "takes a number from 0" llama-1x1 \
    --sample-ids 1 --temperature -1
sed 's/, logits$//' examples/llama.pdl >"$work/loss.pdl"
# shellcheck disable=SC2086
check "a model that returns the loss alone compiles" "$PARC" \
    "$work/loss.pdl" --target cpu $llama_sizes -o "$work/loss"
check "it has no logits" says 1 "return loss, logits" loss --sample-ids 1
finish
