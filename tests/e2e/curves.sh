#!/bin/sh
# One loss curve for each example, on every mesh and with every sharding
# strategy: 20 steps, clipped, with the dropout of the model, within 1e-5 of
# those of one rank; memory as it was planned, to the byte.
#
# Recomputation and accumulation go round over the rows: with each strategy but
# hybrid_shard, which has one mesh, a model meets both, each alone and neither.
# CURVES=all (make curves) runs the whole product.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

# run MODEL MESH STRATEGY CHECKPOINT ACCUMULATE [CLIP]
run() {
    describe "$1"
    at=$work/$1-$2-$3-$4-$5${6:+-$6}
    variant "$1" "$2" "$3" "$4" >"$at.pdl"
    data=
    grep -q 'int(' "$at.pdl" && data="--data bytes:$text"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --plan curve --target cpu --threads 1 --mesh "$2" \
        $sizes -D clip="${6:-$clip}" \
        $([ "$5" = 1 ] || echo "-D accumulate=$5") \
        --emit json="$at.json" -o "$at" &&
        "$at" --steps 20 --seed 3 $data --log "$at.log" && rm "$at"
}

# The norm is above the limit, and the curve without a limit is another one.
clipped() { # clipped MODEL
    jq -es --argjson clip "$clip" 'any(.grad_norm > $clip)' "$base.log" &&
        run "$1" 1x1 full_shard no 1 1e9 &&
        ! agree "$1" "$at.log" "$base.log" 5e-5
}

# shard_grad_op has weights gathered that it would have to keep for running
# again; the plan may keep what they make, where that is smaller.
runs_again() { # runs_again PLAN STRATEGY
    [ "$2" = shard_grad_op ] || jq -e '.recomputed_flops > 0' "$1"
}

row() { # row MODEL MESH STRATEGY CHECKPOINT ACCUMULATE
    base=$work/$1-1x1-full_shard-no-1
    if [ ! -e "$base.log" ]; then
        check "$1 on one rank" run "$1" 1x1 full_shard no 1
        check "$1 is clipped" clipped "$1"
    fi
    this=$work/$1-$2-$3-$4-$5
    label="$1 on $2, $3, checkpoint $4, accumulate $5"
    check "$label" run "$@"
    check "$label: curve" agree "$1" "$this.log" "$base.log" 1e-5
    check "$label: memory" as_planned "$this.log" "$this.json"
    [ "$4" = no ] || check "$label: again" runs_again "$this.json" "$3"
}

# Row N of a model; the first is not the reference again.
turn() { # turn N MODEL MESH STRATEGY
    case $(($1 % 4)) in
    0) row "$2" "$3" "$4" no 1 ;;
    1) row "$2" "$3" "$4" no 4 ;;
    2) row "$2" "$3" "$4" yes 1 ;;
    3) row "$2" "$3" "$4" yes 4 ;;
    esac
}

# What the tolerance of feedforward.pdl is relative to.
magnitudes_are() {
    describe feedforward
    variant feedforward 1x1 full_shard no |
        sed 's/sum(output)/sum(abs(output))/' >"$work/abs.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/abs.pdl" --plan curve --target cpu --threads 1 --mesh 1x1 \
        $sizes -o "$work/abs" &&
        "$work/abs" --steps 1 --seed 3 --log "$work/abs.log" &&
        jq -e "(.loss | floor) == $magnitudes" "$work/abs.log"
}
check "sum of magnitudes of feedforward" magnitudes_are

first=1
for model in toy feedforward llama gpt2 transformer hsdp; do
    n=$first
    for mesh in 1x1 2x1 1x2 2x2 4x2 2x2x2; do
        for strategy in full_shard shard_grad_op no_shard hybrid_shard; do
            case $mesh:$strategy in
            2x2x2:*) ;;
            *:hybrid_shard) continue ;;
            esac
            if [ "${CURVES:-}" = all ]; then
                for n in 0 1 2 3; do
                    turn $n $model $mesh $strategy
                done
            else
                turn $n $model $mesh $strategy
                n=$((n + 1))
            fi
        done
    done
    first=$((first % 3 + 1))
done
# Units that differ in their strategies.
row hsdp 2x2x2 own no 4
finish
