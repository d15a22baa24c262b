#!/bin/sh
# walk.sh: docs/walk.md is true. Each step names a file that has the function,
# and what the page shows of a dump, of the plan and of train.c is in them.
. "$(dirname "$0")/lib.sh"
page=docs/walk.md

# Lines "FILE FUNCTION" of the steps.
sed -n 's/^[0-9]*\. `\([^`]*\)`, \(rule \)*`\([^`]*\)`.*/\1 \3/p' "$page" >"$work/steps"
check "there are at most 20 steps" test "$(wc -l <"$work/steps")" -le 20
check "every step names a file and a function" \
    test "$(wc -l <"$work/steps")" = "$(grep -c '^[0-9]*\. ' "$page")"
while read -r at made; do
    case $made in
    yylex) check "$at makes $made" grep -q "%%" "$at" ;;
    *) check "$at has $made" grep -qE "(^|[ *])$made(:|\()" "$at" ;;
    esac
done <"$work/steps"

shown() { # shown NAME: where the blocks ```NAME come from
    case $1 in
    ast) "$PARC" examples/llama.pdl --mesh 8x8 --emit ast ;;
    report) "$PARC" examples/llama.pdl --mesh 8x8 --target cuda --emit plan ;;
    train)
        "$PARC" examples/llama.pdl --mesh 8x8 --target cuda -S "$work/tree" \
            >&2 && cat "$work/tree/train.c" ;;
    *) "$PARC" examples/llama.pdl --mesh 8x8 --target cuda \
        --stop-after "$1" --emit ir ;;
    esac
}
# Without the NVRTC library its stand-in serves: the kernels are not looked at.
${CC:-cc} -std=c11 -shared -fPIC -o "$work/nvrtc.so" tests/standin/nvrtc.c
export PARC_NVRTC="$work/nvrtc.so"
for stage in $(sed -n 's/^ *```\([a-z_]\{1,\}\)$/\1/p' "$page" | sort -u); do
    shown "$stage" >"$work/$stage" 2>"$work/err" || cat "$work/err"
    sed -n "/^ *\`\`\`$stage\$/,/^ *\`\`\`\$/{/\`\`\`/d;s/^ *//;p;}" "$page" \
        >"$work/lines"
    check "the page shows something of $stage" test -s "$work/lines"
    while IFS= read -r line; do
        check "$stage: $line" grep -qF -- "$line" "$work/$stage"
    done <"$work/lines"
done
finish
