#!/bin/sh
# expert_capacity.sh: experts with a capacity drop the same choices on every mesh: the losses and
# the number of dropped choices are PyTorch's (tests/torch/record.sh recorded them), whichever
# ranks, microbatches and buffers there are. All tokens at one expert; a capacity that drops
# nothing; a capacity that bounds buffers.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_plans.sh"

model=tests/data/experts.pdl
spec=bytes:$text
peer=tests/torch/experts_capacity.losses

same_drops() { # same_drops LOG LOG: of all steps of the first one
    jq .dropped "$1" >"$work/drops" &&
        jq .dropped "$2" | head -n "$(wc -l <"$work/drops")" | cmp - "$work/drops"
}
"$PARC" $model --target cpu --threads 1 --plan one -D capacity=1.0 -o "$work/peer" &&
    "$work/peer" --steps 20 --seed 1 --data "$spec" --log "$work/peer.log" 2>"$work/peer.err" ||
    exit 1
check "PyTorch's losses" same_curve "$work/peer.log" $peer 1e-5
check "PyTorch's dropped choices" same_drops "$work/peer.log" $peer
check "the run says their number" grep -q \
    "experts dropped $(jq -s 'map(.dropped) | add' "$work/peer.log") choices" "$work/peer.err"

# The program of the evaluation drops as the first step does, of the same 8 batches.
evaluated() { # evaluated PROGRAM
    "$work/$1" --steps 0 --seed 1 --eval --val "$spec" --val-steps 1 >"$work/eval" \
        2>"$work/eval.err" && cat "$work/eval" "$work/eval.err" &&
        jq -e --argjson n "$(head -n 1 "$work/peer.log" | jq .dropped)" '.val_dropped == $n' "$work/eval" &&
        grep -q "experts dropped .* per batch" "$work/eval.err"
}
check "an evaluation reports dropped choices" evaluated peer
# Predictions too, whose results may have any names. The data are those of the first step.
sed 's/return cross_entropy(out(h), labels) + total + aux/dropped = out(h)\
        return cross_entropy(dropped, labels) + total + aux, dropped/' $model >"$work/named.pdl"
predicted() { # predicted OPTIONS…
    "$PARC" "$work/named.pdl" --target cpu --threads 1 --plan one "$@" -o "$work/named" &&
        "$work/named" --seed 1 --data "$spec" --predict "$work/logits" 2>"$work/named.err"
    cat "$work/named.err"
}
check "an output with the name of the number" predicted -D capacity=1.0
check "a prediction reports dropped choices" grep -q "experts dropped .* per batch" \
    "$work/named.err"
check "an output with the name, without a capacity" predicted
check "nothing is dropped" sh -c "! grep dropped '$work/named.err'"
drops() { # drops NAME PLAN MESH [OPTIONS…]: as one rank
    agrees one "$@" -D capacity=1.0 && same_drops "$work/$1.log" "$work/one.log"
}
check "one rank" trains one one 1 -D capacity=1.0
check "microbatches" drops parts one 1 -D accumulate=4
check "gather, ep=2" drops gather2 gather 1x2
check "all_to_all, ep=4" drops swap4 swap 1x4
in_all check "gather, dp=2 ep=2, microbatches" drops gather22 gather 2x2 -D accumulate=2
in_all check "all_to_all, dp=2 ep=2, microbatches" drops swap22 swap 2x2 -D accumulate=2
in_all check "a buffer of balanced rows" drops tight tight 2x2
check "experts on cp" drops sequences sequences 2x2
check "experts on dp and cp" drops folded folded 2x2
in_all check "experts on dp and cp, gathered" drops folded_gather folded_gather 2x2
in_all check "sequences split without experts" drops split split 1x4
in_all check "tensor parallelism, experts on tp" drops tensor tensor 2x2
in_all check "columns of experts" drops columns columns 2x2
check "recomputation" drops recomputed recomputed 2x2
check "a pipeline" drops stages stages 2x2 -D accumulate=2
in_all check "a pipeline, experts on dp and tp" drops sequence_stages sequence_stages \
    2x2x2 -D accumulate=2
check "recomputation does not route again" sh -c \
    "'$PARC' $model --target cpu --plan again -D capacity=1.0 --emit ir >'$work/ir' &&
     ! grep -E '= (topk|limit_choices|group_rows)\{.* (backward|recomputed)' '$work/ir'"

# Nothing is dropped: the losses are those without a capacity, to the last digit.
large() {
    trains free one 1 && trains large one 1 -D capacity=4.0 &&
        jq .loss "$work/large.log" >"$work/large.losses" &&
        jq .loss "$work/free.log" | cmp - "$work/large.losses" &&
        test "$(jq .dropped "$work/large.log" | sort -u)" = null
}
check "a large capacity drops nothing" large

# A shard of two experts of capacity 1 can need no more than balanced rows.
check "no step needs rounds" jq -e '.experts[0].rounds == 1 and (has("rounds") | not)' \
    "$work/swap4.json"
check "nor has one an overflow" test "$(jq .overflow "$work/swap4.log" | sort -u)" = null
plan() { # plan OPTIONS…
    "$PARC" $model --plan swap --mesh 1x4 "$@" --emit plan
}
plan -D capacity=1.0 >"$work/plan"
check "the plan has the bounded rows" grep -q \
    'layers.\*.moe: 12 rows for 48 choices; no step needs more' "$work/plan"
check "the plan has the capacity" grep -q \
    "an expert takes up to 3 of a sequence's 24 choices, 1 x balanced" "$work/plan"
check "the dropped choices are explained" sh -c "'$PARC' $model --plan swap --mesh 1x4 \
    -D capacity=1.0 --explain dropped | grep 'defined by'"
plan -D capacity=2.0 >"$work/plan"
check "a smaller buffer stays" grep -q 'layers.\*.moe: 18 rows for 48 choices' "$work/plan"

# Experts 0 and 1 are the choices of all tokens: each takes 3 of the 12 of a sequence.
tied() { # tied PLAN MESH
    "$PARC" tests/data/tied_experts.pdl --target cpu --plan "$1" --mesh "$2" -D experts=4 \
        -D capacity=0.5 -o "$work/tied" &&
        "$work/tied" --steps 3 --seed 1 --data "$spec" --log "$work/tied.log" \
            --export "$work/after" &&
        "$work/tied" --steps 0 --seed 1 --export "$work/before" &&
        python3 tests/tools/experts_moved.py "$work/before" "$work/after" up,down "1 1 0 0" &&
        jq -es 'all(.[]; .dropped == 8 * 2 * (12 - 3))' "$work/tied.log"
}
check "two experts take three tokens each" tied one 1
check "two experts take three tokens each, ep=2" tied swap 2x2

# With a causal attention a rank has two pieces of each sequence, in zigzag order.
cat examples/mixtral.pdl - >"$work/mixtral.pdl" <<'END'
plan ring(dp, cp) {
    context cp { attention: exchange=ring }
    expert_parallel dp { layers.*.moe: dispatch=all_to_all }
    fully_shard (dp, cp) { layers.*, model }
}
END
model=$work/mixtral.pdl
sizes="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 -D head_dim=8
    -D hidden=32 -D batch=4 -D seq=32 -D precision=f32 -D aux_loss=0.01 -D capacity=1.0"
pieces() {
    # shellcheck disable=SC2086
    trains whole ring 1x1 $sizes && trains pieces ring 2x2 $sizes &&
        same_curve "$work/pieces.log" "$work/whole.log" 1e-5 &&
        same_drops "$work/pieces.log" "$work/whole.log"
}
check "two pieces of sequences on each rank" pieces
model=tests/data/experts.pdl

refused() { # refused CAPACITY
    ! "$PARC" $model --plan one -D "capacity=$1" --emit plan 2>"$work/message" &&
        grep -q "error: the capacity of experts must be a number above 0, not .*$1" "$work/message"
}
check "no capacity" refused 0.0
check "a word" refused many
finish
