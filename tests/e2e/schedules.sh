#!/bin/sh
# schedules.sh: the learning rates of wsd and piecewise are those of their formulas
# in each step; a longer run continues a checkpoint of the stable phase.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# make NAME SCHEDULE
make() {
    "$PARC" tests/torch/recipe.pdl --target cpu --threads 1 -D ignored=32 \
        -D "optimizer=SGD(lr=0.5)" -D "schedule=$2" -o "$work/$1"
}
train() { # train PROGRAM LOG OPTIONS…
    program=$1 log=$2
    shift 2
    "$work/$program" --data "bytes:$text" --log "$work/$log" "$@"
}
# rates LOG STEPS FORMULA: the log has the rate of awk's formula of t in each step.
rates() {
    awk -v steps="$2" '
        { match($0, /"step": *[0-9]+/); t = substr($0, RSTART + 7) + 0 }
        match($0, /"lr": *[-+.0-9eE]+/) {
            lr = substr($0, RSTART + 5, RLENGTH - 5) + 0
            want = '"$3"'
            apart = lr - want
            if (apart > 1e-6 * want + 1e-12 || -apart > 1e-6 * want + 1e-12) {
                print "step " t ": " lr ", not " want
                failed = 1
            }
            seen++
        }
        END { exit failed || t != steps || seen != NR || !seen }' "$work/$1"
}

wsd="t < 5 ? t / 10 : t <= 20 ? 0.5 : t < 30 ? 0.1 + 0.4 * (1 - sqrt((t - 20) / 10)) : 0.1"
check "wsd compiles" make wsd "wsd(steps=30, warmup=5, decay=10, min_lr=0.1, shape=sqrt)"
check "wsd trains" train wsd wsd.log --steps 33
check "wsd has the rates of its formula" rates wsd.log 33 "$wsd"

# The steps of the run, with a checkpoint before and after the decay begins.
check "wsd without steps compiles" make open "wsd(warmup=5, decay=8, shape=cosine)"
check "a run of 24 steps" train open short.log --steps 24 --save "$work/saved" \
    --save-every 12
cosine() { # cosine STEPS DECAY
    echo "t < 5 ? t / 10 : t <= $1 - $2 ? 0.5 : \
0.25 * (1 + cos(atan2(0, -1) * (t - ($1 - $2)) / $2))"
}
check "decays at its end" rates short.log 24 "$(cosine 24 8)"
no_note() {
    train open "$@" >"$work/said" 2>&1 && ! grep 'note: the learning rate goes' "$work/said"
}
check "a longer run continues the stable phase" no_note long.log --steps 40 \
    --resume "$work/saved/step-00000012"
check "and decays later" rates long.log 40 "$(cosine 40 8)"
check "with another decay" no_note other.log --steps 36 --set schedule.decay=20 \
    --resume "$work/saved/step-00000012"
check "which has the rates of its formula" rates other.log 36 "$(cosine 36 20)"

check "piecewise compiles" make pieces \
    "piecewise(after=(6, 10), rates=(0.125, 0.75), warmup=4)"
check "piecewise trains" train pieces pieces.log --steps 14
check "piecewise has its rates" rates pieces.log 14 \
    "t < 4 ? t / 8 : t <= 6 ? 0.5 : t <= 10 ? 0.125 : 0.75"

refused() { # refused TEXT PROGRAM SETTING…
    phrase=$1 program=$2
    shift 2
    train "$program" none.log --steps 1 "$@" >"$work/out" 2>&1
    [ $? = 1 ] && grep -qF -- "$phrase" "$work/out"
}
check "too few steps" refused "too few steps: schedule.warmup=5, schedule.decay=26, \
schedule.steps=30" wsd --set schedule.decay=26
check "a warm-up after the first change" refused "changes after step 6, during the \
warm-up of schedule.warmup=7" pieces --set schedule.warmup=7
check "no decay of pieces" refused "the program's schedule has no such setting" \
    pieces --set schedule.decay=5
check "the rates are a part of the program" refused "compile again with -D \
schedule.rates=VALUE" pieces --set schedule.rates=1
finish
