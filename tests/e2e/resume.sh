#!/bin/sh
# resume.sh: a run that is saved after half of its steps and resumed is the run
# that was not interrupted: on the same mesh bit by bit (losses, weights,
# optimizer states), on other meshes with other strategies within 1e-5 in f32
# and 2e-3 in bf16 and f16. With shuffled data, dropout, clipping, accumulation,
# schedules, loss scales, frozen parameters, HSDP and offload; on the CPU, on
# CUDA (run on the host) and from one to the other.
#
# RESUME=all (make resume) runs 20 + 20 steps of every example, precision and
# pair of meshes.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

half=5
[ "${RESUME:-}" != all ] || half=20
all=$((2 * half))
saved_step=$(printf 'step-%08d' $half)
last_step=$(printf 'step-%08d' $all)

# A strategy for each mesh, so that a pair of meshes has two.
strategy_of() {
    case $1 in
    4x1) echo shard_grad_op ;;
    1x4) echo no_shard ;;
    2x2x2) echo hybrid_shard ;;
    *) echo full_shard ;;
    esac
}

# source_of MODEL MESH: the example with the plan for the mesh; the embedding of
# llama is frozen.
source_of() {
    clause=
    [ "$1" != llama ] || clause='    freeze { tok_embeddings }'
    variant "$1" "$2" "$(strategy_of "$2")" no |
        awk -v c="$clause" '{ print } c && /^plan curve/ { print c }'
}

# options MODEL PRECISION: sets the options of parc and of the program.
options() {
    describe "$1"
    sizes="$sizes -D clip=$clip -D precision=$2"
    case $1 in llama | hsdp) sizes="$sizes -D accumulate=2" ;; esac
    data=
    ! grep -q 'int(' "examples/$1.pdl" || data="--shuffle --data bytes:$text"
    tolerance=1e-5
    [ "$2" = f32 ] || tolerance=2e-3
}

# built MODEL MESH PRECISION: compiles a program once.
built() {
    at=$work/$1-$2-$3
    options "$1" "$3"
    [ -e "$at" ] || {
        source_of "$1" "$2" >"$at.pdl"
        # shellcheck disable=SC2086
        "$PARC" "$at.pdl" --plan curve --target cpu --threads 1 --mesh "$2" \
            $sizes -o "$at"
    }
}

# uninterrupted MODEL MESH PRECISION: all steps, with two checkpoints.
uninterrupted() {
    built "$@" || return 1
    # shellcheck disable=SC2086
    "$at" --steps $all --seed 3 $data --save "$at.saved" --save-every $half \
        --log "$at.log"
}

# What of a log does not depend on the clock.
results() {
    jq -c "select(.step > $half) | [.step, .loss, .grad_norm, .lr, .loss_scale,
        .tokens]" "$1"
}

# continues MODEL MESH PRECISION: the second half, from the checkpoint.
continues() {
    built "$@" || return 1
    "$at" --steps $all --resume "$at.saved/$saved_step" --save "$at.again" \
        --log "$at.again.log" &&
        results "$at.log" >"$at.want" && results "$at.again.log" >"$at.have" &&
        cmp "$at.want" "$at.have" &&
        same_state "$at.saved/$last_step" "$at.again/$last_step"
    failed_status=$?
    rm -rf "$at.again"
    return $failed_status
}

# same_state A B: all files of the tensors have the same bytes.
same_state() {
    ls "$1"/rank-*.safetensors >/dev/null &&
        [ "$(ls "$1")" = "$(ls "$2")" ] &&
        for file in "$1"/rank-*.safetensors; do
            cmp "$file" "$2/${file##*/}" || return 1
        done
}

# moves MODEL FROM TO PRECISION: the second half on another mesh.
moves() {
    from=$work/$1-$2-$4
    built "$1" "$3" "$4" || return 1
    "$at" --steps $all --resume "$from.saved/$saved_step" --log "$at.moved.log" &&
        jq -c "select(.step > $half)" "$from.log" >"$at.want" &&
        same_curve "$at.moved.log" "$at.want" $tolerance
}

exact() { # exact MODEL MESH PRECISION
    check "$1 on $2 in $3 trains and saves" uninterrupted "$@"
    check "$1 on $2 in $3 is resumed bit by bit" continues "$@"
}

if [ "${RESUME:-}" = all ]; then
    meshes="1x1 2x2 4x1 1x4 2x2x2"
    for model in toy feedforward llama gpt2 transformer hsdp; do
        for precision in f32 bf16 f16; do
            for mesh in $meshes; do
                exact $model $mesh $precision
            done
            for one in $meshes; do
                for other in $meshes; do
                    [ $one = $other ] ||
                        check "$model from $one to $other in $precision" \
                            moves $model $one $other $precision
                done
            done
            rm -rf "$work/$model"-*
        done
    done
else
    exact llama 2x2 f32
    check "llama from 2x2 to 4x1" moves llama 2x2 4x1 f32
    exact gpt2 1x4 f16
    check "gpt2 from 1x4 to 1x1" moves gpt2 1x4 1x1 f16
    exact hsdp 2x2x2 bf16
    check "hsdp from 2x2x2 to 2x2" moves hsdp 2x2x2 2x2 bf16
fi
finish
