#!/bin/sh
# cycles.sh: checks that calls between the compiler's files, and between its
# directories, form no cycle. It reads the symbols of the object files in BUILD
# (build). A call through a pointer counts where the function's address is
# taken.
#
# cycles.allow lists groups of files that call each other on purpose.
set -u
cd "$(dirname "$0")/.." || exit 1
objects=${BUILD:-build}/obj
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0

for f in $(find base frontend ir passes codegen report driver -name '*.c') \
    gen/frontend/parse.tab.c gen/frontend/lex.yy.c; do
    o=$objects/${f%.c}.o
    [ -f "$o" ] || { echo "cycles: $o is missing: run make first" >&2; exit 1; }
    nm "$o" | awk -v f="$f" 'NF == 2 && $1 == "U" { print f, "uses", $2 }
        NF == 3 && $2 ~ /[TDRBC]/ { print f, "has", $3 }'
done | sed 's,^gen/frontend/parse.tab.c,frontend/parse.y,
    s,^gen/frontend/lex.yy.c,frontend/lex.l,' >"$work/symbols"

# calls LEVEL: lines "caller callee". LEVEL file: a group of cycles.allow is one
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
        }' scripts/cycles.allow "$work/symbols" | sort -u
}
for level in file directory; do
    calls $level >"$work/calls" 2>"$work/err"
    tsort "$work/calls" >/dev/null 2>>"$work/err"
    [ -s "$work/err" ] || continue
    echo "cycles: calls form a cycle (level: $level):" >&2
    sed 's/^tsort: //' "$work/err" >&2
    bad=1
done
exit $bad
