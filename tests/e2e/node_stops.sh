#!/bin/sh
# node_stops.sh: a run on two nodes whose ranks are stopped, signalled or killed.
# clock: a run must end 3 s after a rank of it has stopped
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nodes.sh"

check "llama 2x2 compiles for two nodes" node_program llama22 llama 2x2 2
# starts [NAME=VALUE]: a long run on two nodes in the background; waits for its
# first steps.
starts() {
    rm -rf "$work/long.log" "$work/long"
    (export "${1:-A=}" && on_nodes 2 2 "$work/llama22.nodes" --steps 100000 \
        --seed 3 --data "bytes:$text" --log "$work/long.log" \
        --save "$work/long") >"$work/said" 2>&1 &
    run=$!
    for _ in $(seq 200); do
        [ ! -s "$work/long.log" ] || break
        sleep 0.1
    done
}
processes() { # processes NAME=VALUE: those of the run with this in their environment
    for process in $(pgrep -f "$work/llama22.nodes"); do
        tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null |
            grep -qx "$1" && echo "$process"
    done
}
rank() { # rank N: its process
    processes "OMPI_COMM_WORLD_RANK=$1"
}
stops() { # a signal to any rank ends the run with a checkpoint
    starts
    kill -TERM "$(rank "$1")"
    wait $run
    cat "$work/said"
    ls "$work/long" && grep -q 'SIGTERM' "$work/said"
}
check "SIGTERM to a rank of rank 0's node stops the run" stops 1
check "SIGTERM to a rank of another node stops the run" stops 3
continues() { # a run that is stopped longer than the limit goes on
    starts PARC_TIMEOUT=3
    # shellcheck disable=SC2046
    kill -STOP $(pgrep -f "^$work/llama22.nodes")
    sleep 5
    # shellcheck disable=SC2046
    kill -CONT $(pgrep -f "^$work/llama22.nodes")
    steps=$(wc -l <"$work/long.log")
    sleep 2
    kill -TERM "$(rank 0)"
    wait $run
    cat "$work/said"
    [ "$(wc -l <"$work/long.log")" -gt $((steps + 1)) ]
}
check "a run that is stopped for a while goes on" continues
late() { # a rank that is stopped is named
    starts PARC_TIMEOUT=3
    kill -STOP "$(rank 3)"
    wait $run
    cat "$work/said"
    # shellcheck disable=SC2046
    kill -KILL $(pgrep -f "^$work/llama22.nodes") 2>/dev/null
    grep -q 'rank 3 did not ' "$work/said"
}
check "a rank of another node that is late is named" late
ends() { # a node that is killed ends the run, which names one of its ranks
    starts
    # shellcheck disable=SC2046
    kill -KILL $(processes PARC_NODE=1)
    since=$(date +%s)
    wait $run
    status=$?
    took=$(($(date +%s) - since))
    echo "status $status after $took s"
    cat "$work/said"
    [ $status != 0 ] && [ $took -le 10 ] &&
        grep -qE 'rank [23] on [^ ]*-1' "$work/said"
}
check "a node that is killed ends the run" ends
finish
