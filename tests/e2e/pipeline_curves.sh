#!/bin/sh
# pipeline_curves.sh: a pipeline trains as one rank does: with the same
# microbatches, the losses of 20 steps are the same bits without clipping, and
# within 1e-6 with it, with tied weights and with shards, whose sums have another
# order.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

train() { # train NAME MODEL MESH WORDS OPTIONS…
    at=$work/$1 example=$2 ranks=$3
    staged "$example" "$4" "${clauses:-}" >"$at.pdl"
    shift 4
    describe "$example"
    data_of "$example"
    # shellcheck disable=SC2086
    "$PARC" "$at.pdl" --target cpu --threads 1 --mesh "$ranks" $sizes "$@" \
        -o "$at" &&
        "$at" --steps 20 --seed 3 $data --log "$at.log" && rm "$at"
}

same_bits() { # same_bits LOG LOG
    jq .loss "$1" >"$1.loss" && jq .loss "$2" >"$2.loss" &&
        cmp "$1.loss" "$2.loss" && [ -s "$1.loss" ]
}

# row HOW MODEL MESH WORDS OPTIONS…: against one rank; HOW: bits, or a tolerance
row() {
    how=$1 model=$2 mesh=$3 words=$4
    shift 4
    base=$model-$(echo "${clauses:-} $*" | tr -c 'a-z0-9\n' _)
    [ -e "$work/$base.log" ] ||
        check "$model on one rank $*: trains" train "$base" "$model" \
            "$(echo "$mesh" | sed 's/[0-9][0-9]*/1/g')" "" "$@"
    label="$model on $mesh, $words ${clauses:-} $*"
    check "$label: trains" train this "$model" "$mesh" "$words" "$@"
    if [ "$how" = bits ]; then
        check "$label: curve" same_bits "$work/this.log" "$work/$base.log"
    else
        check "$label: curve" same_curve "$work/this.log" "$work/$base.log" "$how"
    fi
}

row bits llama 2x1x1 "" -D clip=none -D accumulate=2
row bits llama 2x1x1 schedule=interleaved -D clip=none -D n_layers=6 -D accumulate=4
row 1e-6 gpt2 2x1x1 "" -D accumulate=2
in_all row 1e-6 llama 2x1x1 "" -D accumulate=2 -D head_chunk=16
in_all row 1e-5 llama 2x2x2 "" -D accumulate=2
row 1e-5 translation 2x1x2 ""
in_all row bits llama 2x1x1 "" -D clip=none
in_all row bits llama 2x1x1 "" -D clip=none -D accumulate=2 -D precision=bf16
in_all row bits llama 3x1x1 "" -D clip=none -D n_layers=4 -D accumulate=2
in_all row bits llama 4x1x1 "" -D clip=none -D n_layers=4 -D accumulate=8
in_all row 1e-6 llama 2x1x1 "" -D accumulate=2
in_all row 1e-5 llama 2x2x1 "" -D accumulate=2
in_all row 1e-5 vit 2x1x2 ""
in_all row 1e-5 vit 2x2x1 "" -D accumulate=2
in_all row 1e-5 translation 3x2x1 "" -D accumulate=2
in_all row 1e-5 translation 2x1x2 schedule=interleaved -D accumulate=4
in_all row 1e-6 gpt2 2x1x1 schedule=interleaved -D n_layers=6 -D accumulate=4
in_all row 1e-5 llama 2x2x2 schedule=interleaved -D n_layers=4 -D accumulate=2
in_all row 1e-5 vit 2x2x1 schedule=interleaved -D n_layers=4 -D accumulate=2

# with CLAUSES MODEL MESH OPTIONS…: every schedule with other clauses in the plan
with() {
    clauses=$1 example=$2 mesh=$3
    shift 3
    for schedule in gpipe 1f1b interleaved zero_bubble; do
        row 1e-5 "$example" "$mesh" "schedule=$schedule" -D accumulate=4 "$@"
    done
    clauses=
}
in_all with "checkpoint { layers.* }" llama 2x1x2 -D n_layers=4
in_all with "checkpoint { layers.*: keep=attention }" llama 2x2x1 -D n_layers=4
in_all with "offload { optimizer, parameters }" llama 2x2x1 -D n_layers=4
in_all with "freeze { tok_embeddings, layers.*.attention_norm }" llama 2x1x2 \
    -D n_layers=4
in_all with "" hsdp 2x2x2x1 -D n_layers=6
in_all with "" vit 2x1x2 -D n_layers=4 -D dropout=0.1

# Every schedule, with fewer microbatches than ranks, as many, and more; the last
# stage of three on a rank has no layer.
matrix() { # matrix PRECISION MICROBATCHES…
    precision=$1
    shift
    for stages in 2 3 4; do
        for micro; do
            for schedule in gpipe 1f1b interleaved \
                "interleaved, stages_per_rank=3" zero_bubble; do
                row bits llama ${stages}x1x1 "schedule=$schedule" -D clip=none \
                    -D n_layers=10 -D batch=48 -D accumulate=$micro \
                    -D precision="$precision"
            done
        done
    done
}
in_all matrix f32 1 2 3 4 8
in_all matrix bf16 8
finish
