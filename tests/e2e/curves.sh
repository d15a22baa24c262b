#!/bin/sh
# curves.sh: each example has one loss curve on every mesh and with every
# sharding strategy: 20 steps, with clipping and the model's dropout, within
# 1e-5 of the losses of one rank. Runs allocate exactly the planned bytes.
#
# Rows rotate through recomputation and accumulation. Each strategy but
# hybrid_shard, which has one mesh, runs with both, with each alone and with
# neither. `make check` has one mesh. CURVES=all (make curves) runs the whole
# product.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

# run MODEL MESH STRATEGY CHECKPOINT ACCUMULATE [CLIP]
run() {
    describe "$1"
    at=$work/$1-$2-$3-$4-$5${6:+-$6}
    variant "$1" "$2" "$3" "$4" >"$at.pdl"
    data_of "$1"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --plan curve --target cpu --threads 1 --mesh "$2" \
        $sizes -D clip="${6:-$clip}" \
        $([ "$5" = 1 ] || echo "-D accumulate=$5") \
        --emit json="$at.json" -o "$at" &&
        "$at" --steps 20 --seed 3 $data --log "$at.log" && rm "$at"
}

# The norm exceeds the limit, and the curve without a limit differs.
clipped() { # clipped MODEL
    jq -es --argjson clip "$clip" 'any(.grad_norm > $clip)' "$base.log" &&
        run "$1" 1x1 full_shard no 1 1e9 &&
        ! agree "$1" "$at.log" "$base.log" 5e-5
}

# Under shard_grad_op recomputation would need gathered weights to stay
# resident; the plan may save the results instead, where they are smaller.
recomputes() { # recomputes PLAN STRATEGY
    [ "$2" = shard_grad_op ] || jq -e '.recomputed_flops > 0' "$1"
}

row() { # row MODEL MESH STRATEGY CHECKPOINT ACCUMULATE
    base=$work/$1-1x1-full_shard-no-1
    if [ ! -e "$base.log" ]; then
        check "$1 trains on one rank" run "$1" 1x1 full_shard no 1
        check "$1 is clipped" clipped "$1"
    fi
    this=$work/$1-$2-$3-$4-$5
    label="$1 on $2, $3, checkpoint $4, accumulate $5"
    check "$label: trains" run "$@"
    check "$label: curve" agree "$1" "$this.log" "$base.log" 1e-5
    check "$label: memory" as_planned "$this.log" "$this.json"
    [ "$4" = no ] || check "$label: again" recomputes "$this.json" "$3"
}

# Row N of a model; the first row is not the reference itself.
rotated_row() { # rotated_row N MODEL MESH STRATEGY
    case $(($1 % 4)) in
    0) row "$2" "$3" "$4" no 1 ;;
    1) row "$2" "$3" "$4" no 4 ;;
    2) row "$2" "$3" "$4" yes 1 ;;
    3) row "$2" "$3" "$4" yes 4 ;;
    esac
}

# Measures the value that the tolerance of feedforward.pdl is relative to.
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
check "feedforward's sum of magnitudes is measured" magnitudes_are

first=1 model_parity=0
models="toy feedforward llama gpt2 transformer hsdp"
[ "${CURVES:-}" != all ] || models="$models $own_models" CHECK_ALL=1
for model in $models; do
    n=$first parity=$((model_parity = 1 - model_parity))
    for mesh in 1x1 2x1 1x2 2x2 4x2 2x2x2; do
        for strategy in full_shard shard_grad_op no_shard hybrid_shard; do
            case $mesh:$strategy in
            2x2x2:*) ;;
            *:hybrid_shard) continue ;;
            esac
            # `make check` has every second strategy of a model, on the last mesh.
            few=in_all parity=$((1 - parity))
            [ $mesh:$parity != 2x2x2:1 ] || few=
            if [ "${CURVES:-}" = all ]; then
                for n in 0 1 2 3; do
                    rotated_row $n $model $mesh $strategy
                done
            else
                $few rotated_row $n $model $mesh $strategy
                n=$((n + 1))
            fi
        done
    done
    first=$((first % 3 + 1))
done
# Units that differ in their strategies; that are gathered and reduced once.
row hsdp 2x2x2 own no 4
row gpt2 4x2 per_step yes 4
finish
