#!/bin/sh
# invariants.sh: properties of every program. A dump reads back as it was
# printed. A compilation that continues from the dump of any pass gives the same
# result. The same input gives the same bytes. One rank needs no collectives.
# Emitted sources compile without a warning. Nothing grows with depth or ranks.
. "$(dirname "$0")/lib.sh"

passes=$("$PARC" --list-passes | awk '{ print $1 }')

# parc_on MODEL MESH OPTIONS…: compiles for the CPU, with one thread.
parc_on() {
    model=$1 mesh=$2
    shift 2
    # shellcheck disable=SC2046
    "$PARC" "examples/$model.pdl" --target cpu --threads 1 --mesh "$mesh" \
        $(sizes "$model") "$@"
}

# ---- dumps ----

# Each dump is written to a file, parsed, and must print identically.
dumps_are_read_back() { # MODEL MESH OPTIONS…
    rm -rf "$work/dumps" && mkdir "$work/dumps"
    parc_on "$@" --dump-after-all --emit "json=$work/json" |
        awk -v dir="$work/dumps" '
            /^# after / { file = dir "/" $3; next } { print > file }'
    n=$(find "$work/dumps" -type f | wc -l)
    [ "$n" -gt 11 ] || { echo "only $n dumps"; return 1; }
    for dump in "$work/dumps"/*; do
        "$PARC" --start-after=share_forward --emit ir "$dump" >"$work/again" &&
            cmp "$dump" "$work/again" || return 1
    done
}

# The program in the manual must read back too.
manual_is_read_back() {
    awk '/^parc ir/ { on = 1 } on && /^```/ { exit } on' docs/ir.md \
        >"$work/manual.ir"
    "$PARC" --start-after=share_forward --emit ir "$work/manual.ir" >"$work/again" &&
        cmp "$work/manual.ir" "$work/again"
}

# Stopping after a pass and continuing from the dump changes nothing; the test
# `dumps` compares the sources of all examples.
goes_on() { # MODEL MESH OPTIONS…
    parc_on "$@" --emit json >"$work/whole" || return 1
    for pass in $passes; do
        parc_on "$@" --stop-after="$pass" --emit ir >"$work/part.ir" &&
            "$PARC" --target cpu --threads 1 --start-after="$pass" \
                --emit json "$work/part.ir" >"$work/joined" || return 1
        cmp "$work/whole" "$work/joined" || { echo "after $pass"; return 1; }
    done
}

for case in $(few_or_all llama:2x2 "toy:1x1 toy:2x2 toy:3x2 \
    feedforward:1x1 feedforward:2x2 llama:1x1 llama:2x2"); do
    model=${case%:*} mesh=${case#*:}
    check "$case: dumps read back" dumps_are_read_back "$model" "$mesh"
done
for case in $(few_or_all vit:2x2 "vit:2x2 translation:2x2"); do
    check "$case: dumps read back" dumps_are_read_back "${case%:*}" "${case#*:}"
done
check "llama:2x2 bf16: dumps read back" \
    dumps_are_read_back llama 2x2 -D precision=bf16
check "llama:2x2 bf16: a run continues from every dump" \
    goes_on llama 2x2 -D precision=bf16
check "the program in docs/ir.md reads back" manual_is_read_back
check "toy:3x2: a run continues from every dump" goes_on toy 3x2

# A dump depends on its target: with another target parc refuses it.
refuses() { # refuses TARGET PASS OTHER WHAT
    "$PARC" examples/gpt2.pdl --target "$1" --threads 1 --mesh 2x1 \
        -D precision=f32 --stop-after="$2" --emit ir >"$work/other.ir" &&
        ! "$PARC" --target "$3" --threads 1 --start-after="$2" \
            -S "$work/other" "$work/other.ir" 2>"$work/said" &&
        [ ! -e "$work/other" ] && grep -q "the target $3 has no $4" \
            "$work/said" && grep -q "made for --target $1" "$work/said"
}
check "a dump with shared parameters is refused on cuda" \
    refuses cpu share_params cuda "memory that ranks"
check "a dump with embedding_add is refused on cuda" \
    refuses cpu fuse_embedding_grad cuda embedding_add
check "a dump with epilogues is refused on the cpu" \
    refuses cuda epilogue cpu einsum_bias

# A dump that skips the pass matmul.
cat >"$work/skips.pdl" <<'END'
model M {
    param w[4, 4, 4] = ones
    forward(x: [batch, 4, 4]) {
        return mean(einsum("bij, jki -> bk", x, w))
    }
}
END
skips_matmul() {
    "$PARC" "$work/skips.pdl" --target cpu --threads 1 -D batch=4 \
        --stop-after=storage --emit ir >"$work/skips.ir" &&
        ! "$PARC" --target cpu --threads 1 --start-after=matmul \
            -S "$work/skips" "$work/skips.ir" 2>"$work/said" &&
        [ ! -e "$work/skips" ] &&
        grep -q "error: no matmul computes the einsum 'bij,jki->bk'" \
            "$work/said"
}
check "a dump that skips the pass matmul is refused" skips_matmul

# A pass also has the name that it had before.
earlier_name() { # earlier_name WAS IS
    for pass in "$1" "$2"; do
        "$PARC" examples/gpt2.pdl --target cpu --threads 1 --mesh 2x1 \
            -D precision=f32 --stop-after="$pass" --emit ir >"$work/$pass.ir" ||
            return
    done
    cmp "$work/$1.ir" "$work/$2.ir"
}
for names in refine:split_kv_axis shadow:lowp_copies reduce:grad_dtype \
    rows:fuse_embedding_grad shared:share_params events:sync; do
    check "--stop-after ${names%:*}" earlier_name "${names%:*}" "${names#*:}"
done

# ---- the same bytes ----

# tree DIR MODEL MESH: writes JSON and sources, from within a new DIR.
tree() {
    mkdir "$1" && (
        cd "$1" || exit 1
        model=$root/examples/$2.pdl
        # shellcheck disable=SC2046
        "$PARC" "$model" --target cpu --threads 1 --mesh "$3" $(sizes "$2") \
            --emit json=plan.json -S tree
    )
}
for case in toy:3x2 feedforward:2x2 llama:2x2; do
    at=$work/same-${case%:*}
    mkdir "$at"
    check "$case is written" tree "$at/one" "${case%:*}" "${case#*:}"
    check "$case is written in another directory" \
        tree "$at/other place" "${case%:*}" "${case#*:}"
    check "$case has the same bytes" diff -r "$at/one" "$at/other place"
done

# ---- one rank ----

for file in examples/*.pdl; do
    model=$(basename "$file" .pdl)
    # shellcheck disable=SC2046
    check "$model compiles for one rank" "$PARC" "$file" $(sizes "$model") \
        --emit json="$work/json"
    check "$model on one rank has no collectives" \
        jq -e '.collectives == []' "$work/json"
done

# ---- emitted sources ----

# builds DIR RUNTIME COMPILER OPTIONS…: RUNTIME is `all`, or a library to link
# instead of compiling the runtime's sources, which takes 20 s and is the same
# for each tree.
builds() {
    at=$1 runtime=
    [ "$2" = all ] || runtime=RUNTIME=$2
    shift 2
    unset MAKEFLAGS MFLAGS # the flags of `make check` must not apply here
    # Sanitizers make gcc warn of null pointers that cannot occur.
    strict=-Werror
    grep -q fsanitize "$at/Makefile" && strict=
    make -C "$at" clean >/dev/null &&
        make -C "$at" CC="$* -Wall -Wextra $strict" ${runtime:+"$runtime"}
}
parses() { # parses DIR: compiles without a warning
    (cd "$1" && ${CC:-cc} -fsyntax-only -Wall -Wextra -Werror -std=c11 \
        -fopenmp -D_GNU_SOURCE -Iruntime train.c model.c kernels.c)
}
# The four functions end within the first 150 lines of train.c.
step_comes_first() { # step_comes_first DIR
    for name in forward backward optimizer step; do
        head -n 150 "$1/train.c" |
            sed -n "/^void $name(ParcRt \\*rt)\$/,/^}/p" | grep -q '^}' ||
            { echo "no $name"; return 1; }
    done
}
have_clang() { # whether there is a clang with OpenMP
    printf '#include <omp.h>\nint main(void) { return 0; }\n' >"$work/omp.c"
    clang -fopenmp -o "$work/omp" "$work/omp.c" 2>/dev/null
}
library=$BUILD/libparc_rt.a
runtime=$(few_or_all "$library" all)
for case in llama:2x2 toy:2x2 feedforward:2x2 llama:1x1; do
    at=$work/sources-${case%:*}-${case#*:}
    check "$case is emitted" parc_on "${case%:*}" "${case#*:}" -S "$at"
    check "$case builds" builds "$at" $runtime "${CC:-cc}"
    check "$case runs" "$at/train" --steps 2
    runtime=$library
done
check "train.c begins with the step" \
    step_comes_first "$work/sources-llama-2x2"
# After a loop over microbatches the backward pass has only collectives.
at=$work/sources-accumulate
check "accumulate is emitted" parc_on llama 2x2 -D accumulate=2 -S "$at"
check "accumulate has no warnings" parses "$at"
# A tied head in chunks: the loop returns its gradient, and the table's gradient
# is added.
for options in "" "-D accumulate=2"; do
    at="$work/sources-tied $options"
    # shellcheck disable=SC2086
    check "tied head $options is emitted" parc_on gpt2 2x1 -D precision=f32 \
        -D head_chunk=8 $options -S "$at"
    check "tied head $options has no warnings" parses "$at"
done
# The text of a program. Evaluation and outputs call the forward pass; a loop over
# the layers updates them, and is named after their array.
at=$work/sources-llama-2x2
short() { # short FILE LINES: it has no more lines
    n=$(wc -l <"$1")
    echo "$n lines"
    [ "$n" -le "$2" ]
}
check "train.c of llama has at most 1100 lines" short "$at/train.c" 1100
one_forward_pass() {
    [ "$(grep -c '^void .*_attention(ParcRt' "$at/train.c")" = 3 ] &&
        grep -q '\.run = forward,' "$at/model.c" &&
        sed -n '/^void outputs_run/,/^}/p' "$at/train.c" |
            grep -q forward_attention
}
check "evaluation and outputs call the forward pass" one_forward_pass
one_update_loop() {
    loops=$(sed -n '/^void optimizer(/,/^}/p' "$at/train.c" | grep -c 'for (')
    [ "$loops" = 1 ] && ! grep -q 'layer_[0-9]' "$at/train.c"
}
check "one loop updates all layers" one_update_loop
whole_groups() { # no line ends inside of a list of numbers
    ! grep -n '{[0-9]*,$\|{[0-9]*, [0-9]*,$\|parc_index(rt,$' "$at/train.c"
}
check "initializers are not broken" whole_groups
# clang also reports the loops that it cannot vectorize: only builds with
# sanitizers may have any.
if have_clang && ! grep -q fsanitize "$work/sources-toy-2x2/Makefile"; then
    runtime=$(few_or_all "$library" all)
    for case in $(few_or_all toy-2x2 "llama-2x2 toy-2x2"); do
        check "$case builds with clang" builds "$work/sources-$case" \
            "$runtime" clang
        runtime=$library
        check "$case runs with clang" "$work/sources-$case/train" --steps 2
    done
fi

# ---- sizes ----

# lines FILE FILE…: all files have the same number of lines.
lines() {
    n=$(wc -l "$@" | awk '$2 != "total" { print $1 }' | sort -u | wc -l)
    [ "$n" = 1 ] || { wc -l "$@"; return 1; }
}
# statements FILE FILE: equally many statements and blocks; where a statement's
# lines break depends on the width of its numbers.
statements() {
    one=$(tr -cd ';{}' <"$1" | wc -c) other=$(tr -cd ';{}' <"$2" | wc -c)
    echo "$one and $other"
    [ "$one" = "$other" ]
}
# A kernel's shape depends on a rank's sizes: short rows stay in registers,
# small tensors use one thread. These sizes are far from all such limits, so the
# sources may differ only in numbers.
large() { # large DIR MESH LAYERS
    "$PARC" examples/llama.pdl --target cpu --threads 1 --mesh "$2" \
        -D precision=f32 -D batch=512 -D n_layers="$3" -S "$1"
}
check "160 layers are emitted" large "$work/base" 2x2 160
check "640 layers are emitted" large "$work/deep" 2x2 640
check "16 ranks are emitted" large "$work/wide" 8x2 160
for file in train.c model.c model.h kernels.c; do
    length=lines
    [ $file = train.c ] && length=statements
    check "$file has the same length for more layers" \
        $length "$work/base/$file" "$work/deep/$file"
    check "$file has the same length for more ranks" \
        $length "$work/base/$file" "$work/wide/$file"
done
for mesh in 2x2 8x2; do
    for n in 4 40; do # at small sizes kernels may differ slightly, not grow
        parc_on llama $mesh -D n_layers=$n -S "$work/small-$mesh-$n" ||
            exit 1
    done
done
no_more() { # no_more FILE FILE: the second has at most 5% more lines
    a=$(wc -l <"$1") b=$(wc -l <"$2")
    [ $((b * 100)) -le $((a * 105)) ] || { echo "$a and $b lines"; return 1; }
}
for file in train.c model.c model.h kernels.c; do
    check "$file does not grow" no_more "$work/small-2x2-4/$file" \
        "$work/small-2x2-40/$file"
    check "$file does not grow with ranks" no_more "$work/small-2x2-4/$file" \
        "$work/small-8x2-4/$file"
done
for layers in 126 252; do
    check "plan of $layers layers" parc_on llama 8x8 -D n_heads=8 \
        -D n_kv_heads=8 -D n_layers=$layers --emit "json=$work/$layers.json"
done
check "plans have the same length for more layers" \
    lines "$work/126.json" "$work/252.json"
finish
