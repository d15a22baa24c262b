#!/bin/sh
# stopped_ranks.sh: a rank whose process is stopped delays the others. The rank
# that times out names the stopped rank and its process, not itself. A run whose
# ranks are all stopped continues when they are resumed.
# clock: ranks are stopped by the clock
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
check "the program compiles" \
    compile "$work/train" llama 2x2 $llama_sizes --threads 1

# Prints the processes of a run's forked ranks, in rank order.
ranks_of() {
    until [ "$(wc -w <"/proc/$1/task/$1/children")" = 4 ]; do sleep 0.1; done
    cat "/proc/$1/task/$1/children"
}
# wait_for_steps LOG: waits until steps have been logged.
wait_for_steps() { until [ "$(wc -l <"$1")" -gt 3 ]; do sleep 0.1; done; }

# names RANK PROCESS STATUS: $work/err has one error, which names them.
names() {
    cat "$work/err"
    [ "$3" = 1 ] && [ "$(grep -c error: "$work/err")" = 1 ] &&
        grep -qE "train: error: rank $1 did not (reach|finish) '[^']+'.* within \
2 s; it is stopped \(process $2; 'kill -CONT $2' continues it\) in step [0-9]+, \
(in|after) '.*; rank [0-3] waited for it; PARC_TIMEOUT sets the limit$" \
            "$work/err" && ! grep -q "rank $1 waited for it" "$work/err"
}
forked() { # forked RANK
    : >"$work/log"
    PARC_TIMEOUT=2 "$work/train" --steps 1000000 --log "$work/log" \
        --data "bytes:$text" 2>"$work/said" &
    run=$!
    wait_for_steps "$work/log"
    # shellcheck disable=SC2046
    set -- "$1" $(ranks_of $run)
    eval "process=\$$(($1 + 2))"
    kill -STOP "$process"
    wait $run
    status=$?
    grep error "$work/said" >"$work/err"
    names "$1" "$process" $status
}
for rank in $(few_or_all "0 3" "0 1 2 3 0 1 2 3"); do
    check "stopped rank $rank is named" forked $rank
done

launched() { # launched RANK
    port=$((port + 1))
    : >"$work/log"
    processes=
    for r in 0 1 2 3; do
        RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$port PARC_TIMEOUT=2 "$work/train" --steps 1000000 \
            --log "$work/log" --data "bytes:$text" 2>"$work/said.$r" &
        processes="$processes $!"
        [ $r != "$1" ] || process=$!
        [ $r != 0 ] || root=$!
    done
    wait_for_steps "$work/log"
    kill -STOP "$process"
    if [ "$1" = 0 ]; then
        # shellcheck disable=SC2086
        for process_of in $processes; do
            [ $process_of = $process ] || wait $process_of
        done
        status=1
    else
        wait "$root"
        status=$?
    fi
    kill -KILL "$process"
    wait
    grep -h error "$work"/said.? >"$work/err"
    names "$1" "$process" $status
}
check "a stopped launched rank is named" launched 2
in_all check "a stopped launched rank 0 is named" launched 0

# Stops all ranks for longer than the limit.
suspended() {
    PARC_TIMEOUT=2 "$work/train" --steps 1500 --data "bytes:$text" \
        --log "$work/log" 2>"$work/said" &
    run=$!
    : >"$work/log"
    wait_for_steps "$work/log"
    processes="$run $(ranks_of $run)"
    # shellcheck disable=SC2086
    kill -STOP $processes && sleep 4 && kill -CONT $processes
    wait $run
    status=$?
    cat "$work/said"
    return $status
}
check "a run that is stopped as a whole continues" suspended
finish
