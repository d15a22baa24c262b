#!/bin/sh
# cuda_predict.sh: --predict of CUDA programs, which run with stand-ins for CUDA's
# libraries, writes the outputs that the CPU computes, with one rank and with
# two, in every order of queued work.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
tool() { python3 "$root/tests/tools/predictions.py" "$@"; }

check "arrays" python3 "$root/tests/tools/arrays.py" rows "$work" 21
head -c 200 "$text" >"$work/tokens.txt"
rows="--data x=$work/x.npy"
tokens="--data bytes:$work/tokens.txt"
regression="-D targets=2 -D dim=24 -D hidden=40 -D n_layers=2 -D batch=8"
llama="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2
 -D hidden=48 -D batch=4 -D seq=16 -D precision=f32"

# agrees TREE ORDER DATA…: the outputs are those of the CPU.
agrees() {
    at=$1 order=$2
    shift 2
    cuda_run "$work/$at" fast "$order" --init "$work/weights" \
        --predict "$work/$at.out" "$@" &&
        tool close "$work/cpu.out" "$work/$at.out" 1e-5
}

# predicts MODEL SHAPE DATA OPTIONS: 21 rows, or 12 sequences, are no multiple of
# the batch.
predicts() {
    model=$1 shape=$2 data=$3 options=$4
    # shellcheck disable=SC2086
    {
        check "$model for the CPU" "$PARC" "examples/$model.pdl" --target cpu \
            --mesh 1x1 --threads 1 $options -o "$work/cpu"
        check "$model: weights" "$work/cpu" --steps 0 --export "$work/weights"
        check "$model: the CPU's outputs" "$work/cpu" --init "$work/weights" \
            --predict "$work/cpu.out" $data
    }
    check "$model: the shape" test "$(tool show "$work/cpu.out")" = "$shape"
    for mesh in 1x1 2x1 1x2; do
        # shellcheck disable=SC2086
        check "$model on $mesh is emitted" cuda_tree "$work/$model$mesh" \
            "examples/$model.pdl" --mesh $mesh --arch sm_90a $options
        for order in early late; do
            # shellcheck disable=SC2086
            check "$model on $mesh, $order" agrees $model$mesh $order $data
        done
    done
}
predicts regression "prediction F32 21 2" "$rows" "$regression"
predicts llama "logits F32 12 16 256" "$tokens" "$llama"
finish
