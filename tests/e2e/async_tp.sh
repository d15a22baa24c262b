#!/bin/sh
# async_tp.sh: the setting `async_tp` changes no loss, on either target; the collectives
# of its pieces run beside matmuls; a run allocates the planned bytes.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

run() { # run LABEL
    data="--data bytes:$text"
    case $1 in vit-* | translation-*) data= ;; esac
    # shellcheck disable=SC2086
    "$work/$1" --threads 1 --steps 6 $data --seed 1 --log "$work/$1.log"
}
calls() { # calls LABEL: collectives over tp in the layers' loops, per step
    jq '[.collectives[] | select(.axis == "tp") | .count] | add' "$work/$1.json"
}

case_of() { # case_of MODEL MESH PRECISION PIECES SIZES…
    case=$1-$2-$3 pieces=$4
    model=$1 mesh=$2 precision=$3
    shift 4
    for n in 1 $pieces; do
        check "$case $n compiles" compile_for_cpu "$case-$n" "$model" "$mesh" "$@" \
            -D "precision=$precision" -D "async_tp=$n"
        check "$case $n trains" run "$case-$n"
        check "$case $n allocates the planned bytes" as_planned \
            "$work/$case-$n.log" "$work/$case-$n.json"
    done
    check "$case has the same losses" \
        same_curve "$work/$case-$pieces.log" "$work/$case-1.log" "$tolerance"
    check "$case has more collectives over tp" \
        test "$(calls "$case-$pieces")" -gt "$(calls "$case-1")"
}
# Gradients of weights are sums of the pieces': other roundings.
tolerance=1e-5
# shellcheck disable=SC2086
{
    case_of llama 2x2 f32 2 $llama_sizes
    case_of llama 1x2 f32 4 $llama_sizes -D accumulate=2
    in_all case_of gpt2 2x2 f32 2 $gpt2_sizes -D dropout=0
    in_all case_of vit 2x2 f32 2 $vit_sizes
    in_all case_of transformer 1x2 f32 2 $transformer_sizes -D precision=f32 \
        -D dropout=0 --plan tensor_parallel
    in_all case_of translation 2x2 f32 2 $translation_sizes
}
tolerance=1e-2
# shellcheck disable=SC2086
in_all case_of llama 2x2 bf16 2 $llama_sizes

# On CUDA the order of pieces is that of schedule_list.c.
on_cuda() { # on_cuda KIND
    # shellcheck disable=SC2086
    cuda_tree "$work/cuda" examples/llama.pdl --mesh 2x2 $llama_sizes -D async_tp=2 \
        --machine h100-sxm --emit json="$work/cuda.json" &&
        cuda_run "$work/cuda" "$1" late --steps 6 --data "bytes:$text" --seed 1 \
            --log "$work/cuda.log" &&
        same_curve "$work/cuda.log" "$work/llama-2x2-f32-1.log" 1e-5
}
check "on CUDA the losses are the same" on_cuda "$(few_or_all fast checked)"
# Copy engines gather inside a node: NCCL gets the policy for the communicators of ranks there.
copies() { # copies NODE COMMUNICATORS: of the four ranks together
    calls=$work/calls
    rm -rf "$work/copies" "$calls"
    # shellcheck disable=SC2086
    cuda_tree "$work/copies" examples/llama.pdl --mesh 2x2 $llama_sizes --node-size "$1" \
        -D async_tp=2 -D copy_engines=true &&
        STANDIN_NCCL_CALLS=$calls cuda_run "$work/copies" fast late --steps 6 \
            --data "bytes:$text" --seed 1 --log "$work/copies.log" &&
        same_curve "$work/copies.log" "$work/llama-2x2-f32-1.log" 1e-5 || return
    sort "$calls" | uniq -c | grep -E 'blocks|policy'
    [ "$(grep -c '^policy 2$' "$calls")" = "$2" ]
}
check "copy engines on one node" copies 4 12
check "copy engines on two nodes: only over tp" copies 2 4
check "--explain says so" sh -c "'$PARC' examples/llama.pdl --mesh 2x2 --node-size 2 \
    -D copy_engines=true --explain ag3 | grep 'copy engines execute it'"
faster() { # the step of a Llama of 7B on 8x8, because its collectives overlap
    for n in 1 2; do
        "$PARC" examples/llama.pdl --mesh 8x8 --machine h100-sxm -D recompute=fused \
            -D async_tp=$n --emit json="$work/large-$n.json" || return 1
    done
    jq -e -n --slurpfile a "$work/large-1.json" --slurpfile b "$work/large-2.json" \
        '$b[0].time.step_seconds < 0.97 * $a[0].time.step_seconds and
         $b[0].time.exposed_seconds < 0.6 * $a[0].time.exposed_seconds'
}
check "by forecast they hide collectives" faster

# A value of the start of the program that has rows is sliced in each step.
cat >"$work/rows.pdl" <<'END'
model M(dim=8) {
    a: Linear(dim, 2 * dim)
    b: Linear(2 * dim, dim)
    buffer w[batch, 1, 1] = reshape(cos(arange(batch)), batch, 1, 1)
    forward(x: [batch, 4, dim], y: [batch, 4, dim]) {
        h = x + b(gelu(a(x * w)))
        return mse_loss(h * w, y)
    }
}
plan p(tp) {
    parallelize tp {
        a: ColwiseParallel
        b: RowwiseParallel
    }
}
train {
    batch = 8
}
END
sliced() {
    for n in 1 2; do
        "$PARC" "$work/rows.pdl" --target cpu --mesh 2 -D async_tp=$n -o "$work/rows" &&
            "$work/rows" --steps 4 --seed 3 --log "$work/rows-$n.log" || return 1
    done
    same_curve "$work/rows-1.log" "$work/rows-2.log" 1e-5
}
check "a buffer with rows" sliced

# Layers that are not in a loop are ordered one by one.
{
    printf 'model M(dim=1024) {\n'
    for l in 0 1 2 3 4 5 6 7; do
        printf 'u%s: Linear(dim, 4 * dim)\nd%s: Linear(4 * dim, dim)\n' $l $l
    done
    printf 'forward(x: [batch, seq, dim], y: [batch, seq, dim]) {\n'
    for l in 0 1 2 3 4 5 6 7; do
        printf 'x = x + d%s(gelu(u%s(x)))\n' $l $l
    done
    printf 'return mse_loss(x, y)\n}\n}\nplan p(dp, tp) {\nparallelize tp {\n'
    for l in 0 1 2 3 4 5 6 7; do
        printf 'u%s: ColwiseParallel\nd%s: RowwiseParallel\n' $l $l
    done
    printf '}\nfully_shard dp { every Linear }\n}\ntrain {\nbatch = 16\nseq = 64\n}\n'
} >"$work/layers.pdl"
no_more_memory() {
    for n in 1 4; do
        "$PARC" "$work/layers.pdl" --mesh 2x2 -D async_tp=$n --emit json="$work/l$n" ||
            return 1
    done
    jq -n -e --slurpfile a "$work/l1" --slurpfile b "$work/l4" \
        '[$a[0].memory.peak, $b[0].memory.peak] | ., .[1] < 1.1 * .[0]'
}
check "layers outside of a loop need no more memory" no_more_memory

# Without ranks of a tensor axis nothing is cut.
unchanged() {
    for n in 1 2; do
        # shellcheck disable=SC2086
        "$PARC" examples/llama.pdl --mesh 4x1 $llama_sizes -D async_tp=$n \
            --dump-after sync --stop-after sync >"$work/$n.ir" || return 1
    done
    grep -v '^train' "$work/1.ir" >"$work/1.rest"
    grep -v '^train' "$work/2.ir" | diff "$work/1.rest" -
}
check "without ranks of a tensor axis nothing is cut" unchanged

refused() { # refused TEXT OPTIONS…
    wanted=$1
    shift
    # shellcheck disable=SC2086
    if "$PARC" "$@" --emit plan >"$work/out" 2>"$work/err"; then return 1; fi
    cat "$work/err"
    grep -qF -- "$wanted" "$work/err"
}
# shellcheck disable=SC2086
{
    check "sequences that cannot be cut" refused \
        "a rank's microbatch has 4 sequences, which cannot be cut into 3 equal pieces" \
        examples/llama.pdl --mesh 2x2 $llama_sizes -D async_tp=3
    check "with head_chunk" refused "async_tp does not work with head_chunk yet" \
        examples/llama.pdl --mesh 2x2 $llama_sizes -D async_tp=2 -D head_chunk=16
    check "with a pipeline" refused "async_tp does not work with a pipeline yet" \
        examples/three_d.pdl --mesh 2x1x2 $three_d_sizes -D async_tp=2
    check "with dropout" refused "this op numbers the rows of a microbatch" \
        examples/gpt2.pdl --mesh 2x2 $gpt2_sizes -D async_tp=2 -D dropout=0.1
}
finish
