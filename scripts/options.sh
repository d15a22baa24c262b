#!/bin/sh
# options.sh: checks that no string outside of ir/options.def is the name of a
# clause or an option of a plan or of `train`, or begins with NAME=, and that
# --set of programs has the settings that ir/options.def gives a run.
#
# options.allow lists strings that have another meaning.
set -u
cd "$(dirname "$0")/.." || exit 1
rows() { tr '\n' ' ' <ir/options.def | sed 's/OPTION/\nOPTION/g; s/CLAUSE/\nCLAUSE/g'; }
names=$(rows | sed -n 's/^OPTION[A-Z_]*([A-Z_]*, *[a-z_]*, *"\([a-z_]*\)".*/\1/p
    s/^CLAUSE([A-Z_]*, *"\([a-z_]*\)".*/\1/p' | sort -u | paste -sd'|')
files=$(find base frontend ir passes codegen forecast report page compare autoplan driver runtime -name '*.[chyl]')
# shellcheck disable=SC2086
grep -nE "\"($names)(\"|=)" $files | awk '
    FILENAME != "-" {
        if ($0 !~ /^(#|$)/) { path[++n] = $1; name[n] = $2 }
        next
    }
    {
        file = $0
        sub(/:.*/, "", file)
        text = $0
        sub(/^[^:]*:[0-9]*:/, "", text)
        if (text ~ /^ *\*/) next
        sub(/\/\*.*/, "", text)
        for (i = 1; i <= n; i++)
            if (index(file, path[i]) == 1)
                gsub("\"" name[i] "[\"=]", "", text)
        if (text ~ "\"('"$names"')[\"=]") { print "options: " $0; bad = 1 }
    }
    END { exit bad }' scripts/options.allow - || exit 1

of_table=$(rows | sed -n '/\.run = true/s/^OPTION(\([A-Z]*\), *[a-z_]*, *"\([a-z_]*\)".*/\1.\2/p' |
    sed 's/^TRAIN\.//; s/^OPTIMIZER/optimizer/; s/^SCHEDULE/schedule/' | sort)
of_programs=$(sed -n 's/^    {"\([a-z_.]*\)", AT(.*/\1/p' runtime/options/settings.c | sort)
[ "$of_table" = "$of_programs" ] || {
    echo "options: the rows with .run and the settings of --set differ:" $of_table / $of_programs
    exit 1
}
