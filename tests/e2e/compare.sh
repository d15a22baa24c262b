#!/bin/sh
# compare.sh: parc compare: two plans of one model, of two models, and two JSON files; the
# numbers are those of the plans; damaged files and wrong usage are errors.
. "$(dirname "$0")/lib.sh"

llama=examples/llama.pdl
plan() { # plan MESH OPTIONS…: the plan's JSON
    mesh=$1
    shift
    "$PARC" $llama --mesh "$mesh" "$@" --emit json
}
plan 8x8 --machine h100-sxm >"$work/a.json"
plan 16x4 --machine h100-sxm >"$work/b.json"
"$PARC" compare "$work/a.json" "$work/b.json" >"$work/files"
"$PARC" compare $llama --mesh 8x8 --mesh=16x4 --machine h100-sxm >"$work/meshes"
check "plans that exist, and plans that parc makes" cmp "$work/files" "$work/meshes"
has() { grep -qE -- "$1" "$work/files"; }
check "titles" has '^a  Llama under plan tp_fsdp on dp=8 x tp=8$'
check "the step" has '^  step +[0-9.]+ ms +[0-9.]+ ms +-[0-9.]+ ms +-[0-9.]+%$'
check "the memory" has '^  memory of a rank '
check "bytes over an axis" has '^  sent over tp .* -[0-9.]+ GiB '
check "the time of a module, with a reason" has \
    '^  layers\.\*\.feed_forward\.w2 .*%  collective -[0-9.]+ ms$'
check "a collective, with its calls and its reason" has \
    '^      32 x 128 MiB -> 32 x 64.0 MiB: .*\(llama\.pdl:[0-9]+:[0-9]+\)$'
check "memory by name" has '^  d_w1\.weight \(grads\) '

"$PARC" compare --json "$work/a.json" "$work/b.json" >"$work/json"
json() { jq -e --slurpfile a "$work/a.json" --slurpfile b "$work/b.json" "$1" "$work/json"; }
total() { # total NAME FIELD: the value of both plans
    json ".totals[] | select(.name == \"$1\") |
        .a == (\$a[0] | $2) and .b == (\$b[0] | $2) and .change == .b - .a"
}
check "JSON: the step" total step .time.step_seconds
check "JSON: the memory" total "memory of a rank" .memory.peak
check "JSON: the flops" total "flops of the model" .model_flops
check "JSON: every collective once" json '(.collectives | map(.name) | unique | length) ==
    ($a[0].collectives | map([.kind, .axis, .tensor, .phase]) | unique | length)'
check "JSON: bytes that are sent" json '([.collectives[].a] | add) as $sent |
    ([$a[0].collectives[] | .bytes * .count * (.group_size - 1) / .group_size *
        (if .kind == "all_reduce" then 2 else 1 end)] | add) | . / $sent - 1 | fabs < 1e-9'
. tests/e2e/lib_ring.sh
without_bias >"$work/ring.pdl"
shifted() { # the rows of collectives over cp add up to its traffic, with shifts
    "$PARC" "$work/ring.pdl" --plan ring --mesh 1x4 --emit json="$work/ring.json" &&
        "$PARC" compare --json "$work/ring.json" "$work/ring.json" |
        jq -e --slurpfile plan "$work/ring.json" '[.collectives[] |
            select(.name | test(" over cp:")) | .a] | add ==
                ($plan[0].traffic[] | select(.axis == "cp") | .sent)'
}
check "JSON: bytes that shifts send" shifted
for axis in pp dp tp; do
    check "the bytes over $axis are those of the plan" sh -c "
        '$PARC' examples/three_d.pdl --mesh 4x2x2 --emit plan >'$work/plan' &&
        '$PARC' compare examples/three_d.pdl --mesh 4x2x2 --mesh 2x4x2 |
            sed -n 's/^  sent over $axis  *\([0-9.]* [A-Z]iB\|[0-9.]* GiB\) .*/\1/p' |
            awk '{ printf \"%.1f %s\\n\", \$1, \$2 }' >'$work/is' &&
        sed -n 's/.*  *$axis: .* a rank sends \(.*\)/\1/p' '$work/plan' | head -n 1 |
            awk '{ printf \"%.1f %s\\n\", \$1, \$2 }' | cmp - '$work/is'"
done
check "JSON: memory by name" json '([.memory_by_name[].b | values] | add) ==
    ([$b[0].at_peak[].bytes] | add)'
check "JSON: modules sum to the step" json '([.time_by_module[].a | values] | add) +
    $a[0].time.between_seconds - $a[0].time.step_seconds | fabs < 1e-9'
check "JSON: a plan and itself" sh -c "'$PARC' compare --json '$work/a.json' \
    '$work/a.json' | jq -e '[.. | .change? | values] | all(. == 0)'"

same() { # nothing differs
    "$PARC" compare "$work/a.json" "$work/a.json" >"$work/same"
    cat "$work/same"
    [ "$(grep -c ': equal$' "$work/same")" = 5 ]
}
check "equal plans" same
one_sided() { # collectives that only one plan has
    "$PARC" compare $llama --mesh 4x1 --mesh 1x4 >"$work/out" || return 1
    cat "$work/out"
    grep -q '^- .*over dp' "$work/out" && grep -q '^+ .*over tp' "$work/out" &&
        grep -q '^no times: --machine' "$work/out"
}
check "collectives of one plan" one_sided
sed 's/n_layers=[0-9]*/n_layers=3/' $llama >"$work/other.pdl"
check "two models" "$PARC" compare $llama "$work/other.pdl" --mesh 2x2
check "two machines" "$PARC" compare $llama --mesh 2x2 --machine h100-sxm \
    --machine "$PWD/machines/h100-sxm.json"
check "an option of both plans" sh -c "'$PARC' compare $llama --mesh 2x2 --mesh 4x1 \
    -D batch=128 -Dseq=64 | grep -q 'flops of the model'"

refused() { # refused STATUS TEXT ARGUMENTS…
    status=$1 text=$2
    shift 2
    "$PARC" compare "$@" >"$work/out" 2>"$work/err"
    is=$?
    cat "$work/out" "$work/err"
    [ $is = "$status" ] && [ ! -s "$work/out" ] && grep -qF -- "$text" "$work/err"
}
check "no plan" refused 2 "needs two plans"
check "one model" refused 2 "needs a second plan" $llama --mesh 2x2
check "-D twice" refused 2 "-D belongs to both plans" $llama -D batch=64 -D batch=128
check "three values" refused 2 "more than twice" $llama --mesh 2 --mesh 3 --mesh 4
check "options of JSON files" refused 2 "has no effect" "$work/a.json" "$work/b.json" \
    --mesh 2x2
check "two values for one plan" refused 2 "only one plan is to be made" \
    "$work/a.json" $llama --mesh 2x2 --mesh 4x1
check "a value for an option without one" refused 2 "takes no value" $llama \
    --no-eval=1 --mesh 2x2 --mesh 4x1
check "an option that writes a program" refused 2 "has no option '-o'" $llama -o x
check "a value that is missing" refused 2 "needs a value" $llama --mesh
check "a plan with an error" refused 1 "plan b cannot be made" $llama --mesh 2x2 \
    --mesh 3x3
check "a file that does not exist" refused 1 "cannot read" "$work/a.json" "$work/no.json"
echo '{"model": 3}' >"$work/wrong.json"
check "a number for a text" refused 1 "wrong.json: line 1:" "$work/a.json" \
    "$work/wrong.json"
sed 's/"peak": [0-9]*/"peak": 1e999/' "$work/a.json" >"$work/huge.json"
check "a number that is none" refused 1 "is not that of a plan" "$work/huge.json" \
    "$work/a.json"
echo '{}' >"$work/empty.json"
check "no plan in a file" refused 1 "it is no plan" "$work/empty.json" "$work/a.json"
damaged() { # every prefix of a plan is refused without a crash
    size=$(wc -c <"$work/a.json")
    for i in $(seq 40); do
        head -c $((size * i / 41)) "$work/a.json" >"$work/cut.json"
        "$PARC" compare "$work/a.json" "$work/cut.json" >"$work/out" 2>"$work/err"
        [ $? = 1 ] && [ ! -s "$work/out" ] || return 1
    done
}
check "files that were cut off" damaged
left() { # no temporary files
    mkdir "$work/tmp"
    TMPDIR=$work/tmp "$PARC" compare $llama --mesh 2x2 --mesh 4x1 >"$work/out" &&
        [ ! "$(ls "$work/tmp")" ]
}
check "nothing is left" left
finish
