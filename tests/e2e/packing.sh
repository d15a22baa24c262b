#!/bin/sh
# packing.sh: no plan needs more than 1.02 of its lower bound: plans of every
# example, on every mesh, with every strategy, for both targets, in f32 and
# bf16, with recomputation and accumulation. The test plans those that were
# hardest to pack, and half of the combinations of the last four settings, such
# that every three settings occur in all combinations. `make check` has the mesh
# with every strategy, in bf16, with accumulation. PACKING=all plans all.
# The worst plan is printed. Programs for the CPU are planned for a named level,
# so all machines make the same plans.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_curves.sh"

# packed MODEL MESH STRATEGY CHECKPOINT ACCUMULATE TARGET PRECISION [OPTIONS…]
packed() {
    row=$*
    model=$1 mesh=$2 strategy=$3 again=$4 micro=$5 target=$6 precision=$7
    shift 7
    describe "$model"
    [ "$target" = cuda ] || set -- --cpu x86-64-v3 "$@"
    variant "$model" "$mesh" "$strategy" "$again" >"$work/plan.pdl"
    # shellcheck disable=SC2086
    "$PARC" "$work/plan.pdl" --plan curve --target "$target" --threads 1 \
        --mesh "$mesh" $sizes -D clip=$clip -D accumulate="$micro" \
        -D precision="$precision" "$@" --emit json >"$work/plan.json" &&
        jq -r --arg row "$row" '.memory |
            "\(.peak / .lower_bound) \(.peak) \(.lower_bound) \($row)",
            if .peak <= 1.02 * .lower_bound then empty
            else error("\(.peak) for \(.lower_bound)") end' \
            "$work/plan.json" >>"$work/ratios"
}

row() { # row MODEL MESH STRATEGY CHECKPOINT ACCUMULATE TARGET PRECISION …
    grep -q " $*\$" "$work/ratios" || check "$*" packed "$@"
}

# All combinations of recomputation and accumulation.
rows() { # rows MODEL MESH STRATEGY TARGET PRECISION [OPTIONS…]
    plan="$1 $2 $3" rest="$4 $5"
    shift 5
    for again in no yes; do
        for micro in 1 4; do
            # shellcheck disable=SC2086
            row $plan $again $micro $rest "$@"
        done
    done
}

: >"$work/ratios"
for strategy in full_shard shard_grad_op hybrid_shard; do
    rows transformer 2x2x2 $strategy cuda bf16
done
in_all rows transformer 2x2 full_shard cuda bf16
in_all rows transformer 4x2 full_shard cuda bf16
in_all rows transformer 4x2 shard_grad_op cuda bf16
in_all rows transformer 4x2 full_shard cpu bf16
in_all rows transformer 4x2 shard_grad_op cpu bf16
rows transformer 4x2 full_shard cuda f32 -D dim=128 -D vocab=1024
in_all rows llama 2x2 no_shard cpu f32

# Whether a combination is planned: by the parity of its number's bits.
n=0 models='toy feedforward llama gpt2 transformer hsdp'
[ "${PACKING:-}" != all ] || models="$models vit translation" CHECK_ALL=1
# Sanitizers do not affect plans, so the test is skipped.
[ "${CHECK_ASAN:-}" ] && models=
for model in $models; do
    for mesh in 1x1 2x1 1x2 2x2 4x2 2x2x2; do
        for strategy in full_shard shard_grad_op no_shard hybrid_shard; do
            case $mesh:$strategy in
            2x2x2:*) ;;
            *:hybrid_shard) continue ;;
            esac
            for again in no yes; do
                for micro in 1 4; do
                    for target in cpu cuda; do
                        for precision in f32 bf16; do
                            n=$((n + 1))
                            bits=$((n ^ n >> 2 ^ n >> 4))
                            odd=$(((bits ^ bits >> 1) & 1))
                            few=in_all
                            [ $mesh:$precision:$micro != 2x2x2:bf16:4 ] ||
                                few=
                            [ "${PACKING:-}" = all ] || [ $odd = 0 ] ||
                                continue
                            $few row "$model" $mesh $strategy $again $micro \
                                $target $precision
                        done
                    done
                done
            done
        done
    done
done
sort -rg "$work/ratios" | head -1
finish
