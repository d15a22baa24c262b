#!/bin/sh
# optimizers.sh: twenty steps of each optimizer are PyTorch's, with weight decay
# and its groups, momentum, clipping, schedules and ignored labels
# (tests/torch/recipe.py recorded them).
# cpu: losses
. "$(dirname "$0")/lib.sh"

# same FIELD CASE [TOLERANCE]: a field of the log equals the record's.
same() {
    jq -en --arg field "$1" --arg case "$2" --argjson most "${3:-1e-5}" \
        --slurpfile a "$root/tests/torch/recipe.losses" \
        --slurpfile b "$work/log" '
        ($a | map(select(.case == $case)[$field])) as $x |
        ($b | map(.[$field])) as $y |
        [range($x | length) | ($x[.] / $y[.] - 1) | fabs] | max |
        if . < $most and ($x | length) == 20 then . else error("\(.)") end'
}

# parity CASE OPTIONS…
parity() {
    case=$1
    shift
    for mesh in ${meshes:-1x1 2x2}; do
        check "$case $mesh compiles" "$PARC" tests/torch/recipe.pdl \
            --target cpu --threads 1 --mesh $mesh -o "$work/binary" "$@"
        check "$case $mesh trains" "$work/binary" --steps 20 --seed 1 \
            --data "bytes:$text" --log "$work/log"
        for field in loss grad_norm lr; do
            check "$case $mesh has PyTorch's $field" same $field "$case"
        done
    done
}
parity sgd -D "optimizer=SGD(lr=0.5, weight_decay=0.1)"
parity momentum -D clip=0.25 \
    -D "optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=0.1)"
parity adam -D "schedule=linear(steps=20, min_lr=3e-4)" \
    -D "optimizer=Adam(lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)"
parity adamw -D clip=0.5 -D "optimizer=AdamW(lr=3e-3, weight_decay=0.5)" \
    -D "schedule=cosine(steps=20, warmup=5, min_lr=3e-4)"
parity lion -D clip=0.5 -D "optimizer=Lion(lr=1e-3, weight_decay=0.5)" \
    -D "schedule=cosine(steps=20, warmup=5, min_lr=3e-4)"

# Lion has one state for each parameter. A zero gradient changes nothing (sign(0)
# is 0): the text has no byte 0, whose row is the first of the table.
check "a program with Lion compiles" "$PARC" tests/torch/recipe.pdl \
    --target cpu --threads 1 --mesh 2x2 -D "optimizer=Lion(lr=0.01)" \
    --emit=json="$work/json" -o "$work/binary"
check "Lion's states have the size of the parameters" \
    jq -e '.memory.optimizer == .memory.params' "$work/json"
check "Lion trains" "$work/binary" --steps 3 --seed 1 --data "bytes:$text" \
    --export "$work/w.safetensors"
# values PARAM OPTIONS…: the first values of the shard of rank 0
values() {
    "$work/binary" --print-shards "$@" 2>/dev/null | sed -n 3p
}
for param in table.weight up.bias; do
    values $param --seed 1 >"$work/$param.before"
    values $param --init "$work/w.safetensors" >"$work/$param.after"
done
check "a zero gradient changes no element" \
    diff "$work/table.weight.before" "$work/table.weight.after"
check "another gradient does" \
    sh -c "! cmp '$work/up.bias.before' '$work/up.bias.after'"

# The up projection is split over both axes; Muon gathers it. The records of muon
# and muon_rms are of the author's iterations in the type of the model,
# muon_bf16 is PyTorch's class, whose iterations are in bf16.
rest='groups=group(("table.*", "out.*", "norm.*", "*.bias"), optimizer=AdamW,
                   lr_factor=0.15, weight_decay=0.1)'
cosine="schedule=cosine(steps=20, warmup=5, min_lr=2e-3)"
meshes="1x1 2x1 1x2 2x2 4x2" parity muon -D clip=0.5 -D "$cosine" \
    -D "optimizer=Muon(lr=0.02, weight_decay=0.5, $rest)"
for field in loss grad_norm; do
    check "Muon has about the $field of PyTorch's iterations in bf16" \
        same $field muon_bf16 2e-3
done
parity muon_rms -D 'optimizer=Muon(lr=0.01, momentum=0.9, nesterov=false,
    ns_coefficients=(2.0, -1.5, 0.5), ns_steps=7, betas=(0.8, 0.9),
    adjust_lr_fn=match_rms_adamw, adamw_eps=1e-6,
    groups=group(("norm.*", "*.bias"), optimizer=AdamW, lr_factor=0.1))'

# The means of rows and columns are those of the complete matrix on each mesh.
meshes="1x1 2x1 1x2 2x2 4x2" parity adafactor -D clip=0.5 \
    -D "optimizer=Adafactor(lr=0.08, weight_decay=0.1)"
parity adafactor_own \
    -D "optimizer=Adafactor(lr=0.05, beta2_decay=-0.5, eps1=1e-6, eps2=0.2,
        clip_threshold=2)"

parity groups -D 'optimizer=AdamW(lr=3e-3, weight_decay=2.0,
                                  no_decay=("*.bias", "norm*"))'
parity rates -D "schedule=linear(steps=20, min_lr=3e-4)" \
    -D 'optimizer=AdamW(lr=3e-3, weight_decay=2.0, groups=(
        group("table.*", lr_factor=0.1, weight_decay=0),
        group("up.*", weight_decay=0.2), group("norm.*", lr_factor=2)))'
parity ignored -D clip=1.0 -D "optimizer=SGD(lr=0.5, weight_decay=0.1)" \
    -D ignored=32
finish
