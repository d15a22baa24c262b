#!/bin/sh
# cuda_launchers.sh: a program for GPUs under a launcher, with stand-ins for
# CUDA's libraries. Processes without shared memory train what forked ranks
# train. Rank 0 writes the same files from the memory of the others. If a
# process is killed, the run ends.
# clock: ranks are stopped by the clock
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
tree=$work/tree
check "the tree is written" cuda_tree "$tree" examples/toy.pdl --mesh 2x2
cat >"$work/wide.pdl" <<'EOF'
model Wide {
    net: Linear(1024, 1024, bias=false)

    forward(x: [batch, 1024]) {
        return mean(relu(net(x)))
    }
}

plan replicas(dp) {
    fully_shard dp { net: strategy=no_shard }
}

train {
    batch     = 8
    optimizer = SGD(lr=0.01)
}
EOF
check "a model with long messages" cuda_tree "$work/wide" "$work/wide.pdl" \
    --mesh 2
check "forked ranks train" \
    tests/standin/run "$tree" --steps 3 --export "$work/forked.st" \
    --log "$work/forked.jsonl"
export STANDIN_KERNELS="$tree/standin.so"
LD_LIBRARY_PATH=$BUILD/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
"$tree/train" --print-shards net1 >"$work/forked.shards"

size=4
rank() { # rank R OPTIONS…
    as=$1
    shift
    env RANK="$as" WORLD_SIZE=$size LOCAL_RANK="$as" MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$port "$tree/train" "$@"
}
launched() {
    rm -f "$work"/rc.*
    for r in 0 1 2 3; do
        { rank $r "$@" >"$work/out.$r"
            echo $? >"$work/rc.$r"; } &
    done
    wait
    cat "$work"/rc.*
    [ "$(sort -u "$work"/rc.*)" = 0 ]
}
check "launched ranks train" launched --steps 3 --export "$work/w.st" \
    --log "$work/log.jsonl"
check "launched ranks have the weights of forked ones" \
    cmp "$work/forked.st" "$work/w.st"
check "launched ranks have the curve of forked ones" \
    same_curve "$work/forked.jsonl" "$work/log.jsonl" 0
check "launched ranks load weights" launched --steps 0 --init "$work/w.st" \
    --export "$work/again.st"
check "loaded weights are unchanged" cmp "$work/w.st" "$work/again.st"
check "launched ranks print shards" launched --print-shards net1
check "the shards of all ranks are printed" \
    cmp "$work/forked.shards" "$work/out.0"
check "launched ranks write a trace" launched --steps 4 --trace "$work/t.json"
check "the trace has four ranks" \
    sh -c '[ "$(jq -r "[.traceEvents[] | select(.ph == \"X\")
    | .pid] | unique | length" "$1")" = 4 ]' sh "$work/t.json"

# Kills the process itself, whose id is in a file, not the shell around it.
killed() {
    for r in 1 2 3; do
        (export RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$port
        exec "$tree/train" --steps 1000000 2>"$work/err.$r") &
        last=$!
    done
    { sleep 4; kill -9 "$last"; } &
    rank 0 --steps 1000000 2>"$work/err.0"
    status=$?
    wait
    grep -h error "$work"/err.?
    [ "$status" = 1 ] && [ "$(grep -h error "$work"/err.? | wc -l)" = 1 ] &&
        grep -q 'rank 3 on .* is gone (killed, or its machine is lost): rank 0 was in step ' \
            "$work/err.0"
}
check "a killed rank ends the run" killed

# A signal to one rank reaches rank 0 over its connection, and all ranks stop
# after the same step.
stopped() { # stopped RANK
    port=$((port + 1)) pids=
    : >"$work/log.jsonl"
    for r in 0 1 2 3; do
        (export RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$port
        exec "$tree/train" --steps 1000000 --max-time 60 \
            --log "$work/log.jsonl" 2>"$work/err.$r") &
        pids="$pids $!"
        [ $r != "$1" ] || one=$!
    done
    until [ "$(wc -l <"$work/log.jsonl")" -gt 3 ]; do sleep 0.1; done
    kill -TERM "$one"
    for process in $pids; do
        wait "$process"
        echo $?
    done >"$work/rc"
    cat "$work/rc" "$work"/err.?
    [ "$(sort -u "$work/rc")" = 143 ] && ! grep -q error: "$work"/err.? &&
        grep -q "SIGTERM: the run stops after step $(wc -l <"$work/log.jsonl") " \
            "$work/err.0"
}
check "SIGTERM to rank 2 stops all ranks" stopped 2
check "SIGTERM to rank 0 stops all ranks" stopped 0

# Each process writes its part, from its GPU's memory; rank 0 completes the
# checkpoint.
check "launched ranks save" launched --steps 6 --save "$work/sync" \
    --save-every 2 --export "$work/six.st"
check "launched ranks save asynchronously" launched --steps 6 \
    --save "$work/async" --save-every 2 --save-async
check "both save the same" diff -r -x .lock "$work/sync" "$work/async"
check "launched ranks resume" launched --steps 6 \
    --resume "$work/async/step-00000004" --export "$work/resumed.st"
check "a resumed run equals one that was not stopped" \
    cmp "$work/six.st" "$work/resumed.st"
# NCCL is warmed up with messages of the model's size, as far as memory allows.
# The size has to be the same on all ranks, whose free memory differs.
tree=$work/wide
check "which trains" tests/standin/run "$tree" --steps 1
export STANDIN_KERNELS="$tree/standin.so"
two() { # two VARIABLE=VALUE OTHER=VALUE: of rank 0, of rank 1
    port=$((port + 1))
    (export "$2" && rank 1 --steps 2) >"$work/out.1" 2>&1 &
    (export "$1" && rank 0 --steps 2) >"$work/out.0" 2>&1
    status=$?
    wait $! || status=1
    cat "$work"/out.?
    return $status
}
size=2
check "with less free memory on one rank" two STANDIN_FREE=100000000 \
    STANDIN_FREE=13000000
check "without a window on rank 0" two PARC_NCCL_WINDOW=0 PARC_NCCL_WINDOW=1
refused() {
    two PARC_NCCL_WINDOW=1 PARC_NCCL_WINDOW=0
    [ $? = 1 ] && grep -q "rank 1: the arena is NCCL's memory on rank 0" \
        "$work"/out.?
}
check "without one on rank 1" refused
finish
