#!/bin/sh
# precision.sh: bf16 and f16 compared with f32: 200 steps on the text of the
# documentation stay within 2% of the f32 curve, for each language model, on one
# rank and on a mesh, with and without 16-bit instructions of the machine.
# Gathers of shards move half the bytes, weights are stored in f32, and
# gradients are reduced in the type that `reduce` names.
# cpu: the products of 16-bit types
. "$(dirname "$0")/lib.sh"

cat docs/*.md README.md >"$work/text"
many=200 some=40
[ "${CHECK_ASAN:-}" ] && many=40 some=10
sizes="-D vocab=256 -D dim=128 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=256 -D batch=4 -D seq=64 -D optimizer.lr=1e-3"

model=llama
train() { # train LABEL STEPS MESH OPTIONS…
    label=$1 steps=$2 mesh=$3
    shift 3
    # shellcheck disable=SC2086
    check "$label compiles" compile "$work/$label" $model "$mesh" \
        --threads 1 $sizes "$@"
    # shellcheck disable=SC2086
    "$PARC" examples/$model.pdl --target cpu --mesh "$mesh" --threads 1 \
        $sizes "$@" --emit json >"$work/$label.json"
    check "$label trains" "$work/$label" --steps "$steps" --seed 1 \
        --data "bytes:$work/text" --log "$work/$label.log" \
        --export "$work/$label.st"
    check "$label allocates the planned bytes" as_planned "$label"
}
as_planned() {
    jq -en --slurpfile log "$work/$1.log" --slurpfile plan "$work/$1.json" '
        ($log | map(.peak_bytes) | unique) == [$plan[0].memory.peak]'
}
# curve LABEL OTHER TOLERANCE: compares the steps that LABEL has run.
curve() {
    head -n "$(wc -l <"$work/$1.log")" "$work/$2.log" >"$work/part.log"
    same_curve "$work/$1.log" "$work/part.log" "$3"
}
differ() { # differ LABEL OTHER: some loss differs (times always do)
    jq -en --slurpfile a "$work/$1.log" --slurpfile b "$work/$2.log" \
        '($a | map(.loss)) != ($b | map(.loss))'
}
# bytes LABEL KIND AXIS DTYPE: bytes of these collectives in a step.
bytes() {
    jq --arg kind "$2" --arg axis "$3" --arg dtype "$4" '
        [.collectives[] | select(.kind == $kind and .axis == $axis and
         .dtype == $dtype) | .bytes * .count] | add // 0' "$work/$1.json"
}
is_half() { # is_half A B KIND AXIS
    a=$(bytes "$1" "$3" "$4" bf16) b=$(bytes "$2" "$3" "$4" f32)
    echo "$a of $b bytes"
    [ "$b" -gt 0 ] && [ $((2 * a)) = "$b" ] &&
        [ "$(bytes "$1" "$3" "$4" f32)" = 0 ]
}
smaller() {
    jq -en --slurpfile a "$work/$1.json" --slurpfile b "$work/$2.json" \
        '$a[0].memory.peak < $b[0].memory.peak'
}
all_f32() { # the dtypes in a safetensors header
    ! head -c 20000 "$1" | grep -aoE '"dtype": *"[A-Z0-9]*"' | grep -qv F32
}

train f32 $many 1x1 -D precision=f32
train bf16 $many 1x1 -D precision=bf16
train f16 $some 1x1 -D precision=f16
check "bf16 follows f32" curve bf16 f32 0.02
check "f16 follows f32" curve f16 f32 0.02
check "f16 scales the loss" jq -es 'map(.loss_scale) | unique == [65536]' \
    "$work/f16.log"
check "the curve falls" jq -es '.[-1].loss < 0.7 * .[0].loss' "$work/bf16.log"
check "bf16 is another curve" differ bf16 f32
check "bf16 takes less memory" smaller bf16 f32
check "weights stay f32" all_f32 "$work/bf16.st"

for mesh in $(few_or_all "1x2 2x2" "2x1 1x2 2x2"); do
    steps=$some
    [ $mesh != 2x2 ] || steps=$many
    train "bf16-$mesh" $steps $mesh -D precision=bf16
    check "bf16 on $mesh" curve "bf16-$mesh" bf16 5e-3
done
check "bf16 on 2x2 follows f32" curve bf16-2x2 f32 0.02
train f32-2x2 2 2x2 -D precision=f32
check "bf16 halves the bytes of parameter gathers" \
    is_half bf16-2x2 f32-2x2 all_gather dp
check "bf16 halves the bytes of sequence gathers" \
    is_half bf16-2x2 f32-2x2 all_gather tp
check "gradients are reduced in f32" \
    [ "$(bytes bf16-2x2 reduce_scatter dp bf16)" = 0 ]
train reduce $some 2x2 -D precision=bf16 -D reduce=bf16
check "reduce=bf16 halves the bytes of reductions" \
    is_half reduce f32-2x2 reduce_scatter dp
check "reduce=bf16 has the curve of bf16" curve reduce bf16 5e-3

# Low-precision copies follow loaded weights, not initial ones.
loaded() { # loaded MESH SEED
    "$work/bf16-$1" --steps 3 --seed "$2" --init "$work/bf16.st" \
        --data "bytes:$work/text" --log "$work/loaded-$1-$2.log"
}
for run in "1x2 1" "2x2 1" "2x2 9"; do
    # shellcheck disable=SC2086
    check "weights are loaded, mesh and seed $run" loaded $run
done
check "copies of loaded weights" \
    same_curve "$work/loaded-2x2-1.log" "$work/loaded-2x2-9.log" 0
check "copies of loaded weights, sharded or not" \
    same_curve "$work/loaded-2x2-1.log" "$work/loaded-1x2-1.log" 2e-3

# Unit gathers read parameters or their copies; no kernel runs before them.
gathers_stored() { # gathers_stored OPTIONS…
    "$PARC" examples/llama.pdl --mesh 8x8 "$@" --emit ir | awk '
        $1 == "stack" || $1 == "free" || / = param\{/ {
            stored[$2 != "=" ? $2 : $1] = 1
        }
        / = all_gather\{/ && !/unit=none/ {
            sub(/.*= all_gather\{[^}]*\{[^}]*\}[^}]*\} /, "")
            sub(/ : .*/, "")
            n = split($0, from, ", ")
            for (i = 1; i <= n; i++) {
                gathered++
                if (!(from[i] in stored)) { print from[i]; bad = 1 }
            }
        }
        END { exit bad || gathered < 20 }'
}
check "gathers of bf16 without casts" gathers_stored -D precision=bf16
check "gathers of f16 without casts, in microbatches" \
    gathers_stored -D precision=f16 -D accumulate=4

# If the CPU has bf16 instructions, oneDNN computes every matmul of the plan in
# bf16, and none with its reference implementation.
products() { # products LABEL: a step's matmuls, as oneDNN lists them
    DNNL_VERBOSE=1 "$work/$1" --steps 1 --seed 1 \
        --data "bytes:$work/text" >"$work/verbose" || return 1
    sed -n '/^onednn_verbose,\(.*,\)*exec,.*matmul/p' "$work/verbose" \
        >"$work/products"
}
native() { # native LABEL: all matmuls of the plan, in bf16
    products "$1" || return 1
    want=$(jq '[.work[] | select(.kind == "matmul") | .count] | add' \
        "$work/$1.json")
    have=$(grep -c 'src_bf16.* wei_bf16' "$work/products")
    all=$(wc -l <"$work/products")
    slow=$(grep -c ',matmul,[^,]*ref' "$work/products")
    echo "$want products; $all made, $have of bf16, $slow by reference"
    sort "$work/products" | cut -d, -f1-7 | uniq -c
    [ "$want" -gt 10 ] && [ "$have" -ge "$want" ] &&
        [ "$have" = "$all" ] && [ "$slow" = 0 ]
}
if [ "${DNNL_MAX_CPU_ISA:-}${ONEDNN_MAX_CPU_ISA:-}" ]; then
    echo "skipped: native bf16; oneDNN's instructions are limited from outside"
elif grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then
    check "products of bf16 are native" native bf16
else
    echo "skipped: native bf16; the CPU has neither avx512_bf16 nor amx_bf16"
fi

# Without bf16 instructions matmuls run in f32.
DNNL_MAX_CPU_ISA=AVX2
export DNNL_MAX_CPU_ISA
train bf16-avx2 $some 1x1 -D precision=bf16
check "one more step without bf16 instructions" products bf16-avx2
check "no bf16 kernel of oneDNN without bf16 instructions" \
    sh -c "! grep src_bf16 '$work/products'"
unset DNNL_MAX_CPU_ISA
check "the curve without bf16 instructions" curve bf16-avx2 bf16 5e-3

# The other language models.
falls() { # falls LABEL: the loss falls during the run
    jq -es '.[-1].loss < 0.7 * .[0].loss' "$work/$1.log"
}
# The encoder-decoder's input contains its labels: its loss approaches 0, and so
# would a relative tolerance. The tolerance is relative to the initial loss.
near() { # near LABEL OTHER PART
    jq -en --slurpfile a "$work/$1.log" --slurpfile b "$work/$2.log" \
        --argjson part "$3" '
        [range($b | length) | ($a[.].loss - $b[.].loss | fabs)] | max |
        . <= $part * $b[0].loss'
}
sizes="-D vocab=256 -D dim=64 -D n_layers=2 -D n_heads=4 -D batch=8 -D seq=32 \
 -D optimizer.lr=1e-3"
of_schedule="-D n_positions=48 -D schedule.steps=200 -D schedule.warmup=10"
language_model() { # language_model MODEL ONE SEVERAL OPTIONS…: two meshes
    model=$1 one=$2 several=$3
    shift 3
    train "$model" "$many" "$one" -D precision=f32 "$@"
    check "$model falls" falls "$model"
    for mesh in $(few_or_all "$several" "$one $several"); do
        train "$model-bf16-$mesh" "$many" "$mesh" -D precision=bf16 "$@"
        if [ "$model" = transformer ]; then
            check "$model, bf16 on $mesh follows f32" near \
                "$model-bf16-$mesh" "$model" 0.02
        else
            check "$model, bf16 on $mesh follows f32" curve \
                "$model-bf16-$mesh" "$model" 0.02
        fi
        check "$model, bf16 on $mesh is another curve" differ \
            "$model-bf16-$mesh" "$model"
    done
}
# shellcheck disable=SC2086
in_all language_model gpt2 1x1 2x2 $of_schedule
in_all language_model hsdp 1x1x1 2x2x2
in_all language_model transformer 1x1 2x2 --plan tensor_parallel -D hidden=128
finish
