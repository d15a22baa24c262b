#!/bin/sh
# cuda_experts.sh: CUDA programs of mixtures of experts, on the stand-ins: they have the losses
# of one CPU rank, whether queued work runs early or late; an access of each kernel is checked. A
# second run takes the choices of matmuls that the first one stored, those with biases too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

model=tests/data/experts.pdl
one_cpu_rank units
STANDIN_CALLS=$work/calls
export STANDIN_CALLS
check "one GPU" follows checked 2e-5 1x1 --plan units
unset STANDIN_CALLS
# The host does not read the numbers of rows: all steps after the first one are graphs.
check "steps are graphs" test "$(grep -c '^graph' "$work/calls")" = 5
check "experts on two ranks, gathered tokens" follows fast 2e-5 1x2 --plan gather
check "experts on two ranks of dp, exchanged rows" follows fast 2e-5 2x2 --plan swap
check "steps that are repeated in rounds" follows fast 2e-5 1x2 --plan tight
check "each step was" test "$(jq -s 'map(select(.overflow)) | length' "$work/1x2.log")" = 6
in_all check "experts on four ranks" follows fast 2e-5 1x4 --plan swap
in_all check "columns of experts" follows fast 2e-5 2x2 --plan columns
check "dp=2 tp=2" follows fast 2e-5 2x2 --plan units
in_all check "recomputation, dp=4" follows fast 2e-5 4x1 --plan again
check "experts on two ranks, all_to_all" follows fast 2e-5 1x2 --plan swap
in_all check "experts on two ranks, gathered, dp=2" follows fast 2e-5 2x2 --plan gather
in_all check "experts on four ranks, all_to_all" follows fast 2e-5 1x4 --plan swap
in_all check "experts on cp" follows fast 2e-5 2x2 --plan sequences
in_all check "bf16" follows fast 2e-2 2x1 --plan units -D precision=bf16
check "a pipeline, experts on dp and tp" follows fast 2e-5 2x2x2 --plan sequence_stages \
    -D accumulate=2

one_cpu_rank units -D capacity=1.0
drops() { # drops KIND MESH [OPTIONS…]: with a capacity
    kind=$1 mesh=$2
    shift 2
    follows "$kind" 2e-5 "$mesh" -D capacity=1.0 "$@" &&
        test "$(jq .dropped "$work/$mesh.log")" = "$(jq .dropped "$work/one.log")"
}
check "a capacity" drops checked 1x1 --plan units
check "a capacity, experts on cp" drops fast 2x2 --plan sequences
in_all check "a capacity, experts on four ranks" drops fast 1x4 --plan swap

model=tests/data/biased_experts.pdl
one_cpu_rank units
check "biases of experts, and sinks" follows checked 2e-5 1x1 --plan units
in_all check "the same in bf16" follows fast 2e-2 1x1 --plan units -D precision=bf16
in_all check "the same on two ranks" follows fast 2e-5 1x2 --plan swap

# Shared experts and recomputed layers run beside exchanges of rows.
model=$work/wide.pdl
sed 's/^plan tp_fsdp.*/plan wide(dp, ep) {\
    expert_parallel ep { layers.*.moe: dispatch=all_to_all }\
    fully_shard (dp, ep) { tok_embeddings, dense.*, layers.*, [norm, output] }\
    checkpoint { dense.*, layers.* }\
}\
&/' examples/deepseek_moe.pdl >"$model"
set -- --plan wide -D vocab=256 -D dim=64 -D n_layers=3 -D dense_layers=1 -D n_heads=2 \
    -D q_rank=24 -D kv_rank=16 -D nope_dim=16 -D rope_dim=16 -D v_dim=16 -D hidden=96 \
    -D expert_hidden=32 -D experts=8 -D top_k=2 -D groups=2 -D top_groups=1 -D batch=8 \
    -D seq=32 -D precision=f32
"$PARC" "$model" --target cpu --threads 1 --mesh 1x1 "$@" -o "$work/one" &&
    "$work/one" --steps 6 --seed 3 --log "$work/one.log" || exit 1
check "shared experts, recomputation, dp=2 ep=2" follows fast 2e-5 2x2 "$@"
in_all check "shared experts, recomputation, ep=4" follows fast 2e-5 1x4 "$@"
finish
