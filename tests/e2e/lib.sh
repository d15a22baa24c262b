# lib.sh: sourced by the end-to-end tests. Each test counts with `check` and
# ends with `finish`, which prints "N passed, N failed".
set -u
unset PARC_PTXAS # of the caller
BUILD=${BUILD:-build}
PARC=$BUILD/parc
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
case $BUILD in /*) ;; *) BUILD=$root/$BUILD PARC=$BUILD/parc ;; esac
# make check-cpu compiles every program for CPUs for this level.
if [ "${CHECK_CPU:-}" ]; then
    export BUILD CHECK_CPU
    PARC=$root/tests/tools/parc_cpu.sh
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/parc-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
passed=0 failed=0
text=$root/tests/data/text.txt

# `make check` tests each feature once on each target: one mesh, one precision,
# one order of queued work. `make check-all` (CHECK_ALL=1) tests the whole
# product: a row that differs from others only in these belongs there, and so
# does a larger number of random cases. No other condition selects tests.
#
# in_all COMMAND…: runs it in check-all only.
in_all() { [ -z "${CHECK_ALL:-}" ] || "$@"; }
# few_or_all FEW ALL: prints FEW, in check-all ALL.
few_or_all() {
    if [ "${CHECK_ALL:-}" ]; then echo "$2"; else echo "$1"; fi
}

# The port of rank 0 under a launcher. Tests that run in parallel have similar
# process ids, and each uses some tens of ports from this one on.
port=$((20000 + $$ * 61 % 12000))

# check NAME COMMAND…: counts the command's success.
check() {
    name=$1
    shift
    if "$@" >"$work/check.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $(basename "$0" .sh): $name" >&2
        head -20 "$work/check.log" | sed 's/^/    /' >&2
    fi
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

# The small models of the tests.
llama_sizes="-D vocab=512 -D dim=64 -D n_layers=3 -D n_heads=4 \
 -D n_kv_heads=2 -D hidden=128 -D batch=8 -D seq=32 -D precision=f32"
gpt2_sizes="-D vocab=512 -D dim=64 -D n_layers=3 -D n_heads=4 \
 -D n_positions=48 -D batch=8 -D seq=32 -D precision=f32 \
 -D schedule.steps=20 -D schedule.warmup=4"
bert_sizes="-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 -D hidden=128 \
 -D n_positions=48 -D batch=8 -D seq=32 -D precision=f32 -D schedule=constant"
transformer_sizes="-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 \
 -D hidden=128 -D batch=8 -D seq=35"

hsdp_sizes="-D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D batch=8 \
 -D seq=16 -D precision=f32"
vit_sizes="-D classes=10 -D size=16 -D patch=4 -D dim=64 -D n_layers=2 \
 -D n_heads=4 -D hidden=128 -D batch=8 -D precision=f32 -D schedule=constant"
translation_sizes="-D vocab=256 -D dim=64 -D n_layers=2 -D n_heads=4 \
 -D hidden=128 -D src_seq=24 -D seq=32 -D batch=8 -D precision=f32 \
 -D schedule=constant"
regression_sizes="-D targets=2 -D dim=64 -D hidden=128 -D n_layers=2 -D batch=16"

three_d_sizes="-D vocab=256 -D dim=64 -D n_layers=4 -D n_heads=4 -D hidden=96 \
 -D batch=16 -D seq=32 -D precision=f32 -D accumulate=4"

# sizes MODEL: prints options for a small model of examples/, and its plan.
sizes() {
    case $1 in
    feedforward) echo "-D dim=64 -D hidden=128 -D batch=8" ;;
    llama) echo "$llama_sizes" ;;
    gpt2) echo "$gpt2_sizes" ;;
    bert) echo "$bert_sizes" ;;
    hsdp) echo "$hsdp_sizes" ;;
    three_d) echo "$three_d_sizes" ;;
    transformer) echo "--plan tensor_parallel $transformer_sizes" ;;
    vit) echo "$vit_sizes" ;;
    translation) echo "$translation_sizes" ;;
    regression) echo "$regression_sizes" ;;
    esac
}

# compile OUT MODEL MESH [OPTIONS…]
compile() {
    out=$1 model=$2 mesh=$3
    shift 3
    "$PARC" "$root/examples/$model.pdl" --target cpu --mesh "$mesh" "$@" \
        -o "$out"
}

# same_curve A B TOLERANCE: the losses of two logs agree (relative tolerance). Written
# in awk: jq takes 40 ms to start, and tests compare hundreds of curves.
same_curve() {
    awk -v tolerance="$3" '
        function fail(text) { print text; failed = 1; exit 1 }
        FNR == 1 { file++ }
        !match($0, /"loss": *[-+.0-9eE]+/) { fail("no loss: " $0) }
        { loss = substr($0, RSTART + 7, RLENGTH - 7) + 0 }
        file == 1 { first[FNR] = loss; steps = FNR; next }
        FNR > steps { next }
        {
            apart = first[FNR] - loss
            if (apart < 0) apart = -apart
            size = loss < 0 ? -loss : loss
            most = apart / size > most ? apart / size : most
        }
        END {
            if (failed) exit 1
            if (!steps || file != 2 || FNR != steps)
                fail(steps + 0 " and " (file == 2 ? FNR : 0) " steps")
            print most + 0
            if (!(most <= tolerance)) fail("curves differ by " most)
        }' "$1" "$2"
}

# compile_for_cpu LABEL MODEL MESH OPTIONS…: a program and its plan in JSON, in $work.
compile_for_cpu() {
    label=$1 model=$2 mesh=$3
    shift 3
    "$PARC" "examples/$model.pdl" --target cpu --threads 1 --mesh "$mesh" "$@" \
        --emit json="$work/$label.json" -o "$work/$label"
}

# as_planned LOG PLAN: the ranks allocated what the plan (JSON) says, of the program that needs
# most.
as_planned() {
    jq -en --slurpfile log "$1" --slurpfile plan "$2" '
        ($log | map(.peak_bytes) | unique) as $have |
        ($plan[0] | [.memory, .eval, .outputs, .rounds] | map(.peak) | max) as $planned |
        if $have == [$planned] then true
        else error("\($have) allocated, \($planned) planned")
        end'
}
