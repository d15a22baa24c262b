#!/bin/sh
# launchers.sh: a launcher starts the ranks as separate processes. The test sets
# the environment variables of launchers. The run equals the one that forks its
# ranks bit by bit; an impossible start ends with one message.
# clock: ranks are stopped by the clock
. "$(dirname "$0")/lib.sh"

# each N COMMAND…: starts N processes; `as` names the variables for $rank.
# Returns the largest exit status; $work/err has all messages.
each() {
    n=$1
    shift
    rm -f "$work"/err.* "$work"/rc.*
    rank=0
    while [ "$rank" -lt "$n" ]; do
        { env $(as "$rank" "$n") "$@" >"$work/out.$rank" 2>"$work/err.$rank"
            echo $? >"$work/rc.$rank"; } &
        rank=$((rank + 1))
    done
    wait
    cat "$work"/err.* >"$work/err"
    cat "$work/err"
    return "$(sort -n "$work"/rc.* | tail -n 1)"
}

torchrun() {
    echo "RANK=$1 WORLD_SIZE=$2 LOCAL_RANK=$1 MASTER_ADDR=127.0.0.1 \
MASTER_PORT=$port TORCHELASTIC_RUN_ID=test"
}
agent_store() { echo "$(torchrun "$@") TORCHELASTIC_USE_AGENT_STORE=True"; }
openmpi() {
    echo "OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=$2 \
OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=$2 \
PMIX_NAMESPACE=test-$$"
}
mpich() {
    echo "PMI_RANK=$1 PMI_SIZE=$2 MPI_LOCALRANKID=$1 \
PARC_MASTER=localhost:$port"
}
slurm() {
    echo "SLURM_PROCID=$1 SLURM_NTASKS=$2 SLURM_LOCALID=$1 \
SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1"
}
slurm_node() {
    echo "SLURM_PROCID=$1 SLURM_NTASKS=$2 SLURM_LOCALID=$1 SLURM_JOB_ID=$$ \
SLURM_STEP_ID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=127.0.0.[1-3,7],b"
}
as() { "$launcher" "$@"; }

# fails TEXT COMMAND…: exit status 1, and exactly one error line, with TEXT.
fails() {
    phrase=$1
    shift
    "$@" >"$work/log" 2>&1
    status=$?
    cat "$work/log"
    [ "$status" = 1 ] || { echo "exit $status"; return 1; }
    [ "$(grep -c 'error:' "$work/log")" = 1 ] || return 1
    grep -qF -- "$phrase" "$work/log" || { echo "no '$phrase'"; return 1; }
}

# shellcheck disable=SC2086
check "the program compiles" \
    compile "$work/train" llama 2x2 $llama_sizes --threads 1
check "forked ranks train" "$work/train" --steps 5 --log "$work/forked.jsonl" \
    --export "$work/forked.st"
"$work/train" --print-shards layers.0 >"$work/forked.shards"

for launcher in torchrun agent_store openmpi mpich slurm slurm_node; do
    check "$launcher: trains" each 4 "$work/train" --steps 5 \
        --log "$work/log.jsonl" --export "$work/w.st"
    check "$launcher: weights" cmp "$work/forked.st" "$work/w.st"
    check "$launcher: curve" same_curve "$work/forked.jsonl" \
        "$work/log.jsonl" 0
done

launcher=torchrun
check "launched ranks load weights" each 4 "$work/train" --steps 0 \
    --init "$work/forked.st" --export "$work/w2.st"
check "loaded weights are unchanged" cmp "$work/forked.st" "$work/w2.st"
check "launched ranks write a trace" \
    each 4 "$work/train" --steps 3 --trace "$work/t.json"
check "the trace has all ranks" \
    sh -c '[ "$(jq -r "[.traceEvents[] | select(.ph == \"X\")
    | .pid] | unique | length" "$1")" = 4 ]' sh "$work/t.json"
check "launched ranks print shards" each 4 "$work/train" --print-shards layers.0
check "launched and forked ranks print the same shards" \
    cmp "$work/forked.shards" "$work/out.0"
check "only rank 0 prints" test ! -s "$work/out.1"
check "launched ranks make a dry run" each 4 "$work/train" --dry-run

# ---- impossible starts ----
check "too few processes are refused" \
    fails "torchrun has started 3 processes, but the mesh (dp=2 x \
tp=2) has 4 ranks: start it with torchrun --no-python --nproc-per-node 4" \
    each 3 "$work/train"
check "missing data are reported once" \
    fails "cannot read 'nowhere'" each 4 "$work/train" \
    --data nowhere
# shellcheck disable=SC2086
check "a model with a small vocabulary compiles" \
    compile "$work/small" llama 2x2 $llama_sizes \
    --threads 1 -D vocab=100
check "a failure of one rank is reported once" \
    fails "is beyond the vocabulary of 100" each 4 \
    "$work/small" --data "bytes:$text"
check "incomplete variables of torchrun are refused" fails \
    "RANK is set in the environment, but WORLD_SIZE is not" \
    env RANK=1 "$work/train"
check "a missing LOCAL_RANK is refused" fails "but LOCAL_RANK is not" \
    env RANK=1 WORLD_SIZE=4 "$work/train"
check "a WORLD_SIZE that is no number is refused" \
    fails "WORLD_SIZE is 'four'" env RANK=1 WORLD_SIZE=four \
    "$work/train"
check "a RANK beyond the size is refused" \
    fails "RANK is '4' in the environment" \
    env RANK=4 WORLD_SIZE=4 "$work/train"
check "MASTER_ADDR without a port is refused" \
    fails "MASTER_ADDR is set in the environment, but \
MASTER_PORT is not" \
    env RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=here "$work/train"
check "mpirun without rank 0's address is refused" \
    fails "mpirun does not say where rank 0 is" \
    env PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 "$work/train"
check "a PARC_MASTER without a port is refused" \
    fails "PARC_MASTER is 'here'" env PARC_MASTER=here \
    RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 "$work/train"
check "an unknown PARC_LAUNCHER is refused" fails "PARC_LAUNCHER is 'slurm'" \
    env PARC_LAUNCHER=slurm "$work/train"
check "a rank that finds no rank 0 times out" fails \
    "rank 1 cannot join rank 0 at 127.0.0.1:$port in time: Connection refused" \
    env $(torchrun 1 4) PARC_TIMEOUT=1 "$work/train"
check "an unknown host is reported" \
    fails "rank 1 cannot join rank 0 at no.such.host.invalid" \
    env $(torchrun 1 4) PARC_MASTER=no.such.host.invalid:99 PARC_TIMEOUT=1 \
    "$work/train"
check "rank 0 alone times out" \
    fails "rank 0 waited 1 s at 127.0.0.1:$port for 3 of 4 ranks; \
the first that did not join is rank 1" \
    env $(torchrun 0 4) PARC_TIMEOUT=1 "$work/train"

# All ranks but rank 0 have another plan; they know the token.
mixed() {
    export PARC_TOKEN=0123456789abcdef
    { env $(torchrun 0 4) "$work/train" --steps 1; echo $? >"$work/rc"; } &
    for r in 1 2 3; do
        env $(torchrun $r 4) "$work/small" --steps 1 2>/dev/null &
    done
    unset PARC_TOKEN
    wait
    return "$(cat "$work/rc")"
}
check "ranks of another plan are refused" \
    fails "was built from another plan than rank 0" mixed

# Kills one rank while all compute.
killed() {
    for r in 1 2 3; do
        env $(torchrun $r 4) "$work/train" --steps 1000000 &
        last=$!
    done
    { sleep 2; kill -9 "$last"; } &
    env $(torchrun 0 4) "$work/train" --steps 1000000 2>"$work/err0"
    status=$?
    wait
    grep error "$work/err0"
    return $status
}
check "a killed rank ends the run" fails "rank 3 on " killed
check "the message has the killed rank's step" \
    grep -q "is gone (killed, or its machine is lost): in step " \
    "$work/log"

# ---- possible starts ----
check "PARC_LAUNCHER=none forks the ranks" \
    env PARC_LAUNCHER=none RANK=0 WORLD_SIZE=9 "$work/train" \
    --steps 1
check "the shell of a Slurm allocation forks the ranks" \
    env $(slurm 0 1) "$work/train" --steps 1
check "a Slurm batch script forks the ranks" \
    env SLURM_PROCID=0 SLURM_NTASKS=4 "$work/train" --steps 1
two_jobs() {
    (port=$((port + 2)) work=$work/a && mkdir -p "$work" &&
        each 4 "$1" --steps 20 --log "$work/log.jsonl") &
    first=$!
    mkdir -p "$work/b"
    (work=$work/b && each 4 "$1" --steps 20 --log "$work/log.jsonl") &&
        wait "$first" && cmp_losses
}
cmp_losses() {
    same_curve "$work/a/log.jsonl" "$work/b/log.jsonl" 0
}
check "two jobs run at the same time" two_jobs "$work/train"
finish
