#!/bin/sh
# coverage.sh [GROUP…]: prints which part of the code the tests run (gcov), by
# directory. It builds everything with counters in $BUILD and runs
# tests/check.sh; CHECK_ALL=1 selects all cases. The exit status is that of the
# tests. It needs gcovr.
#
# Processes that are killed, or end with _exit, write no counts. This is so for
# all sets of tests, which can be compared.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build/coverage}
command -v gcovr >/dev/null || { echo "coverage.sh: no gcovr" >&2; exit 1; }
make -j"$(nproc)" BUILD="$BUILD" CC="${CC:-cc} --coverage" CFLAGS='-O1 -g' \
    all levels units || exit 1

# Programs that link the runtime need gcov's library, and no counters of their
# own.
compilers=$(mktemp -d)
trap 'rm -rf "$compilers"' EXIT
trap 'exit 1' INT TERM
for name in cc gcc clang; do
    file=$(command -v $name) || continue
    printf '#!/bin/sh\nexec %s "$@" -lgcov\n' "$file" >"$compilers/$name"
    chmod +x "$compilers/$name"
done
find "$BUILD" -name '*.gcda' -delete
PATH=$compilers:$PATH BUILD=$BUILD sh tests/check.sh "$@"
status=$?

gcovr --root . --object-directory "$BUILD" --exclude tests/ \
    --exclude "$BUILD/" "$BUILD/obj" --csv |
    awk -F, '
        function add(name) { lines[name] += $2; run[name] += $3 }
        NR > 1 {
            add("all")
            n = split($1, part, "/")
            path = ""
            for (i = 1; i < n; i++) {
                path = path (i > 1 ? "/" : "") part[i]
                add(path)
            }
        }
        END {
            for (name in lines)
                printf "%-28s %6d of %6d lines  %5.1f%%\n", name, run[name],
                    lines[name], 100 * run[name] / lines[name]
        }' | sort
exit $status
