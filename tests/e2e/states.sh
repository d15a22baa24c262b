#!/bin/sh
# states.sh: a state that an update sets to a parameter has its value before the step, on
# each mesh: where the parameter is sharded, split, cast and on a stage of a pipeline.
# cpu: losses
. "$(dirname "$0")/lib.sh"

built() { # built NAME MESH [OPTIONS…]
    name=$1 mesh=$2
    shift 2
    "$PARC" tests/data/states.pdl --target cpu --threads 1 --mesh "$mesh" "$@" -o "$work/$name"
}
is() { # is X Y: X after 4 steps is Y after 3
    python3 tests/tools/weights.py tensor "$work/4.st" "$1" "$work/3.st" "$2"
}
follows() { # follows NAME MESH [OPTIONS…]
    built "$@" || return 1
    for steps in 3 4; do
        "$work/$1" --seed 1 --steps $steps --export "$work/$steps.st" || return 1
    done
    is before scale && is table first.weight &&
        for i in 0 1; do
            is layers.$i.before layers.$i.gain &&
                is layers.$i.table layers.$i.linear.weight || return 1
        done
    echo '{"steps": [4]}' >"$work/steps.json" &&
        python3 tests/tools/weights.py states "$work/4.st" "$work/steps.json" 0
}
check "one rank" follows one 1x1 --plan units
check "FSDP and tensor parallelism" follows units 2x2 --plan units
check "microbatches" follows parts 2x1 --plan units -D accumulate=4
check "bf16" follows bf16 2x2 --plan units -D precision=bf16 -D accumulate=2
check "a pipeline" follows stages 2x2 --plan stages -D accumulate=2
in_all check "AdamW, averages of the weights and clipping" follows adam 2x2 --plan units \
    -D 'optimizer=AdamW(lr=0.01)' -D ema=0.9 -D clip=0.1
finish
