#!/bin/sh
# cuda_ring.sh: CUDA programs whose ranks pass on keys and values of attention, on the
# stand-ins: they have the losses of one CPU rank, whether queued work runs early or late.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
. "$(dirname "$0")/lib_ring.sh"

model=$work/ring.pdl
without_bias >"$model"
one_cpu_rank one
check "cp=4" follows fast 1e-5 1x4 --plan ring
check "tp=2 cp=2" follows fast 1e-5 2x2 --plan ring_tensor
in_all check "dp=2 cp=2, microbatches" follows fast 1e-5 2x2 --plan ring -D accumulate=2
in_all check "a pipeline" follows fast 1e-5 2x2 --plan ring_stages -D accumulate=2
finish
