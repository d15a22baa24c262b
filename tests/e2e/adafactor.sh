#!/bin/sh
# adafactor.sh: Adafactor trains the same model on every mesh, with FSDP, tensor parallelism, a
# pipeline, tensors in host memory, on the CPU and on the stand-ins for CUDA; a run resumes on
# another mesh; a step whose gradients overflow is skipped; the states are small, and whole on
# every rank. optimizers.sh compares with PyTorch.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

optimizer='optimizer=Adafactor(lr=0.02, weight_decay=0.1, groups=group("*norm*", lr_factor=0.5))'
. "$(dirname "$0")/lib_matrices.sh"
same_on_meshes 5e-3
resumes_on_meshes
skips_steps

# shellcheck disable=SC2086
check "the plan is printed" "$PARC" examples/llama.pdl --target cuda --mesh 2x2 \
    --machine h100-sxm $sizes -D precision=f32 -D "$optimizer" --emit=json="$work/json"
check "it gathers each gradient of a matrix over dp, and means over tp" jq -e '
    [.collectives[] | select(.phase == "optimizer" and .kind == "all_gather")] |
    (map(select(.axis == "dp" and .bytes > 1000)) | length) == 9 and
    (map(select(.axis == "tp" and .bytes > 1024)) | length) == 0' "$work/json"
check "the states are smaller than half of the shards of parameters" jq -e '
    .memory.optimizer < .memory.params / 2' "$work/json"
check "states have one element for a row or a column" sh -c '"$1" examples/llama.pdl \
    --target cpu --mesh 2x2 $2 -D "$3" --stop-after lowp_copies --emit ir |
    grep -E "^param .*(wq.weight.row\" : f32\[3 x 48, 1\]|wq.weight.column\" : f32\[3 x 1, 48\])" |
    wc -l | grep -qx 2' sh "$PARC" "$sizes" "$optimizer"

same_on_cuda

# A mean of a matrix with one row or column has the matrix's shape, but is whole on every rank;
# a tensor axis may split the matrices of a parameter.
cat >"$work/shapes.pdl" <<'END'
model Shapes(dim=6) {
    up:   Linear(1, dim)
    down: Linear(dim, 1)
    param mix[2, dim, dim] = normal(0.5)
    forward(x: [batch, 1], y: [batch, 1]) {
        h = relu(up(x))
        h = sum(einsum("bi,nij->nbj", h, mix), 0)
        return mse_loss(down(h), y)
    }
}
plan both(dp, tp) {
    parallelize tp { up: ColwiseParallel, down: RowwiseParallel, mix: Shard(0) }
    fully_shard dp { model }
}
train {
    batch     = 8
    optimizer = Adafactor(lr=0.1)
}
END
shapes() { # shapes MESH LOG
    "$PARC" "$work/shapes.pdl" --target cpu --threads 1 --mesh "$1" -o "$work/shapes" &&
        "$work/shapes" --steps 8 --seed 3 --log "$2"
}
check "other shapes train on one rank" shapes 1x1 "$work/base.log"
for mesh in 2x2 1x4; do
    check "other shapes train on $mesh" shapes $mesh "$work/log"
    check "they have the curve of one rank" near "$work/log" 1e-5
done
finish
