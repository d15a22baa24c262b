#!/bin/sh
# lint.sh: checks the sizes of directories, files and functions, the direction of includes
# and calls (cycles.sh), that headers are self-contained, where patterns are
# matched, that names of options have one place, where passes are, and the words
# to avoid.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() {
    echo "lint: $*" >&2
    bad=1
}

compiler=$(find base frontend ir passes codegen forecast report page compare autoplan driver -name '*.[chyl]')
for f in $compiler $(find runtime -name '*.[ch]' -o -name '*.cuh'); do
    lines=$(wc -l <"$f")
    [ "$lines" -le 600 ] || complain "$f has $lines lines"
    awk -v f="$f" '/^{$/ { start = NR } /^}$/ && start {
        if (NR - start > 90) printf "lint: %s:%d: a function of %d lines\n",
            f, start, NR - start; start = 0 }' "$f" >&2
done

for dir in $(find base frontend ir passes codegen forecast report page compare autoplan driver \
    runtime python -type d ! -name __pycache__); do
    files=$(find "$dir" -maxdepth 1 -type f | wc -l)
    [ "$files" -le 32 ] || complain "$dir has $files files"
done

# A directory may include itself and the directories before it in this list.
order="base ir ir/rules ir/analysis ir/plan ir/text ir/verify
    frontend/syntax frontend frontend/eval frontend/lower
    frontend/options frontend/plan frontend/train frontend/names frontend/model frontend/check
    passes passes/simplify passes/sharding passes/pad passes/pipeline passes/recompute
    passes/schedule passes/sync passes/fsdp passes/autodiff passes/microbatch passes/fusion
    passes/memory passes/forward
    codegen codegen/kernel codegen/cpu codegen/cuda codegen/target codegen/statements
    codegen/emit codegen/package forecast report page compare autoplan
    driver/passes driver/options driver/subcommands driver/auto driver"
allowed=
for dir in $order; do
    allowed="$allowed $dir"
    for used in $(sed -n 's/^#include "\([a-z/]*\)\/.*/\1/p' "$dir"/*.[chyl] \
        2>/dev/null | sort -u); do
        case " $allowed " in
        *" $used "*) ;;
        *) case $dir/$used in # tables of the program; the reader of JSON;
                              # limits of the CUDA runtime
            codegen*/runtime | codegen*/runtime/cuda/core | \
                codegen*/runtime/cuda/attention | codegen*/runtime/cuda/conv | report/runtime | \
                report/runtime/cuda/core | forecast/runtime/cuda/core | \
                forecast/runtime/common | \
                compare/runtime/common | driver/options/runtime/common | \
                driver/subcommands/runtime/common) ;;
            *) complain "$dir includes $used" ;;
            esac ;;
        esac
    done
done
for dir in $(echo "$compiler" | sed 's,/[^/]*$,,' | sort -u); do
    case " $(echo $order) " in
    *" $dir "*) ;;
    *) complain "directory $dir has no place in the order of includes" ;;
    esac
done
sh scripts/cycles.sh >&2 || complain "a cycle"
# The runtime's directories, in the same way. Headers of runtime/ itself are the
# shared state of a run, for all.
order="common launch params trace options data log eval checkpoint run cpu cpu/attention
    mpi cuda/api cuda/device cuda/core cuda/dnn cuda/attention cuda/matmul cuda/conv cuda/collectives cuda"
allowed=
for dir in $order; do
    allowed="$allowed $dir"
    for used in $(sed -n 's/^#include "\([a-z/]*\)\/.*/\1/p' runtime/"$dir"/*.[ch] \
        2>/dev/null | sort -u); do
        case " $allowed " in
        *" $used "*) ;;
        *) complain "runtime/$dir includes $used" ;;
        esac
    done
done
for dir in $(find runtime/* -type d); do
    case " $(echo $order) " in
    *" ${dir#runtime/} "*) ;;
    *) complain "directory $dir has no place in the order of includes" ;;
    esac
done

# The plan's patterns are matched by lowering, and by items.c only.
echo "$compiler" | grep -v '^frontend/' |
    xargs grep -nE 'path_(matches|leads)\(' /dev/null |
    grep -vE '^ir/(path|plan/items)\.[ch]:' &&
    complain "a pattern of the plan is matched after lowering"

# passes.def names the file of each pass.
sed -n 's/^PASS(\([a-z]*\), *\([a-z_]*\),.*/\1 \2/p' passes/passes.def |
    while read -r dir name; do
        grep -qs "^void pass_$name(" "passes/$dir/$name.c" ||
            echo "lint: passes/$dir/$name.c does not define pass_$name"
    done | grep . >&2 && bad=1

for h in $(echo "$compiler" | grep -v '^frontend/' | grep '\.h$'); do
    echo "#include \"$h\"" | ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. \
        -fsyntax-only -x c - || complain "$h is not self-contained"
done
# shellcheck disable=SC2046
awk -f scripts/braces.awk $compiler \
    $(find runtime -name '*.[ch]' -o -name '*.cuh') >&2 || complain "braces"
sh scripts/options.sh >&2 || complain "a name of an option as a string"
sh scripts/references.sh >&2 || complain "a file that does not exist is named"
sh scripts/words.sh >&2 || complain "words to avoid (docs/glossary.md)"
exit $bad
