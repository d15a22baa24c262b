#!/bin/sh
# epochs.sh: --epochs, --save-every epoch and --val-every epoch count passes over
# the data, also in a run that is resumed with another batch.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

check "21 samples" python3 "$root/tests/tools/arrays.py" rows . 21
sizes="-D targets=2 -D dim=8 -D hidden=8 -D n_layers=1 --threads 1"
# shellcheck disable=SC2086
check "batches of 8 compile" compile train regression 2x1 $sizes -D batch=8
# shellcheck disable=SC2086
check "batches of 4 compile" compile small regression 1x1 $sizes -D batch=4
data="--data x=x.npy,y=y.npy"
steps() { jq -sc 'map(.step) | max' "$1"; }
# 3 epochs are 63 samples: 8 steps. Epochs end in the steps 3, 6 and 8.
# shellcheck disable=SC2086
check "three epochs" ./train $data --epochs 3 --save run --save-every epoch \
    --val x=x.npy,y=y.npy --val-every epoch --log log.jsonl
check "are 8 steps" test "$(steps log.jsonl)" = 8
check "a checkpoint after each epoch" test "$(ls run | tr '\n' ' ')" = \
    "step-00000003 step-00000006 step-00000008 "
check "an evaluation after each epoch" test \
    "$(jq -c 'select(.val_loss) | .step' log.jsonl | tr '\n' ' ')" = "3 6 8 "
equal_steps() {
    # shellcheck disable=SC2086
    ./train $data --steps 8 --log steps.jsonl && same_curve steps.jsonl \
        log.jsonl 0
}
check "the same run as 8 steps" equal_steps
# The checkpoint has used 64 samples; 5 epochs are 105: 6 batches of 8 or 11 of 4.
# shellcheck disable=SC2086
check "five epochs, resumed" ./train $data --epochs 5 --resume run \
    --log more.jsonl
check "are 14 steps" test "$(steps more.jsonl)" = 14
# shellcheck disable=SC2086
check "five epochs, resumed with batches of 4" ./small $data --epochs 5 \
    --resume run --log small.jsonl --save other --save-every epoch
check "are 19 steps" test "$(steps small.jsonl)" = 19
check "epochs end after 84 and 105 samples" test "$(ls other | tr '\n' ' ')" = \
    "step-00000013 step-00000019 "
nothing_left() {
    # shellcheck disable=SC2086
    ./train $data --epochs 2 --resume run 2>said
    status=$?
    cat said
    [ $status = 0 ] && grep -q 'no step is left' said
}
check "fewer epochs than the checkpoint has" nothing_left

refused() { # refused STATUS TEXT OPTIONS…
    code=$1 phrase=$2
    shift 2
    ./train "$@" >out 2>&1
    status=$?
    cat out
    [ $status = "$code" ] && [ "$(grep -c error: out)" = 1 ] &&
        grep -qF -- "$phrase" out
}
# shellcheck disable=SC2086
check "steps and epochs" refused 2 "--epochs and --steps exclude each other" \
    $data --epochs 1 --steps 3
check "synthetic data" refused 1 "synthetic data has no epochs" --epochs 1
check "a mixture" refused 1 "--save-every epoch: a mixture has no epochs" \
    --data "x=1*x.npy+1*x.npy,y=1*y.npy+1*y.npy" --save none --save-every epoch
# shellcheck disable=SC2086
check "another word" refused 2 "a whole number from 1 or 'epoch', not 'day'" \
    $data --save none --save-every day
finish
