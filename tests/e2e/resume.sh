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
    data_of "$1"
    data=${data:+--shuffle $data}
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
    for model in toy feedforward llama gpt2 transformer hsdp $own_models; do
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
[ "${RESUME:-}" != all ] || { finish; exit; }

# ---- options: what a resumed run keeps, and what cannot change ----

train=$work/llama-2x2-f32 saved=$work/llama-2x2-f32.saved
# fails STATUS TEXT OPTIONS…: the program ends with one error.
fails() {
    want=$1 phrase=$2
    shift 2
    "$train" "$@" >"$work/said" 2>&1
    status=$?
    cat "$work/said"
    [ $status = "$want" ] && [ "$(grep -c error: "$work/said")" = 1 ] &&
        grep -qF -- "$phrase" "$work/said"
}
says() { # says TEXT OPTIONS…
    phrase=$1
    shift
    "$train" "$@" >"$work/said" 2>&1 || return 1
    cat "$work/said"
    grep -qF -- "$phrase" "$work/said"
}
check "another seed" fails 1 "--seed 4: the checkpoint's run has the seed 3" \
    --resume "$saved" --seed 4
check "the same seed" says "no step is left" --steps 2 --resume "$saved" \
    --seed 3
check "a trace of no step" fails 1 "--trace: there is no step to trace" \
    --steps 2 --resume "$saved" --trace "$work/t.json"
check "--init and --resume" fails 2 "exclude each other" --resume "$saved" \
    --init x
check "a directory of a later step" fails 1 \
    "has a checkpoint of step $all, after step 0" --save "$saved"
check "a directory of a later step, resumed" fails 1 \
    "has a checkpoint of step $all, after step $half" --save "$saved" \
    --resume "$saved/$saved_step"
check "another directory" fails 1 "cannot read '$work/none'" \
    --resume "$work/none"
check "a directory without a checkpoint" fails 1 "has no checkpoint" \
    --resume "$root"
check "a checkpoint without a name" fails 2 "needs --save DIR" --resume auto
check "--print-shards" fails 2 "does not read a checkpoint" \
    --print-shards model --resume "$saved"

# The data, their order and the trace's steps are those of the run.
continues_alone() {
    steps=$((all + 4))
    "$train" --steps $steps --resume "$saved" --log "$work/one.log" \
        --trace "$work/t.json" --trace-steps 2 &&
        options llama f32 &&
        # shellcheck disable=SC2086
        "$train" --steps $steps --seed 3 $data --log "$work/two.log" &&
        jq -c "select(.step > $all) | [.step, .loss, .tokens]" "$work/one.log" \
            >"$work/have" &&
        jq -c "select(.step > $all) | [.step, .loss, .tokens]" "$work/two.log" \
            >"$work/want" && cmp "$work/want" "$work/have" &&
        jq -e "[.traceEvents[] | select(.name | test(\"^step \"))] |
            length > 0" "$work/t.json"
}
check "data and trace of a resumed run" continues_alone

# A requeued job: the first run finds no checkpoint. The log has each step once,
# --keep the newest checkpoints.
requeued() {
    for steps in 3 4 6; do
        "$train" --steps $steps --resume auto --save "$work/job" \
            --save-every 1 --keep 2 --log "$work/job.log" || return 1
        echo "{\"step\": $((steps + 1))}" >>"$work/job.log" # killed later
    done
    [ "$(jq -c .step "$work/job.log" | tr '\n' ' ')" = "1 2 3 4 5 6 7 " ] &&
        [ "$(ls "$work/job")" = "step-00000005
step-00000006" ]
}
check "a job that is started three times" requeued

# With a learning rate of 0 a loss depends on the data only. After 5 steps of 16
# sequences, step 6 of 8 sequences uses those of step 11 of 8 sequences.
other_batch() {
    options llama f32
    for batch in 16 8; do
        # shellcheck disable=SC2086
        "$PARC" "$work/llama-2x2-f32.pdl" --plan curve --target cpu \
            --threads 1 --mesh 2x2 $sizes -D batch=$batch -D optimizer.lr=0 \
            -o "$work/batch$batch" || return 1
    done
    # shellcheck disable=SC2086
    "$work/batch16" --steps 5 --seed 3 $data --save "$work/batch" &&
        "$work/batch8" --steps 7 --resume "$work/batch" --log "$work/8.log" &&
        "$work/batch8" --steps 12 --seed 3 $data --log "$work/12.log" &&
        jq .loss "$work/8.log" >"$work/have" &&
        jq "select(.step > 10) | .loss" "$work/12.log" >"$work/want" &&
        cmp "$work/want" "$work/have"
}
check "another batch continues after the data that was used" other_batch

# Weights of a checkpoint become a file of weights, the same from any program.
exports() {
    "$train" --steps 0 --resume "$saved" --export "$work/a.st" &&
        "$work/llama-4x1-f32" --steps 0 --resume "$saved" \
            --export "$work/b.st" && cmp "$work/a.st" "$work/b.st"
}
check "two meshes export the same weights" exports

# Files of more than 4 MiB are written past the page cache, where the file system
# can: tmpfs too is tried. Their last write is not a multiple of a page.
large() { # large DIRECTORY
    rm -rf "$1"
    "$work/large" --steps 3 --save "$1" --save-every 2 --save-async &&
        "$work/large" --steps 3 --log "$work/two.log" &&
        "$work/large" --steps 3 --resume "$1/step-00000002" \
            --log "$work/one.log" &&
        jq -c 'select(.step == 3) | .loss' "$work/one.log" >"$work/have" &&
        jq -c 'select(.step == 3) | .loss' "$work/two.log" >"$work/want" &&
        cmp "$work/want" "$work/have" &&
        for file in "$1"/step-00000003/rank-*.safetensors; do
            size=$(wc -c <"$file")
            echo "$size bytes"
            [ "$size" -gt 4194304 ] && [ $((size % 4096)) != 0 ] || return 1
        done
}
# shellcheck disable=SC2086
check "a model of 1 million parameters compiles" compile "$work/large" llama \
    2x1 --threads 1 $llama_sizes -D vocab=6001 -D batch=2
check "large files" large "$work/large-files"
if [ -w /dev/shm ]; then
    shm=$(mktemp -d /dev/shm/parc-XXXXXX)
    check "large files on tmpfs" large "$shm/files"
    rm -rf "$shm"
fi
finish
