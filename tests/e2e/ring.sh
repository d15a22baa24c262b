#!/bin/sh
# ring.sh: the loss curve does not depend on the ranks of a ring, which pass on keys and values
# of attention: with grouped heads, windows, documents, dropout and rotary positions, beside
# FSDP, tensor parallelism, pipelines, accumulation and checkpoints. Work and activations of a
# rank are those of its part; a run is saved and resumed with any exchange.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_plans.sh"
. "$(dirname "$0")/lib_context.sh"
. "$(dirname "$0")/lib_ring.sh"

model=$work/ring.pdl
without_bias >"$model"

check "one rank" trains one one 1
check "cp=2" agrees one two ring 1x2
check "cp=4" agrees one four ring 1x4
check "cp=8, whose pieces have one token" agrees one eight ring 1x8
check "dp=2 cp=2, microbatches" agrees one both ring 2x2 -D accumulate=2
check "tp=2 cp=2, sequence parallel" agrees one tensor ring_tensor 2x2
in_all check "tp=2 cp=4" agrees one tensor4 ring_tensor 4x2
in_all check "tp=4 cp=2, which share KV heads" agrees one shared ring_tensor 2x4 -D n_kv_heads=4
check "a pipeline" agrees one stages ring_stages 2x2 -D accumulate=2
in_all check "a pipeline, cp=4" agrees one stages4 ring_stages 2x4 -D accumulate=2
in_all check "a pipeline, zero bubble" agrees one bubble ring_zero 2x2 -D accumulate=4
in_all check "chunks of the head" agrees one chunks ring 1x2 -D head_chunk=16
check "gathered keys" agrees one gather gather 1x2

check "resume on cp=4" resumed one four
check "resume on gathered keys" resumed four gather
check "resume on a ring, tp=2 cp=2" resumed gather tensor
check "resume on cp=8" resumed tensor eight
check "resume on one rank" resumed eight one

# Without a window each rank has 1/cp of the work of a causal mask, exactly.
open_model=$work/open.pdl
sed 's/window=window, //' "$model" >"$open_model"
model=$open_model
check "one rank, no window" trains open one 1
for n in 2 4 8; do
    check "no window, cp=$n" agrees open open$n ring 1x$n
    check "work of attention, cp=$n" jq -en --argjson all "$(attention_of open)" \
        --argjson own "$(attention_of open$n)" --argjson n $n \
        '($all | add) / $n == ($own | add)'
done

# Keys of whole sequences are never stored: activations fall as 1/cp.
activations() { # activations SIZE: bytes at the peak
    "$PARC" "$model" --target cpu --threads 1 --plan ring --mesh 1x"$1" -D seq=4096 -D batch=1 \
        -D vocab=64 --emit json="$work/memory.json" >"$work/out" &&
        jq '.memory.activations' "$work/memory.json"
}
whole=$(activations 1)
for n in 2 4 8; do
    check "activations, cp=$n" jq -en --argjson all "$whole" --argjson own "$(activations $n)" \
        --argjson n $n '$own * $n < 1.1 * $all'
done

# On a GPU a shift runs beside the step before whose keys it moves: it is issued first, on another
# stream, and the stream of the step waits for it only after that.
check "shifts are on the stream of tensor axes" streams ring 1x4
overlaps() {
    "$PARC" "$model" --plan ring --mesh 1x4 --stop-after sync --emit ir >"$work/ir" &&
        awk '/ = shift\{/ { n = split($0, name, /[ %,]+/); waits = 0; open = 1; shifts++ }
            open && / wait\{/ && !/stream=/ {
                for (i = 1; i <= n && name[i] != "="; i++)
                    if (name[i] != "" && index($0, "why=\"" name[i] "\"")) waits = 1
            }
            / = attention_(grad_)?step\{/ { steps++; if (open && waits) bad = 1; open = 0 }
            END { exit bad || shifts < 6 || steps < 6 }' "$work/ir"
}
check "shifts run beside steps" overlaps
check "a result has the attention's reasons" sh -c "'$PARC' '$model' --plan ring --mesh 1x4 \
    --explain attention | grep 'cp   S(1)   context cp: exchange=ring'"

# The plan has the bytes of each exchange: those of queries, keys and values that are sent.
sends() { # sends EXCHANGE KIND PART: PART of the bytes of these collectives
    sed "s/exchange=ring/exchange=$1/" "$model" >"$work/sends.pdl" &&
        "$PARC" "$work/sends.pdl" --target cpu --threads 1 --plan ring --mesh 1x4 -D dim=64 \
            --emit json="$work/sends.json" >"$work/out" &&
        jq -e --arg kind "$2" '.context.sent["'"$1"'"] as $sent |
            ([.collectives[] | select(.kind == $kind and (.why | startswith("context"))) |
              .bytes * .count] | add) * '"$3"' | . >= $sent and . < 1.03 * $sent' \
            "$work/sends.json"
}
check "bytes of a ring" sends ring shift 1
check "bytes of exchanged heads" sends heads all_to_all 3/4
chosen() { # chosen EXCHANGE OPTIONS…
    wanted=$1
    shift
    sed 's/: exchange=ring//' "$model" >"$work/chosen.pdl" &&
        "$PARC" "$work/chosen.pdl" --target cpu --plan ring --emit json="$work/chosen.json" "$@" \
            >"$work/out" &&
        test "$(jq -r .context.exchange "$work/chosen.json")" = "$wanted" &&
        "$PARC" "$work/chosen.pdl" --target cpu --plan ring "$@" --emit plan |
            grep -qF "exchange=$wanted (cp can"
}
check "heads are chosen" chosen heads --mesh 1x4
check "a gather is chosen: 8 ranks have no head each" chosen gather --mesh 1x8
check "a ring is chosen: keys and values are large" chosen ring --mesh 1x8 -D seq=4096 \
    --device-memory 64M
check "a bias is refused" says "the attention in 'whole' cannot be a ring: it has a bias" \
    tests/data/context.pdl --target cpu --plan ring --mesh 1x2
finish
