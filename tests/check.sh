#!/bin/sh
# check.sh: runs tests and ends with the line "N passed, N failed".
#
#   check.sh [golden] [unit] [e2e] [cpu]     only these groups
#
# Without arguments all groups but cpu run. CHECK_ALL=1 selects all cases of
# each test (tests/e2e/lib.sh), and builds programs as users do; otherwise `cc`
# gets -Og for -O1 and -O3, which takes half of the time, and links with gold if
# there is one. (Tests of kernels compile with -O2, which vectorizes loops.) The group
# cpu has the tests that depend on the CPU, and runs them with programs compiled for
# the level $CPU_LEVEL, and with oneDNN's kernels limited to its instructions. Such a
# test has a line '# cpu: WHY' (in C: ' * cpu: WHY').
#
# $JOBS tests run in parallel. The default is three for two cores, because many
# tests wait. A test with a line '# clock: WHY' depends on the clock, and waits
# most of the time: it runs after all others, one for each core. A test with a
# line '# alone: WHY' runs by itself at the end.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
cores=$(nproc 2>/dev/null || echo 1)
jobs=${JOBS:-$(((3 * cores + 1) / 2))}
[ "$jobs" -ge "$cores" ] || cores=$jobs
groups=${*:-golden unit e2e}
work=
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Tests write thousands of small files: into memory, if /dev/shm has 8 GB free and
# programs may run there.
in_memory() {
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $1 == "tmpfs" { print $4 }')
    [ "${free:-0}" -ge 8000000 ] && work=$(mktemp -d /dev/shm/parc-check-XXXXXX) &&
        cp /bin/true "$work/true" && "$work/true"
}
if [ -z "${TMPDIR:-}" ] && in_memory 2>/dev/null; then
    TMPDIR=$work
    export TMPDIR
else
    rm -rf "$work"
    work=$(mktemp -d)
fi
COUNTS=$work/counts
mkdir "$COUNTS" "$work/bin"
PATH=$work/bin:$PATH
export BUILD COUNTS PATH

# `python3` may be the script of a version manager, which takes 100 ms to start:
# tests call the interpreter that it finds.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) &&
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$work/bin/python3"
if [ -z "${CHECK_ALL:-}" ]; then
    gold=
    ! command -v ld.gold >/dev/null || gold=-fuse-ld=gold
    cat >"$work/bin/cc" <<EOF
#!/bin/sh
for word; do
    shift
    case \$word in -O[13]) word=-Og ;; esac
    set -- "\$@" "\$word"
done
exec $(command -v cc) $gold "\$@"
EOF
    OMPI_CC=cc # what mpicc calls
    export OMPI_CC
fi
[ -z "$(ls "$work/bin")" ] || chmod +x "$work/bin"/*

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

program() { # program GROUP SOURCE: the executable of the test
    case $1:$2 in
    cpu:*.c) echo "cpu:$BUILD/unit-$CPU_LEVEL/$(basename "$2" .c)" ;;
    cpu:*) echo "cpu:$2" ;;
    *.c) echo "$BUILD/unit/$(basename "$2" .c)" ;;
    *) echo "$2" ;;
    esac
}

for group in $groups; do
    for test in $(list "$group"); do
        when=$(sed -n 's/^# \(clock\|alone\): .*/\1/p' "$test")
        program "$group" "$test" >>"$work/${when:-together}"
    done
done
run() { # run WHEN JOBS
    [ ! -s "$work/$1" ] ||
        xargs -P "$2" -n 1 sh tests/check_one.sh <"$work/$1"
}
run together "$jobs"
run clock "$cores"
run alone 1

# A test without a file of counts was killed, or never started.
cat "$work"/together "$work"/clock "$work"/alone 2>/dev/null |
    while read -r test; do
    name=$(basename "${test#cpu:}")
    case $test in cpu:*) name=$name.cpu ;; esac
    [ -s "$COUNTS/$name.counts" ] || {
        echo "  $name did not finish"
        echo 0 1 >"$COUNTS/$name.counts"
    }
done
echo
cat "$COUNTS"/*.counts | awk '{ passed += $1; failed += $2 }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }'
