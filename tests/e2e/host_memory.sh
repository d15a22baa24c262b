#!/bin/sh
# host_memory.sh: memory is checked before it is allocated: a program that no
# machine can hold is refused. --info and --print-shards allocate no memory that
# grows with the model.
. "$(dirname "$0")/lib.sh"
export BUILD

# Two trillion parameters: 35 TB with their gradients and AdamW's state.
giant="-D dim=65536 -D hidden=262144 -D n_layers=32 -D n_heads=64 \
 -D n_kv_heads=64 -D precision=f32"
# shellcheck disable=SC2086
check "a giant compiles" compile "$work/giant" llama 2x2 $giant --threads 1

# limited KIB COMMAND…: runs within this much address space.
limited() {
    kib=$1
    shift
    (ulimit -v "$kib" && "$@")
}
# refused COMMAND…: exit status 1, and one line about the missing memory.
refused() {
    limited 4000000 "$@" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ "$status" = 1 ] && [ ! -s "$work/out" ] &&
        [ "$(wc -l <"$work/err")" = 1 ] &&
        grep -qE "error: 4 ranks need [0-9.]+ TiB \([0-9.]+ TiB each\) of \
memory for $what, and [0-9.]+ [KMGT]iB is available: the (machine|control group)" \
            "$work/err" && grep -qF -- "$advice" "$work/err"
}
what="the plan" advice="; parc --device-memory "
check "a run is refused" refused "$work/giant" --steps 1
check "a dry run is refused" refused "$work/giant" --dry-run
what=weights advice="a mesh of fewer ranks"
check "an export is refused" refused "$work/giant" --steps 0 \
    --export "$work/w.st"
check "a refused export leaves no file" test ! -e "$work/w.st"
launched() {
    for r in 1 2 3; do
        env RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 \
            MASTER_PORT="$port" "$@" 2>"$work/err.$r" &
    done
    env RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" "$@"
    status=$?
    wait
    cat "$work"/err.? >&2
    return $status
}
what="the plan" advice="PARC_MEMCHECK=0 starts the program anyway"
check "a launched run is refused, by one rank" refused launched \
    "$work/giant" --steps 1

# All arenas together have 2^65 bytes.
cat >"$work/vast.pdl" <<'END'
model Vast {
    param v[1073741824, 1048576] = zeros
    param w[1073741824, 1048576] = zeros

    forward(x: [batch]) { return mean(x) + mean(v) + mean(w) }
}

plan replicated(dp) {}

train {
    batch     = 4096
    optimizer = SGD(lr=0.1)
}
END
check "more bytes than addresses compile" "$PARC" "$work/vast.pdl" \
    --target cpu --mesh 4096 -o "$work/vast"
vast() {
    PARC_MEMCHECK=0 "$work/vast" --steps 1 2>"$work/err"
    [ $? = 1 ] && cat "$work/err" && grep -q "^vast: error: cannot map \
33554432.0 TiB of memory: " "$work/err"
}
check "more bytes than addresses are refused without the memory check" vast

check "--info needs little memory" limited 500000 "$work/giant" --info
shards() { # shards KIB TRAIN: counts the shards that are printed
    limited "$1" "$2" --print-shards layers.0.attention.wq.weight \
        >"$work/shards" && grep -c '^    values ' "$work/shards"
}
four() { [ "$(shards 500000 "$work/giant")" = 4 ]; }
check "--print-shards needs little memory" four

# A program for GPUs once allocated a mirror of every rank: 24 GB for Llama 7B.
tests/standin/build >/dev/null || exit 1
check "Llama 7B on 64 GPUs compiles" env \
    PARC_NVRTC="$BUILD/standin/libnvrtc.so" "$PARC" examples/llama.pdl \
    --target cuda --mesh 8x8 -o "$work/seven"
all() { [ "$(shards 500000 "$work/seven")" = 64 ]; }
check "--print-shards of Llama 7B on 64 GPUs" all
same_plan() {
    limited 500000 "$work/seven" --info >"$work/info" &&
        "$PARC" examples/llama.pdl --target cuda --mesh 8x8 --emit plan |
        cmp - "$work/info"
}
check "--info of Llama 7B on 64 GPUs" same_plan

# The whole model, and values that equal those of a run.
# shellcheck disable=SC2086
check "a small model compiles" compile "$work/small" llama 2x2 $llama_sizes \
    --threads 1
params=$("$PARC" examples/llama.pdl --mesh 2x2 $llama_sizes --emit json |
    jq '[.params[] | select(.shape) | .name | if test("\\*") then 3 else 1 end]
        | add')
whole() {
    "$work/small" --print-shards model >"$work/model" &&
        [ "$(grep -c ': f32\[' "$work/model")" = "$params" ]
}
check "--print-shards model: $params parameters" whole
check "the weights of a run are exported" \
    "$work/small" --steps 0 --export "$work/w.st"
drawn() {
    "$work/small" --init "$work/w.st" --print-shards model |
        cmp - "$work/model"
}
check "--print-shards prints the values of a run" drawn
check "a trace of too many steps is refused" sh -c '
    "$1" --steps 1000000000000 --trace "$2/t.json" \
        --trace-steps 1000000000000 2>"$2/err"
    [ $? = 1 ] && cat "$2/err" && grep -q "of memory for the trace, and .*; a \
smaller --trace-steps takes less" "$2/err"' sh "$work/small" "$work"
finish
