#!/bin/sh
# nodes.sh: plans and programs for several machines (--node-size). The plan says
# which traffic leaves a node. Programs for the CPU run under a real mpirun, with
# several nodes on this machine (PARC_NODE): they have the losses of one node,
# they are saved, resumed and exported.
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

. "$(dirname "$0")/lib_nodes.sh"
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
in_all check "llama 4x2 compiles for four nodes" node_program llama42 llama 4x2 2
in_all check "llama 4x2 has the losses of one node" losses llama42 4 2 0
check "llama 4x1 compiles for two nodes" node_program llama41 llama 4x1 2
check "llama 4x1, its axis split, has the losses of one node" losses llama41 2 2 \
    1e-5
in_all check "llama 1x4 compiles for two nodes" node_program llama14 llama 1x4 2
in_all check "llama 1x4, heads on two nodes, has the losses of one node" losses llama14 \
    2 2 1e-5
check "llama in bf16 compiles for two nodes" node_program bf16 llama 2x2 2 \
    -D precision=bf16
check "llama in bf16 has the losses of one node" losses bf16 2 2 0
in_all check "llama with one rank on each node compiles" node_program single llama 2x1 1
in_all check "llama with one rank on each node has the losses of one node" losses \
    single 2 1 0
check "a pipeline compiles for two nodes" node_program stages three_d 2x2x1 2
check "a pipeline over two nodes has the losses of one node" losses stages 2 2 0

# Sequences over nodes, in zigzag order where each node has one rank of a group.
context() { # context NAME MESH NODE-SIZE NODES RANKS [EXCHANGE]
    at=$work/$1
    for out in "$at" "$at.nodes --node-size $3"; do
        # shellcheck disable=SC2086
        "$PARC" "$work/${6:-gather}.pdl" $llama_sizes --target cpu --threads 1 --mesh "$2" \
            --emit json="$at.json" --dump-after plan -o $out >"$at.ir" || return
    done
    losses "$1" "$4" "$5" 1e-5
}
{
    sed '/^plan /,/^}/d' examples/llama.pdl
    echo 'plan gather(dp, cp) { context cp { attention: exchange=gather }'
    echo 'fully_shard dp { layers.*, model } }'
} >"$work/gather.pdl"
sed 's/exchange=gather/exchange=ring/' "$work/gather.pdl" >"$work/ring.pdl"
check "keys are gathered from two nodes" context across 1x2 1 2 1
in_all check "keys are gathered from nodes with two ranks each" context straddle 1x4 2 2 2
in_all check "keys are gathered inside nodes" context within 2x2 2 2 2
check "keys are passed on over two nodes with two ranks each" context ring 1x4 2 2 2 ring
in_all check "keys are passed on over four nodes" context ring4 1x4 1 4 1 ring

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
finish
