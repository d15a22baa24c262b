# lib_matrices.sh: sourced by the tests of optimizers that read complete matrices: the same
# training run on meshes, with FSDP, tensor parallelism, a pipeline and host memory; resumes;
# skipped steps; CUDA. The caller sets `optimizer`, an option of parc.

sizes="-D vocab=256 -D dim=48 -D n_layers=3 -D n_heads=4 -D n_kv_heads=2
    -D hidden=80 -D batch=8 -D seq=16 -D clip=1.0"
units='tok_embeddings, layers.*, [norm, output]'
sed "s/fully_shard dp {.*/fully_shard dp { tok_embeddings, layers.*: reshard=false, [norm, output] }\\
    offload { optimizer }/" examples/llama.pdl >"$work/offload.pdl"
sed "s/^plan tp_fsdp(/plan tp_fsdp(pp, /
    s/fully_shard dp {.*/fully_shard dp { $units }\\
    pipeline pp { }/" examples/llama.pdl >"$work/pipeline.pdl"
cp examples/llama.pdl "$work/llama.pdl"
sed 's/fully_shard dp/fully_shard (dp, tp)/; /parallelize tp/,/^    }/d' \
    examples/llama.pdl >"$work/both.pdl"

# curve LOG: the losses and gradient norms.
curve() { jq -c '[.loss, .grad_norm]' "$1"; }
# near LOG TOLERANCE: the curve is that of one rank, in f32.
near() {
    jq -en --slurpfile a "$work/base.log" --slurpfile b "$1" --argjson most "$2" '
        [range($a | length) as $i | "loss", "grad_norm" |
         ($a[$i][.] / $b[$i][.] - 1) | fabs] | max |
        if . < $most then . else error("\(.)") end'
}
# built BINARY MODEL MESH OPTIONS…
built() {
    to=$1 model=$2 mesh=$3
    shift 3
    # shellcheck disable=SC2086
    "$PARC" "$work/$model.pdl" --target cpu --threads 1 --mesh "$mesh" $sizes \
        -D precision=f32 -D "$optimizer" "$@" -o "$to"
}
trains() { # trains BINARY LOG OPTIONS…
    run=$1 log=$2
    shift 2
    "$run" --steps 8 --seed 3 --data "bytes:$text" --log "$log" "$@"
}
row() { # row MODEL MESH TOLERANCE OPTIONS…
    model=$1 mesh=$2 tolerance=$3
    shift 3
    check "$model $mesh $* compiles" built "$work/binary" "$model" "$mesh" "$@"
    check "$model $mesh $* trains" trains "$work/binary" "$work/log"
    check "$model $mesh $* has the curve of one rank" near "$work/log" "$tolerance"
}

# The runs of one rank and of meshes. The curve of bf16 is within the tolerance given.
same_on_meshes() { # same_on_meshes TOLERANCE_OF_BF16
    check "one rank compiles" built "$work/base" llama 1x1
    check "one rank trains" trains "$work/base" "$work/base.log"
    row llama 4x2 1e-5 -D accumulate=2
    row offload 2x2 1e-5
    row pipeline pp=2,dp=2,tp=2 1e-5 -D accumulate=2
    row both 2x2 1e-5
    row llama 2x2 "$1" -D precision=bf16
    in_all row llama 2x1 1e-5
    in_all row llama 1x2 1e-5
    in_all row offload 4x1 1e-5
    in_all row pipeline pp=3,dp=1,tp=2 1e-5
}

# ---- checkpoints ----

second() { jq -c 'select(.step > 4) | [.step, .loss, .grad_norm]' "$1"; }
resumes() { trains "$1" "$work/again.log" --resume "$work/saved/step-00000004"; }
resumes_on_meshes() {
    check "a 2x2 mesh compiles" built "$work/four" llama 2x2
    check "a run saves" trains "$work/four" "$work/four.log" --save "$work/saved" \
        --save-every 4
    check "it resumes" resumes "$work/four"
    second "$work/four.log" >"$work/want"
    second "$work/again.log" >"$work/is"
    check "with the same bits" cmp "$work/want" "$work/is"
    check "it resumes on one rank" resumes "$work/base"
    cp "$work/again.log" "$work/tail.log"
    jq -c 'select(.step <= 4)' "$work/four.log" | cat - "$work/tail.log" >"$work/log"
    check "with the same curve" near "$work/log" 1e-5
}

# ---- steps that are skipped ----

skips_steps() {
    check "a scaled loss compiles" built "$work/scaled" llama 2x2 -D loss_scale=1e38
    check "it trains" trains "$work/scaled" "$work/scaled.log"
    check "steps that overflow are skipped, later ones are not" jq -es '
        (.[0].grad_norm == null) and (.[-1].loss_scale < 1e38) and
        (map(.loss | isnormal) | all)' "$work/scaled.log"
}

# ---- CUDA ----

same_on_cuda() {
    # shellcheck disable=SC2086
    check "the program for CUDA compiles" cuda_tree "$work/cuda" examples/llama.pdl \
        --mesh 2x2 $sizes -D precision=f32 -D "$optimizer"
    for order in early $(few_or_all "" late); do
        check "it trains, $order" cuda_run "$work/cuda" checked "$order" --steps 8 \
            --seed 3 --data "bytes:$text" --log "$work/cuda.log"
        check "it has the CPU's curve, $order" near "$work/cuda.log" 1e-5
    done
}
