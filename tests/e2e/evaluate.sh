#!/bin/sh
# evaluate.sh: validation losses. They are PyTorch's for the same weights
# (tests/torch/record.sh recorded them) on one rank and on four; evaluation
# changes no bit of training and needs the memory that the plan says.
# cpu: losses
. "$(dirname "$0")/lib.sh"

head -c 700 "$text" >"$work/val.txt" # 21 sequences: 2 batches of 8
val=bytes:$text

eval_at() { # eval_at PROGRAM [OPTIONS…]: prints the JSON object
    program=$1
    shift
    "$work/$program" --eval --val "$val" "$@" >"$work/$program.eval"
    status=$?
    cat "$work/$program.eval"
    return $status
}
is_torchs() { # is_torchs PROGRAM RECORD
    eval_at "$1" --seed 1 && jq -en --slurpfile a "$work/$1.eval" \
        --slurpfile b "tests/torch/$2.json" '$a[0].batches == $b[0].batches
            and ($a[0].val_loss / $b[0].val_loss - 1 | fabs) < 1e-5'
}
for model in llama gpt2; do
    eval "sizes=\$${model}_sizes"
    for mesh in 1x1 2x2; do
        # shellcheck disable=SC2086
        check "$model $mesh compiles" compile "$work/$model-$mesh" $model \
            $mesh --threads 1 $sizes --emit json="$work/$model-$mesh.json"
        check "$model $mesh: the loss is PyTorch's" \
            is_torchs "$model-$mesh" "$model"
    done
done
# Dropout, accumulation, 16 bits.
# shellcheck disable=SC2086
check "dropout compiles" compile "$work/drop-2x2" gpt2 2x2 $gpt2_sizes \
    -D dropout=0.3 -D accumulate=2
check "no dropout in an evaluation" is_torchs drop-2x2 gpt2
# shellcheck disable=SC2086
check "bf16 compiles" compile "$work/bf16-4x1" llama 4x1 $llama_sizes \
    -D precision=bf16 -D n_kv_heads=4
# shellcheck disable=SC2086
check "its f32 reference compiles" compile "$work/f32-1x1" llama 1x1 \
    $llama_sizes -D n_kv_heads=4
near() { # near A B TOLERANCE
    eval_at "$1" && eval_at "$2" && jq -en --slurpfile a "$work/$1.eval" \
        --slurpfile b "$work/$2.eval" --argjson t "$3" \
        '($a[0].val_loss / $b[0].val_loss - 1 | fabs) < $t'
}
check "bf16 on 4x1 is near f32 on 1x1" near bf16-4x1 f32-1x1 5e-3

# Training with and without evaluation: the same weights, bit for bit.
train() { # train PROGRAM NAME [OPTIONS…]
    program=$1 name=$2
    shift 2
    "$work/$program" --steps 6 --data "$val" --shuffle --seed 3 \
        --log "$work/$name.log" --export "$work/$name.st" "$@"
}
same_training() { # same_training PROGRAM
    train "$1" without && train "$1" with --val "bytes:$work/val.txt" \
        --val-every 2 && cmp "$work/with.st" "$work/without.st" &&
        jq -c '[.step, .loss, .grad_norm, .lr]' "$work/with.log" \
            >"$work/with" &&
        jq -c '[.step, .loss, .grad_norm, .lr]' "$work/without.log" |
        cmp - "$work/with"
}
for program in drop-2x2 bf16-4x1 llama-2x2; do
    check "$program: evaluation changes no bit of training" \
        same_training $program
done
lines() { # lines STEPS: val_loss is in the log lines of these steps alone
    jq -es --argjson want "$1" \
        '[.[] | select(.val_loss) | .step] == $want' "$work/with.log"
}
check "val_loss in the lines of its steps" lines '[2, 4, 6]'
check "the last value is that of --eval" test "$(
    "$work/llama-2x2" --eval --val "bytes:$work/val.txt" \
        --init "$work/with.st" | jq .val_loss)" = "$(
    jq -s 'last.val_loss' "$work/with.log")"
check "without --val-every, after the last step" \
    train llama-2x2 with --val "$val" --val-steps 1
check "one value" lines '[6]'
only() { # only N
    "$work/llama-2x2" --eval --val "$val" --val-steps "$1" |
        jq -e --argjson n "$1" '.batches == $n and .tokens == $n * 256'
}
check "--val-steps" only 3
allocates() { # the training run with evaluation allocates the plan's bytes
    as_planned "$work/with.log" "$work/llama-2x2.json"
}
check "the memory of the plan" allocates

refused() { # refused STATUS TEXT OPTIONS…
    want=$1 phrase=$2
    shift 2
    "$work/llama-2x2" "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status = "$want" ] && grep -qF -- "$phrase" "$work/out"
}
head -c 200 "$text" >"$work/short.txt"
check "--eval without --val" refused 2 "--eval needs --val SPEC" --eval
check "--val-every without --val" refused 2 "--val-every needs --val" \
    --val-every 3
check "synthetic data has no end" refused 1 "--val-steps N evaluates" \
    --eval --val synthetic
check "less than a batch" refused 1 \
    "short.txt: byte 200: error: the file ends before the first batch of 8" \
    --eval --val "bytes:$work/short.txt"
check "a missing file" refused 1 "cannot read '$work/none'" --val \
    "$work/none"
check "a full disk" sh -c '"$1" --eval --val "$2" >/dev/full; [ $? = 1 ]' \
    sh "$work/llama-2x2" "$val"
finish
