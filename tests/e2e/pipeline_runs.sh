#!/bin/sh
# pipeline_runs.sh: the life of a run with a pipeline: it is saved and resumed with
# other stages or without, evaluated, exported and sampled, with the results of one
# rank; it is traced.
. "$(dirname "$0")/lib.sh"

run="--seed 3 --data bytes:$text"
# builds NAME MESH [WORDS]: three_d with these words in the clause
builds() {
    sed "s/schedule=1f1b/${3:-&}/" examples/three_d.pdl >"$work/$1.pdl"
    # shellcheck disable=SC2046
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh "$2" $(sizes three_d) \
        -D n_layers=6 -D clip=none -o "$work/$1" --emit json="$work/$1.json"
}
for mesh in 1x1x1 2x1x1 4x1x1; do
    check "$mesh compiles" builds $mesh $mesh
done
check "a split with unequal stages compiles" builds split 2x1x1 \
    "&, split=[layers.0, layers.1-5]"
check "two stages on each of four ranks compile" builds several 4x1x1 \
    schedule=interleaved
check "zero_bubble compiles" builds zero 4x1x1 schedule=zero_bubble

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
check "so do two stages on each rank" continues 2x1x1 several
check "so does zero_bubble" continues 2x1x1 zero
check "one rank is saved" saved 1x1x1
check "two stages continue, bit for bit" continues 1x1x1 2x1x1
check "two stages on each rank are saved" saved several
check "one rank continues" continues several 1x1x1
check "so do two ranks with one stage each" continues several 2x1x1

check "shards of stages compile" builds 2x2x1 2x2x1
# Each rank allocates what the plan says that its stages need, in 1F1B the later ones
# less.
by_stage() { # by_stage NAME RANKS
    jq --argjson n "$2" '.pipeline.stages[:$n][].memory' "$work/$1.json" >"$work/planned" &&
        "$work/$1" --dry-run |
        sed -n 's/^ *\([0-9]*\) bytes at pp=[0-9]*$/\1/p' >"$work/allocated" &&
        cmp "$work/planned" "$work/allocated" &&
        [ "$(wc -l <"$work/planned")" = "$2" ]
}
check "each stage has the memory that it needs" by_stage 4x1x1 4
check "later stages need less" jq -e \
    '.pipeline.stages[1].memory > .pipeline.stages[2].memory' "$work/4x1x1.json"
check "settings have the split" jq -e '.settings.pipeline | .schedule == "interleaved" and
    .stages_per_rank == 2 and (.split | length == 8 and .[1] == ["layers.0"])' \
    "$work/several.json"
check "two stages on a rank have the memory that they need" by_stage several 4
check "zero_bubble has the memory that it needs" by_stage zero 4

check "a stage of one layer and one of five have the memory that they need" \
    by_stage split 2
check "the stage of one layer needs less" jq -e '.pipeline.stages |
    .[0].memory < .[1].memory' "$work/split.json"

# A rank sleeps for a random time before each action: no bit changes.
delays() { # delays NAME
    rm -rf "$work/tree"
    # shellcheck disable=SC2046
    "$PARC" "$work/$1.pdl" --target cpu --threads 1 --mesh 4x1x1 \
        $(sizes three_d) -D n_layers=6 -D clip=none -S "$work/tree" &&
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
for schedule in 4x1x1 several zero; do
    in_all check "random delays change no loss, $schedule" delays $schedule
done

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
axis_explained() {
    # shellcheck disable=SC2046
    "$PARC" examples/three_d.pdl --target cpu --threads 1 --mesh 4x1x1 \
        $(sizes three_d) -D n_layers=6 --explain pp >"$work/said" &&
        cat "$work/said" &&
        grep -qE '^  1 .* layers[.][0-9-]+$' "$work/said" &&
        grep -qE '^  rank 3 ' "$work/said"
}
check "the axis is explained with its stages" axis_explained

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

same_output() { # same_output OPTIONS…: they print what one rank does
    for name in 1x1x1 2x1x1 several zero; do
        "$work/$name" --resume "$work/2x1x1.save" "$@" >"$work/$name.out" &&
            cmp "$work/1x1x1.out" "$work/$name.out" || return 1
    done
    [ -s "$work/1x1x1.out" ]
}
check "an evaluation is the same" same_output --eval --val "bytes:$text" \
    --val-steps 2
check "a sample is the same" same_output --sample "The " --tokens 8
predicts() {
    for mesh in 1x1x1 4x1x1 several; do
        "$work/$mesh" --resume "$work/2x1x1.save" --data "bytes:$text" \
            --predict "$work/$mesh.npy" || return 1
    done
    cmp "$work/1x1x1.npy" "$work/4x1x1.npy" &&
        cmp "$work/1x1x1.npy" "$work/several.npy"
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
# A pass is a slice for each microbatch and stage, and the slices of a step leave no gap.
passes() { # passes RANKS STAGES
    jq -en --slurpfile t "$work/trace" --argjson ranks "$1" --argjson stages "$2" '
        [$t[0].traceEvents[] | select(.ph == "X")] |
        ([.[] | select(.cat == "action") | select(.name | test("^[FB]"))] |
            group_by(.args.stage)) as $own |
        def total(f): map(select(f) | .dur) | add // 0;
        if ($own | length) == $stages and ($own | all((map(.pid) | unique) ==
                [.[0].args.stage % $ranks] and length == 2 * 4 * 3)) and
            (group_by(.pid) | all(total(.cat == "step") - total(.cat |
                IN("input", "phase", "action")) | fabs < 1)) and
            ([.[] | select(.cat == "action" and .args.stage == $stages - 1) |
                .name] | index("F3" + if $ranks < $stages then "/7" else "" end))
        then true else error("\($own | map(length))") end'
}
check "the trace has the passes of both stages" passes 2 2
# shellcheck disable=SC2086
check "a run with two stages on each rank is traced" "$work/several" $run --steps 6 \
    --trace "$work/trace"
check "the trace has the passes of eight stages" passes 4 8
# shellcheck disable=SC2086
check "results are checked" env PARC_NANCHECK=1 "$work/2x1x1" $run --steps 2
# shellcheck disable=SC2086
check "so are those of two stages on each rank" env PARC_NANCHECK=1 \
    "$work/several" $run --steps 2
infinite() {
    # shellcheck disable=SC2086
    PARC_NANCHECK=1 "$work/several" $run --steps 4 --set optimizer.lr=1e18 2>"$work/err"
    [ $? = 1 ] && cat "$work/err" && grep -q "step 2, rank 1: in 'attention' (.*, \
micro 0, layer 0), element 0 of .* is not a number; all results before it are finite" \
        "$work/err"
}
check "a result that is not finite is named" infinite

finish
