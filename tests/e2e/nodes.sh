#!/bin/sh
# nodes.sh: plans and programs for several machines (--node-size). The plan says
# which traffic leaves a node. Programs for the CPU run under a real mpirun, with
# several nodes on this machine (PARC_NODE): they have the losses of one node,
# they are saved, resumed and exported, and a node that is killed ends the run.
# clock: a run must end 3 s after a rank of it has stopped
. "$(dirname "$0")/lib.sh"

refused() { # refused TEXT OPTIONS…: parc prints TEXT and no plan
    wanted=$1
    shift
    ! "$PARC" examples/llama.pdl --emit plan "$@" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/out" "$work/err"
    [ $status = 0 ] && [ ! -s "$work/out" ] && grep -qF -- "$wanted" "$work/err"
}
plan() { # plan FILE OPTIONS…: the plan as text and as JSON
    file=$1
    shift
    "$PARC" examples/llama.pdl "$@" --emit plan="$file" --emit json="$file.json"
}
says() { # says FILE PATTERN
    grep -E -- "$2" "$1" || { cat "$1" && false; }
}

# ---- plans ----

check "llama is planned on 8 nodes" plan "$work/8x8" --mesh 8x8 --node-size 8
check "the plan has the ranks of a node" says "$work/8x8" \
    '\(64 ranks, 8 per node\), bf16, CUDA'
check "the traffic of an axis leaves the node" says "$work/8x8" \
    '^traffic .*dp: .*, between nodes$|^ +dp: .*, between nodes$'
check "the traffic of another axis does not" says "$work/8x8" \
    'tp: .*, inside a node$'
check "groups have their number of nodes" says "$work/8x8" \
    '^  dp .*, each on 8 nodes$'
check "a collective has its link" says "$work/8x8" \
    'parameters of unit layers\.\*, between nodes, in bf16'
check "JSON has links and bytes" jq -e '.node_size == 8 and
    (.collectives | map(select(.axis == "tp")) | length > 0 and
     all(.link == "inside a node" and .sent_between_nodes == 0)) and
    (.collectives | map(select(.axis == "dp")) | length > 0 and
     all(.link == "between nodes" and .sent_between_nodes == .sent))' \
    "$work/8x8.json"
check "an axis on several nodes is split" plan "$work/8x2" --mesh 8x2 \
    --node-size 4
check "its gathers are two" jq -e '[.collectives[] |
    select(.kind == "all_gather" and .tensor == "layers.*" and
           .phase == "forward") | .axis] == ["dp.out", "dp.in"]' "$work/8x2.json"
check "its reductions are two" jq -e '[.collectives[] |
    select(.kind == "reduce_scatter" and .tensor == "layers.*") | .axis] ==
    ["dp.in", "dp.out"]' "$work/8x2.json"
# A rank receives half of a tensor from other nodes, the other half from the
# second rank of its node.
check "a node receives parameters once" jq -e '[.collectives[] |
    select(.kind == "all_gather" and .tensor == "layers.*")] |
    (map(select(.axis == "dp.out"))[0]) as $out |
    (map(select(.axis == "dp.in"))[0]) as $in |
    $out.link == "between nodes" and $in.link == "inside a node" and
    2 * $out.bytes == $in.bytes' "$work/8x2.json"
explains() { # explains NAME TEXT
    "$PARC" examples/llama.pdl --mesh 8x2 --node-size 4 --explain "$1" \
        >"$work/explained" && says "$work/explained" "$2"
}
check "an axis is explained with its nodes" explains dp "each on 4 nodes$"
check "a collective is explained with its link" explains ag1 \
    "over dp.in \(2 ranks, inside a node\)"
check "all ranks on one node" plan "$work/one" --mesh 8x2 --node-size 16
check "nothing leaves one node" jq -e '[.collectives[] |
    .sent_between_nodes] | all(. == 0)' "$work/one.json"

check "--node-size must be a number" refused \
    "--node-size must be a number from 1 to" --mesh 2x2 --node-size two
check "nodes are full" refused "which leave a node partly empty" --mesh 5x1 \
    --node-size 3 -D batch=20
check "nodes cut groups evenly" refused \
    "on this mesh a node can have 1, 2, 4, 8, 12 or 24 ranks" --mesh 6x4 \
    --node-size 3 -D batch=24

# ---- programs ----

if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null; then
    echo "skipped: no mpirun and mpicc (Debian's openmpi-bin, libopenmpi-dev)"
    finish
    exit
fi
# Open MPI does not free all of its memory.
[ ! "${CHECK_ASAN:-}" ] || export ASAN_OPTIONS=detect_leaks=0
run_as_root=
[ "$(id -u)" != 0 ] || run_as_root=--allow-run-as-root

# on_nodes NODES RANKS ./train OPTIONS…: starts RANKS ranks on each of NODES nodes.
on_nodes() {
    nodes=$1 ranks=$2 k=0
    shift 2
    contexts=
    command_line=$*
    set --
    while [ $k -lt "$nodes" ]; do
        # shellcheck disable=SC2086
        set -- "$@" $contexts -n "$ranks" -x PARC_NODE=$k $command_line
        contexts=:
        k=$((k + 1))
    done
    port=$((port + 1))
    PARC_MASTER=127.0.0.1:$port mpirun $run_as_root --oversubscribe \
        --bind-to none --mca btl tcp,self,vader "$@"
}

node_program() { # node_program NAME MODEL MESH NODE-SIZE OPTIONS…
    name=$1 model=$2 mesh=$3 node=$4
    shift 4
    # shellcheck disable=SC2046
    compile "$work/$name" "$model" "$mesh" --threads 1 $(sizes "$model") "$@" &&
        compile "$work/$name.nodes" "$model" "$mesh" --threads 1 \
            --node-size "$node" $(sizes "$model") "$@" \
            --emit json="$work/$name.json"
}
losses() { # losses NAME NODES RANKS TOLERANCE
    at=$work/$1
    "$at" --steps 20 --seed 3 --data bytes:"$text" --log "$at.log" &&
        on_nodes "$2" "$3" "$at.nodes" --steps 20 --seed 3 \
            --data bytes:"$text" --log "$at.nodes.log" &&
        same_curve "$at.log" "$at.nodes.log" "$4" &&
        as_planned "$at.nodes.log" "$at.json"
}
check "llama 2x2 compiles for two nodes" node_program llama22 llama 2x2 2
check "llama 2x2 has the losses of one node" losses llama22 2 2 0
check "llama 4x2 compiles for four nodes" node_program llama42 llama 4x2 2
check "llama 4x2 has the losses of one node" losses llama42 4 2 0
check "llama 4x1 compiles for two nodes" node_program llama41 llama 4x1 2
check "llama 4x1, its axis split, has the losses of one node" losses llama41 2 2 \
    1e-5
check "llama 1x4 compiles for two nodes" node_program llama14 llama 1x4 2
check "llama 1x4, heads on two nodes, has the losses of one node" losses llama14 \
    2 2 1e-5
check "llama in bf16 compiles for two nodes" node_program bf16 llama 2x2 2 \
    -D precision=bf16
check "llama in bf16 has the losses of one node" losses bf16 2 2 0
check "llama with one rank on each node compiles" node_program single llama 2x1 1
check "llama with one rank on each node has the losses of one node" losses \
    single 2 1 0
check "a pipeline compiles for two nodes" node_program stages three_d 2x2x1 2
check "a pipeline over two nodes has the losses of one node" losses stages 2 2 0

# ---- the life of a run ----

fails() { # fails TEXT COMMAND…: it ends with an error that has TEXT
    wanted=$1
    shift
    ! "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status = 0 ] && grep -qF -- "$wanted" "$work/out"
}
check "without mpirun the program says how to start it" fails \
    "planned for 2 machines of 2 ranks (parc --node-size): start it with \
'mpirun -n 4" "$work/llama22.nodes" --steps 1
check "ranks that are not on one node are refused" fails \
    "are to share memory, but are on" on_nodes 4 1 \
    "$work/llama22.nodes" --steps 1
resumes() { # a run on two nodes goes on, on one, and the other way
    run="--seed 3 --data bytes:$text"
    # shellcheck disable=SC2086
    on_nodes 2 2 "$work/llama22.nodes" $run --steps 10 --save "$work/a" &&
        "$work/llama22" $run --steps 20 --resume "$work/a" \
            --log "$work/a.log" --save "$work/b" --export "$work/b.st" &&
        tail -n 10 "$work/llama22.log" >"$work/last.log" &&
        same_curve "$work/a.log" "$work/last.log" 0 &&
        on_nodes 2 2 "$work/llama22.nodes" $run --steps 20 \
            --resume "$work/b" --export "$work/c.st" &&
        cmp "$work/b.st" "$work/c.st"
}
check "a run is saved, resumed and exported on other nodes" resumes

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
