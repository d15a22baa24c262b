#!/bin/sh
# signals.sh: SIGINT and SIGTERM end a run after a step, whichever of its
# processes receives them, and several within two seconds are one request. A
# later second one ends the run immediately. With --save they save, as SIGUSR1
# does, which continues. --max-time stops a run without an error. No process outlives the run.
# clock: signals are sent by the clock
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
check "the program compiles" \
    compile "$work/train" llama 2x2 $llama_sizes --threads 1

# start OPTIONS…: starts a run with the default handlers of a terminal's
# process, in a process group of its own; $run is its process. Returns when
# steps have been logged.
start() {
    : >"$work/log"
    PARC_TIMEOUT=20 setsid env --default-signal=INT "$work/train" \
        --steps 1000000 --max-time 30 --log "$work/log" \
        --data "bytes:$text" "$@" \
        2>"$work/said" &
    run=$!
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do sleep 0.05; done
    ranks=$(cat "/proc/$run/task/$run/children")
}
rank() { # rank R: the process of a rank
    # shellcheck disable=SC2086
    set -- "$1" $ranks
    shift "$1"
    echo "$2"
}
# A zombie is not alive; an init process that waits for no child leaves it.
is_alive() {
    [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}
# ends STATUS: the run ends with this status, and no rank is left.
ends() {
    wait "$run"
    status=$?
    cat "$work/said"
    for process in $ranks; do
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            is_alive "$process" || break
            sleep 0.1
        done
        ! is_alive "$process" || { echo "$process is left"; return 1; }
    done
    [ $status = "$1" ] || { echo "exit status $status"; return 1; }
}
# said_once TEXT: one line of the messages has the text.
said_once() { [ "$(grep -c -- "$1" "$work/said")" = 1 ]; }
# The step in the message is the last one of the log.
stops_after_a_step() {
    said_once ": the run stops after step $(wc -l <"$work/log") of 1000000" &&
        [ "$(tail -n 1 "$work/log" | jq .step)" = "$(wc -l <"$work/log")" ] &&
        ! grep -q error: "$work/said"
}

parent() {
    start --export "$work/w.st"
    kill -"$1" "$run"
    ends "$2" && said_once "note: SIG$1" && stops_after_a_step &&
        [ ! -e "$work/w.st" ]
}
check "SIGTERM to the parent" parent TERM 143
check "SIGINT to the parent" parent INT 130
one_rank() {
    start
    kill -TERM "$(rank "$1")"
    ends 143 && stops_after_a_step
}
check "SIGTERM to rank 0" one_rank 0
check "SIGTERM to rank 3" one_rank 3
group() {
    start
    for _ in 1 2 3; do kill -INT "-$run"; done
    ends 130 && stops_after_a_step
}
check "SIGINT to all processes, three times" group
# A stopped rank keeps the run from its end, though perhaps not the step.
second() {
    start
    kill -STOP "$(rank 2)"
    kill -TERM "$run"
    sleep 1
    kill -TERM "$run"
    sleep 1.2
    [ -e "/proc/$(rank 1)" ] || { echo "ended early"; return 1; }
    kill -TERM "$run"
    ends 143 && ! grep -q error: "$work/said"
}
check "a second signal after two seconds" second
second_of_rank() {
    start
    kill -STOP "$(rank 2)"
    kill -TERM "$(rank 1)"
    sleep 2.1
    kill -TERM "$(rank 1)"
    ends 143 && ! grep -q error: "$work/said"
}
check "a second signal to a rank" second_of_rank

continues() {
    start --max-time 3
    kill -USR1 "$run"
    kill -USR1 "$(rank 3)"
    before=$(wc -l <"$work/log")
    ends 0 && [ "$(wc -l <"$work/log")" -gt $((before + 10)) ] &&
        said_once "note: SIGUSR1: the run is not saved" &&
        said_once "note: --max-time" && stops_after_a_step
}
check "SIGUSR1 continues, --max-time stops" continues
# saves OPTIONS…: SIGUSR1 saves and continues, SIGTERM saves and ends.
saves() {
    dir=$work/saves
    rm -rf "$dir"
    start --save "$dir" "$@"
    kill -USR1 "$run"
    until ls "$dir" | grep -q '^step-[0-9]*$'; do sleep 0.05; done
    first=$(ls "$dir")
    kill -TERM "$(rank 2)"
    ends 143 && stops_after_a_step && said_once "note: SIGTERM" || return 1
    last=$(printf 'step-%08d' "$(wc -l <"$work/log")")
    said_once "of 1000000, with the checkpoint '$dir/$last'" &&
        [ "$(ls "$dir")" = "$first
$last" ] &&
        "$work/train" --steps 0 --resume "$dir" --export "$work/w.st"
}
check "SIGUSR1 and SIGTERM save" saves
check "SIGUSR1 and SIGTERM save asynchronously" saves --save-async
# A signal during an evaluation or a sample does not wait for its end.
evaluates() {
    start --val synthetic --val-every 5 --val-steps 100000000
    sleep 0.3
    kill -TERM "$run"
    ends 143 && stops_after_a_step && [ "$(wc -l <"$work/log")" = 5 ] &&
        [ "$(tail -n 1 "$work/log" | jq .val_loss)" = null ]
}
check "SIGTERM during an evaluation" evaluates
samples() {
    start --steps 5 --export "$work/w.st" --sample-ids 1,2,3 \
        --tokens 100000000 >"$work/out"
    until [ -s "$work/out" ]; do sleep 0.1; done
    kill -TERM "$(rank 1)"
    ends 143 && said_once "SIGTERM: the run stops after step 5 of 5$" &&
        [ -e "$work/w.st" ] && rm "$work/w.st"
}
check "SIGTERM while a text is sampled" samples
wrong() { # wrong TIME
    "$work/train" --max-time "$1" 2>"$work/said"
    [ $? = 2 ] && said_once "not '$1'"
}
for time in 5x 0 -3s h 999999999999999d; do
    check "--max-time $time is refused" wrong $time
done

# All ranks of a killed run end, and shared memory has no new file.
# Other tests' libraries (MPI, OpenMP) have files there too.
shared_memory() {
    ls /dev/shm | grep -vE '^(vader_segment|__KMP_|parc-)'
}
shared_memory >"$work/before"
nothing_left() {
    shared_memory | cmp - "$work/before"
}
killed() { # killed WHICH STATUS
    start
    case $1 in
    parent) kill -KILL "$run" ;;
    rank) kill -KILL "$(rank 1)" ;;
    # shellcheck disable=SC2086
    all) kill -KILL "$run" $ranks ;;
    esac
    ends "$2"
}
check "kill -9 of the parent" killed parent 137
check "kill -9 of a rank" killed rank 1
check "kill -9 of all" killed all 137
check "nothing is left in shared memory" nothing_left

# ---- processes of a launcher ----
launched() { # launched OPTIONS…: starts ranks 1, 2, 3, then 0
    port=$((port + 1))
    ranks=
    : >"$work/log"
    for r in 1 2 3 0; do
        RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$port "$work/train" --log "$work/log" \
            --steps 1000000 --max-time 30 "$@" 2>"$work/said.$r" &
        ranks=${ranks:+$ranks }$!
    done
    run=$!
}
all_end() { # all_end STATUS
    bad=0
    for process in $ranks; do
        wait "$process"
        status=$?
        [ $status = "$1" ] || { echo "exit status $status"; bad=1; }
    done
    cat "$work"/said.? >"$work/said"
    cat "$work/said"
    return $bad
}
launched_rank() {
    launched --data "bytes:$text"
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do sleep 0.05; done
    kill -TERM "${ranks%% *}"
    all_end 143 && stops_after_a_step
}
check "SIGTERM to one launched rank" launched_rank
# One rank is killed, or all, one after the other. A rank that sees the death
# of another before it is killed itself ends with an error.
launched_dies() { # launched_dies one|all
    launched
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do sleep 0.05; done
    victims=${ranks%% *}
    [ "$1" = one ] || victims=$ranks
    # shellcheck disable=SC2086
    kill -KILL $victims
    for process in $ranks; do
        wait "$process"
        status=$?
        [ $status = 137 ] || [ $status = 1 ] ||
            { echo "exit status $status"; return 1; }
    done
}
check "kill -9 of a launched rank" launched_dies one
check "kill -9 of all launched ranks" launched_dies all
# real LAUNCHER OPTIONS…: SIGTERM to the launcher saves the run after the last
# step of its log. Only where the launcher is installed.
real() {
    dir=$work/real
    rm -rf "$dir" "$work/log"
    : >"$work/log"
    "$@" "$work/train" --steps 1000000 --max-time 60 --log="$work/log" \
        --data "bytes:$text" --save "$dir" 2>"$work/said" >"$work/out" &
    run=$!
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do sleep 0.1; done
    kill -TERM "$run"
    wait "$run"
    cat "$work/said"
    stops_after_a_step && [ "$(ls "$dir")" = \
        "$(printf 'step-%08d' "$(wc -l <"$work/log")")" ]
}
# real_dies LAUNCHER OPTIONS…: after kill -9 of a rank the launcher and all
# ranks end.
real_dies() {
    rm -f "$work/log"
    : >"$work/log"
    "$@" "$work/train" --steps 1000000 --max-time 60 --log="$work/log" \
        2>"$work/said" >"$work/out" &
    run=$!
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do sleep 0.1; done
    kill -KILL "$(pgrep -f "^$work/train" | tail -n 1)"
    ! wait "$run" && ! pgrep -f "^$work/train"
}
if command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    check "SIGTERM to mpirun" real mpirun --oversubscribe \
        --mca odls_base_sigkill_timeout 10 -n 4
    check "kill -9 of a rank of mpirun" real_dies mpirun --oversubscribe -n 4
fi
if command -v torchrun >/dev/null; then
    check "SIGTERM to torchrun" real torchrun --no-python --nproc-per-node 4 --
    check "kill -9 of a rank of torchrun" \
        real_dies torchrun --no-python --nproc-per-node 4 --
fi
check "nothing is left in shared memory by launched ranks" \
    nothing_left
# Ranks wait for rank 0, which does not exist.
too_early() {
    RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        "$work/train" 2>"$work/said" &
    run=$!
    sleep 0.3
    kill -USR1 $run
    sleep 0.2
    kill -TERM $run
    wait $run
    [ $? = 143 ] && [ ! -s "$work/said" ]
}
check "a signal before the start" too_early
finish
