#!/bin/sh
# settings.sh: --set changes a setting of a run, as the same setting of the
# program would, and a resumed run continues with it. A setting that shapes the
# program is refused.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# make NAME [OPTIONS…]
make() {
    name=$1
    shift
    # shellcheck disable=SC2086
    compile "$work/$name" gpt2 2x2 --threads 1 $gpt2_sizes -D n_layers=1 "$@"
}
check "the program" make plain
check "the same with settings of its own" make fixed -D optimizer.lr=2e-3 \
    -D clip=0.25 -D schedule.warmup=2 -D schedule.steps=9 -D schedule.min_lr=1e-4
sed 's/^ *clip *=.*//' examples/gpt2.pdl >"$work/free.pdl"
# shellcheck disable=SC2086
check "a program that does not clip" "$PARC" "$work/free.pdl" --target cpu \
    $gpt2_sizes -D n_layers=1 -o "$work/free"
sed 's/^ *schedule *=.*//' examples/gpt2.pdl >"$work/constant.pdl"
check "a program with a constant rate" "$PARC" "$work/constant.pdl" \
    --target cpu -D vocab=512 -D dim=64 -D n_layers=1 -D n_heads=4 \
    -D n_positions=48 -D batch=8 -D seq=32 -D precision=f32 -o "$work/constant"

train() { # train PROGRAM LOG OPTIONS…
    program=$1 log=$2
    shift 2
    "$work/$program" --data "bytes:$text" --log "$work/$log" "$@"
}
set='--set optimizer.lr=2e-3 --set clip=0.25 --set schedule.warmup=2
    --set schedule.steps=9 --set schedule.min_lr=1e-4'
values() { jq -c '[.step, .loss, .grad_norm, .lr]' "$work/$1"; }
same() { # same A B: bit for bit
    values "$1" >"$work/a" && values "$2" >"$work/b" &&
        diff "$work/a" "$work/b" && [ -s "$work/a" ]
}
check "trains as compiled" train fixed fixed.jsonl --steps 10
# shellcheck disable=SC2086
check "trains with --set" train plain set.jsonl --steps 10 $set
check "both are equal" same fixed.jsonl set.jsonl
check "trains without" train plain plain.jsonl --steps 10
differs() { ! same plain.jsonl set.jsonl; }
check "the settings matter" differs

# Half of the run, then the rest: the checkpoint has the settings.
# shellcheck disable=SC2086
check "saves" train plain half.jsonl --steps 5 --save "$work/run" $set
check "the index has the settings" jq -e '[.. | .settings? // empty] |
    .[0]."optimizer.lr" == 0.002 and .[0].clip == 0.25' \
    "$work/run/step-00000005/index.json"
check "resumes" train plain half.jsonl --steps 10 --resume "$work/run"
check "with the settings" same half.jsonl set.jsonl
check "another program resumes with them" train fixed other.jsonl --steps 6 \
    --resume "$work/run" --set clip=0.125
shows() { # a dry run names the settings in effect
    train plain no.jsonl --dry-run --resume "$work/run" --set clip=3 |
        grep -x 'set       optimizer.lr=0.002 clip=3 schedule.warmup=2 schedule.steps=9 schedule.min_lr=0.0001'
}
check "--set takes precedence over the checkpoint" shows

# A cosine schedule without steps ends at the last step of a run. More --steps
# change the rate of the next step: a note says how to keep the schedule.
sed 's/^ *schedule *=.*/    schedule = cosine(warmup=2)/' examples/gpt2.pdl \
    >"$work/open.pdl"
check "a schedule without steps" "$PARC" "$work/open.pdl" --target cpu \
    -D vocab=512 -D dim=64 -D n_layers=1 -D n_heads=4 -D n_positions=48 \
    -D batch=8 -D seq=32 -D precision=f32 -o "$work/open"
check "saves a run of 8 steps after step 6" sh -c '"$1" --steps 8 --save "$2" \
    --save-every 6 && rm -r "$2/step-00000008"' sh "$work/open" \
    "$work/short"
jumps() { # jumps STEPS OPTIONS…
    steps=$1
    shift
    "$work/open" --steps "$steps" --resume "$work/short" \
        --log "$work/jump.jsonl" "$@" 2>"$work/said" || return 1
    cat "$work/said"
    note=$(grep -c 'note: the learning rate goes from' "$work/said") || true
}
notes_jump() {
    jumps 30 || return 1
    rate=$(head -n 1 "$work/jump.jsonl" | jq .lr)
    [ "$note" = 1 ] && grep -q -- "--steps moves from 8 to 30; --set \
schedule.steps=8 keeps the old schedule, whose rate is 0 from step 8 on" \
        "$work/said" &&
        [ "$(sed -n 's/.* in step 6 to \([0-9.e-]*\): .*/\1/p' "$work/said" |
            jq ". * 1e6 | round")" = "$(echo "$rate" | jq '. * 1e6 | round')" ]
}
check "more steps change the rate" notes_jump
no_note() { jumps "$@" && [ "$note" = 0 ]; }
check "the same number of steps does not" no_note 8
check "a schedule with steps does not" no_note 30 --set schedule.steps=8

refused() { # refused TEXT PROGRAM OPTIONS…
    phrase=$1
    shift
    train "$1" none.jsonl --steps 1 --set "$2" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status = 1 ] && [ ! -e "$work/none.jsonl" ] &&
        grep -qF -- "$phrase" "$work/out"
}
check "a setting of the program" refused \
    "'batch' is a part of the program: compile again with -D batch=" plain batch=4
check "a setting of nothing" refused "unknown setting 'nonsense'. A run can set \
optimizer.lr, clip, schedule.warmup, schedule.steps, schedule.decay and schedule.min_lr" plain nonsense=1
check "is not advised to compile again" test "$(grep -c -- -D "$work/out")" = 0
check "the last part of a name" refused "did you mean 'optimizer.lr'?" plain lr=1e-3
check "a misspelled one" refused "did you mean 'optimizer.lr'?" plain optimizer.rl=1
check "no clipping in the program" refused "compile again with -D clip=0.5" free clip=0.5
check "no decay in the program" refused "the program's schedule has no such setting" \
    constant schedule.min_lr=1e-5
check "no steps for the decay" refused "no steps remain for the decay" \
    plain schedule.warmup=20
check "a rate below the last one" refused "above optimizer.lr=1e-05" \
    plain optimizer.lr=1e-5
check "no value" refused "--set takes NAME=VALUE, not 'clip'" plain clip
check "a negative rate" refused "a finite number from 0" plain optimizer.lr=-1
check "a clip of 0" refused "a finite number above 0" plain clip=0
check "half a step" refused "a whole number from 0" plain schedule.warmup=1.5
check "infinite in f32" refused "a finite number from 0" plain optimizer.lr=1e300
check "not a number" refused "a finite number from 0" plain optimizer.lr=nan
check "text" refused "not '1x'" plain schedule.warmup=1x

# Options of other training programs.
other() { # other OPTION TEXT
    train plain none.jsonl "$1" 1 >"$work/out" 2>&1
    [ $? = 2 ] && grep -qF -- "unknown option '$1'; $2" "$work/out"
}
check "--lr" other --lr "--set optimizer.lr=VALUE sets the learning rate"
check "--batch-size" other --batch-size \
    "the batch is a part of the program: compile again with -D batch=N"
check "--batch_size" other --batch_size "the batch is a part of the program"
check "--max-grad-norm" other --max-grad-norm "--set clip=VALUE sets it"
finish
