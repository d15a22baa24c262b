#!/bin/sh
# context.sh: the loss curve does not depend on the axis that splits sequences: with
# grouped heads, windows, documents, dropout, rotary positions and biases, beside FSDP,
# tensor parallelism, pipelines, accumulation and checkpoints. Work and activations of a
# rank are those of its part; a run is saved, resumed, evaluated and sampled on any mesh.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_plans.sh"

. "$(dirname "$0")/lib_context.sh"

model=tests/data/context.pdl

check "one rank" trains one one 1
check "cp=2" agrees one two heads 1x2
check "cp=4" agrees one four heads 1x4
check "dp=2 cp=2" agrees one both heads 2x2
check "tp=2 cp=2, sequence parallel" agrees one tensor tensor 2x2
check "gathered keys, cp=2" agrees one gather2 gather 1x2
check "gathered keys, cp=8, which no heads divide" agrees one gather8 gather 1x8
check "gathered keys, dp=2 cp=2" agrees one gather4 gather 2x2 -D accumulate=2
check "gathered keys, tp=2 cp=2" agrees one gather_tensor gather_tensor 2x2
in_all check "gathered keys, chunks of the head" agrees one chunks2 gather 1x2 -D head_chunk=16
check "replicas, dp=2 cp=2" agrees one hybrid hybrid 2x2x2
check "microbatches" agrees one parts heads 2x2 -D accumulate=2
in_all check "chunks of the head" agrees one chunks heads 1x2 -D head_chunk=16
check "a pipeline" agrees one stages stages 2x2 -D accumulate=2

# A constant that is computed from a part in zigzag order has memory of its own in all steps.
persists() { # persists MESH
    "$PARC" $model --target cpu --plan gather --mesh "$1" --stop-after memory --emit ir \
        >"$work/ir" &&
        buffer=$(sed -n 's/^  %exp = fused{name="scale_exp"}.* in \([0-9]*\) init.*/\1/p' "$work/ir" | head -n 1) &&
        last=$(sed -n 's/^arena .* end=\([0-9]*\)$/\1/p' "$work/ir" | head -n 1) &&
        grep -q "^buffer $buffer .* live=\[0, $((last - 1))\]" "$work/ir"
}
check "a constant lives in all steps" persists 1x2

# Each attention of a rank has 1/cp of the work, exactly.
divides() { # divides NAME SIZE: among the calls that one rank has without recomputation
    jq -en --argjson all "$(attention_of one)" --argjson own "$(attention_of "$1")" \
        --argjson n "$2" '($all | map(. / $n)) - $own == []'
}
check "work of attention, cp=2" divides two 2
check "work of attention, cp=4" divides four 4
# With gathered keys and a causal window the first piece has less than others. The window
# of 5 has 5 x 5 / 2 + 11 x 5 pairs, of which 2 of 16 queries have at most 2 x 5.
check "work of a window" test "$(attention_of gather8 | jq -c '.[0] * 67.5')" = \
    "$(attention_of one | jq -c '.[0] * 10')"

# The exchanges do not wait for the gathers of units, which have a stream of their own.
for plan in heads gather; do
    check "plan $plan: exchanges are on the stream of tensor axes" streams $plan 2x2
    check "plan $plan: also where units are sharded over the same axis" streams $plan 1x2
done

# Ranks of the context have all rows of the batch.
check "microbatches of the rows" says "-D accumulate=N, up to 4:" $model --plan heads \
    --mesh 2x4 --explain memory
check "the axis is explained" says \
    "axis cp: 4 ranks; named by \`context\`, so each of its ranks reads a part of each" \
    $model --plan heads --mesh 2x4 --explain cp

check "zigzag order is explained" says "two pieces of each sequence, in zigzag order" \
    $model --plan gather --mesh 1x4 --explain cp

check "resume on cp=4" resumed one four
check "resume on dp=2 cp=2" resumed four both
check "resume on gathered keys" resumed both gather8
check "resume on tp=2 cp=2" resumed stages tensor
check "resume on one rank" resumed tensor one

predicts() { # predicts NAME: the logits of one rank, from its weights
    "$work/$1" --resume "$work/one.saved" --predict "$work/$1.logits" --data "$spec" &&
        python3 tests/tools/predictions.py close "$work/$1.logits" "$work/one.logits" 1e-5
}
check "one rank predicts" "$work/one" --resume "$work/one.saved" \
    --predict "$work/one.logits" --data "$spec"
check "cp=4 predicts" predicts four
check "tp=2 cp=2 predicts" predicts tensor
check "gathered keys predict" predicts gather8

# A Llama: gathered keys divide the work of its causal mask by cp, in zigzag order; sizes that
# 2cp does not divide are cut in contiguous parts.
{
    sed '/^plan /,/^}/d' examples/llama.pdl
    echo 'plan long(dp, cp) { context cp { attention }'
    echo 'fully_shard (dp, cp) { layers.*, model } }'
    echo 'plan gather(dp, cp) { context cp { attention: exchange=gather }'
    echo 'fully_shard (dp, cp) { layers.*, model } }'
} >"$work/llama.pdl"
llama() { # llama NAME MESH SEQ
    # shellcheck disable=SC2086
    "$PARC" "$work/llama.pdl" $llama_sizes -D vocab=256 -D seq="$3" --target cpu --threads 1 \
        --plan gather --mesh "$2" --emit json="$work/$1.json" --dump-after plan \
        -o "$work/$1" >"$work/$1.ir" &&
        "$work/$1" --steps 4 --seed 2 --data "bytes:$text" --log "$work/$1.log"
}
shares() { # shares NAME WITH N: losses of WITH, and 1/N of its work of attention
    jq -en --argjson all "$(attention_of "$2")" --argjson own "$(attention_of "$1")" \
        --argjson n "$3" '($all | map(. / $n)) == $own' &&
        same_curve "$work/$1.log" "$work/$2.log" 1e-5
}
check "a Llama on one rank" llama whole 1x1 32
for n in 2 4; do
    check "a Llama with gathered keys, cp=$n" llama zigzag$n 1x$n 32
    check "a Llama, cp=$n: each rank has as much work" shares zigzag$n whole $n
    check "a Llama, cp=$n: zigzag order" grep -q "32/cp:zz" "$work/zigzag$n.ir"
done
check "a Llama on one rank, 20 tokens" llama short 1x1 20
check "a Llama on cp=4, 20 tokens" llama parts 1x4 20
check "a Llama on cp=4, 20 tokens: contiguous parts" sh -c \
    "grep -q '20/cp\]' '$work/parts.ir' && ! grep -q :zz '$work/parts.ir'"
check "a Llama on cp=4, 20 tokens: the losses of one" same_curve "$work/parts.log" \
    "$work/short.log" 1e-5

# It continues a text on each rank's part of it.
samples() { # samples PLAN MESH
    # shellcheck disable=SC2086
    "$PARC" "$work/llama.pdl" $llama_sizes -D n_kv_heads=4 -D vocab=256 --target cpu \
        --threads 1 --plan "$1" --mesh "$2" -o "$work/llama$2" &&
        "$work/llama$2" --seed 2 --sample 'training in parallel' --tokens 40 \
            --temperature 0 >"$work/$2.text" && cmp "$work/1x1.text" "$work/$2.text"
}
check "one rank samples" samples long 1x1
check "cp=4 samples" samples long 1x4
check "dp=2 cp=2 samples" samples long 2x2
check "cp=4 samples with gathered keys" samples gather 1x4
# shellcheck disable=SC2086
check "microbatches make a plan fit" says "= help: -D accumulate=8: " "$work/llama.pdl" \
    --plan long $llama_sizes -D n_kv_heads=4 -D batch=64 -D seq=128 --target cpu --mesh 4x4 \
    --device-memory 1700K
finish
