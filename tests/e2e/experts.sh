#!/bin/sh
# experts.sh: mixtures of experts have PyTorch's losses on each mesh (tests/torch/record.sh
# recorded them), with recomputation too; all tokens at two experts; errors of the builtins.
# cpu: losses
. "$(dirname "$0")/lib.sh"

trains() { # trains MESH PLAN [OPTIONS…]
    mesh=$1 plan=$2
    shift 2
    "$PARC" tests/data/experts.pdl --target cpu --mesh "$mesh" --plan "$plan" "$@" -o "$work/$mesh" &&
        "$work/$mesh" --steps 20 --seed 1 --data "bytes:$text" --log "$work/$mesh.log" &&
        same_curve "$work/$mesh.log" tests/torch/experts.losses 1e-5
}
for mesh in 1x1 $(few_or_all "2x2" "2x1 1x4 2x2 4x2"); do
    check "$mesh has PyTorch's losses" trains "$mesh" units --threads 2
done
check "microbatches have PyTorch's losses" trains "$(few_or_all 1x1 2x1)" units -D accumulate=2
check "recomputation has PyTorch's losses" trains 1x1 again
check "recomputation does not route again" sh -c \
    "'$PARC' tests/data/experts.pdl --target cpu --plan again --emit ir >'$work/ir' &&
     ! grep -E '= (topk|group_rows)\{.* (backward|recomputed)' '$work/ir' &&
     grep -q '= grouped_matmul{.* recomputed' '$work/ir'"

# Losses of balance that are 0 are the same in all microbatches, where they are added to the loss.
sed 's/true, 1.0, 0, 0.02, none/true, 1.0, 0, 0.0, none/; s/2.5, 2, 0.01, bias/2.5, 2, 0.0, bias/' \
    tests/data/experts.pdl >"$work/unbalanced.pdl"
unbalanced() { # unbalanced NAME OPTIONS…
    name=$1
    shift
    "$PARC" "$work/unbalanced.pdl" --target cpu --mesh 1 --plan one "$@" -o "$work/$name" &&
        "$work/$name" --steps 8 --seed 1 --data "bytes:$text" --log "$work/$name.log"
}
check "no loss of balance" unbalanced unbalanced
check "no loss of balance, microbatches" unbalanced parts -D accumulate=4
check "microbatches have the same losses" same_curve "$work/parts.log" "$work/unbalanced.log" 1e-5

# Experts 0 and 1 have all tokens. The others have gradient 0, and SGD does not change them.
tied() { # tied PRECISION
    "$PARC" tests/data/tied_experts.pdl --target cpu --plan one -D experts=4 -D precision="$1" \
        -o "$work/tied" &&
        "$work/tied" --steps 3 --seed 1 --data "bytes:$text" --export "$work/after" &&
        "$work/tied" --steps 0 --seed 1 --export "$work/before" &&
        python3 tests/tools/experts_moved.py "$work/before" "$work/after" up,down "1 1 0 0"
}
for precision in $(few_or_all "f32 bf16" "f32 bf16 f16"); do
    check "experts without tokens stay, $precision" tied "$precision"
done

refused() { # refused MESSAGE EXPRESSION: of h, floats [batch, seq, 8], and ids, integers
    cat >"$work/wrong.pdl" <<END
model M {
    table: Embedding(16, 8)
    param w[8, 4, 8] = normal(1.0)
    forward(tokens: int(16)[batch, seq], limited: int(8, ignore=-100)[batch, seq, 2]) {
        h = table(tokens)
        v, ids = topk(h, 2)
        pair, row, ends, needed = group_rows(ids, 8)
        y = $2
        return mean(y)
    }
}
END
    ! "$PARC" "$work/wrong.pdl" --emit plan 2>"$work/message" &&
        grep -q "error: .*$1" "$work/message"
}
check "fewer experts than ids" refused "'group_rows' takes integers below 4 here" \
    "select(float(group_rows(ids, 4)), 0)"
check "ids of two dims" refused "'group_rows' takes integers \[batch, seq, choices\]" \
    "group_rows(tokens, 16)"
check "more experts than 2^31 - 1" refused \
    "the number of experts of a shard is 4000000000, not from 1 to 2^31 - 1" \
    "select(float(group_rows(ids, 4000000000)), 0)"
check "another number of experts" refused "the weight .* has 8 experts, the rows have 4" \
    "grouped_matmul(gather_rows(h, pair, row), w, slice(ends, 0, 4))"
check "rows of another width" refused "dim 2 of operand 1 is 8 where 4 is needed" \
    "grouped_matmul(slice(gather_rows(h, pair, row), 0, 4), w, ends)"
check "exchanged rows" refused \
    "'gather_rows' takes pair .* and row .*, not i32\[.*, 2\] and i32\[" "gather_rows(h, row, pair)"
check "ids that ignore another value" refused "these may also be -100" \
    "select(float(group_rows(limited, 8)), 0)"
check "the value that they may ignore" grep -q "help: integers declared with ignore=-1 are accepted" \
    "$work/message"
check "groups need no tokens of other ranks" sh -c \
    "'$PARC' tests/data/experts.pdl --plan units --mesh 2x1 --emit json |
     jq -e '[.collectives[] | select(.kind == \"all_gather\" and .origin != \"unit\")] == []'"

word() { # word FROM TO MESSAGE: an argument of MoE
    sed "s/$1/$2/" tests/data/experts.pdl >"$work/word.pdl"
    ! "$PARC" "$work/word.pdl" --plan units --emit plan 2>"$work/message" &&
        grep -q "error: $3" "$work/message"
}
check "another router" word sigmoid mean "the router must be softmax or sigmoid"
check "a negative loss of balance" word "2.5, 2, 0.01" "2.5, 2, -0.5" \
    "shared and aux_loss must be at least 0, not 2 and -0.5"
check "another balance" word "0.01, bias" "0.01, mean" "balance must be none or bias"
finish
