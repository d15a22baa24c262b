#!/bin/sh
# cuda_programs.sh: runs unmodified CUDA programs with stand-ins for CUDA's
# libraries. One rank has the CPU's curve and weights file, in every order of
# queued work. PROGRAMS=all runs more models.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"
export STANDIN_FAST=1

# both PROGRAM OPTIONS…: builds for both targets, and records the CPU's curve.
both() {
    program=$1
    shift
    rm -rf "${work:?}/$program"
    model=examples/$program.pdl
    [ -e "$model" ] || model=tests/data/$program.pdl
    cuda_tree "$work/$program" "$model" --arch sm_90a "$@" &&
        "$PARC" "$model" --target cpu --threads 1 "$@" \
            -o "$work/$program.cpu" &&
        "$work/$program.cpu" --steps 4 --log "$work/$program.cpu.log"
}

# trains PROGRAM [NAME=VALUE…]: runs four steps with the stand-in.
tolerance=2e-5
trains() {
    program=$1
    shift
    env "$@" tests/standin/run "$work/$program" --steps 4 \
        --log "$work/$program.log" --export "$work/$program.st" &&
        same_curve "$work/$program.cpu.log" "$work/$program.log" $tolerance
}

small="-D vocab=64 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=48 -D batch=2 -D seq=16 -D precision=f32"
# shellcheck disable=SC2086
{
    check "toy is emitted" both toy
    # Its Makefile builds the program.
    in_all rm "$work/toy/train"
    in_all check "feedforward is emitted" both feedforward \
        -D dim=24 -D hidden=40 -D batch=4
    check "llama is emitted" both llama $small
}
for example in $(few_or_all "toy llama" "toy feedforward llama"); do
    check "$example trains" trains $example STANDIN_ORDER=early
    mv "$work/$example.st" "$work/early.st"
    check "$example trains late" trains $example STANDIN_ORDER=late
    check "$example has the same weights" cmp "$work/$example.st" \
        "$work/early.st"
done
# Images and labels: the product of the patches reads transposed images. With
# PROGRAMS=all also two token inputs of different lengths, and floats.
others=
[ "${PROGRAMS:-}" != all ] || others="translation regression"
for example in vit $others; do
    # shellcheck disable=SC2046
    check "$example is emitted" both "$example" $(sizes "$example") \
        -D batch=2 -D n_layers=1
    check "$example trains" trains "$example" STANDIN_ORDER=late
done
check "convolutions are emitted" both conv
check "convolutions train" trains conv STANDIN_ORDER=late
check "batch norms are emitted" both batch_norm --plan units
check "batch norms train" trains batch_norm STANDIN_ORDER=late
check "orders are emitted" both topk
check "orders train" trains topk STANDIN_ORDER=late
# A product and the gradient of a vector that sum over different dims.
check "the model with sums is emitted" both sums
check "the model with sums trains" trains sums
check "the model with names of CUDA and C is emitted" both names --mesh 2x1
check "the model with names of CUDA and C trains" trains names
# Operands of different types, which the library does not multiply. The CPU's
# program rounds at other points.
check "mixed types are emitted" both mixed
tolerance=1e-2
check "mixed types train" trains mixed STANDIN_ORDER=late
check "mixed types with PARC_NANCHECK=1" trains mixed PARC_NANCHECK=1
tolerance=2e-5
check "llama with PARC_NANCHECK=1" trains llama PARC_NANCHECK=1
check "llama with PARC_SYNC=1" trains llama PARC_SYNC=1

# Forty sequences, split after their first dim: NCCL needs packed rows. The plan
# has a buffer for them, and the run allocates what the plan says.
# shellcheck disable=SC2086
check "a model with packed rows is emitted" \
    both llama $small -D batch=40 --mesh 1x2
check "packed rows have staging buffers" \
    grep -q "^static const ParcRange collective_staging" \
    "$work/llama/model.c"
for order in early late; do
    check "packed rows, $order" trains llama STANDIN_ORDER=$order
done
# shellcheck disable=SC2086
planned=$("$PARC" examples/llama.pdl --target cuda $small -D batch=40 \
    --mesh 1x2 --emit json | jq .memory.peak)
check "packed rows: the arena has the planned bytes" \
    jq -es "all(.peak_bytes == $planned)" \
    "$work/llama.log"
# shellcheck disable=SC2086
check "llama is emitted a second time" both llama $small

# The next batch (tokens and labels, 32 each) is copied to the GPU after the
# current step was issued and before the host waits for it; after the last step
# no batch follows. A step begins with its scalars, of four bytes each; the
# first step is not a graph yet.
check "llama's calls of the driver are recorded" \
    trains llama STANDIN_CALLS="$work/calls"
check "the next batch is copied while a step runs" awk '
    $1 == "upload" && $2 == 4 && !scalars { steps++; ahead = 0 }
    { scalars = $1 == "upload" && $2 == 4 }
    $1 == "graph" { graphs++; ahead = 0 }
    $1 == "upload" && $2 == 128 { ahead++ }
    $1 == "ask" && steps > asked { asked = steps
        bad += ahead != (steps < 4 ? 2 : 0) }
    END { exit bad || steps != 4 || graphs != 3 }' "$work/calls"

# An invalid token in the batch of step 3 is found during step 2 and reported
# after it, with the message of the CPU.
awk 'BEGIN { for (i = 0; i < 140; i++) printf "\\%03o\\000", i == 70 ? 99 : i % 64 }' |
    xargs -0 printf >"$work/tokens.bin"
on_tokens() { # on_tokens LOG COMMAND…
    log=$1
    shift
    "$@" --steps 4 --data "$work/tokens.bin" --log "$log" 2>"$log.said"
    [ $? = 1 ] && grep error "$log.said" >"$log.error"
}
check "an invalid token ends the run on the CPU" \
    on_tokens "$work/cpu.log" "$work/llama.cpu"
for order in early late; do
    check "an invalid token ends the run on a GPU" on_tokens "$work/gpu.log" \
        env STANDIN_ORDER=$order tests/standin/run "$work/llama"
    check "an invalid token has the same message on both targets" \
        cmp "$work/cpu.log.error" "$work/gpu.log.error"
    check "steps before an invalid token are logged" \
        test "$(wc -l <"$work/gpu.log")" = 2
    check "steps before an invalid token have the same losses" \
        same_curve "$work/cpu.log" "$work/gpu.log" 2e-5
done
check "the message has the byte of the invalid token" \
    grep -q "tokens.bin: byte 140: error: token 99 is beyond" \
    "$work/gpu.log.error"
finish
