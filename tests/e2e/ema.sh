#!/bin/sh
# ema.sh: --export-ema writes the average of the weights after each step, on meshes that
# shard them, with frozen parameters, with steps that the loss scale skips, and after a
# resume; the setting changes no loss.
# cpu: losses
. "$(dirname "$0")/lib.sh"

built() { # built NAME MESH [OPTIONS…]
    name=$1 mesh=$2
    shift 2
    sed 's/fully_shard.*/&\n    freeze { norm }/' examples/llama.pdl >"$work/frozen.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/frozen.pdl" --target cpu --threads 1 --mesh "$mesh" $llama_sizes "$@" \
        -o "$work/$name"
}
runs() { # runs NAME STEPS [OPTIONS…]
    name=$1 steps=$2
    shift 2
    "$work/$name" --steps "$steps" --seed 1 --data "bytes:$text" "$@"
}

averaged() { # averaged NAME: the averages are those of the weights after each step
    files=
    for i in 1 2 3 4; do
        runs "$1" "$i" --export "$work/$1-$i.st" || return 1
        files="$files $work/$1-$i.st"
    done
    # shellcheck disable=SC2086
    runs "$1" 4 --export "$work/$1-ema.st" --export-ema --log "$work/$1.log" &&
        python3 tests/tools/weights.py average "$work/$1-ema.st" 0.75 $files
}
for mesh in $(few_or_all 2x2 "1x1 2x2"); do
    check "$mesh compiles" built "$mesh" "$mesh" -D ema=0.75
    check "$mesh: averages" averaged "$mesh"
done
check "without averages compiles" built plain 2x2
check "without averages trains" runs plain 4 --log "$work/plain.log"
check "ema changes no loss" same_curve "$work/2x2.log" "$work/plain.log" 1e-7
resumed() {
    runs 2x2 2 --save "$work/saved" &&
        runs 2x2 4 --resume "$work/saved" --export "$work/resumed.st" --export-ema &&
        python3 tests/tools/weights.py same "$work/resumed.st" "$work/2x2-ema.st"
}
check "a resumed run has the same averages" resumed
initial() {
    runs 2x2 0 --export "$work/start-ema.st" --export-ema &&
        runs 2x2 0 --export "$work/start.st" &&
        python3 tests/tools/weights.py same "$work/start-ema.st" "$work/start.st"
}
check "before the first step they are the weights" initial
scaled() {
    built scaled 2x1 -D ema=0.75 -D precision=f16 -D loss_scale=1e30 &&
        runs scaled 3 --export "$work/scaled-ema.st" --export-ema &&
        runs scaled 3 --export "$work/scaled.st" &&
        python3 tests/tools/weights.py same "$work/scaled-ema.st" "$work/scaled.st"
}
check "skipped steps change no average" scaled
refused() { # refused PROGRAM MESSAGE OPTIONS…
    program=$1 message=$2
    shift 2
    ! "$work/$program" --steps 0 "$@" 2>"$work/err" && grep -F -- "$message" "$work/err"
}
check "no averages" refused plain "compile with -D ema=0.999" --export "$work/no.st" --export-ema
check "no file" refused 2x2 "--export-ema needs --export PATH" --export-ema
not_below_one() {
    ! built bad 1x1 -D ema=1.0 2>"$work/err" && grep -F "ema" "$work/err"
}
check "an average of nothing new" not_below_one
finish
