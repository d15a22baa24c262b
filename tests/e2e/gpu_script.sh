#!/bin/sh
# gpu_script.sh: tests tests/gpu on a machine without a GPU. All of
# tests/gpu/cases can be emitted and packed, and the archive has all that
# tests/gpu/run needs. With faults of a program or of the machine, a command ends
# in time, keeps its results, names the failure and continues with the next case.
# The stand-ins run the programs, so the measured times have no meaning.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

# The cases fit the time that a machine is lent for, the most important first.
tests/gpu/run plan >"$work/plan"
cat "$work/plan"
check "the cases fit 28 minutes" sh -c '
    sed -n "s/^all: \([0-9]*\) of 1680 s$/\1/p" "$1" | {
        read -r seconds && [ "$seconds" -gt 0 ] && [ "$seconds" -le 1680 ]
    }' - "$work/plan"
check "a speed case is the first" test "$(grep -v '^#' tests/gpu/cases |
    head -n 1 | awk '{ print $4 }')" = speed
emitted=$(few_or_all "[tf]*_f32" "*") # has the cases that are run below
check "every case is emitted: $emitted" \
    env PARC="$PARC" tests/gpu/trees "$work/gpu" "$emitted"

# A machine with one GPU, as the stand-ins have it.
mkdir "$work/bin"
cat >"$work/bin/nvidia-smi" <<'EOF'
#!/bin/sh
case "$*" in
*-lms*) while :; do
    echo '1980, 2619, 650.5, 61'
    sleep 0.1
done ;;
*) echo '580.0, 1024 MiB, 1980 MHz, 2619 MHz, 700 W, Enabled, Enabled, [N/A]' ;;
esac
EOF
cat >"$work/bin/compute-sanitizer" <<'EOF'
#!/bin/sh
echo '========= COMPUTE-SANITIZER'
echo '========= ERROR SUMMARY: 0 errors'
EOF
# The host's compiler compiles the kernels. FAULT=WHAT:CASE makes the program of
# one case fail.
cat >"$work/bin/launch" <<EOF
#!/bin/sh
standin=$standin
EOF
cat >>"$work/bin/launch" <<'EOF'
tree=$(dirname "$1") log= export=
[ -e "$tree/fast.so" ] ||
    "$standin/build" -fast "$tree/kernels.cu" "$tree/fast.so" || exit 1
export STANDIN_KERNELS="$tree/fast.so"
fault=${FAULT:-} previous=
[ "${fault#*:}" = "$(basename "$tree")" ] || exec "$@"
for word in "$@"; do
    case $previous in --log) log=$word ;; --export) export=$word ;; esac
    previous=$word
done
case $fault in
hang:*) echo "step 3"; exec sleep "$NAP" ;;
crash:*) [ "${PARC_SYNC:-}" = 1 ] || kill -SEGV $$ ;;
esac
"$@" || exit
case $fault in
cut:*) truncate -s -120 "$log" ;;
wrong:*) sed -i 's/"loss": /"loss": 1/' "$log" ;;
each:*) case $export in *.again.st)
    at=$(($(stat -c %s "$export") - 1))
    printf x | dd of="$export" bs=1 seek=$at conv=notrunc 2>/dev/null ;;
    esac ;;
esac
EOF
# Programs are built a dozen times: without optimization, as the last -O says.
cat >"$work/bin/cc" <<EOF
#!/bin/sh
exec $(command -v "${CC:-cc}") "\$@" -O0
EOF
chmod +x "$work/bin"/*

libraries=$BUILD/standin:$BUILD/standin/cudnn
nap=1000.$$ # seconds that a hanging program sleeps: finds its process
# command_ DIRECTORY STEP PATTERN [NAME=VALUE…]: the script in that DIRECTORY.
command_() {
    tree=$1 step=$2 pattern=$3
    shift 3
    exec env PATH="$work/bin:$PATH" LAUNCH="$work/bin/launch" TORCH=0 STEPS=3 \
        WORK="$work/w.$tree" STANDIN_DEVICES=1 STANDIN_FREE=1073741824 \
        LD_LIBRARY_PATH="$libraries" CUDA_HOME="$work/none" LIMIT=300 \
        BUDGET=100000 CASE_SECONDS=120 NAP=$nap "$@" \
        "$work/$tree/run" "$work/out" "$step" "$pattern"
}
runs() { # as command_; sets `status` to its exit status
    (command_ "$@") >"$work/said" 2>&1
    status=$?
}
ends() { # ends STATUS: the last run had this exit status
    cat "$work/said"
    [ "$status" = "$1" ]
}
says() { # says PATTERN: the tables have a line with it
    cat "$work/out/summary.txt" "$work/said"
    grep -qE -- "$1" "$work/out/summary.txt"
}
forget() {
    rm -rf "$work/out" "$work/w.$1/results.jsonl" "$work/w.$1/files" \
        "$work/$1/results.jsonl"
}
two='[tf][oe]*' # toy_f32 and feedforward_f32

runs gpu 4 "$two"
check "two cases of the real list pass" ends 0
check "the device is named" says '^  GPU +parc stand-in GPU$'
check "the versions of libraries are listed" says '^  cuDNN +91900$'
check "the limits of the GPU are listed" says '^  power.limit +700 W$'
check "the rate of a copy is listed" says '^  copy within the device.* GB/s$'
check "toy_f32 is ok" says '^  toy_f32 +1x1 .* ok$'
check "feedforward_f32 is ok" says '^  feedforward_f32 +1x1 .* ok$'
check "the results are three files" \
    test "$(find "$work/out" -type f | wc -l)" = 3
check "the summary is below its maximum size" \
    test "$(wc -c <"$work/out/summary.txt")" -lt 12000

# ---- faults ----

fault() { # fault NAME FAULT PATTERN [NAME=VALUE…]
    what=$1 kind=$2 expected=$3
    shift 3
    forget gpu
    runs gpu 4 "$two" FAULT="$kind" "$@"
    check "$what: status" ends 1
    check "$what: is named" says "$expected"
    check "$what: the other case runs" says '^  feedforward_f32 .* ok$'
}
fault "a hang" hang:toy_f32 'toy_f32 +losses +did not end within 6 s' \
    CASE_SECONDS=6
check "a hang: is repeated with PARC_SYNC=1" \
    says 'PARC_SYNC=1 +did not end within 3 s'
check "a hang: is repeated without a graph" \
    says 'PARC_GRAPH=0 +did not end within 3 s'
check "a hang: a tiny case runs under compute-sanitizer" \
    says 'compute-sanitizer toy_f32 +=+ ERROR SUM'
in_all fault "a crash" crash:toy_f32 'toy_f32 +losses +ended by SIGSEGV'
in_all check "a crash: the variant without a fault is named" \
    says '^ +PARC_SYNC=1 +no fault'
in_all fault "a log that is cut off" cut:toy_f32 \
    'toy_f32 +losses +the log has 9 of 10 steps and 1 incomplete'
in_all fault "wrong losses" wrong:toy_f32 'toy_f32 +losses +WRONG: losses differ by'
in_all fault "other weights each time" each:toy_f32 \
    'toy_f32 +repeat +two runs have different weights'

# A library that cannot be opened, whatever this machine has, then one that only
# pip has installed: for a Python without packages, which may include the library.
mkdir -p "$work/few" "$work/site/nvidia/cublas/lib"
ln -s "$BUILD"/standin/lib* "$work/few/"
rm "$work/few/libcublasLt.so.13"
echo none | tee "$work/few/libcublasLt.so.12" >"$work/few/libcublasLt.so.13"
ln -s "$BUILD/standin/libcublasLt.so.13" "$work/site/nvidia/cublas/lib/"
missing_library() {
    libraries=$work/few:$BUILD/standin/cudnn
    "${PYTHON:-python3}" -m venv --without-pip "$work/python"
    forget gpu
    runs gpu 4 "$two" PYTHON="$work/python/bin/python3"
    check "a missing library: status" ends 1
    check "a missing library: is named" says \
        'machine +machine +cuBLASLt is missing'
    check "a missing library: the program names it" \
        says 'losses .*cuBLASLt is missing'
    forget gpu
    runs gpu 4 "$two" PYTHON="$work/python/bin/python3" PYTHONPATH="$work/site"
    check "a library that only pip has installed is found" ends 0
    libraries=$BUILD/standin:$BUILD/standin/cudnn
}
in_all missing_library

# A first contact: a container that has neither make nor xz, with libraries that
# pip has installed, and with empty directories for each command. The results
# beside the script, or those that EARLIER names, let a command continue.
first_contact() {
    mkdir "$work/usr" "$work/driver"
    echo "$PATH" | tr : '\n' | while read -r directory; do
        ln -s "$directory"/* "$work/usr/" 2>/dev/null
    done
    rm -f "$work/usr/make" "$work/usr/xz"
    # Not the links of ccache, which would look for a compiler in the same directory.
    for name in cc gcc; do
        for directory in $(echo "$PATH" | tr : ' '); do
            file=$(readlink -f "$directory/$name") || continue
            case $file in */ccache) continue ;; esac
            [ ! -x "$file" ] || { ln -sf "$file" "$work/usr/$name" && break; }
        done
    done
    ln -s "$BUILD/standin/libcuda.so.1" "$BUILD/standin/libstandin.so" "$work/driver/"
    # The machine's own libraries, if any, are hidden.
    for name in libcublasLt.so.13 libcublasLt.so.12 libnccl.so.2 libcudnn.so.9; do
        echo none >"$work/driver/$name"
    done
    for library in nccl/lib/libnccl.so.2 cudnn/lib/libcudnn.so.9; do
        mkdir -p "$work/site/nvidia/$(dirname "$library")"
        file=$(basename "$library")
        ln -s "$(find "$BUILD/standin" -name "$file")" "$work/site/nvidia/$library"
    done
    contact() { # contact STEPS PATTERN [NAME=VALUE…]: with empty directories
        steps=$1 pattern=$2
        shift 2
        rm -rf "$work/w.gpu" "$work/out"
        runs gpu "$steps" "$pattern" PATH="$work/bin:$work/usr" \
            PYTHONPATH="$work/site" LD_LIBRARY_PATH="$work/driver" LIMIT=560 "$@"
    }
    forget gpu
    contact 4 'feed*'
    check "a container without make and xz, libraries of pip" ends 0
    check "all libraries are found" sh -c '! grep missing "$1"' - "$work/said"
    contact 1,4 "$two"
    check "the next command continues" ends 0
    check "the next command runs the other case" says '^  toy_f32 +1x1 .* ok$'
    check "the next command has the results of the first" \
        says '^  feedforward_f32 +1x1 .* ok$'
    check "the next command repeats no case" sh -c \
        "! grep -q '^feedforward_f32' '$work/said'"
    mv "$work/gpu/results.jsonl" "$work/kept.jsonl"
    contact all "$two" EARLIER="$work/kept.jsonl"
    check "another machine continues from EARLIER" ends 0
    check "another machine repeats no case" sh -c \
        "! grep -E '^(toy|feedforward)_f32' '$work/said'"
    contact 4 'gpt2_f32' BUDGET=20
    check "no case begins when the time of all commands is used up" ends 3
    check "the message names the budget" grep -qF \
        "1 cases are left (gpt2_f32): the time of all commands is used up (BUDGET)" \
        "$work/said"
    forget gpu
    rm -rf "$work/w.gpu"
    runs gpu 4 "$two"
    check "the machine with make builds again" ends 0
}
in_all first_contact

# Commands that are killed, or have no time left.
killed_commands() {
    # A command that was killed while the linker wrote a program.
    forget gpu
    rm "$work/w.gpu/trees/toy_f32/train"
    head -c 100 "$work/w.gpu/trees/feedforward_f32/train" \
        >"$work/w.gpu/trees/toy_f32/train"
    runs gpu 4 "$two"
    check "an unfinished program is built again" ends 0

    # A command that is killed, and called again.
    forget gpu
    runs gpu 4 'feed*'
    check "one case passes before a kill" ends 0
    (command_ gpu 4 "$two" FAULT=hang:toy_f32) >"$work/said" 2>&1 &
    killed=$!
    for _ in $(seq 600); do
        grep -q '"toy_f32", "part": "losses"' "$work/out/results.jsonl" && break
        sleep 0.1
    done
    kill -KILL "$killed"
    wait "$killed" 2>/dev/null
    printf '{"case": "toy_f32", "part": "los' >>"$work/out/results.jsonl"
    check "a killed command keeps its results" says '^  feedforward_f32 .* ok$'
    asleep() {
        pgrep -f "^sleep $nap\$"
    }
    for _ in $(seq 50); do
        asleep >/dev/null || break
        sleep 0.1
    done
    check "a killed command leaves no program" test -z "$(asleep)"
    rm -r "$work/out" # a machine that gives an empty directory each time
    runs gpu 4 "$two"
    check "a killed command can be repeated" ends 0
    check "the repeated command runs the remaining case" \
        says '^  toy_f32 +1x1 .* ok$'
    check "the repeated command skips finished parts" sh -c \
        "! grep -q 'feedforward_f32 losses' '$work/said'"
    forget gpu
    runs gpu 4 "$two" LIMIT=24
    check "a command without time for a case exits with 3" ends 3
    check "the cases without time are named" \
        grep -q '2 cases are left (toy_f32, feedforward_f32)' \
        "$work/said"
}
in_all killed_commands

# ---- small versions of other cases: cuDNN, ranks that share a GPU, speed, a
# case that cannot be emitted ----

sed -nE '/^[14] llama_(bf16|bf16_own|f32_2x2) /{
    s/vocab=512/vocab=256/; s/ dim=[0-9]*/ dim=32/; s/n_layers=3/n_layers=2/
    s/hidden=[0-9]*/hidden=64/; s/batch=8/batch=4/; s/seq=[0-9]*/seq=16/; p
    s/^4 llama_bf16_own +([0-9]+) numerics/2 llama_speed \1 speed/p
    }' tests/gpu/cases >"$work/cases"
echo '1 no_such_plan 10 numerics toy 1x1 --plan none' >>"$work/cases"
env CASES="$work/cases" PARC="$PARC" tests/gpu/trees "$work/small" \
    >"$work/said" 2>&1
status=$?
check "a case that cannot be emitted: status" ends 1
forget small
runs small all '*' MACHINE=h100-sxm
check "a case that cannot be emitted: status of the run" ends 1
check "a case that cannot be emitted: name and reason" \
    says "no_such_plan +build +not emitted: .*none"
check "attention on cuDNN is listed" says \
    '^  llama_bf16 +forward of \[4, 16, 4, 8\]: cuDNN 91900, engine 2$'
check "attention on cuDNN has the CPU's losses" says '^  llama_bf16 +1x1 .* ok$'
check "attention on our own kernels is listed" says \
    '^  llama_bf16_own +backward of .*: own kernels \(PARC_CUDNN=0\)$'
check "ranks that share a GPU have the CPU's losses" \
    says '^  llama_f32_2x2 +2x2 .* ok$'
check "time, memory, clocks and power are listed" says \
    '^  llama_speed +1x1 .* 1980/1980/1980 +650/650/650 '
check "the forecast of a step is listed with its error" \
    says '^  llama_speed +1x1 +[0-9.]+ +[0-9.]+ \([+-][0-9.]+%\)'
check "the forecasts of classes are listed" \
    says '^  llama_speed +matmul +[0-9.]+ +[0-9.]+ \([+-]'
check "the times within a step are listed" \
    says '^llama_speed: where the step goes'
# The report shows the slowest rows, which may lack a matmul under load.
check "a matmul's flops are recorded" jq -es '[.[] | .rows? // empty | .[] |
    select(.[1] == "matmul" and .[5] > 0)] | length > 0' \
    "$work/out/results.jsonl"
check "a kernel's rate is listed" says '^  .* GB/s, .* of a copy$'

# ---- the document ----

check "the report is written" tests/gpu/report.py "$work/out/results.jsonl" \
    -o "$work/gpu.md"
check "the report has the device" \
    grep -q '| GPU | parc stand-in GPU |' "$work/gpu.md"
check "the report has the commit" grep -q '| parc | commit ' "$work/gpu.md"
check "the report has the figures" \
    grep -q '| llama_f32_2x2 | 2x2 | .* | ok |' "$work/gpu.md"
grep -v '"ok"' "$work/out/results.jsonl" >"$work/none.jsonl"
check "no report is written without measurements" sh -c "! tests/gpu/report.py \
    '$work/none.jsonl' -o '$work/none.md' && [ ! -e '$work/none.md' ]"
finish
