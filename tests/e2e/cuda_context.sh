#!/bin/sh
# cuda_context.sh: CUDA programs whose plans split sequences, on the stand-ins: they have the
# losses of one CPU rank, whether queued work runs early or late.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

model=tests/data/context.pdl
one_cpu_rank one
check "heads, dp=2 cp=2" follows fast 1e-5 2x2 --plan heads
check "gathered keys, tp=2 cp=2" follows fast 1e-5 2x2 --plan gather_tensor
in_all check "gathered keys, cp=4" follows fast 1e-5 1x4 --plan gather
in_all check "heads, tp=2 cp=2" follows fast 1e-5 2x2 --plan tensor
in_all check "a pipeline" follows fast 1e-5 2x2 --plan stages -D accumulate=2
finish
