#!/bin/sh
# tensorboard.sh: the event files of --tensorboard have the values of the log.
# An independent reader checks their encoding and checksums; with $TORCH_PYTHON
# (a Python that has the package tensorboard) TensorBoard's own reader does too.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
check "compiles" compile "$work/train" llama 2x2 $llama_sizes -D precision=f16
train() { # train DIR LOG [OPTIONS…]
    dir=$1 log=$2
    shift 2
    "$work/train" --steps 5 --tensorboard "$dir" --log "$log" "$@"
}
events() { python3 tests/tools/read_events.py "$@"; }

# The fields of the log that are curves, within the precision of f32.
same_values() { # same_values DIR LOG
    events "$1"/events.* >"$work/events" || return 1
    cat "$work/events"
    jq -en --slurpfile e "$work/events" --slurpfile log "$2" '
        ($e[2:]) as $points |
        $e[0] == {version: "brain.Event:2"} and $e[1] == {start: 1} and
        ($points | length) == ($log | length) and ($log | length) == 5 and
        # A value that is not known is null in the log, and has no point.
        ([range($log | length) as $i
          | ($log[$i] | del(.tokens) | with_entries(select(.value != null)))
          | keys == ($points[$i] | keys) and
            ([to_entries[] | ($points[$i][.key] - .value | fabs)
              <= 1e-6 * (.value | fabs)] | all)] | all) and
        ($points[0] | has("loss") and has("grad_norm") and has("lr") and
            has("loss_scale") and has("tokens_per_s") and has("peak_bytes"))'
}

check "trains" train "$work/board" "$work/log.jsonl"
check "the values of the log" same_values "$work/board" "$work/log.jsonl"
check "a second run writes a second file" train "$work/board" "$work/log2.jsonl"
check "two files" test "$(ls "$work/board" | wc -l)" = 2
# A resumed run starts a session after the checkpoint's step.
check "saves" train "$work/resumed" "$work/log5.jsonl" --save "$work/run"
check "resumes" train "$work/resumed2" "$work/log5.jsonl" --steps 7 \
    --resume "$work/run"
continues() {
    events "$work"/resumed2/events.* >"$work/events" && cat "$work/events" &&
        jq -es '.[1] == {start: 6} and ([.[2:][].step] == [6, 7])' \
            "$work/events"
}
check "the resumed run's file continues" continues
: >"$work/file"
refused() { # refused TEXT DIR
    train "$2" "$work/log3.jsonl" >"$work/out" 2>&1
    [ $? = 1 ] && cat "$work/out" && grep -qF "$1" "$work/out"
}
check "a file as the directory" refused "Not a directory" "$work/file"
check "a directory that cannot be made" \
    refused "cannot make the directory '$work/none/board'" "$work/none/board"
check "a dry run writes nothing" train "$work/dry" "$work/log4.jsonl" --dry-run
check "no directory after a dry run" test ! -e "$work/dry"

official() {
    "$TORCH_PYTHON" - "$work/board" "$work/log2.jsonl" <<'EOF'
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator(sys.argv[1])
board.Reload()
log = [json.loads(line) for line in open(sys.argv[2])]
loss = [(e.step, e.value) for e in board.Scalars('loss')]
print(loss)
# The second file starts a session at step 1: it replaces the first one.
assert [s for s, _ in loss] == [r['step'] for r in log]
assert all(abs(v - r['loss']) < 1e-5 * r['loss'] for (_, v), r in zip(loss, log))
EOF
}
if [ "${TORCH_PYTHON:-}" ] && "$TORCH_PYTHON" -c 'import tensorboard'; then
    check "TensorBoard reads the files" official
fi
finish
