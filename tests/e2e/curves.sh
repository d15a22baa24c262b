#!/bin/sh
# One loss curve for each example, whatever the mesh, the sharding strategy,
# recomputation and accumulation: 20 steps, clipped, with the dropout of the
# model, within 1e-5 of those of one rank.
#
# The rows below hold every mesh, every strategy, recomputation and
# accumulation for each model that has them, and most pairs; CURVES=all runs
# them in all combinations.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

run() { # run MODEL MESH STRATEGY CHECKPOINT ACCUMULATE
    describe "$1"
    at=$work/$1-$2-$3-$4-$5
    variant "$1" "$2" "$3" "$4" >"$at.pdl"
    data=
    grep -q 'int(' "$at.pdl" && data="--data bytes:$text"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --plan curve --target cpu --threads 1 --mesh "$2" \
        $sizes -D clip=0.5 $([ "$5" = 1 ] || echo "-D accumulate=$5") \
        -o "$at" &&
        "$at" --steps 20 --seed 3 $data --log "$at.log" && rm "$at"
}

row() { # row MODEL MESH STRATEGY CHECKPOINT ACCUMULATE
    base=$work/$1-1x1-full_shard-no-1
    [ -e "$base.log" ] ||
        check "$1 on one rank" run "$1" 1x1 full_shard no 1
    check "$1 on $2, $3, checkpoint $4, accumulate $5" run "$@"
    check "$1 on $2, $3, checkpoint $4, accumulate $5: curve" \
        agree "$1" "$work/$1-$2-$3-$4-$5.log" "$base.log" 1e-5
}

if [ "${CURVES:-}" = all ]; then
    for model in toy feedforward llama gpt2 transformer hsdp; do
        for mesh in 1x1 2x1 1x2 2x2 4x2 2x2x2; do
            for strategy in full_shard shard_grad_op no_shard hybrid_shard; do
                case $mesh:$strategy in
                2x2x2:*) ;;
                *:hybrid_shard) continue ;;
                esac
                for again in no yes; do
                    describe $model
                    [ $again = no ] || [ "$checkpoint" ] || continue
                    for accumulate in 1 4; do
                        row $model $mesh $strategy $again $accumulate
                    done
                done
            done
        done
    done
    finish
    exit
fi

row toy 2x2 shard_grad_op no 1
row toy 4x2 no_shard no 4
row toy 2x2x2 hybrid_shard no 4
row feedforward 2x2 no_shard no 4
row feedforward 2x2x2 hybrid_shard no 1
row llama 2x1 no_shard yes 4
row llama 1x2 full_shard yes 1
row llama 2x2 shard_grad_op no 4
row llama 4x2 full_shard no 1
row llama 2x2x2 hybrid_shard yes 4
row gpt2 2x1 shard_grad_op yes 4
row gpt2 1x2 no_shard no 4
row gpt2 2x2 full_shard yes 1
row gpt2 4x2 no_shard yes 4
row gpt2 2x2x2 full_shard no 4
row transformer 2x1 full_shard no 4
row transformer 1x2 shard_grad_op yes 4
row transformer 2x2 no_shard yes 1
row transformer 4x2 shard_grad_op no 4
row transformer 2x2x2 hybrid_shard yes 1
row hsdp 2x2x2 own no 4
row hsdp 2x2x2 hybrid_shard yes 1
finish
