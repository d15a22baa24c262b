#!/bin/sh
# conv.sh: convolutions, pooling and running sums have PyTorch's losses on each mesh,
# with channels split as well (tests/torch/record.sh recorded them), and on the CUDA
# target.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_own_data.sh"

trains() { # trains MESH
    "$PARC" tests/data/conv.pdl --target cpu --threads 1 --mesh "$1" -o "$work/$1" &&
        "$work/$1" --steps 20 --seed 1 --data "$spec" --log "$work/$1.log" &&
        same_curve "$work/$1.log" tests/torch/conv.losses 1e-6
}
check "data" own_data conv
for mesh in 1x1 $(few_or_all "2x2" "2x1 1x4 2x2 4x2"); do
    check "$mesh has PyTorch's losses" trains "$mesh"
done

# Split input channels give partial sums. At each level of --cpu oneDNN has other kernels.
sed 's/second.weight: Shard(0)/second.weight: Shard(1)/; s/second.bias: /first.weight: /' \
    tests/data/conv.pdl >"$work/inputs.pdl"
as() { # as NAME OPTIONS…: of inputs.pdl
    at=$work/$1
    shift
    "$PARC" "$work/inputs.pdl" --target cpu --threads 1 "$@" -o "$at" &&
        "$at" --steps 20 --seed 1 --data "$spec" --log "$at.log" --export "$at.st"
}
partial() {
    as partial --mesh 2x2 && "$PARC" "$work/inputs.pdl" --mesh 2x2 --emit plan 2>"$work/said" |
        grep -qF 'Shard(1) on second.weight: tp P -> S(1)' &&
        same_curve "$work/partial.log" tests/torch/conv.losses 1e-6
}
check "input channels are split" partial
for level in x86-64-v3 $(in_all echo x86-64-v4); do
    leveled() {
        as "$level" --cpu "$level" && same_curve "$work/$level.log" tests/torch/conv.losses 1e-6
    }
    [ "$(uname -m)" != x86_64 ] || check "it trains at the level $level" leveled
done
bf16() {
    as bf16 -D precision=bf16 --mesh 1x2 && as again -D precision=bf16 --mesh 1x2 &&
        cmp "$work/bf16.st" "$work/again.st" &&
        same_curve "$work/bf16.log" tests/torch/conv.losses 3e-2
}
check "it trains in bf16, and repeats" bf16

# A loop over a range has the losses of its iterations, and shapes may change in it.
model() { # model BODY
    cat <<END
model M(dim=6, steps=3) {
    up: Linear(8, dim)
    forward(x: [batch, 8], y: [batch, 1]) {
        h = up(x)
        $1
        return mse_loss(sum(h, dim=1, keep=true), y)
    }
}
train {
    batch = 4
    optimizer = SGD(lr=0.05)
}
END
}
ranged() { # ranged NAME BODY
    model "$2" >"$work/$1.pdl" &&
        "$PARC" "$work/$1.pdl" --target cpu --threads 1 -o "$work/$1" &&
        "$work/$1" --steps 5 --seed 1 --log "$work/$1.log"
}
check "a loop trains" ranged loop 'for i in range(steps) {
            for j in range(i) { h = h * 0.5 + i - j }
            h = pad(slice(h, 0, 2, step=2), i, 1, value=0.5) }'
check "its iterations train" ranged lines 'h = pad(slice(h, 0, 2, step=2), 0, 1, value=0.5)
        h = pad(slice(h * 0.5 + 1.0, 0, 2, step=2), 1, 1, value=0.5)
        h = h * 0.5 + 2.0
        h = pad(slice(h * 0.5 + 1.0, 0, 2, step=2), 2, 1, value=0.5)'
check "both have one curve" same_curve "$work/loop.log" "$work/lines.log" 1e-7
finish
