#!/bin/sh
# --device-memory: what parc says would make a plan fit does, and a plan with
# that clause takes what it says.
. "$(dirname "$0")/lib.sh"

plan() { # plan FILE OPTIONS…: planned under the limit
    file=$1
    shift
    # shellcheck disable=SC2086
    "$PARC" "$file" --target cuda $llama_sizes -D n_layers=8 \
        --device-memory $limit "$@"
}
# Does what one line of the advice says.
follow() {
    case $1 in
    "'"*"' in the plan: "*)
        clause=${1#\'} && clause=${clause%%\' in the plan*}
        awk -v c="    $clause" '{ print } /^    fully_shard/ { print c }' \
            examples/llama.pdl >"$work/changed.pdl"
        figure=${1##*in the plan: } && figure=${figure%%,*}
        plan "$work/changed.pdl" --mesh 2x2 --emit plan >"$work/plan" &&
            grep -q "^memory  *$figure a rank" "$work/plan" ;;
    "--mesh "*) mesh=${1#--mesh } && plan examples/llama.pdl \
        --mesh "${mesh%%:*}" ;;
    "-D "*) define=${1#-D } && plan examples/llama.pdl --mesh 2x2 \
        -D "${define%%:*}" ;;
    *) echo "what is '$1'?" && false ;;
    esac
}

for limit in 2600K 2200K; do
    plan examples/llama.pdl --mesh 2x2 >/dev/null 2>"$work/error"
    check "$limit is refused" test $? = 1
    sed -n 's/^ *= help: //p' "$work/error" >"$work/advice"
    check "$limit has advice" test "$(wc -l <"$work/advice")" -gt 2
    while read -r line; do
        check "$limit: $line" follow "$line"
    done <"$work/advice"
done
limit=100K
plan examples/llama.pdl --mesh 2x2 >/dev/null 2>"$work/error"
check "nothing fits" grep -q "nothing that was tried makes it fit" "$work/error"
limit=64G
check "enough" plan examples/llama.pdl --mesh 2x2
finish
