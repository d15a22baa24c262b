#!/bin/sh
# nvrtc.sh: checks of CUDA programs that need no GPU. NVRTC compiles the kernels
# of every example in every precision and under several strategies without a
# message and without spilling a register. The emitted C compiles without a
# warning, and so do the kernels under nvcc. The outputs do not depend on the
# machine.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nvrtc.sh"
. "$(dirname "$0")/lib_ring.sh"
nvcc=$(command -v nvcc || echo "$toolkit/bin/nvcc")
[ -x "$nvcc" ] || nvcc=

# ---- every example ----

# Compiles loops, conditions and launches with strict warnings.
c_is_clean() { # c_is_clean DIR
    for file in train.c model.c launch.c images.c; do
        ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Wa,-I"$1" \
            -I"$1/runtime" -c -o "$work/object.o" "$1/$file" || return 1
    done
}
nvcc_is_quiet() { # nvcc_is_quiet DIR
    [ "$nvcc" ] || return 0
    for source in "$1"/*.cu; do
        "$nvcc" -std=c++17 -Werror all-warnings -arch=sm_90a -cubin \
            -I"$1/runtime" -I"$1/runtime/cuda/device" -o "$work/cubin" \
            "$source" || return 1
    done
}
archs=$(few_or_all sm_90a sm_80,sm_90a,sm_100)
compiles() { # compiles LABEL MODEL.pdl MESH OPTIONS…
    at=$(printf '%s' "$work/$1" | tr ' =,' '---')
    label=$1 model=$2 mesh=$3
    shift 3
    check "$label compiles" tree "$at" "$model" --mesh "$mesh" "$@" \
        --arch $archs
    check "$label spills nothing" no_spills "$at" \
        "$(echo $archs | tr , '\n' | wc -l)"
    check "$label: C without warnings" c_is_clean "$at"
}

for precision in $(few_or_all bf16 "f32 bf16 f16"); do
    d="-D precision=$precision"
    # shellcheck disable=SC2086
    {
        compiles "llama $precision" examples/llama.pdl 2x2 $d
        in_all compiles "gpt2 $precision" examples/gpt2.pdl 2x2 $d -D dropout=0.1
        in_all compiles "transformer $precision" examples/transformer.pdl 2x2 $d \
            --plan tensor_parallel
    }
done
compiles toy examples/toy.pdl 2x2
# Each elementwise function, and its gradient.
cat >"$work/elementwise.pdl" <<'END'
model Elementwise(dim=64) {
    w: Linear(dim, dim)
    forward(x: [batch, dim]) {
        h = w(x)
        a = exp(h) + log(abs(h) + 1.0) + sqrt(abs(h)) + rsqrt(abs(h) + 1.0) + recip(h)
        b = tanh(h) + sigmoid(h) + erf(h) + sin(h) + cos(h) + floor(h) + relu(h) + gelu_tanh(h)
        c = gelu(h) + silu(h) + maximum(h, x) + minimum(h, x) + where(h < x, h, x) + abs(h) ** 1.5
        return mean(a + b + c)
    }
}
END
compiles elementwise "$work/elementwise.pdl" 1x1
in_all compiles elementwise-bf16 "$work/elementwise.pdl" 1x1 -D precision=bf16
compiles capacity examples/mixtral.pdl 2x2 -D dim=128 -D n_layers=2 -D n_heads=2 -D n_kv_heads=2 \
    -D hidden=128 -D vocab=512 -D seq=256 -D capacity=1.25
in_all compiles feedforward examples/feedforward.pdl 2x2
in_all compiles hsdp examples/hsdp.pdl rep=2,dp=2,tp=2
in_all compiles "batch norm" tests/data/batch_norm.pdl 2x2 --plan units -D accumulate=2
# The cross entropy of a large vocabulary with padding and a bias.
archs=sm_100
in_all compiles translation examples/translation.pdl 2x2

# ---- strategies ----

# The oldest architecture is the most likely to spill.
archs=sm_80

again() { # again MODEL.pdl CLAUSE: llama.pdl with CLAUSE in its plan
    awk -v clause="$2" '
        { print }
        /^plan / { print "    " clause }' examples/llama.pdl >"$1"
}
again "$work/all.pdl" "checkpoint { layers.* }"
again "$work/some.pdl" "checkpoint { layers.*: keep=attention }"
in_all compiles recompute "$work/all.pdl" 2x2
in_all compiles keep "$work/some.pdl" 2x2
in_all compiles accumulate examples/llama.pdl 2x2 -D accumulate=2
compiles muon examples/llama.pdl 2x2 -D 'optimizer=Muon(groups=group(
    ("tok_embeddings.*", "output.*", "*norm*"), optimizer=AdamW))'
compiles adafactor examples/llama.pdl 2x2 -D optimizer=Adafactor
compiles orders tests/data/topk.pdl 2x2
compiles convolutions tests/data/conv.pdl 2x2
without_bias >"$work/ring.pdl"
# Steps of a ring in 16 bits, with every mask.
compiles ring "$work/ring.pdl" 1x4 --plan ring -D precision=bf16 -D dim=512 -D vocab=512 -D seq=512
compiles experts tests/data/experts.pdl 2x2 --plan units -D precision=bf16
in_all compiles convolutions-bf16 tests/data/conv.pdl 2x2 -D precision=bf16
in_all compiles orders-bf16 tests/data/topk.pdl 2x2 -D precision=bf16
in_all compiles head_chunk examples/llama.pdl 2x2 -D head_chunk=256
in_all compiles uneven examples/llama.pdl 2x3 -D n_heads=6 -D n_kv_heads=3 \
    -D dim=396 -D hidden=401 -D vocab=257 -D batch=4 -D seq=48
in_all compiles one_rank examples/gpt2.pdl 1x1 -D precision=bf16

for at in $(few_or_all llama-bf16 "llama-bf16 transformer-f32 gpt2-f16"); do
    check "$at: nvcc has no warnings" nvcc_is_quiet "$work/$at"
done

# ---- what is written ----

elsewhere() { # elsewhere DIR: compiles the toy in DIR
    mkdir "$1" && (cd "$1" &&
        "$PARC" "$root/examples/toy.pdl" --mesh 2x2 -S tree)
}
check "the toy is written" elsewhere "$work/one"
check "the toy is written in another directory" elsewhere "$work/other place"
check "both trees have the same bytes" diff -r "$work/one" "$work/other place"
names_no_directory() {
    ! grep -rlaF -e "$work" -e "$root" "$work/one"
}
check "the tree names no directory of this machine" names_no_directory

# make recompiles an image that is older than the device code.
rebuilds() {
    cp -a "$work/one/tree" "$work/edited" || return 1
    make -q -C "$work/edited" kernels.sm_90a.cubin || {
        echo "an image looks old as it was written"
        return 1
    }
    [ "$nvcc" ] || return 0
    touch "$work/edited/kernels.cu"
    make -q -C "$work/edited" instances.sm_90a.cubin || return 1
    touch "$work/edited/instances.cu"
    for images in "kernels.sm_90a.cubin kernels.compute_80.ptx" \
        instances.sm_90a.cubin; do
        # shellcheck disable=SC2086
        make -C "$work/edited" NVCC="$nvcc" $images &&
            make -q -C "$work/edited" $images || return 1
    done
}
check "make compiles edited kernels" rebuilds

# Without ptxas NVRTC assembles.
without_ptxas() {
    PARC_PTXAS='' "$PARC" examples/toy.pdl --mesh 2x2 -v -S "$work/slow" \
        2>"$work/slow.log" && grep -q 'sm_90a: kernels.cu compiled' "$work/slow.log" &&
        diff "$work/slow/images.c" "$work/one/tree/images.c" &&
        [ -s "$work/slow/instances.sm_90a.cubin" ]
}
check "NVRTC alone makes images of the same names" without_ptxas
not_ptxas() {
    PARC_PTXAS=/bin/true "$PARC" examples/toy.pdl -S "$work/none" 2>"$work/log"
    [ $? = 1 ] && grep -q "is not a ptxas of CUDA" "$work/log" &&
        [ ! -e "$work/none" ]
}
check "a PARC_PTXAS of another version is refused" not_ptxas
# ptxas LINE: a fake one in ./bin, of the version of the real one, which runs LINE.
real=$toolkit/bin/ptxas
fake() {
    mkdir -p "$work/bin"
    printf '#!/bin/sh\n[ "$1" != --version ] || exec %s --version\n%s\n' "$real" "$1" \
        >"$work/bin/ptxas" && chmod +x "$work/bin/ptxas"
}
fails() { # fails STATUS TEXT: parc ends with it and writes no tree
    PARC_PTXAS=bin/ptxas "$PARC" "$root/examples/toy.pdl" -S none >out 2>&1
    status=$?
    cat out
    [ $status = "$1" ] && grep -q -- "$2" out && [ ! -e none ]
}
fake_fails() { # fake_fails LINE STATUS TEXT
    fake "$1" && (cd "$work" && fails "$2" "$3")
}
if [ -x "$real" ]; then
    check "a relative PARC_PTXAS is found" fake_fails 'exec '"$real"' --version' 1 \
        "ptxas ('$work/bin/ptxas') cannot compile for sm_80: it has written nothing"
    check "a ptxas that is killed" fake_fails 'kill -KILL $$' 1 "killed by signal 9"
    check "a ptxas without memory" fake_fails \
        'echo "ptxas fatal : Memory allocation failure"; exit 255' 1 \
        "exit status 255: ptxas fatal : Memory"
    check "an error of ptxas is a bug of parc" fake_fails \
        'echo "ptxas error : what"; exit 1' 134 "internal error"
fi

# With a single, specific architecture newer devices still get PTX.
check "sm_90a alone compiles" tree "$work/alone" examples/toy.pdl --arch sm_90a
check "sm_90a alone has PTX for newer devices" \
    test -s "$work/alone/kernels.compute_90.ptx"

# Without a driver or GPU the binary still describes itself and what it needs.
about() { # about TEXT OPTIONS…
    text=$1
    shift
    "$work/train" "$@" >"$work/about" 2>&1
    status=$?
    cat "$work/about"
    [ $status = 0 ] && grep -q "$text" "$work/about"
}
check "a binary is written without a GPU" \
    "$PARC" examples/toy.pdl -o "$work/train"
check "the binary prints --version" about "Toy, built from toy.pdl" --version
check "the binary prints --info" about "f32, CUDA" --info
check "the binary prints --help" about "usage:" --help
check "--help lists the CUDA variables" about "^  PARC_SYNC=1 " --help
check "the binary prints --print-shards" \
    about "rows 0 .. 11" --print-shards net1.weight
check "the binary exports initial weights" \
    "$work/train" --steps 0 --export "$work/first.st"
elsewhere_built() { # without the library beside parc
    mkdir "$work/moved" && cp "$PARC" "$work/moved/parc" &&
        "$work/moved/parc" examples/toy.pdl -o "$work/moved/train" &&
        "$work/moved/train" --version
}
in_all check "parc builds a program without its library" elsewhere_built

# ---- what is missing ----

says() { # says TEXT ENVIRONMENT…: parc fails with TEXT, and writes no file
    message=$1
    shift
    env "$@" "$PARC" examples/toy.pdl -S "$work/none" 2>"$work/says.log"
    [ $? = 1 ] && grep -q "$message" "$work/says.log" && [ ! -e "$work/none" ]
}
check "a missing NVRTC is reported" says "NVRTC '$work/nvrtc'" \
    PARC_NVRTC="$work/nvrtc"
printf 'int nothing;\n' >"$work/empty.c"
${CC:-cc} -shared -o "$work/empty.so" "$work/empty.c"
check "another library than NVRTC is refused" \
    says "is not NVRTC 12 or newer" \
    PARC_NVRTC="$work/empty.so"
cat >"$work/old.c" <<'END'
int nvrtcVersion(int *x, int *y) { *x = 12, *y = 0; return 0; }
int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int *arch) { *arch = 80; return 0; }
const char *nvrtcGetErrorString(int e) { return e ? "an error" : "none"; }
int nvrtcCreateProgram(void) { return 0; }
int nvrtcCompileProgram(void) { return 1; }
int nvrtcGetProgramLogSize(void) { return 1; }
int nvrtcGetProgramLog(void) { return 1; }
int nvrtcGetCUBINSize(void) { return 1; }
int nvrtcGetCUBIN(void) { return 1; }
int nvrtcGetPTXSize(void) { return 1; }
int nvrtcGetPTX(void) { return 1; }
END
${CC:-cc} -w -shared -fPIC -o "$work/old.so" "$work/old.c"
check "an old NVRTC is refused" says "NVRTC 12.0 .* cannot compile for sm_90a" \
    PARC_NVRTC="$work/old.so"
needs_no_cuda() {
    PARC_NVRTC="$work/none" "$PARC" examples/toy.pdl --mesh 2x2 --emit plan &&
        PARC_NVRTC="$work/none" "$PARC" examples/toy.pdl --target cpu \
            -S "$work/cpu"
}
check "plans and CPU programs need no NVRTC" needs_no_cuda

# ---- sizes ----

# lines FILE FILE: equally many lines. The sizes are far from all limits at
# which kernels change.
lines() {
    [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] || { wc -l "$@"; return 1; }
}
# A rank's sizes may be so small that a sum needs no second stage.
no_more() { # no_more FILE FILE: the second has at most 5% more lines
    a=$(wc -l <"$1") b=$(wc -l <"$2")
    [ $((b * 100)) -le $((a * 105)) ] || { echo "$a and $b lines"; return 1; }
}
large() { # large DIR MESH LAYERS
    tree "$1" examples/llama.pdl --mesh "$2" --arch sm_90a -D batch=512 \
        -D n_layers="$3"
}
grows() { # what grows neither with layers nor with ranks
    check "16 layers are emitted" large "$work/base" 2x2 16
    check "64 layers are emitted" large "$work/deep" 2x2 64
    check "16 ranks are emitted" large "$work/wide" 8x2 16
    for file in train.c model.c launch.c kernels.cu instances.cu; do
        check "$file has the same length for more layers" lines \
            "$work/base/$file" "$work/deep/$file"
        check "$file does not grow with ranks" no_more "$work/base/$file" \
            "$work/wide/$file"
    done
}
in_all grows # invariants.sh compares small programs

# SIGTERM ends parc while NVRTC compiles, with nothing left.
stops() {
    mkdir "$work/tmp"
    TMPDIR=$work/tmp "$PARC" examples/llama.pdl --mesh 2x2 -o "$work/no" &
    compiling=$!
    for _ in $(seq 100); do
        [ ! "$(ls "$work/tmp")" ] || break
        sleep 0.05
    done
    kill -TERM $compiling
    wait $compiling
    [ $? = 143 ] && [ ! -e "$work/no" ] && [ ! "$(ls "$work/tmp")" ]
}
check "SIGTERM ends parc while NVRTC compiles" stops
# Without a temporary directory too, and ptxas with it.
ends_ptxas() { # ends_ptxas OPTIONS…
    fake 'echo $$ >>'"$work/pids"'; exec sleep 60'
    : >"$work/pids"
    PARC_PTXAS=$work/bin/ptxas "$PARC" examples/toy.pdl --mesh 2x2 "$@" &
    compiling=$!
    for _ in $(seq 200); do
        [ "$(wc -l <"$work/pids")" -lt 4 ] || break
        sleep 0.05
    done
    kill -TERM $compiling
    wait $compiling
    sleep 0.2
    [ "$(wc -l <"$work/pids")" = 4 ] || return 1
    while read -r pid; do
        state=$(cut -d ' ' -f 3 "/proc/$pid/stat" 2>"$work/log") || continue
        [ "$state" = Z ] || return 1
    done <"$work/pids"
}
if [ -x "$real" ]; then
    check "SIGTERM ends every ptxas" ends_ptxas -S "$work/no"
    check "SIGTERM ends every ptxas of a binary" ends_ptxas -o "$work/no"
fi
finish
