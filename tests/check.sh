#!/bin/sh
# check.sh: every test, and one closing line "N passed, N failed".
#
#   check.sh [golden] [unit] [e2e]     only these groups
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
export BUILD
groups=${*:-golden unit e2e}
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM

# Runs one test program and adds the counts of its last line.
run() {
    start=$(date +%s)
    "$@" >"$log" 2>&1
    status=$?
    p=$(sed -n 's/^\([0-9][0-9]*\) passed, [0-9][0-9]* failed.*/\1/p' "$log" |
        tail -n 1)
    f=$(sed -n 's/^[0-9][0-9]* passed, \([0-9][0-9]*\) failed.*/\1/p' "$log" |
        tail -n 1)
    if [ -z "$p" ] || { [ "$status" != 0 ] && [ "$f" = 0 ]; }; then
        p=${p:-0} f=1
    fi
    passed=$((passed + p)) failed=$((failed + f))
    printf '  %-34s %5d passed %3d failed  %3ds\n' "$(basename "$1" | grep -v "^sh$" || basename "$2")" "$p" \
        "$f" $(($(date +%s) - start))
    [ "$f" = 0 ] || tail -n 60 "$log"
}

# With sanitizers: 64 ranks take too much memory, and the stand-ins for CUDA
# change stacks and look at every access themselves.
left_out() {
    [ "${CHECK_ASAN:-}" ] && { [ "$(basename "$1")" = ranks64.sh ] ||
        grep -qE 'lib_cuda|tests/standin' "$1"; }
}

for group in $groups; do
    case $group in
    golden) run tests/run ;;
    unit)
        for test in $(grep -l '^int main' tests/unit/*.c); do
            run "$BUILD/unit/$(basename "$test" .c)"
        done
        ;;
    e2e)
        for test in tests/e2e/*.sh; do
            case $test in
            */lib*.sh) ;;
            *) left_out "$test" || run sh "$test" ;;
            esac
        done
        ;;
    esac
done
echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
