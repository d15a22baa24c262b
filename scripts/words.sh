#!/bin/sh
# words.sh [PATH…]: checks identifiers, comments, strings and documents against
# words.txt.
#
# Prints `file:line: word → use` for each word to avoid, and fails if it prints
# any. It checks identifiers, comments and strings of C, flex and bison, the text
# of documents without code, docstrings of Python, the labels of `check` in tests,
# and comments of all other files. Paths that begin with a line of words.todo are
# checked only if they are arguments.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ $# -gt 0 ]; then
    files=$(find "$@" -type f)
else
    todo=$(sed -n '/^[^#]/{s/[.]/[.]/g;s/^/^/;p;}' scripts/words.todo)
    files=$(find base ir frontend passes codegen forecast report page compare autoplan driver runtime tests \
        docs \
        examples scripts Makefile README.md -type f)
    [ -z "$todo" ] || files=$(echo "$files" | grep -v "$todo")
fi
files=$(echo "$files" | grep -E \
    -e '\.([chly]|cuh?|def|md|sh|pdl|py)$|Makefile|^tests/(run|.*/run)$' \
    -e '^tests/(gpu/(trees|loopback|cases)|bench/[a-z_]+|standin/build)$' |
    grep -v '^tests/golden/.*/.*\.\(c\|cu\)$' | sort)
[ -n "$files" ] || exit 0
# shellcheck disable=SC2086
exec awk -f scripts/words.awk scripts/words.txt scripts/words.allow $files
