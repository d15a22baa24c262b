#!/bin/sh
# crash.sh: a run that is killed at any moment loses at most one interval of
# checkpoints, and a disk that fails, or a damaged checkpoint, is reported with
# the file. CRASH=N kills N times (default 10; `make crash`: 200), alternately
# the parent, one rank and all processes, with and without --save-async.
# clock: runs are killed by the clock
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
check "the program compiles" \
    compile "$work/train" llama 2x2 $llama_sizes --threads 1
# shellcheck disable=SC2086
check "the program compiles for one rank" \
    compile "$work/one" llama 1x1 $llama_sizes --threads 1
dir=$work/checkpoints
log=$work/log.jsonl
steps_of() { [ ! -s "$1" ] && echo 0 || tail -n 1 "$1" | jq .step; }
newest() { ls "$dir" 2>/dev/null | sed -n 's/^step-0*\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }

# ---- kills ----
# killed HOW ASYNC MS: starts or resumes the run, kills it after MS ms, and
# compares the newest checkpoint with the log.
killed() {
    how=$1 async=$2 ms=$3
    # shellcheck disable=SC2086
    "$work/train" --steps 1000000 --data "bytes:$text" --shuffle --seed 3 \
        --save "$dir" --save-every 1 --keep 2 $async --resume auto \
        --log "$log" 2>"$work/said" &
    run=$!
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    ranks=$(cat "/proc/$run/task/$run/children" 2>/dev/null)
    case $how in
    parent) victims=$run ;;
    rank) victims=$(echo "$ranks" | cut -d ' ' -f $((ms % 4 + 1))) ;;
    *) victims="$run $ranks" ;;
    esac
    # shellcheck disable=SC2086
    kill -KILL ${victims:-$run} 2>/dev/null
    wait "$run" 2>/dev/null
    behind=1
    [ ! "$async" ] || behind=2 # the previous save was perhaps not complete
    logged=$(steps_of "$log") saved=$(newest)
    echo "killed $how after $ms ms: step $logged, checkpoint ${saved:-none}"
    cat "$work/said"
    ! grep 'error:' "$work/said" | grep -qv 'was killed by signal 9' &&
        [ "$((logged - ${saved:-0}))" -le $behind ]
}
# The random moments are the same in each run of the test.
random=12345
draw() { # draw N: sets drawn to 0 … N-1
    random=$(((random * 1103515245 + 12345) % 2147483648))
    drawn=$((random / 65536 % $1))
}
i=0
while [ "$i" -lt "${CRASH:-10}" ]; do
    draw 400
    case $((i % 3)) in
    0) how=parent ;;
    1) how=rank ;;
    *) how=all ;;
    esac
    async=
    [ $((i / 3 % 2)) = 0 ] || async=--save-async
    check "kill $i: $how $async" killed $how "$async" $((drawn + 50))
    i=$((i + 1))
done
# The last resume reads a whole checkpoint, and the run that was killed so often
# equals one that was never stopped.
total=$(($(newest) + 3))
finishes() {
    "$work/train" --steps $total --data "bytes:$text" --shuffle --seed 3 \
        --save "$dir" --keep 2 --resume auto --log "$log" &&
        "$work/train" --steps $total --data "bytes:$text" --shuffle --seed 3 \
            --log "$work/whole.jsonl" &&
        [ "$(jq -s 'map(.step) == [range(1; length + 1)]' "$log")" = true ] &&
        same_curve "$log" "$work/whole.jsonl" 0
}
check "the run equals one that was not killed" finishes
check "nothing temporary is left" sh -c '! ls "$1" | grep tmp' sh "$dir"

# shellcheck disable=SC2086
as_planned() {
    planned=$("$PARC" examples/llama.pdl --target cpu --mesh 2x2 $llama_sizes \
        --threads 1 --emit json | jq .memory.staging)
    "$work/train" --save "$work/new" --save-async --dry-run |
        grep "^staging *$planned bytes per rank"
}
check "the staging buffer has its planned size" as_planned

# ---- a disk that fails ----
check "a library simulates failures" cc -shared -fPIC \
    -o "$work/bad_disk.so" tests/tools/bad_disk.c
# disk RULE OPTIONS…: a run of 6 steps that saves each.
disk() {
    rule=$1
    shift
    rm -rf "$dir"
    env LD_PRELOAD="$work/bad_disk.so" BAD_DISK="$rule" \
        ASAN_OPTIONS=verify_asan_link_order=0 "$work/train" --steps 6 \
        --save "$dir" --save-every 1 "$@" 2>"$work/said"
    status=$?
    cat "$work/said"
    ls "$dir"
    return $status
}
# once CALL PATH ERRNO TEXT [OPTION]: only the save of step 3 fails. The run
# continues, and the note names the file.
once() {
    disk "$1:$2:$3" ${5:-} && [ "$(grep -c 'cannot save' "$work/said")" = 1 ] &&
        grep -q "note: cannot save '$dir/step-00000003'.*: $4; the run \
continues, older checkpoints are unchanged" "$work/said" &&
        [ "$(ls "$dir" | tr '\n' ' ')" = "step-00000001 step-00000002 \
step-00000004 step-00000005 step-00000006 " ]
}
for async in "" --save-async; do
    check "no space for a file $async" once write step-00000003 28 \
        "No space left on device" $async
    check "no space to reserve $async" once fallocate step-00000003 28 \
        "No space left on device" $async
done
check "no space for the index" once open step-00000003.tmp- 28 \
    "No space left on device"
check "a quota" once fsync step-00000003 122 "Disk quota exceeded"
check "a directory that is read-only" once mkdir step-00000003 30 \
    "Read-only file system"
check "a checkpoint that cannot be renamed" once rename step-00000003 13 \
    "Permission denied"
# thrice [OPTION]: all saves from step 4 on fail.
thrice() {
    disk "write:/step-00000:28" "$@"
    status=$?
    [ $status = 1 ] && [ "$(grep -c 'note: cannot save' "$work/said")" = 2 ] &&
        [ "$(grep -c 'error: cannot save .*; the last 3 saves failed' \
            "$work/said")" = 1 ] && ! ls "$dir" | grep -q .
}
check "three failures in a row end the run" thrice
check "three failures in a row end the run, with --save-async" \
    thrice --save-async
limited() { # a limit of file sizes
    rm -rf "$dir"
    (ulimit -f 4 && "$work/train" --steps 2 --save "$dir" --save-every 1) \
        2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && grep -q 'cannot save .*File too large' "$work/said"
}
check "a limit of file sizes" limited

# ---- damaged checkpoints ----
# whole: steps 1 to 3 are saved.
whole() {
    rm -rf "$dir" && "$work/train" --steps 3 --save "$dir" --save-every 1
}
# resumes STEP TEXT: a run of another mesh continues after STEP; its messages
# have TEXT.
resumes() {
    "$work/one" --steps 5 --resume "$dir" --log "$work/r.jsonl" 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 0 ] && [ "$(head -n 1 "$work/r.jsonl" | jq .step)" = \
        $(($1 + 1)) ] && grep -qE "$2" "$work/said"
}
# refused TEXT OPTIONS…: an error with TEXT.
refused() {
    phrase=$1
    shift
    "$work/one" --steps 5 "$@" 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && [ "$(grep -c error: "$work/said")" = 1 ] &&
        grep -qE -- "$phrase" "$work/said"
}
last=$dir/step-00000003
file=$last/rank-00001.safetensors
missing() { whole && rm "$file" && resumes 2 rank-00001.safetensors; }
truncated() { whole && truncate -s -8 "$file" && resumes 2 rank-00001.safetensors; }
no_index() { whole && rm "$last/index.json" && resumes 2 index.json; }
damaged_index() {
    whole && truncate -s -200 "$last/index.json" && resumes 2 index.json
}
repeated_piece() {
    whole && jq '.tensors[].pieces |= . + .[:1]' "$last/index.json" \
        >"$work/index" && mv "$work/index" "$last/index.json" &&
        resumes 2 "the pieces have more elements than the tensor"
}
flipped() {
    whole && at=$(($(wc -c <"$file") - 100)) &&
        byte=$(od -An -tu1 -j $at -N 1 "$file") &&
        printf "\\$(printf %o $((byte ^ 16)))" |
        dd of="$file" bs=1 seek=$at conv=notrunc 2>/dev/null &&
        refused "rank-00001.safetensors: byte [0-9]*: error: wrong checksum in \
bytes [0-9]* to [0-9]*, which are part of '[a-z]" --resume "$last"
}
check "a missing file" missing
check "a truncated file" truncated
check "a missing index" no_index
check "a truncated index" damaged_index
check "an index that lists a piece twice" repeated_piece
check "a flipped bit" flipped
# shellcheck disable=SC2086
check "another model compiles" compile "$work/other" llama 1x1 $llama_sizes \
    --threads 1 -D hidden=96
other() {
    whole && mv "$work/one" "$work/saved_one" && cp "$work/other" "$work/one"
    "$work/one" --steps 5 --resume "$dir" 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && grep -q "index.json: byte [0-9]*: error: \
'layers.0.feed_forward.w1.weight' is \[128, 64\]; the model's is \[96, 64\]" \
        "$work/said"
    status=$?
    mv "$work/saved_one" "$work/one"
    return $status
}
check "a checkpoint of another model" other
two_runs() {
    rm -rf "$dir" && : >"$log"
    "$work/train" --steps 1000000 --save "$dir" --log "$log" 2>/dev/null &
    run=$!
    until [ -s "$log" ]; do sleep 0.1; done
    refused "another run saves to '$dir'" --save "$dir"
    status=$?
    kill -KILL $run
    wait $run
    return $status
}
check "two runs in one directory" two_runs
finish
