#!/bin/sh
# resources.sh: parc and training programs without disk space, memory, stack,
# file descriptors or standard streams, and with unusual file names. Each run
# must print a message, return the right exit status, and leave no partial or
# temporary file.
. "$(dirname "$0")/lib.sh"

mkdir "$work/in"
cp examples/toy.pdl "$work/in/toy.pdl"
cd "$work/in" || exit 1

# fails TEXT COMMAND…: the exit status is 1, the errors have TEXT, and the
# directory has only the files that it had.
fails() {
    phrase=$1
    shift
    ls -A >../before
    sh -c "$*" sh "$PARC" 2>../err
    status=$?
    cat ../err
    [ $status = 1 ] || { echo "exit $status, wanted 1"; return 1; }
    grep -qF -- "$phrase" ../err || { echo "no '$phrase'"; return 1; }
    ls -A | diff ../before -
}

# ---- standard output --------------------------------------------------------
full="cannot write standard output"
for option in --help --version --manual --list-passes --list-options "--completion bash" \
    "toy.pdl --emit plan" "toy.pdl --dump-after-all" \
    "toy.pdl --emit plan --emit json=report"
do
    check "a full device: $option" fails "$full" "\"\$1\" $option >/dev/full"
done
check "the reason" fails "output: No space left on device" \
    '"$1" toy.pdl --emit plan >/dev/full'
check "the reason, for more than a buffer" fails \
    "output: No space left on device" \
    '"$1" toy.pdl --emit json >/dev/full'
check "a closed standard output" fails \
    "cannot write standard output: Bad file descriptor" \
    '"$1" toy.pdl --emit plan >&-'
check "a closed standard input" fails "cannot read '-': Bad file descriptor" \
    '"$1" - --emit plan <&-'

# ---- closed streams ---------------------------------------------------------
# Messages to a closed stream must not get into a file.
check "with closed streams parc makes a program" \
    sh -c '"$1" toy.pdl --mesh 2x2 --target cpu -o train <&- >&- 2>&-' sh "$PARC"
check "which trains" ./train --steps 3 --log log --export weights
check "it trains with closed streams" sh -c \
    './train --steps 3 --log log.closed --export weights.closed <&- >&- 2>&-'
check "the same weights" cmp weights weights.closed
only_steps() { [ "$(grep -c '^{"step": ' log.closed)" = 3 ] &&
    [ "$(wc -l <log.closed)" = 3 ]; }
check "a log without messages" only_steps

# ---- limits -----------------------------------------------------------------
check "a limit on files' sizes" fails "File too large" \
    'ulimit -f 8; exec "$1" toy.pdl --target cpu -S tree'
check "a limit on open files" fails "Too many open files" \
    'ulimit -n 5; export CC=gcc; exec "$1" toy.pdl --target cpu -o program'
check "a small stack" fails "the limit of the stack is 1024 KiB, and parc" \
    'ulimit -s 1024; exec "$1" toy.pdl --emit plan'
{
    echo 'model Chain {'
    echo '    w: Linear(4, 4)'
    echo '    forward(x: [batch, 4]) {'
    echo '        y = w(x)'
    for _ in $(seq 1500); do
        echo '        y = tanh(y)'
    done
    printf '        return mean(y)\n    }\n}\ntrain { batch = 4 }\n'
} >chain.pdl
check "a long chain of ops needs more stack" sh -c \
    'ulimit -S -s 128; exec "$1" chain.pdl --emit plan >plan' sh "$PARC"
# From too little memory for the dynamic loader to enough for parc.
out_of_memory() {
    met=0
    for kib in $(seq 20000 500 400000); do
        (ulimit -v "$kib" && exec "$PARC" toy.pdl --target cpu -S tree) 2>../err
        status=$?
        case $status in
        0) rm -r tree && [ $met = 1 ] && return 0 ;;
        1) # The OpenMP runtime starts before parc.
            grep -q '^libgomp: Out of memory' ../err ||
                { met=1 && grep -qx "parc: error: out of memory" ../err; } || break ;;
        126 | 127) ;;
        *) break ;;
        esac
        [ ! -e tree ] || break
    done
    cat ../err
    echo "$kib KiB: exit $status"
    return 1
}
[ "${CHECK_ASAN-}" ] || check "little memory" out_of_memory

# ---- too little workspace ----------------------------------------------------
# As on a machine whose oneDNN requests more scratch than the plan has.
little_scratch() {
    DNNL_MAX_CPU_ISA=AVX2 "$PARC" toy.pdl --target cpu -D precision=bf16 \
        -S small || return 1
    sed 's/scratch_bytes = [1-9][0-9]*/scratch_bytes = 64/' small/train.c \
        >small/little.c
    cmp -s small/train.c small/little.c && return 1
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -fopenmp -Ismall/runtime -o little \
        small/little.c small/model.c small/kernels.c "$BUILD/libparc_rt.a" -ldnnl -lm
}
if [ -z "${CHECK_ASAN-}" ]; then
    check "a program with too little scratch" little_scratch
    check "says what to do" fails "of scratch on this machine, but 64 \
are planned: build the program on this machine, or with parc --cpu LEVEL" \
        'DNNL_MAX_CPU_ISA=AVX2 ./little --steps 1'
fi

# ---- names ------------------------------------------------------------------
long=$(printf 'n%.0s' $(seq 250))
check "a long name" "$PARC" toy.pdl --emit "plan=$long"
check "a name that is too long" fails "File name too long" \
    "\"\$1\" toy.pdl --emit plan=$long$long"
for odd in "$(printf 'not\377utf8')" "$(printf 'new\nline')" 'quo"te\' '-x'; do
    check "a file named '$odd'" cp toy.pdl "./$odd.pdl"
    check "it compiles" "$PARC" --target cpu -o "./$odd" -- "./$odd.pdl"
    check "the program" "./$odd" --steps 1
done
check "a directory as input" fails "cannot read '.': Is a directory" \
    '"$1" . --emit plan'
check "a directory as output" fails "cannot write '.': Is a directory" \
    '"$1" toy.pdl --emit plan=.'
finish
