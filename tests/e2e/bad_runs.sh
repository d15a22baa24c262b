#!/bin/sh
# bad_runs.sh: errors outside the PDL file: options, data and weights files,
# outputs that cannot be written. Each run must print a message that names the
# file or option, return the right exit status, and leave no partial file.
. "$(dirname "$0")/lib.sh"

# fails STATUS TEXT COMMAND…: the exit status is STATUS, the errors have TEXT.
fails() {
    want=$1 phrase=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    cat "$work/err"
    [ "$status" = "$want" ] || { echo "exit $status, wanted $want"; return 1; }
    grep -qF -- "$phrase" "$work/err" || { echo "no '$phrase'"; return 1; }
}
absent() { [ ! -e "$1" ]; }

echo >"$work/file" # a file where a directory is needed

# ---- parc ----
check "unknown option" fails 2 "--mehs" "$PARC" --mehs 2x2 examples/toy.pdl
check "near miss" fails 2 "--mesh" "$PARC" --mehs 2x2 examples/toy.pdl
check "no file" fails 2 "help" "$PARC"
check "missing file" fails 1 "nowhere.pdl" "$PARC" nowhere.pdl --emit ir
check "bad mesh" fails 1 "command line: error: " "$PARC" examples/toy.pdl \
    --mesh 2y2 --emit ir
check "mesh rank" fails 1 "command line: error: " "$PARC" examples/toy.pdl \
    --mesh 2x2x2 --emit ir
check "bad define" fails 1 "command line: error: " "$PARC" examples/llama.pdl \
    -D n_layer=2 --emit ir
check "batch" fails 1 "batch" "$PARC" examples/toy.pdl --mesh 5x1 --emit ir
check "heads" fails 1 "llama.pdl:" "$PARC" examples/llama.pdl \
    --mesh 1x3 --emit plan
check "no NVRTC" fails 1 "NVRTC" env PARC_NVRTC="$work/no.so" \
    "$PARC" examples/toy.pdl -o "$work/no"
check "unwritable" fails 1 "/no/train" "$PARC" examples/toy.pdl \
    --target cpu -o "$work/file/no/train"
check "unwritable tree" fails 1 "/no/src" "$PARC" examples/toy.pdl \
    --target cpu -S "$work/file/no/src"
check "an unwritable tree leaves no directory" absent "$work/no"
check "no compiler" fails 1 "cannot start 'nowhere'" env CC=nowhere \
    "$PARC" examples/toy.pdl --target cpu -o "$work/no"
check "no compiler: how to name one" \
    fails 1 "'nowhere' failed; CC in the environment names another:" \
    env CC=nowhere "$PARC" examples/toy.pdl --target cpu -o "$work/no"
check "a missing compiler leaves no binary" absent "$work/no"
cat >"$work/empty_cc" <<'EOF'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
case $(basename "$0") in
empty_cc) : >"$2" ;;
text_cc) echo hello >"$2" ;;
no_cc) rm -f "$2" ;;
killed_cc) kill -9 $$ ;;
esac
EOF
chmod +x "$work/empty_cc"
for cc in text no killed; do
    cp "$work/empty_cc" "$work/${cc}_cc"
done
for cc in empty text no; do
    check "a compiler that writes no program: $cc" fails 1 \
        "has written no program" env CC="$work/${cc}_cc" \
        "$PARC" examples/toy.pdl --target cpu -o "$work/no"
done
check "a compiler that is killed" fails 1 "signal 9" env CC="$work/killed_cc" \
    "$PARC" examples/toy.pdl --target cpu -o "$work/no"
check "a failed compiler leaves no binary" absent "$work/no"
mkfifo "$work/plan"
check "a pipe without a reader is refused" fails 1 "no process reads from it" \
    timeout 60 "$PARC" examples/toy.pdl --emit plan="$work/plan"
check "no temporary file is left next to the pipe" \
    sh -c '[ -z "$(ls "$1" | grep "^\.plan")" ]' sh "$work"
cat "$work/plan" >"$work/plan.read" &
reader=$!
check "a pipe that is read" timeout 60 "$PARC" examples/toy.pdl \
    --emit plan="$work/plan"
wait "$reader"
"$PARC" examples/toy.pdl --emit plan >"$work/plan.direct"
check "the pipe carries the whole plan" \
    cmp "$work/plan.direct" "$work/plan.read"
# SIGTERM ends parc while it waits for a full pipe that is never read.
stops_at_sigterm() {
    mkfifo "$work/full"
    sleep 1000 <>"$work/full" &
    reader=$!
    "$PARC" examples/llama.pdl --mesh 2x2 --emit ir="$work/full" &
    writer=$!
    sleep 1
    kill -TERM "$writer"
    wait "$writer"
    status=$?
    kill "$reader"
    [ "$status" = 143 ]
}
check "SIGTERM ends parc while it writes" stops_at_sigterm
# A compiler that hangs: SIGTERM ends it, its children and parc.
cat >"$work/hanging_cc" <<'EOF'
#!/bin/sh
[ "$1" != --deaf ] || { trap '' TERM; shift; }
: >"${0%/*}/started"
sleep 120
: >"${0%/*}/finished"
EOF
chmod +x "$work/hanging_cc"
stops_compiler() {
    rm -f "$work/started" "$work/finished"
    CC="$work/hanging_cc $1" "$PARC" examples/toy.pdl --target cpu \
        -o "$work/no" &
    compiling=$!
    for _ in $(seq 100); do
        [ ! -e "$work/started" ] || break
        sleep 0.1
    done
    kill -TERM "$compiling"
    wait "$compiling"
    [ $? = 143 ] && [ -e "$work/started" ] && [ ! -e "$work/finished" ] &&
        [ ! -e "$work/no" ]
}
check "SIGTERM ends parc while a compiler hangs" stops_compiler ""
check "SIGTERM ends parc while a compiler ignores it" stops_compiler --deaf
check "a compiler with options" env CC="cc -g0" \
    "$PARC" examples/toy.pdl --target cpu -o "$work/words"

# ---- the training binary ----
# shellcheck disable=SC2086
check "llama compiles" compile "$work/train" llama 2x1 $llama_sizes \
    -D vocab=100
head -c 1000 "$text" >"$work/text"
printf 'abc' >"$work/short"
printf '\001' >"$work/odd"
check "missing data" fails 1 "error: cannot read 'nowhere.bin'" "$work/train" --data nowhere.bin
check "short data" fails 1 \
    "$work/short: byte 3: error: the file ends after 3 tokens" "$work/train" --data "bytes:$work/short"
check "odd data" fails 1 "$work/odd: byte 0: error: the file is truncated" "$work/train" --data "$work/odd"
check "a token beyond the vocabulary" \
    fails 1 "is beyond the vocabulary of 100" \
    "$work/train" --data "bytes:$work/text"
# shellcheck disable=SC2086
check "one rank compiles" compile "$work/one" llama 1x1 $llama_sizes \
    -D vocab=100
check "the byte of a token beyond the vocabulary" fails 1 \
    "$work/text: byte 3: error: token 111 is beyond the vocabulary of 100" \
    "$work/one" --data "bytes:$work/text"
check "missing weights" fails 1 "error: cannot read 'nowhere.st'" "$work/train" --steps 0 \
    --init nowhere.st
check "export" "$work/train" --steps 0 --export "$work/w.st"
head -c 5000 "$work/w.st" >"$work/cut.st"
check "truncated weights" fails 1 \
    "$work/cut.st: byte 5000: error: the file is truncated" "$work/train" --steps 0 \
    --init "$work/cut.st"
head -c 5 "$work/w.st" >"$work/stub.st"
check "a stub of weights" fails 1 "$work/stub.st: byte 5: error:" "$work/train" --steps 0 \
    --init "$work/stub.st"
check "weights of another model" fails 1 "bad.st" sh -c \
    'echo nonsense nonsense >"$1/bad.st"; "$1/train" --steps 0 --init "$1/bad.st"' \
    sh "$work"
check "unwritable export" fails 1 "error: cannot write '$work/file/no/w.st'" "$work/train" --steps 0 \
    --export "$work/file/no/w.st"
# The ranks must not need a file in memory here.
check "an export beyond the file size limit" \
    fails 1 "w3.st': File too large" sh -c \
    'ulimit -f 8; exec "$1/train" --steps 0 --export "$1/w3.st"' sh "$work"
check "a failed export leaves no file" absent "$work/w3.st"
ln -s w2.st "$work/link.st"
: >"$work/w2.st"
check "export through a symbolic link" \
    "$work/train" --steps 0 --export "$work/link.st"
check "the link's target has the weights" cmp "$work/w.st" "$work/w2.st"
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped.st" &
reader=$!
check "export to a pipe" "$work/train" --steps 0 --export "$work/pipe"
check "export leaves a pipe in place" test -p "$work/pipe"
wait "$reader"
check "the pipe carries all weights" cmp "$work/w.st" "$work/piped.st"
# The reader exits before the first byte, so the result does not depend on
# timing.
no_reader() {
    rm -f "$work/rc"
    { sleep 1; "$work/train" --print-shards layers 2>"$work/err"
        echo $? >"$work/rc"; } | true
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -s "$work/rc" ] && break
        sleep 1
    done
    cat "$work/err" "$work/rc"
    [ ! -s "$work/err" ] && [ "$(cat "$work/rc")" = 141 ]
}
check "a reader of standard output that exits" no_reader
check "unwritable log" fails 1 "error: cannot write '$work/file/no/log'" "$work/train" --steps 1 \
    --log "$work/file/no/log"
check "unknown option of train" fails 2 "--step" "$work/train" --step 3
check "short spellings of train's options" sh -c \
    '"$1" -h | grep -q "^usage: " && "$1" -V | grep -q parc' sh "$work/train"
check "bad number" fails 2 "--steps" "$work/train" --steps many
check "bad time limit" fails 1 "PARC_TIMEOUT is 'soon'" env PARC_TIMEOUT=soon \
    "$work/train" --steps 1
check "unknown tensor" fails 1 "wq" "$work/train" --steps 0 \
    --print-shards layers.0.attention.wg.weight
check "exported weights are loaded" \
    "$work/train" --steps 0 --init "$work/w.st" \
    --export "$work/w2.st"
check "loaded weights are unchanged" cmp "$work/w.st" "$work/w2.st"
finish
