#!/bin/sh
# docs.sh: the tables of the documentation are true. docs/memory.md has the
# planner's numbers, which are below those that the guide to FSDP measured with
# PyTorch; docs/pdl.md has the tables of options; docs/conformance.md names existing
# tests.
. "$(dirname "$0")/lib.sh"

sh scripts/memory_table.sh >"$work/table"
grep '^|' docs/memory.md >"$work/page"
check "the table of docs/memory.md is up to date (scripts/memory_table.sh --update)" \
    diff "$work/table" "$work/page"
less() { # less STRATEGY SEED: checks every row of the strategy
    awk -F ' *[|] *' -v name="$1" -v seed="$2" '
        $2 == name || index($2, name ",") == 1 {
            n++
            if ($4 >= seed || $4 < 0.9 * $5) bad = 1
        }
        END { exit n != 2 || bad }' "$work/table"
}
check "no_shard needs less memory than the guide's" less no_shard 19296
check "shard_grad_op needs less memory than the guide's" \
    less shard_grad_op 11772
check "full_shard needs less memory than the guide's" less full_shard 9627

# docs/pdl.md has every table of clauses and options.
option_tables() {
    "$PARC" --list-options | awk 'NR == FNR { page = page $0 "\n"; next }
        /^[|]/ { table = table $0 "\n"; next }
        table { n++; if (!index(page, table)) { printf "%s", table; bad = 1 } }
        { table = "" }
        END { exit bad || n < 10 }' docs/pdl.md -
}
check "docs/pdl.md has the tables of parc --list-options" option_tables

# The files that docs/conformance.md names exist.
named() {
    sed -n 's/^| [0-9]/&/p' docs/conformance.md | cut -d'|' -f4 |
        grep -o '`[^`]*`' | tr -d '`' | while read -r name; do
        case $name in
        unit/*) ls "tests/$name" ;;
        styles/*) ls "tests/golden/$name.plan" ;;
        tests/*) ls "$name".* ;;
        *.sh) ls "tests/e2e/$name" ;;
        *) grep -rq "$name" tests/unit examples docs/pdl.md ;;
        esac || { echo "$name is not there" && exit 1; }
    done
}
check "the files that docs/conformance.md names exist" named
check "docs/conformance.md has all cases" \
    test "$(grep -c '^| [0-9]' docs/conformance.md)" = 28
finish
