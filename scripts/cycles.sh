#!/bin/sh
# cycles.sh: checks that calls between files, and between directories, form no
# cycle, in the compiler and in the runtime. It reads the symbols of the object
# files in BUILD (build). A call through a pointer counts where the function's
# address is taken.
#
# cycles.allow lists groups of files that call each other on purpose.
set -u
cd "$(dirname "$0")/.." || exit 1
objects=${BUILD:-build}/obj
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0

# symbols DIR FILE…: lines "FILE has SYMBOL" and "FILE uses SYMBOL" of C files,
# whose objects are in DIR.
symbols() {
    dir=$1
    shift
    for f; do
        o=$dir/${f%.c}.o
        [ -f "$o" ] || { echo "cycles: $o is missing: run make first" >&2; return 1; }
        nm "$o" | awk -v f="$f" 'NF == 2 && $1 == "U" { print f, "uses", $2 }
            NF == 3 && $2 ~ /[TDRBC]/ { print f, "has", $3 }'
    done
}
# shellcheck disable=SC2046
symbols "$objects" $(find base frontend ir passes codegen forecast report page compare autoplan driver -name '*.c') \
    gen/frontend/syntax/parse.tab.c gen/frontend/syntax/lex.yy.c >"$work/read" || exit 1
sed 's,^gen/frontend/syntax/parse.tab.c,frontend/syntax/parse.y,
    s,^gen/frontend/syntax/lex.yy.c,frontend/syntax/lex.l,' "$work/read" >"$work/compiler"
# The functions of device.h are left out: each target implements them, in terms
# of other directories. runtime/mpi calls no function of the runtime, and is
# compiled with programs only.
# shellcheck disable=SC2046
symbols "$objects/portable" $(find runtime -name mpi -prune -o \
    -name '*.c' -print) >"$work/read" || exit 1
grep -vE ' (rt_device_|rt_collectives_)' "$work/read" >"$work/runtime"

# calls LEVEL SYMBOLS: lines "caller callee". LEVEL file: a group of cycles.allow is one
# file; directory: each file is its directory.
calls() {
    awk -v level="$1" '
        function name(f) {
            if (level == "directory") sub(/\/[^\/]*$/, "", f)
            return f in group ? group[f] : f
        }
        FILENAME ~ /allow$/ {
            if ($0 !~ /^(#|$)/ && level == "file")
                for (i = 2; i <= NF; i++) { group[$i] = $1; known[$i] = 1 }
            next
        }
        $2 == "has" { of[$3] = $1; delete known[$1] }
        { line[++n] = $0 }
        END {
            for (f in known)
                print "cycles.allow: there is no file", f >"/dev/stderr"
            for (i = 1; i <= n; i++) {
                split(line[i], w, " ")
                if (w[2] == "uses" && w[3] in of && name(w[1]) != name(of[w[3]]))
                    print name(w[1]), name(of[w[3]])
            }
        }' scripts/cycles.allow "$2" | sort -u
}
no_cycle() { # no_cycle LEVEL SYMBOLS
    calls "$1" "$2" >"$work/calls" 2>"$work/err"
    tsort "$work/calls" >/dev/null 2>>"$work/err"
    [ -s "$work/err" ] || return 0
    echo "cycles: calls form a cycle (level: $1):" >&2
    sed 's/^tsort: //' "$work/err" >&2
    bad=1
}
# A program is linked with one target's implementation.
for target in cpu cuda; do
    other=$([ $target = cpu ] && echo cuda || echo cpu)
    grep -v "^runtime/$other/" "$work/runtime" | cat "$work/compiler" - >"$work/$target"
    no_cycle file "$work/$target"
done
no_cycle directory "$work/compiler"
no_cycle directory "$work/runtime"
exit $bad
