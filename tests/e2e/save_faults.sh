#!/bin/sh
# save_faults.sh: a save runs once for each of its system calls, and that call
# fails. No checkpoint is lost, the message is true, and the exit status says
# whether the last state is saved.
. "$(dirname "$0")/lib.sh"

dir=$work/run
check "a tool makes calls fail" cc -O1 -o "$work/fail_call" \
    tests/tools/fail_call.c
compiles() {
    for mesh in 1x1 2x1; do
        compile "$work/train$mesh" regression $mesh -D features=4 -D dim=8 \
            -D hidden=8 -D n_layers=1 -D batch=4 --threads 1 || return 1
    done
}
check "the programs compile" compiles

# train STEPS OPTIONS…: continues the run in $dir.
train() {
    steps=$1
    shift
    "$work/train$mesh" --steps "$steps" --save "$dir" --resume auto "$@" \
        2>"$work/said"
}
# weights STEP FILE: exports the weights of a checkpoint.
weights() {
    "$work/train$mesh" --steps 0 --resume "$dir/step-0000000$1" \
        --export "$2" 2>/dev/null
}
# first: $work/first has the checkpoints of steps 1 and 2, $work/w3 and w5 the
# weights after steps 3 and 5 of a run without a failure.
first() {
    rm -rf "$dir" "$work/first" && train 2 --save-every 1 &&
        cp -R "$dir" "$work/first" && train 5 --save-every 1 &&
        weights 3 "$work/w3" && weights 5 "$work/w5"
}
# faulty STEPS RULE: the run saves steps 3 to STEPS; in the save of step 3 the
# call of RULE fails. Sets status.
faulty() {
    rm -rf "$dir" && cp -R "$work/first" "$dir"
    "$work/fail_call" "$work/calls" "$dir" step-00000003.tmp "$2" \
        "$work/train$mesh" --steps "$1" --save "$dir" --resume auto \
        --save-every 1 --keep 2 $async 2>"$work/said"
    status=$?
}
whole() { weights "$1" "$work/w" && cmp "$work/w" "$work/w$1"; }
# continues: the run goes on from what is left, and only whole checkpoints stay.
continues() {
    train 5 --save-every 1 --keep 2 && whole 5 &&
        [ "$(ls "$dir" | tr '\n' ' ')" = "step-00000004 step-00000005 " ]
}
# last RULE: the save of the last step fails, or succeeds in spite of the call.
last() {
    faulty 3 "$1"
    cat "$work/said"
    ls "$dir"
    if [ $status = 0 ]; then
        ! grep -q 'cannot save' "$work/said" && whole 3 &&
            diff -r "$work/first/step-00000002" "$dir/step-00000002"
    else
        [ $status = 1 ] && grep -q "cannot save '$dir/step-00000003'.*: .*; \
the run ends, older checkpoints are unchanged" "$work/said" &&
            diff -r "$work/first/step-00000001" "$dir/step-00000001" &&
            diff -r "$work/first/step-00000002" "$dir/step-00000002"
    fi && continues
}
# middle RULE: the run goes on after the save of step 3 and saves step 4.
middle() {
    faulty 4 "$1"
    cat "$work/said"
    ls "$dir"
    [ $status = 0 ] && [ -f "$dir/step-00000004/index.json" ] && continues
}
# each CASE: one run for each call; prints the rules that fail the test.
each() {
    wrong=0
    faulty 3 ""
    sort -u "$work/calls" >"$work/rules"
    [ "$(wc -l <"$work/rules")" -gt 30 ] || return 1
    while read -r call path number; do
        case $call in
        write | fallocate) error=28 ;; # ENOSPC
        mmap) error=12 ;;              # ENOMEM
        *) error=5 ;;                  # EIO
        esac
        "$1" "$call $path $number $error" >"$work/out" 2>&1 && continue
        echo "$call $path $number fails:"
        cat "$work/out"
        wrong=$((wrong + 1))
    done <"$work/rules"
    [ $wrong = 0 ]
}
for mesh in 1x1 2x1; do
    check "a run without failures: $mesh" first
    for async in "" --save-async; do
        rare=
        case $mesh$async in 1x1--save-async | 2x1) rare=in_all ;; esac
        $rare check "the save of the last step: $mesh $async" each last
    done
done
async='' mesh=1x1
check "the run of one rank that is continued" first
check "the save of a step before the last one" each middle
finish
