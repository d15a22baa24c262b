#!/bin/sh
# einsum.sh: einsums that are no contractions of two tensors train as the same
# ops written by hand do, on meshes that split the summed letters.
# cpu: losses
. "$(dirname "$0")/lib.sh"

model() { # model BODY
    cat <<END
model Odd(dim=8) {
    wx: Linear(dim, 12, bias=false)
    wy: Linear(dim, 12, bias=false)
    param gate[3, 12] = normal(0.5)

    forward(h: [batch, 3, dim]) {
        x = wx(h)
        y = wy(h)
$1
        return mean(square(a)) + mean(square(b)) + mean(square(c)) +
            mean(square(d)) + mean(square(e))
    }
}
plan p(dp, tp) {
    parallelize tp { wx: ColwiseParallel, wy: ColwiseParallel, gate: Shard(1) }
    fully_shard dp { model }
}
train {
    batch = 12
    seq = 1
    precision = f32
    optimizer = AdamW(lr=1e-2)
}
END
}
einsums='
        a = einsum("bsf,btk->bt", x, y)
        b = einsum("csf,sk->ks", x, gate)
        c = einsum("bsf,sf->fbs", y, gate)
        d = einsum("btf,skj->bt", x, einsum("bsk,btk,bsj->skj", x, x, y))
        e = einsum("bsf->fb", y) + einsum(",bf->fb", sum(a), sum(x, 1))'
by_hand='
        a = sum(x, (1, 2), keep=true) * sum(y, 2, keep=true)
        b = sum(x, (0, 2)) * transpose(gate, 0, 1)
        c = transpose(transpose(y * gate, 1, 2), 0, 1)
        d = sum(x, 2) * sum(unsqueeze(x, 3) * unsqueeze(y, 2) *
            reshape(sum(x, 1), batch, 1, 12, 1))
        e = transpose(sum(y, 1), 0, 1) + sum(a) * transpose(sum(x, 1), 0, 1)'
run() { # run NAME BODY MESH TOLERANCE
    binary=$work/$1-$3
    model "$2" >"$binary.pdl"
    check "$1 $3 compiles" "$PARC" "$binary.pdl" --target cpu \
        --threads 1 --mesh "$3" -o "$binary"
    check "$1 $3 trains" "$binary" --threads 1 --steps 10 --seed 5 \
        --log "$binary.log"
    check "$1 $3 curve" same_curve "$binary.log" "$work/one.log" "$4"
}
ln -s hand-1x1.log "$work/one.log"
run hand "$by_hand" 1x1 0
for mesh in 1x1 2x1 1x2 2x2 1x4 3x1; do
    run einsum "$einsums" $mesh 1e-5
done
finish
