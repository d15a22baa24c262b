#!/bin/sh
# predict.sh: --predict writes the outputs of a model for all samples, the same
# on every mesh, and those that --eval computes the loss of.
# cpu: outputs
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

tool() { python3 "$root/tests/tools/predictions.py" "$@"; }
near() { # near A B: two numbers
    jq -ne --argjson a "$1" --argjson b "$2" \
        'if ($a - $b | fabs) < 1e-5 then true else error("\($a) and \($b)") end'
}

# ---- rows of numbers: 21 samples in batches of 8 ----
check "arrays" python3 "$root/tests/tools/arrays.py" rows . 21
for mesh in 1x1 2x2 4x1; do
    check "$mesh compiles" compile rows$mesh regression $mesh -D targets=2 \
        -D dim=64 -D hidden=128 -D n_layers=2 -D batch=8 --threads 1
done
check "trains" ./rows1x1 --data x=x.npy,y=y.npy --steps 10 --export weights
for mesh in 1x1 2x2 4x1; do
    check "$mesh predicts, without labels" ./rows$mesh --init weights \
        --predict out$mesh --data x=x.npy
    check "$mesh: the values" tool close out1x1 out$mesh 1e-5
done
check "the shape" test "$(tool show out2x2)" = "prediction F32 21 2"
loss() { # loss COMMAND…: the loss of --eval
    "$@" 2>/dev/null | jq .val_loss
}
squares_agree() {
    near "$(tool squares out2x2 y.npy 16)" "$(loss ./rows2x2 --init weights \
        --eval --val x=x.npy,y=y.npy)"
}
check "their loss is that of --eval" squares_agree
labels_too() {
    ./rows2x2 --init weights --predict - --data x=x.npy,y=y.npy 2>/dev/null |
        cmp - out2x2
}
check "to standard output, with labels" labels_too
resumed() {
    ./rows1x1 --data x=x.npy,y=y.npy --steps 10 --save saved &&
        ./rows2x2 --resume saved --predict resumed --data x=x.npy &&
        tool close out2x2 resumed 1e-5
}
check "from a checkpoint, from the first sample on" resumed

# ---- tokens: the logits of each position, in bf16 and with microbatches ----
head -c 200 "$text" >tokens.txt
sizes="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 -D hidden=64 -D batch=8 -D seq=16"
for mesh in 1x1 2x2; do
    # shellcheck disable=SC2086
    check "llama $mesh compiles" compile llama$mesh llama $mesh $sizes \
        -D precision=f32 -D accumulate=2 --threads 1
    check "llama $mesh predicts" ./llama$mesh --predict logits$mesh \
        --data bytes:tokens.txt
    check "llama $mesh: the logits" tool close logits1x1 logits$mesh 1e-4
done
check "12 sequences of 200 bytes" test "$(tool show logits2x2)" = \
    "logits F32 12 16 256"
entropy_agrees() {
    near "$(tool entropy logits2x2 tokens.txt 8)" "$(loss ./llama2x2 --eval \
        --val bytes:tokens.txt --val-steps 1)"
}
check "their loss is that of --eval" entropy_agrees
# shellcheck disable=SC2086
half() {
    compile half llama 2x1 $sizes -D precision=bf16 --threads 1 &&
        ./half --predict half.out --data bytes:tokens.txt &&
        tool close logits1x1 half.out 0.05
}
check "outputs of a program in bf16 are f32" half

# ---- several outputs ----
sed 's/return mse_loss(prediction, y), prediction/return mse_loss(prediction, y), prediction, h/' \
    "$root/examples/regression.pdl" >two.pdl
check "a model with two outputs" "$PARC" two.pdl --target cpu --mesh 2x2 \
    -D targets=2 -D dim=64 -D hidden=128 -D n_layers=2 -D batch=8 --threads 1 \
    -o two
check "predicts" ./two --init weights --predict two.out --data x=x.npy
check "both" test "$(tool show two.out | tr '\n' ' ')" = \
    "prediction F32 21 2 h F32 21 64 "
check "the first is as before" sh -c 'python3 "$1" squares two.out y.npy 16 >a &&
    python3 "$1" squares out2x2 y.npy 16 | cmp - a' sh \
    "$root/tests/tools/predictions.py"

# ---- errors ----
refused() { # refused TEXT COMMAND…
    phrase=$1
    shift
    ! "$@" >out 2>&1
    status=$?
    cat out
    [ $status = 0 ] && [ "$(grep -c error: out)" = 1 ] &&
        grep -qF -- "$phrase" out && [ ! -e none ]
}
check "no data" refused "--predict needs --data SPEC" ./rows1x1 --predict none
check "data without an end" refused "synthetic data has no last sample" \
    ./rows1x1 --predict none --data synthetic
check "steps" refused "leave --steps out" ./rows1x1 --predict none \
    --data x=x.npy --steps 3
check "an input without data" refused "the input 'x' has no data" \
    ./rows1x1 --predict none --data y=y.npy
check "its own input" refused "would overwrite what --data reads" \
    ./rows1x1 --predict x.npy --data x=x.npy
check "a directory that does not exist" refused "cannot write 'no/none'" \
    ./rows1x1 --predict no/none --data x=x.npy
check "two outputs to a pipe" refused "cannot have the 2 outputs" \
    ./two --predict - --data x=x.npy
check "a model that returns only the loss" compile only feedforward 1x1 \
    -D dim=8 -D hidden=8
check "has no outputs" refused "FeedForward has no outputs" ./only \
    --predict none --data x=x.npy
check "nothing temporary is left" sh -c '! ls | grep tmp'
finish
