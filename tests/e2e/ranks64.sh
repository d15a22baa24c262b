#!/bin/sh
# ranks64.sh: 64 ranks on this machine train for three steps; a second run gives
# bit-identical weights.
# alone: 64 ranks use the whole machine
. "$(dirname "$0")/lib.sh"

sizes="-D vocab=512 -D dim=128 -D n_layers=2 -D n_heads=8 -D n_kv_heads=8 \
 -D hidden=256 -D batch=8 -D seq=32 -D precision=f32"
# shellcheck disable=SC2086
check "8x8 compiles" compile "$work/train" llama 8x8 $sizes
for run in a b; do
    check "run $run" "$work/train" --steps 3 --data "bytes:$text" --seed 7 \
        --log "$work/$run.log" --export "$work/$run.st"
done
check "bit-identical weights" cmp "$work/a.st" "$work/b.st"
check "three steps" jq -es 'length == 3' "$work/a.log"
finish
