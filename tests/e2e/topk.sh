#!/bin/sh
# topk.sh: topk and sort have PyTorch's losses on each mesh (tests/torch/record.sh recorded
# them), and operands that cannot be sorted are errors.
# cpu: losses
. "$(dirname "$0")/lib.sh"

trains() { # trains MESH [OPTIONS…]
    mesh=$1
    shift
    "$PARC" tests/data/topk.pdl --target cpu --mesh "$mesh" "$@" -o "$work/$mesh" &&
        "$work/$mesh" --steps 20 --seed 1 --data "bytes:$text" --log "$work/$mesh.log" &&
        same_curve "$work/$mesh.log" tests/torch/topk.losses 1e-5
}
for mesh in 1x1 $(few_or_all "2x2" "2x1 1x4 2x2 4x2"); do
    check "$mesh has PyTorch's losses" trains "$mesh" --threads 2
done

refused() { # refused MESSAGE EXPRESSION: of h, floats [batch, seq, 8], and ids, integers
    cat >"$work/wrong.pdl" <<END
model M {
    table: Embedding(16, 8)
    forward(ids: int(16)[batch, seq]) {
        h = table(ids)
        a, b = $2
        return mean(a)
    }
}
END
    ! "$PARC" "$work/wrong.pdl" --emit plan 2>"$work/message" &&
        grep -q "error: $1" "$work/message"
}
check "nine of eight" refused "'topk' takes from 1 to 8 elements of f32\[8, 128, 8\], not 9" \
    "topk(h, 9)"
check "none" refused "'topk' takes from 1 to 8 elements" "topk(h, 0)"
check "integers" refused "'sort' orders the last dim of a tensor of floats, not of i32" "sort(ids)"
check "two results" refused "" "(sort(h), 1, 2)"
check "positions are below the size" refused "'onehot' takes integers below 4 here" \
    "(h, onehot(argsort(h), 4))"
finish
