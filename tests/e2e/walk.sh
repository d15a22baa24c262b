#!/bin/sh
# walk.sh: docs/walk.md is true. Each step names a directory and the files in it
# that have the function beside their name, no step goes back, and what the page
# shows of a dump, of the plan and of the emitted program is in them.
. "$(dirname "$0")/lib.sh"
page=docs/walk.md
emitted=$work/tree # the directory out/ of the page

# Lines "step DIRECTORY" and "file FILE FUNCTION".
sed -nE -e 's/^[0-9]+\. `([^`]*)\/`: .*/step \1/p' \
    -e 's/^ +- `([^`]*)`, (rule )?`([^`]*)`: .*/file \1 \3/p' "$page" >"$work/steps"
steps=$(grep -c '^step ' "$work/steps")
check "there are at most 15 steps" test "$steps" -gt 10 -a "$steps" -le 15
check "every step names a directory" \
    test "$steps" = "$(grep -c '^[0-9]*\. ' "$page")"
check "every file of a list has a function" \
    test "$(grep -c '^file ' "$work/steps")" = "$(grep -cE '^ +- ' "$page")"
# The order of data: a step is in the directory tree of the one before or in a
# later one, and no directory is entered a second time.
forward() {
    awk 'BEGIN { n = split("frontend ir passes codegen out runtime", tree, " ") }
        $1 != "step" { next }
        {   for (k = 1; k <= n && index($2 "/", tree[k] "/") != 1;) k++
            if (k > n || k < last || ($2 in left && $2 != at)) {
                print "goes back to", $2
                bad = 1
            }
            left[at = $2]
            last = k
        }
        END { exit bad || last != n }' "$work/steps"
}
check "no step goes back" forward

shown() { # shown NAME: where the blocks ```NAME come from
    case $1 in
    ast) "$PARC" examples/llama.pdl --mesh 8x8 --emit ast ;;
    report) "$PARC" examples/llama.pdl --mesh 8x8 --target cuda --emit plan ;;
    train) cat "$emitted/train.c" ;;
    *) "$PARC" examples/llama.pdl --mesh 8x8 --target cuda \
        --stop-after "$1" --emit ir ;;
    esac
}
# Without the NVRTC library its stand-in serves: the kernels are not looked at.
${CC:-cc} -std=c11 -shared -fPIC -o "$work/nvrtc.so" tests/standin/nvrtc.c
export PARC_NVRTC="$work/nvrtc.so"
check "the program is emitted" "$PARC" examples/llama.pdl --mesh 8x8 \
    --target cuda -S "$emitted"
while read -r what name made; do
    case $what in step) in=$name && continue ;; esac
    case $in in out) at=$emitted/$name ;; *) at=$in/$name ;; esac
    case $name in
    *.l) has='%%' ;;
    *.h) has="[ (]$made[ ,]" ;;
    *) has="(^|[ *])$made(:|\()" ;;
    esac
    check "$in/$name has $made" grep -qE "$has" "$at"
done <"$work/steps"
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
