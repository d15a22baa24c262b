#!/bin/sh
# pipeline_runs.sh: the life of a run with a pipeline: it is saved and resumed with
# other stages or without, evaluated, exported and sampled, with the results of one
# rank; it is traced.
. "$(dirname "$0")/lib.sh"

run="--seed 3 --data bytes:$text"
for mesh in 1x1x1 2x1x1 4x1x1; do
    # shellcheck disable=SC2046
    check "$mesh compiles" compile "$work/$mesh" three_d "$mesh" --threads 1 \
        $(sizes three_d) -D clip=none
done
# shellcheck disable=SC2046
check "a split with unequal stages compiles" sh -c "sed \
    's/schedule=1f1b/&, split=[layers.0, layers.1-3]/' examples/three_d.pdl \
    >'$work/split.pdl'"
# shellcheck disable=SC2046
check "a split compiles" "$PARC" "$work/split.pdl" --target cpu --threads 1 \
    --mesh 2x1x1 $(sizes three_d) -D clip=none -o "$work/split"

losses() { # losses LOG STEP: those after the step
    jq -c "select(.step > $2) | .loss" "$1"
}
saved() { # saved PROGRAM: ten steps
    # shellcheck disable=SC2086
    "$work/$1" $run --steps 10 --save "$work/$1.save" --log "$work/$1.log"
}
continues() { # continues FROM PROGRAM: the losses of the run that goes on
    # shellcheck disable=SC2086
    "$work/$2" $run --steps 20 --resume "$work/$1.save" --log "$work/on.log" \
        --export "$work/$2.st" &&
        losses "$work/on.log" 10 >"$work/on" &&
        losses "$work/whole.log" 10 >"$work/want" &&
        cmp "$work/want" "$work/on" && [ "$(wc -l <"$work/on")" = 10 ] &&
        cmp "$work/whole.st" "$work/$2.st"
}
# shellcheck disable=SC2086
check "one rank trains" "$work/1x1x1" $run --steps 20 --log "$work/whole.log" \
    --export "$work/whole.st"
check "two stages are saved" saved 2x1x1
check "one rank continues, bit for bit" continues 2x1x1 1x1x1
check "so do four stages" continues 2x1x1 4x1x1
check "so do other stages" continues 2x1x1 split
check "one rank is saved" saved 1x1x1
check "two stages continue, bit for bit" continues 1x1x1 2x1x1

# shellcheck disable=SC2046
check "shards of stages compile" compile "$work/2x2x1" three_d 2x2x1 --threads 1 \
    $(sizes three_d) -D clip=none
# Each stage allocates what the plan says that it needs, the later ones less.
by_stage() {
    # shellcheck disable=SC2046
    "$PARC" examples/three_d.pdl --target cpu --threads 1 --mesh 4x1x1 \
        $(sizes three_d) -D clip=none --emit json |
        jq '.pipeline.stages[].memory' >"$work/planned" &&
        "$work/4x1x1" --dry-run |
        sed -n 's/^ *\([0-9]*\) bytes at pp=[0-9]*$/\1/p' >"$work/allocated" &&
        cmp "$work/planned" "$work/allocated" &&
        [ "$(wc -l <"$work/planned")" = 4 ] &&
        [ "$(sed -n 2p "$work/planned")" -gt "$(sed -n 3p "$work/planned")" ]
}
check "each stage has the memory that it needs" by_stage

# A rank sleeps for a random time before each action: no bit changes.
delays() {
    # shellcheck disable=SC2046
    "$PARC" examples/three_d.pdl --target cpu --threads 1 --mesh 4x1x1 \
        $(sizes three_d) -D clip=none -S "$work/tree" &&
        sed -i '1i #define _DEFAULT_SOURCE\n#include <stdlib.h>\n#include <unistd.h>
            s/switch (action.kind) {/usleep((rand() ^ getpid()) % 3000u);\n        &/' \
            "$work/tree/train.c" && grep -q usleep "$work/tree/train.c" &&
        make -s -C "$work/tree" || return
    for i in 1 2; do
        # shellcheck disable=SC2086
        "$work/tree/train" $run --steps 20 --log "$work/delays.log" &&
            losses "$work/delays.log" 0 >"$work/delays" &&
            losses "$work/whole.log" 0 >"$work/want" &&
            cmp "$work/want" "$work/delays" || return
    done
}
in_all check "random delays change no loss" delays

explained() { # the first transfer of the forward pass
    # shellcheck disable=SC2046
    set -- examples/three_d.pdl --target cpu --threads 1 --mesh 4x1x1 \
        $(sizes three_d)
    "$PARC" "$@" --emit plan >"$work/plan" &&
        "$PARC" "$@" --explain "$(sed -n 's/^ *\(rc[0-9]*\) .*/\1/p' "$work/plan" |
            head -n 1)" >"$work/said" &&
        cat "$work/said" &&
        grep -qx 'from stage to stage: 0, 1, 2, 3' "$work/said" &&
        grep -qx 'buffers of each stage: 4, 4, 3, 2' "$work/said"
}
check "a transfer is explained" explained

repeats() { # shards that ranks share are read when all have written them
    for i in 1 2 3; do
        # shellcheck disable=SC2086
        "$work/2x2x1" $run --steps 20 --log "$work/shards.log" || return 1
        losses "$work/shards.log" 0 >"$work/losses.$i"
        cmp "$work/losses.1" "$work/losses.$i" || return 1
    done
    same_curve "$work/shards.log" "$work/whole.log" 1e-5
}
check "they have the same losses in every run" repeats

same_output() { # same_output OPTIONS…: one rank and two stages print the same
    for mesh in 1x1x1 2x1x1; do
        "$work/$mesh" --resume "$work/2x1x1.save" "$@" >"$work/$mesh.out" ||
            return 1
    done
    cmp "$work/1x1x1.out" "$work/2x1x1.out" && [ -s "$work/1x1x1.out" ]
}
check "an evaluation is the same" same_output --eval --val "bytes:$text" \
    --val-steps 2
check "a sample is the same" same_output --sample "The " --tokens 8
predicts() {
    for mesh in 1x1x1 4x1x1; do
        "$work/$mesh" --resume "$work/2x1x1.save" --data "bytes:$text" \
            --predict "$work/$mesh.npy" || return 1
    done
    cmp "$work/1x1x1.npy" "$work/4x1x1.npy"
}
check "outputs are the same" predicts
shards() {
    "$work/2x1x1" --print-shards layers.*.mlp_norm.weight >"$work/shards" &&
        grep -q 'none, another stage has it' "$work/shards" &&
        grep -q '64 elements: elements 0 .. 63' "$work/shards"
}
check "the stages' layers are printed" shards
# shellcheck disable=SC2086
check "a run is traced" "$work/2x1x1" $run --steps 6 --trace "$work/trace"
check "the trace has transfers of both ranks" jq -e '[.traceEvents[] |
    select(.name | test("^(sd|rc)[0-9]+$")) | .pid] | unique | length == 2' \
    "$work/trace"
# shellcheck disable=SC2086
check "results are checked" env PARC_NANCHECK=1 "$work/2x1x1" $run --steps 2

finish
