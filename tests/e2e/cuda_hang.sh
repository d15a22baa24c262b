#!/bin/sh
# cuda_hang.sh: a GPU never ends a kernel while other ranks wait for it in a
# collective of a captured step. The first rank to time out names the
# collective, its iteration and the rank that has not arrived, with forked ranks
# and under a launcher. If all ranks have arrived and the collective does not
# end, it reports that.
# clock: ranks are stopped by the clock
. "$(dirname "$0")/lib.sh"
export BUILD
check "the stand-ins build" tests/standin/build
check "kernels compile" tests/standin/build tests/cuda/line.cu "$work/line.so"
# shellcheck disable=SC2086
check "the test links" ${CC:-cc} -std=c11 -g -Iruntime tests/cuda/hang.c \
    "$BUILD/libparc_cuda.a" -o "$work/hang" -fopenmp -lm -ldl
export STANDIN_KERNELS="$work/line.so" STANDIN_LIMIT=300
LD_LIBRARY_PATH=$BUILD/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
check "a run without a hang" "$work/hang" --steps 5
check "a run without a hang, queued work late" \
    env STANDIN_ORDER=late "$work/hang" --steps 5
check "a run without a hang, without a graph" \
    env PARC_GRAPH=0 "$work/hang" --steps 5

# The memory that two communicators of NCCL take on the device is allocated
# before the arena, and is reported.
dry() { # dry NAME…: what a dry run prints
    env "$@" "$work/hang" --dry-run >"$work/said"
    cat "$work/said"
}
check "a dry run" dry STANDIN_NCCL_BYTES=1048576
check "the dry run reports NCCL's memory" \
    grep -qx "nccl      2.0 MiB on the GPU beside \
the plan" "$work/said"
check "the dry run reports other memory" \
    grep -qE "^other     [0-9.]+ K?i?B on the GPU" \
    "$work/said"
check "the dry run reports the arena's window" \
    grep -qx "          the arena is a symmetric window \
of 2 communicators" "$work/said"
plain() { # plain NAME=VALUE…: runs without windows
    dry "$@" && ! grep window "$work/said" && env "$@" "$work/hang" --steps 2
}
check "no windows: the run uses NCCL's buffers" plain STANDIN_NO_WINDOWS=1
check "PARC_NCCL_WINDOW=0: the run uses NCCL's buffers" plain PARC_NCCL_WINDOW=0
refused() {
    env STANDIN_NCCL_BYTES=1048576 STANDIN_FREE=2097424 "$work/hang" \
        --steps 1 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && grep -qE "a rank needs 1.5 KiB; GPU [0-3] \(parc \
stand-in GPU\) has 272 B free of 8.0 GiB \(and 2.0 MiB in use by NCCL\), \
1.2 KiB too little" "$work/said"
}
check "too little memory beside NCCL is refused" refused
# Arenas that do not fit even without NCCL are refused before NCCL starts.
early() { # early TEXT NAME=VALUE…
    phrase=$1
    shift
    env STANDIN_NCCL_BYTES=1048576 "$@" "$work/hang" --steps 1 2>"$work/said"
    status=$?
    cat "$work/said"
    [ $status = 1 ] && [ "$(wc -l <"$work/said")" = 1 ] &&
        grep -qE "$phrase" "$work/said"
}
check "an arena that does not fit is refused before NCCL starts" \
    early "a rank needs 1.5 KiB; GPU [0-3] \(parc stand-in GPU\) \
has 1000 B free of 8.0 GiB, [0-9]+ B too little" STANDIN_FREE=1000
check "arenas that do not fit a shared GPU are refused" \
    early "4 ranks that share a GPU need 6.0 KiB; \
GPU 0 \(parc stand-in GPU\) has 4.9 KiB free of 8.0 GiB, 1.1 KiB too little" \
    STANDIN_FREE=5000 PARC_DEVICE=0

# GPU 3 never ends the kernel of layer 1 of step 2. Rank 2 (over tp) and rank 1
# (over dp) wait for it in that layer, and rank 0 for them in layer 2.
ag="'ag0 dp w (hang.pdl:2)', layer"
ar="'ar1 tp w (hang.pdl:3)', layer"
limit="PARC_TIMEOUT sets the limit"
behind="computes, after $ar 0 and $ag 0"
from0="rank 0 waited 4 s for its GPU to finish step 2, which is in $ar 2 and in \
$ag 2; rank 1 has not reached $ar 2: it is in $ag 1; rank 3 has not reached $ag 1: it \
$behind; $limit"
from1="rank 1 waited 4 s for its GPU to finish step 2, which is in $ag 1; rank 3 \
has not reached $ag 1: it $behind; $limit"
from2="rank 2 waited 4 s for its GPU to finish step 2, which is in $ar 1; rank 3 \
has not reached $ar 1: it $behind; $limit"
from3="rank 3 waited 4 s for its GPU to finish step 2, which $behind; \
rank 0 is in $ar 2 and in $ag 2; PARC_SYNC=1 names the statement that does not end, $limit"
stall=STANDIN_STALL=3:line_update:5

# says STATUS FILE TEXT…: the exit status, and one of these lines and no other.
says() {
    [ "$1" = 1 ] || return 1
    file=$2
    shift 2
    cat "$file"
    [ "$(grep -c error "$file")" = 1 ] || return 1
    for text in "$@"; do
        ! grep -qxF "hang: error: $text" "$file" || return 0
    done
    return 1
}
hangs() {
    env $stall PARC_TIMEOUT=4 "$@" "$work/hang" --steps 5 2>"$work/said"
    says $? "$work/said" "$from0" "$from1" "$from2" "$from3"
}
check "forked ranks name the late rank" hangs A=
in_all check "forked ranks name the late rank, without a graph" hangs PARC_GRAPH=0

# Under a launcher one rank has a shorter timeout.
rank() { # rank R SPEAKER
    limit=60
    [ "$1" != "$2" ] || limit=4
    exec env RANK="$1" WORLD_SIZE=4 LOCAL_RANK="$1" MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$port PARC_TIMEOUT=$limit "$work/hang" --steps 1000000 \
        2>"$work/said.$1"
}
launched() { # launched SPEAKER TEXT
    port=$((port + 1))
    for r in 1 2 3; do
        (export $stall; rank $r "$1") &
    done
    (export $stall; rank 0 "$1")
    status=$?
    wait
    cat "$work"/said.? >"$work/said"
    says $status "$work/said" "$2"
}
check "launched ranks: rank 0 names the late rank" launched 0 "$from0"
in_all check "launched ranks: rank 1 names the late rank" launched 1 "$from1"
in_all check "launched ranks: rank 2 names the late rank" launched 2 "$from2"
check "launched ranks: rank 3 names the late rank" launched 3 "$from3"

# A stopped process answers no other rank.
stopped() {
    stall=A=
    port=$((port + 1))
    for r in 1 2 3; do
        (rank $r 0) &
        last=$!
    done
    { sleep 3; kill -STOP $last; sleep 10; kill -CONT $last; } &
    (rank 0 0)
    status=$?
    wait
    cat "$work"/said.*
    [ "$status" = 1 ] && grep -qE "rank 0 waited 4 s for its GPU to finish step \
[0-9]+, which is in 'a.*; rank 3 has not reached 'a.*: it does not answer; " \
        "$work/said.0" && [ "$(cat "$work"/said.? | grep -c error)" = 1 ]
}
check "a stopped process is named" stopped

# All ranks are in the same iteration of ar1, and none of them ends it. (NCCL
# sums four times before the first step.)
stall=STANDIN_NCCL_STALL=0123:all_reduce:9
waited() { # waited RANK TEXT: the message of RANK, in step 2
    echo "rank $1 waited 4 s for its GPU to finish step 2, which is in $2; $limit"
}
all="$ar 1; all its ranks are in it"
from0=$(waited 0 "$all") from1=$(waited 1 "$all")
from2=$(waited 2 "$all") from3=$(waited 3 "$all")
check "all ranks hang in a collective" hangs A=
in_all check "all ranks hang in a collective, without a graph" hangs PARC_GRAPH=0

# Ranks 0 and 1 hang in ar1; 2 and 3 have ended theirs and wait for them over
# dp.
stall=STANDIN_NCCL_STALL=01:all_reduce:9
held="it is in $ar 1, and all ranks of that collective are in it"
from2=$(waited 2 "$ag 2; rank 0 has not reached $ag 2: $held")
from3=$(waited 3 "$ag 2; rank 1 has not reached $ag 2: $held")
in_all check "a group hangs in a collective" hangs A=
check "a group hangs in a collective: rank 2 reports" launched 2 "$from2"

# A run whose ranks are all stopped for longer than the limit continues.
suspended() {
    : >"$work/log"
    PARC_TIMEOUT=2 "$work/hang" --steps 3000 --log "$work/log" \
        2>"$work/said" &
    run=$!
    until [ "$(wc -l <"$work/log")" -gt 3 ]; do
        kill -0 $run || return 1
        sleep 0.1
    done
    processes="$run $(cat /proc/$run/task/$run/children)"
    # shellcheck disable=SC2086
    kill -STOP $processes && sleep 4
    steps=$(wc -l <"$work/log")
    # shellcheck disable=SC2086
    kill -CONT $processes
    wait $run
    status=$?
    cat "$work/said"
    echo "stopped after $steps steps"
    [ $status = 0 ] && [ "$steps" -lt 3000 ]
}
check "a run that is stopped and continued" suspended

# Only rank 0 does not end ar1; by then rank 3 waits for the decision after the
# step.
stall=STANDIN_NCCL_STALL=0:all_reduce:9
all="$ar 1; all its ranks have reached it, and rank 1 has finished $ar 1"
from0=$(waited 0 "$all")
from1=$(waited 1 "$ar 2; rank 0 has not reached $ar 2: it is in $all")
from2=$(waited 2 "$ag 2; rank 0 has not reached $ag 2: it is in $all")
from3="rank 0 did not reach 'decision after a step' within 4 s; it is still \
computing in step 2, after 'ag0 dp w (hang.pdl:2)'; rank 3 waited for it; $limit"
in_all check "one rank does not end a collective" hangs A=
check "one rank does not end a collective: rank 3 reports" launched 3 "$from3"
finish
