#!/bin/sh
# cuda_ring.sh: CUDA programs whose ranks pass on keys and values of attention, on the
# stand-ins: they have the losses of one CPU rank, whether queued work runs early or late.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
. "$(dirname "$0")/lib_ring.sh"

model=$work/ring.pdl
without_bias >"$model"
"$PARC" "$model" --target cpu --threads 1 --plan one -o "$work/one" &&
    "$work/one" --steps 6 --seed 3 --log "$work/one.log" || exit 1

follows() { # follows PLAN MESH [OPTIONS…]
    plan=$1 mesh=$2 at=$work/$1
    shift 2
    cuda_tree "$at" "$model" --plan "$plan" --mesh "$mesh" "$@" || return
    for order in early late; do
        cuda_run "$at" fast $order --steps 6 --seed 3 --log "$at.log" &&
            same_curve "$at.log" "$work/one.log" 1e-5 || return
    done
    rm -rf "$at"
}
check "cp=4" follows ring 1x4
check "tp=2 cp=2" follows ring_tensor 2x2
in_all check "dp=2 cp=2, microbatches" follows ring 2x2 -D accumulate=2
in_all check "a pipeline" follows ring_stages 2x2 -D accumulate=2
finish
