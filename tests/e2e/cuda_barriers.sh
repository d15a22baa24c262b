#!/bin/sh
# cuda_barriers.sh: no barrier of an emitted kernel is redundant. When one is
# removed, the engine must report a race (tests/standin/probe.c).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"
. "$(dirname "$0")/lib_cuda.sh"

# probe NAME MODEL OPTIONS…
probe() {
    at=$work/$1 model=$2
    shift 2
    describe "$model"
    data=
    ! grep -q 'int(' "examples/$model.pdl" || data="--data bytes:$text"
    variant "$model" 1x1 full_shard no >"$at.pdl"
    # shellcheck disable=SC2086
    cuda_tree "$at" "$at.pdl" --plan curve --mesh 1x1 $sizes "$@" &&
        STANDIN_BARRIERS=$at.sites cuda_run "$at" checked early --steps 2 \
            $data && touch "$at.ran"
}

# Rows whose kernels have low-shared-memory variants, on GPUs that use these.
probe_small() { # probe_small NAME MODEL.pdl OPTIONS…
    at=$work/$1 model=$2
    shift 2
    cuda_tree "$at" "$model" --mesh 1 "$@" &&
        STANDIN_SHARED=101376 STANDIN_BARRIERS=$at.sites \
            cuda_run "$at" checked early --steps 2 &&
        grep -q '_low_shared ' "$at.sites" && touch "$at.ran"
}

# Probes all barriers of one program and prints those without a race.
needed() {
    [ -e "$work/$1.ran" ] && [ -s "$work/$1.sites" ] || {
        tail -20 "$work/$1.out"
        return 1
    }
    awk '{ site = $0; sub(/ [a-z]*$/, "", site); seen[site] = 1 }
        / found$/ { found[site] = 1 }
        END {
            for (site in seen)
                if (!found[site]) { print "does nothing: " site; bad = 1 }
            exit bad
        }' "$work/$1.sites"
}

# Every barrier of a model is in its kernels of both types.
precisions=$(few_or_all bf16 "f32 bf16")
models=$(few_or_all "llama gpt2" "llama gpt2 transformer")
for model in $models; do
    for precision in $precisions; do
        job probe "$model-$precision" $model -D precision=$precision \
            -D clip=0.5 >"$work/$model-$precision.out" 2>&1
    done
done
job probe_small rows tests/data/rows.pdl -D n=5000 >"$work/rows.out" 2>&1
wait
check "row variants for less shared memory: no redundant barrier" needed rows
for model in $models; do
    for precision in $precisions; do
        check "$model in $precision: no redundant barrier" \
            needed "$model-$precision"
    done
done
finish
