#!/bin/sh
# muon.sh: Muon trains the same model on every mesh, with FSDP, tensor parallelism,
# a pipeline, tensors in host memory, on the CPU and on the stand-ins for CUDA; a
# run resumes on another mesh; a step whose gradients overflow is skipped; the
# plan and the forecast have the gathers. optimizers.sh compares with PyTorch.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

optimizer='optimizer=Muon(lr=0.02, groups=group(("tok_embeddings.*", "output.*", "*norm*"),
    optimizer=AdamW, lr_factor=0.15, weight_decay=0))'
. "$(dirname "$0")/lib_matrices.sh"
same_on_meshes 5e-3
resumes_on_meshes
skips_steps

# ---- the plan ----

# shellcheck disable=SC2086
check "the plan is printed" "$PARC" examples/llama.pdl --target cuda --mesh 2x2 \
    --machine h100-sxm $sizes -D precision=f32 -D "$optimizer" --emit=json="$work/json" \
    --emit=plan="$work/plan"
check "it has a gather of each matrix over both axes" jq -e '
    [.collectives[] | select(.phase == "optimizer" and .kind == "all_gather")] |
    length == 14 and all(.count == 3) and
    (map(.axis) | unique == ["dp", "tp"])' "$work/json"
check "the matrices have one state of their size, the others two" jq -e '
    .memory.optimizer > .memory.params and
    .memory.optimizer < 2 * .memory.params' "$work/json"
check "the optimizer has the iterations' flops, the model's do not" jq -e '
    (.flops.optimizer > 5 * 2 * 3 * (2 * 48 * 48 * 48 + 48 * 48 * 48)) and
    (.model_flops < .flops.forward + .flops.backward + .flops.optimizer)' "$work/json"

same_on_cuda
finish
