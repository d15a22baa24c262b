#!/bin/sh
# imported.sh: the files that parc-from-torch wrote for the models in tests/torch/models
# (tests/torch/imports.py records them in tests/data/imported) compile and have one
# curve on several meshes.
# cpu: losses
. "$(dirname "$0")/lib.sh"

imported() { # imported MODEL MESH
    check "$1 $2 compiles" "$PARC" "tests/data/imported/$1.pdl" --target cpu \
        --mesh "$2" -o "$work/$1-$2"
    check "$1 $2 trains" "$work/$1-$2" --steps 5 --data "bytes:$text" --seed 1 \
        --log "$work/$1-$2.log"
}
curve() { # curve MODEL MESH MESH
    imported "$1" "$2"
    imported "$1" "$3"
    check "$1 has one curve" same_curve "$work/$1-$2.log" "$work/$1-$3.log" 1e-5
}
curve llama2 1x1 2x2
in_all curve feed_forward 1x1 2x2
in_all curve llama 1x1 2x2
in_all curve gpt2 1 2
check "a larger model plans" "$PARC" tests/data/imported/llama2.pdl --mesh 8x8 \
    -D n_layers=32 -D dim=4096 -D n_heads=32 -D hidden_dim=11008 -D vocab_size=32000 \
    -D batch=64 -D seq=2048 -D precision=bf16 --emit plan
finish
