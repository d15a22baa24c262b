#!/bin/sh
# lint.sh: checks the sizes of files and functions, the direction of includes,
# that headers are self-contained, where patterns are matched, and the words to
# avoid.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() {
    echo "lint: $*" >&2
    bad=1
}

for f in base/*.[ch] frontend/*.[chyl] ir/*.[ch] passes/*.[ch] \
    codegen/*.[ch] runtime/*.[ch] runtime/*/*.[ch] runtime/*/*.cuh \
    driver/*.[ch]; do
    [ -f "$f" ] || continue
    lines=$(wc -l <"$f")
    [ "$lines" -le 600 ] || complain "$f has $lines lines"
    awk -v f="$f" '/^{$/ { start = NR } /^}$/ && start {
        if (NR - start > 90) printf "lint: %s:%d: a function of %d lines\n",
            f, start, NR - start; start = 0 }' "$f" >&2
done

# A directory may include itself and the directories before it in this list.
order="base ir frontend passes codegen driver"
allowed=
for dir in $order; do
    allowed="$allowed $dir"
    for used in $(sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' "$dir"/*.[ch] |
        sort -u); do
        case " $allowed " in
        *" $used "*) ;;
        *) case $dir/$used in # tables of the program; the reader of JSON
            codegen/runtime | driver/runtime) ;;
            *) complain "$dir includes $used" ;;
            esac ;;
        esac
    done
done
grep -n '#include "[a-z]*/' runtime/*.[ch] runtime/*/*.[ch] |
    grep -vE '"(checkpoint|data|eval|log)/[a-z0-9_]*\.h"' &&
    complain "runtime includes another directory"

# The plan's patterns are matched by lowering, and by items.c only.
grep -nE 'path_(matches|leads)\(' ir/*.c passes/*.c codegen/*.c driver/*.c |
    grep -vE '^ir/(path|items)\.c:' &&
    complain "a pattern of the plan is matched after lowering"

for h in base/*.h ir/*.h passes/*.h codegen/*.h driver/*.h; do
    echo "#include \"$h\"" | ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. \
        -fsyntax-only -x c - || complain "$h is not self-contained"
done
sh scripts/words.sh >&2 || complain "words to avoid (docs/glossary.md)"
exit $bad
