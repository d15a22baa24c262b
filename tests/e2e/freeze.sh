#!/bin/sh
# freeze.sh: frozen parameters do not change. The collectives, the optimizer
# states and the parts of the backward pass that only they would need are
# absent.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# plan NAME ITEMS: writes llama.pdl with a freeze clause in its plan.
plan() {
    sed "s/^    fully_shard dp.*/&\n    freeze { $2 }/" examples/llama.pdl \
        >"$work/$1.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh 2x2 $llama_sizes \
        -D n_layers=2 --emit json="$work/$1.json"
}
# counts NAME AXIS KIND PHASES: calls per step.
counts() {
    jq --arg a "$2" --arg k "$3" --arg p "$4" '[.collectives[] | select(
        .axis == $a and .kind == $k and (.phase | IN($p | split(" ")[])))
        | .count] | add // 0' "$work/$1.json"
}
count_is() { # NAME AXIS KIND PHASES EXPECTED
    n=$(counts "$1" "$2" "$3" "$4")
    echo "$1 $2 $3 $4: $n, expected $5"
    [ "$n" = "$5" ]
}
no_states() { # NAME: the optimizer states need less memory than without freezing
    a=$(jq .memory.optimizer "$work/nothing.json")
    b=$(jq .memory.optimizer "$work/$1.json")
    echo "$a $b"
    [ "$b" -lt "$a" ]
}
unchanged() { # NAME PATTERN: these tensors keep their initial bytes
    python3 - "$work/$1-start.st" "$work/$1-end.st" "$2" <<'PYTHON'
import json, re, struct, sys
def tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in head.items()}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
for name in a:
    frozen = re.fullmatch(sys.argv[3], name) is not None
    assert (a[name] == b[name]) == frozen, name
assert any(re.fullmatch(sys.argv[3], name) for name in a)
PYTHON
}
train() { # NAME MESH
    # shellcheck disable=SC2086
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh "$2" $llama_sizes \
        -D n_layers=2 -o "$work/$1-$2" &&
        "$work/$1-$2" --steps 5 --seed 1 --data "bytes:$text" \
            --log "$work/$1-$2.log" --export "$work/$1-end.st"
}

cp examples/llama.pdl "$work/nothing.pdl"
# shellcheck disable=SC2086
"$PARC" examples/llama.pdl --target cpu --threads 1 --mesh 2x2 $llama_sizes \
    -D n_layers=2 --emit json="$work/nothing.json"
check "freeze the embedding" plan embedding "tok_embeddings"
check "freeze the blocks' matrices" plan matrices \
    "every Attention, every FeedForward"
check "freeze all but the head" plan body "tok_embeddings, layers.*, norm"

# The embedding's gradient is not scattered, and its inputs are not gathered;
# all other collectives remain.
check "no scatter of the embedding's gradient" count_is embedding dp \
    reduce_scatter "backward optimizer" 3
check "the frozen embedding is still gathered" \
    count_is embedding dp all_gather forward 4
check "no gather of the embedding's output gradient" count_is embedding tp \
    all_gather backward $(($(counts nothing tp all_gather backward) - 1))
# Gradients flow through frozen matrices to the parameters before them.
check "gradients flow through frozen matrices" \
    count_is matrices tp reduce_scatter \
    backward "$(counts nothing tp reduce_scatter backward)"
check "gradients of the blocks' norm weights are reduce-scattered" \
    count_is matrices dp \
    reduce_scatter "backward optimizer" 4
# No backward pass runs through the blocks.
check "only the head's unit is reduced" count_is body dp reduce_scatter \
    "backward optimizer" 1
check "no block is re-gathered for the backward pass" \
    count_is body dp all_gather backward 0
check "no tp reduce-scatter in the backward pass" \
    count_is body tp reduce_scatter backward 0
for name in embedding matrices body; do
    check "$name: frozen parameters have no optimizer states" no_states $name
done

for mesh in 1x1 2x2; do
    check "$mesh trains" train matrices $mesh
done
check "both meshes have one curve" same_curve "$work/matrices-2x2.log" \
    "$work/matrices-1x1.log" 1e-5
check "initial weights are exported" "$work/matrices-1x1" --steps 0 --seed 1 \
    --export "$work/matrices-start.st"
check "frozen weights are unchanged, others are not" unchanged matrices \
    ".*(attention|feed_forward)\.w[0-9a-z]+\.weight"
finish
