#!/bin/sh
# One loss curve for each example, whatever the mesh, the sharding strategy,
# recomputation and accumulation: 20 steps, clipped, with the dropout of the
# model, within 1e-5 of those of one rank.
#
# The rows below hold every mesh, every strategy, recomputation and
# accumulation for each model that has them, and most pairs; CURVES=all runs
# them in all combinations.
. "$(dirname "$0")/lib.sh"

# axes MESH: the plan's formal axes before tp, and what is sharded over.
axes() {
    case $1 in
    *x*x*) echo 'rep, dp, tp' ;;
    *) echo 'dp, tp' ;;
    esac
}
over() { # over MESH STRATEGY
    case $1:$2 in
    *x*x*:hybrid_shard) echo '(rep, dp)' ;;
    *) echo 'dp' ;;
    esac
}

# What a model is, in one place: sizes (the batch is 16, so that four
# microbatches of a data-parallel rank have a sequence each), units of
# fully_shard, and what runs again under checkpoint.
describe() {
    checkpoint=
    case $1 in
    toy)
        sizes='-D batch=48' units='net1' ;;
    hsdp)
        sizes='-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 -D batch=16'
        sizes="$sizes -D seq=16 -D precision=f32"
        units='embed;blocks.*;[norm, head];positions' checkpoint='blocks.*' ;;
    feedforward)
        sizes='-D dim=64 -D hidden=128 -D batch=16' units='w1;w2;w3' ;;
    llama)
        sizes="$llama_sizes -D n_layers=2 -D batch=16 -D seq=16"
        units='tok_embeddings;layers.*;[norm, output]'
        checkpoint='layers.*' ;;
    gpt2)
        sizes="$gpt2_sizes -D n_layers=2 -D batch=16 -D seq=16 -D dropout=0.1"
        units='[wte, wpe, ln_f];h.*' checkpoint='h.*' ;;
    transformer)
        # Rounding can turn the sign of a relu's input, and with it the gradient
        # of a whole row; Adam's first steps make that as large as the rate.
        sizes="$transformer_sizes -D batch=16 -D seq=9 -D optimizer.lr=1e-4"
        units='[embedding, decoder];every TransformerEncoderLayer'
        units="$units;every TransformerDecoderLayer;[transformer]"
        checkpoint='every TransformerEncoderLayer
        every TransformerDecoderLayer' ;;
    esac
}

# The one plan of the example, or its tensor-parallel one, under the name
# `curve`, with the axes of the mesh, one strategy for all units, and a
# checkpoint clause if it says so; strategy `own`: the units as they stand.
variant() { # variant MODEL MESH STRATEGY CHECKPOINT
    clause=$(printf '    fully_shard %s {\n' "$(over "$2" "$3")"
        printf '%s\n' "$units" | tr ';' '\n' |
            sed "s/^/        /; s/\$/: strategy=$3/"
        printf '    }\n'
        [ "$4" = no ] || printf '    checkpoint {\n        %s\n    }\n' \
            "$checkpoint")
    clause=$clause axes=$(axes "$2") \
        own=$([ "$3" != own ] || echo own) awk '
        /^plan .*, *(tp|tensor_parallel)\)/ {
            sub(/^plan [^{]*/, "plan curve(" ENVIRON["axes"] ") "); ours = 1
        }
        ours && /tensor_parallel \{/ { sub(/tensor_parallel/, "tp") }
        ours && /fully_shard/ && !ENVIRON["own"] {
            print ENVIRON["clause"]; skip = 1
        }
        skip { if (/\}/) skip = 0; next }
        /^\}/ { ours = 0 }
        { print }' "examples/$1.pdl"
}

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

# The loss of feedforward.pdl is a plain sum of both signs; rounding does not
# shrink with it. It is compared to the largest that it gets.
agree() { # agree MODEL LOG LOG
    if [ "$1" = feedforward ]; then
        jq -es --slurpfile b "$3" '
            ($b | map(.loss | fabs) | max) as $scale |
            [range(20) as $i | (.[$i].loss - $b[$i].loss | fabs)] | max |
            . <= 1e-5 * $scale' "$2"
    else
        same_curve "$2" "$3" 1e-5
    fi
}

row() { # row MODEL MESH STRATEGY CHECKPOINT ACCUMULATE
    base=$work/$1-1x1-full_shard-no-1
    [ -e "$base.log" ] ||
        check "$1 on one rank" run "$1" 1x1 full_shard no 1
    check "$1 on $2, $3, checkpoint $4, accumulate $5" run "$@"
    check "$1 on $2, $3, checkpoint $4, accumulate $5: curve" \
        agree "$1" "$work/$1-$2-$3-$4-$5.log" "$base.log"
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
