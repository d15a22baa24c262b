#!/bin/sh
# five_axes.sh: a mesh of five axes of sizes 1 and 2: the loss curve is that of
# one rank, a checkpoint is resumed on other meshes, and the dump after every
# pass gives the same plan. The same for six axes that become seven.
# cpu: losses
. "$(dirname "$0")/lib.sh"

cat >"$work/five.pdl" <<'PDL'
module Block(dim) {
    up: Linear(dim, 4 * dim)
    down: Linear(4 * dim, dim)
    forward(x) { return x + down(relu(up(x))) }
}

model Five(dim=16, n=3) {
    blocks: [n] Block(dim)
    head: Linear(dim, 8)

    forward(x: [batch, dim]) {
        for block in blocks { x = block(x) }
        return mean(square(head(x)))
    }
}

plan five(rep, dp, columns, fsdp, rows) {
    parallelize columns { blocks.*.up: ColwiseParallel }
    parallelize rows {
        head: RowwiseParallel(input=Replicate)
        blocks.*.up: ColwiseParallel
        blocks.*.down: RowwiseParallel
    }
    fully_shard (rep, fsdp) { blocks.*: strategy=hybrid_shard, head }
}

train {
    batch     = 32
    clip      = 0.5
    optimizer = AdamW(lr=0.01)
}
PDL

# built MESH [SETTING]: compiles for the mesh; sets `at`.
built() {
    at=$work/$1
    [ -x "$at" ] || "$PARC" "$work/five.pdl" --target cpu --threads 1 \
        --mesh "$1" ${2:+-D "$2"} --emit json="$at.json" -o "$at"
}

trains() { # trains MESH [SETTING]
    built "$@" && "$at" --steps 8 --seed 3 --save "$at.saved" --save-every 4 \
        --log "$at.log"
}

moves() { # moves FROM TO
    built "$2" &&
        "$at" --steps 8 --resume "$work/$1.saved/step-00000004" \
            --log "$at.moved.log" &&
        jq -c 'select(.step > 4)' "$work/$1.log" >"$at.want" &&
        same_curve "$at.moved.log" "$at.want" 1e-5
}

# Runs the remaining passes on the dump after each pass.
dumps() { # dumps MESH TARGET
    "$PARC" "$work/five.pdl" --mesh "$1" --target "$2" --emit plan \
        >"$work/plan" || return 1
    for pass in $("$PARC" --list-passes | awk '{ print $1 }'); do
        "$PARC" "$work/five.pdl" --mesh "$1" --target "$2" \
            --dump-after="$pass" --stop-after="$pass" >"$work/dump.ir" &&
            "$PARC" --start-after="$pass" "$work/dump.ir" --target "$2" \
                --emit plan >"$work/again" &&
            cmp "$work/plan" "$work/again" || return 1
    done
}

check "one rank trains" trains 1x1x1x1x1
for mesh in 2x1x2x1x2 1x2x1x2x1 1x1x2x2x2 2x2x1x1x1; do
    check "$mesh trains" trains $mesh
    check "$mesh curve" same_curve "$at.log" "$work/1x1x1x1x1.log" 1e-5
    check "$mesh memory" as_planned "$at.log" "$at.json"
done
check "from 2x1x2x1x2 to 1x2x1x2x1" moves 2x1x2x1x2 1x2x1x2x1
check "from 2x1x2x1x2 to one rank" moves 2x1x2x1x2 1x1x1x1x1
check "from one rank to 2x1x2x1x2" moves 1x1x1x1x1 2x1x2x1x2
check "from 1x1x2x2x2 to 2x1x2x1x2" moves 1x1x2x2x2 2x1x2x1x2
check "dumps, CPU" dumps 2x1x2x1x2 cpu
check "dumps, CUDA" dumps 2x1x2x1x2 cuda
# One of six axes is split in two for ranks that share a head.
cp tests/golden/check/kv_heads_axes.pdl "$work/five.pdl"
check "dumps of seven axes" dumps 1x2x1x1x4x1 cpu
finish
