#!/bin/sh
# pipeline_stops.sh: a rank of a pipeline that stops ends the run with its name.
# clock: a run must end 3 s after a rank of it has stopped
. "$(dirname "$0")/lib.sh"

run="--seed 3 --data bytes:$text"
# shellcheck disable=SC2046
check "two stages compile" compile "$work/2x1x1" three_d 2x1x1 --threads 1 \
    $(sizes three_d)
stops() { # a rank that stops is named
    # shellcheck disable=SC2086
    PARC_TIMEOUT=3 "$work/2x1x1" $run --steps 1000000 >"$work/out" 2>&1 &
    pid=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        child=$(pgrep -P $pid | tail -n 1)
        grep -q 'step 1/' "$work/out" && [ "$child" ] && break
        sleep 0.5
    done
    kill -STOP "$child"
    wait $pid
    status=$?
    cat "$work/out"
    [ $status != 0 ] && grep -q 'it is stopped' "$work/out"
}
check "a rank that stops ends the run" stops
finish
