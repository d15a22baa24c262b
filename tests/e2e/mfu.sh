#!/bin/sh
# mfu.sh: the utilization in the log is a share of what the machine can do: at
# most 1, whatever instructions the products use.
# cpu: the peak
. "$(dirname "$0")/lib.sh"

for precision in f32 bf16; do
    check "$precision compiles" compile "$work/$precision" feedforward 1x1 \
        -D dim=1024 -D hidden=2048 -D batch=2048 -D precision=$precision \
        -D optimizer.lr=1e-9 --threads 1
    check "$precision trains" "$work/$precision" --steps 6 \
        --log "$work/$precision.jsonl"
    check "$precision: mfu is above 0 and at most 1" jq -es \
        'map(.mfu) | if min > 0 and max <= 1 then . else error("\(.)") end' \
        "$work/$precision.jsonl"
done
finish
