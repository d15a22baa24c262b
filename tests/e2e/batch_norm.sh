#!/bin/sh
# batch_norm.sh: batch norms have PyTorch's losses, running statistics and loss in evaluation
# on each mesh, with microbatches and checkpointing (tests/torch/record.sh recorded them);
# states of modules are saved, resumed on another mesh, loaded and exported.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_own_data.sh"

model=$root/tests/data/batch_norm.pdl

built() { # built NAME MESH PARTS [OPTIONS…]
    name=$1 mesh=$2 parts=$3
    shift 3
    "$PARC" "$model" --target cpu --threads 1 --mesh "$mesh" -D accumulate="$parts" "$@" \
        -o "$work/$name"
}
runs() { # runs NAME [OPTIONS…]
    name=$1
    shift
    "$work/$name" --seed 1 --data "$spec" "$@"
}
# The part of the record for PARTS microbatches.
recorded() { # recorded PARTS
    jq -c ".[\"$1\"].losses[] | {loss: .}" tests/torch/batch_norm.json >"$work/torch.log" &&
        jq ".[\"$1\"].states" tests/torch/batch_norm.json >"$work/states.json" &&
        jq ".[\"$1\"] | {loss: .val_loss}" -c tests/torch/batch_norm.json >"$work/val.json"
}
equal() { # equal NAME PARTS: losses and statistics are PyTorch's
    recorded "$2" && same_curve "$work/$1.log" "$work/torch.log" 1e-5 &&
        python3 tests/tools/weights.py states "$work/$1.st" "$work/states.json" 1e-5
}
trains() { # trains NAME MESH PARTS [OPTIONS…]
    built "$@" && runs "$1" --steps 20 --log "$work/$1.log" --export "$work/$1.st" &&
        equal "$1" "$3"
}
evaluates() { # evaluates NAME PARTS: the loss with running statistics is PyTorch's
    recorded "$2" &&
        runs "$1" --eval --val "$spec" --val-steps 2 --init "$work/$1.st" >"$work/eval.json" &&
        jq -c '{loss: .val_loss}' "$work/eval.json" >"$work/eval.log" &&
        same_curve "$work/eval.log" "$work/val.json" 1e-5
}
check "data" own_data batch_norm
for mesh in $(few_or_all "1x1 2x2" "1x1 2x1 1x2 2x2 4x1"); do
    for parts in 1 2; do
        name=$mesh-$parts
        check "$mesh, $parts microbatches: trains as PyTorch" trains "$name" "$mesh" $parts \
            --plan units
        check "$mesh, $parts microbatches: evaluates as PyTorch" evaluates "$name" $parts
    done
done

checkpointed() { # checkpointed PARTS
    sed 's/fully_shard dp.*/checkpoint { layers.*, head }\n    &/' "$model" >"$work/checked.pdl"
    model=$work/checked.pdl trains "checked-$1" 2x1 "$1" --plan units
}
for parts in 1 2; do
    check "recomputation updates once, $parts microbatches" checkpointed $parts
done
check "a pipeline trains as PyTorch" trains stages 2x1 2 --plan stages

resumed() { # resumed FROM TO PARTS: 10 of 20 steps on one mesh, and 10 on another one
    rm -rf "$work/saved"
    runs "$1" --steps 10 --save "$work/saved" --log "$work/resumed.log" &&
        runs "$2" --steps 20 --resume "$work/saved" --log "$work/resumed.log" \
            --export "$work/resumed.st" && equal resumed "$3"
}
check "1x1 resumes on 2x2" resumed 1x1-1 2x2-1 1
check "2x2 resumes on 1x1" resumed 2x2-2 1x1-2 2
check "a pipeline resumes on 2x2" resumed stages 2x2-2 2
in_all check "2x2 resumes in a pipeline" resumed 2x2-2 stages 2

# A step that the loss scale skips updates no weight, but the statistics.
skips() {
    built f16 2x1 1 --plan units -D precision=f16 -D loss_scale=1e30 &&
        runs f16 --steps 0 --export "$work/start.st" &&
        runs f16 --steps 3 --export "$work/f16.st" &&
        echo '{"head.norm.num_batches_tracked": [3]}' >"$work/three.json" &&
        python3 tests/tools/weights.py states "$work/f16.st" "$work/three.json" 0 &&
        for file in start f16; do
            python3 tests/tools/weights.py drop "$work/$file.st" "$work/$file.a" '*.norm.*' &&
                python3 tests/tools/weights.py drop "$work/$file.a" "$work/$file.b" 'norm.*' ||
                return 1
        done &&
        python3 tests/tools/weights.py same "$work/start.b" "$work/f16.b"
}
check "a skipped step updates the statistics" skips
exact() {
    rm -rf "$work/saved"
    runs 2x2-2 --steps 10 --save "$work/saved" &&
        runs 2x2-2 --steps 20 --resume "$work/saved" --export "$work/exact.st" &&
        python3 tests/tools/weights.py same "$work/exact.st" "$work/2x2-2.st"
}
check "a resumed run has the same bits" exact
reloaded() {
    runs 2x2-1 --steps 0 --init "$work/1x1-1.st" --export "$work/again.st" &&
        python3 tests/tools/weights.py same "$work/again.st" "$work/1x1-1.st"
}
check "--init and --export keep states" reloaded
as_torch() { # num_batches_tracked is an integer in a state dict
    python3 tests/tools/weights.py integers "$work/1x1-1.st" "$work/torch.st" \
        '*.num_batches_tracked' &&
        runs 2x2-1 --steps 0 --init "$work/torch.st" --export "$work/again.st" &&
        python3 tests/tools/weights.py same "$work/again.st" "$work/1x1-1.st"
}
check "--init reads PyTorch's counts" as_torch
no_table() { # but no tensor of integers
    python3 tests/tools/weights.py integers "$work/1x1-1.st" "$work/torch.st" '*.running_var' &&
        ! runs 2x2-1 --steps 0 --init "$work/torch.st" 2>"$work/table.err" &&
        grep -q "has dtype I64" "$work/table.err"
}
check "--init reads no other integers" no_table
missing() { # a file without states: an error, which --init-partial permits
    python3 tests/tools/weights.py drop "$work/1x1-1.st" "$work/part.st" '*running_mean'
    ! runs 1x1-1 --steps 0 --init "$work/part.st" 2>"$work/missing.err" &&
        grep -q "running_mean" "$work/missing.err" &&
        runs 1x1-1 --steps 0 --init "$work/part.st" --init-partial
}
check "a file needs the states" missing
finish
