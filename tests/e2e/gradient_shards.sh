#!/bin/sh
# gradient_shards.sh: fused einsum + reduce-scatter: a rank computes its shard
# of a gradient from the operands of all ranks of a node, but only for gradients
# that are large relative to the batch. The losses are those of one rank. Every
# run gives the same bits, which a missing barrier would change. The run
# allocates what the plan says, and less than without. build/unit/hazards
# simulates the ranks for all sizes of einsums, build/unit/random_binaries runs
# them.
# cpu: losses; which products are split
. "$(dirname "$0")/lib.sh"

sizes="-D vocab=512 -D dim=384 -D n_layers=3 -D n_heads=6 -D n_positions=16
 -D batch=8 -D seq=8"
# build NAME MESH OPTIONS…: builds the binary, and prints its plan.
build() {
    name=$1 mesh=$2
    shift 2
    # shellcheck disable=SC2086
    "$PARC" examples/gpt2.pdl --target cpu --mesh "$mesh" $sizes "$@" \
        -o "$work/$name" --emit json="$work/$name.json"
}

train() { # train NAME LOG
    "$work/$1" --steps 6 --data "bytes:$text" --seed 1 --log "$work/$2"
}

# shards NAME UNIT: the number of the unit's gradients that are fused.
shards() {
    jq --arg u "$2" '[.collectives[] | select(.kind == "reduce_scatter" and
        .tensor == $u) | .as_shards] | add // 0' "$work/$1.json"
}
as_shards() { # as_shards NAME UNIT WANTED
    echo "$1, $2: $(shards "$1" "$2") made as shards, expected $3"
    [ "$(shards "$1" "$2")" = "$3" ]
}
exact() { # a run allocates what the plan says
    [ "$(jq -s '.[-1].peak_bytes' "$work/$1.log")" = \
        "$(jq .memory.peak "$work/$1.json")" ]
}
tight() {
    jq -e '.memory.peak <= 1.02 * .memory.lower_bound' "$work/$1.json"
}

explained() { # explained NAME TEXT: --explain of a collective or value has TEXT
    # shellcheck disable=SC2086
    "$PARC" examples/gpt2.pdl --target cpu --mesh 2x1 $sizes \
        --explain "$1" | tee "$work/explained"
    grep -qF "$2" "$work/explained"
}

# runs NAME WITHIN OF: the losses are those of OF; two runs give the same bits.
runs() {
    check "$1 trains" train "$1" "$1.log"
    check "$1 trains again" train "$1" "$1.again"
    check "$1 has the losses of $3" same_curve "$work/$1.log" "$work/$3.log" "$2"
    check "$1 has the same losses in both runs" same_curve "$work/$1.log" \
        "$work/$1.again" 0
    check "$1 allocates the planned bytes" exact "$1"
    check "$1 packs near the lower bound" tight "$1"
}

f32="-D precision=f32"
# shellcheck disable=SC2086
{
    check "one rank compiles" build one 1x1 --threads 2 $f32
    check "one rank trains" train one one.log
    check "2x1 compiles" build two 2x1 --threads 1 $f32
    check "2x1 with two threads compiles" build threads 2x1 --threads 2 $f32
    check "4x1 compiles" build four 4x1 --threads 1 $f32
    check "2x2 compiles" build square 2x2 --threads 1 $f32
    check "2x1 with two microbatches compiles" \
        build turns 2x1 --threads 1 $f32 -D accumulate=2
    check "2x1 in bf16 compiles" build narrow 2x1 --threads 1 -D precision=bf16
    check "one rank in bf16 compiles" build one_narrow 1x1 --threads 2 \
        -D precision=bf16
}
check "one rank in bf16 trains" train one_narrow one_narrow.log
check "2x1 fuses all gradients of a layer" as_shards two "h.*" 6
check "4x1 has few rows per rank: only the feed-forward's are fused" \
    as_shards four "h.*" 2
check "2x2 splits weights over tp: only the feed-forward's are fused" \
    as_shards square "h.*" 2
check "one rank fuses no gradient" as_shards one "h.*" 0
for name in two threads four square turns; do
    runs $name 1e-5 one
done
runs narrow 1e-2 one_narrow

# A dump continues unchanged; a dump with other shards is refused.
dump() {
    # shellcheck disable=SC2086
    "$PARC" examples/gpt2.pdl --target cpu --mesh 2x1 --threads 1 $sizes $f32 \
        --stop-after fuse_scatter --emit ir >"$work/shards.ir"
}
goes_on() {
    "$PARC" --target cpu --threads 1 --start-after fuse_scatter \
        "$work/shards.ir" \
        --emit json="$work/again.json" &&
        jq -S .memory "$work/two.json" >"$work/a" &&
        jq -S .memory "$work/again.json" >"$work/b" && cmp "$work/a" "$work/b"
}
refused() { # refused SED MESSAGE
    sed "$1" "$work/shards.ir" >"$work/other.ir"
    ! cmp -s "$work/shards.ir" "$work/other.ir" &&
        ! "$PARC" --target cpu --threads 1 --start-after fuse_scatter \
            -S "$work/other" "$work/other.ir" 2>"$work/said"
    cat "$work/said"
    [ ! -e "$work/other" ] && grep -q "$2" "$work/said"
}
check "a dump with fused products is written" dump
check "a dump with fused products continues" goes_on
check "a dump with a shard over other axes is refused" \
    refused '/einsum_shard/s/axes={dp}/axes={tp}/' \
    "no reduce_scatter over its axes"
check "a dump without the product of a shard is refused" \
    refused '/einsum_shard.*f32.1536, 384/d' "d_c_fc"
other_target() {
    ! "$PARC" --target cuda --start-after fuse_scatter "$work/shards.ir" \
        --emit plan 2>"$work/said" &&
        grep -q "the target cuda has no einsum_shard" "$work/said"
}
no_rows() { # an einsum that the pass does not fuse: 511 rows on two ranks
    "$PARC" examples/llama.pdl --target cpu --mesh 2x1 --threads 1 \
        -D vocab=511 -D dim=64 -D n_layers=1 -D n_heads=4 -D n_kv_heads=4 \
        -D hidden=64 -D batch=4 -D seq=8 $f32 --stop-after fuse_scatter \
        --emit ir >"$work/llama.ir"
    sed '/%d_output.weight = einsum{/{s/einsum{/einsum_shard{/
        s/type=f32/type=f32, axes={dp}/}' "$work/llama.ir" >"$work/other.ir"
    grep -q einsum_shard "$work/other.ir" &&
        ! "$PARC" --target cpu --threads 1 --start-after fuse_scatter \
            --emit plan "$work/other.ir" 2>"$work/said" &&
        grep -q "not whole rows" "$work/said"
}
check "a dump with fused products is refused on cuda" other_target
check "a dump with a shard of uneven rows is refused" no_rows
check "a dump with a 16-bit shard is refused" \
    refused '/einsum_shard/s/type=f32/type=bf16/' "bf16"

check "--explain of the collective" explained rs4 \
    "%d_c_fc.weight.3 : f32[1536, 384]+dp -> f32[1536, 384]~dp, computed as a shard"
check "--explain of the value" explained d_c_fc.weight.3 \
    "as a shard, f32[1536, 384]~dp: "
check "--explain of a gather in place" explained ag3 "in place, no data moves"

# With many rows a rank's sums cost little relative to the products.
check "a large batch compiles" build many 2x1 --threads 1 $f32 -D batch=256
check "a large batch fuses no gradient" as_shards many "h.*" 0
finish
