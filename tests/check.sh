#!/bin/sh
# check.sh: runs every test and ends with the line "N passed, N failed".
#
#   check.sh [golden] [unit] [e2e]     only these groups
#   check.sh cpu                       the tests that depend on the CPU, with
#                                      programs compiled for level $CHECK_CPU
#
# A test that depends on the CPU has a line '# cpu: WHY' (in C: ' * cpu: WHY').
#
# $JOBS tests run in parallel (default: the number of cores). A test with a line
# '# alone: WHY' runs by itself, after all others.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 1)}
groups=${*:-golden e2e unit}
work=$(mktemp -d)
COUNTS=$work/counts
mkdir "$COUNTS"
export BUILD COUNTS
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Tests omitted with sanitizers: 64 ranks take too much memory, and the
# stand-ins for CUDA switch stacks and check every access themselves.
left_out() {
    [ "${CHECK_ASAN:-}" ] && { [ "$(basename "$1")" = ranks64.sh ] ||
        grep -qE 'lib_cuda|tests/standin' "$1"; }
}

list() { # list GROUP: the sources of the group's tests
    case $1 in
    golden) echo tests/run ;;
    unit) grep -l '^int main' tests/unit/*.c ;;
    cpu) grep -lE '^(#| \*) cpu: ' tests/unit/*.c tests/e2e/*.sh ;;
    e2e)
        for test in tests/e2e/*.sh; do
            case $test in
            */lib*.sh) ;;
            *) left_out "$test" || echo "$test" ;;
            esac
        done
        ;;
    esac
}

program() { # program SOURCE: the executable of the test
    case $1 in
    *.c) echo "$BUILD/unit${CHECK_CPU:+-$CHECK_CPU}/$(basename "$1" .c)" ;;
    *) echo "$1" ;;
    esac
}

for group in $groups; do
    for test in $(list "$group"); do
        if grep -q '^# alone: ' "$test"; then
            program "$test" >>"$work/alone"
        else
            program "$test" >>"$work/together"
        fi
    done
done
for way in together alone; do
    [ ! -s "$work/$way" ] ||
        xargs -P "$([ $way = alone ] && echo 1 || echo "$jobs")" -n 1 \
            sh tests/check_one.sh <"$work/$way"
done

# A test without a file of counts was killed, or never started.
cat "$work"/together "$work"/alone 2>/dev/null | while read -r test; do
    name=$(basename "$test")
    [ -s "$COUNTS/$name.counts" ] || {
        echo "  $name did not finish"
        echo 0 1 >"$COUNTS/$name.counts"
    }
done
echo
cat "$COUNTS"/*.counts | awk '{ passed += $1; failed += $2 }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }'
