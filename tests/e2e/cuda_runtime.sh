#!/bin/sh
# cuda_runtime.sh: the CUDA runtime with stand-ins for CUDA's libraries. A
# handwritten program computes what it computes on the CPU, in every order of
# queued work and in every mode. Messages name each missing part and its remedy.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

cc="${CC:-cc} -std=c11 -g -Iruntime tests/cuda/line.c"
lib=$BUILD/standin
export BUILD
check "the stand-ins build" tests/standin/build
check "kernels compile" tests/standin/build tests/cuda/line.cu "$work/line.so"
# shellcheck disable=SC2086
{
    check "links for the CPU" $cc "$BUILD/libparc_rt.a" -o "$work/cpu" \
        -ldnnl -fopenmp -lm
    check "links for CUDA" $cc -DCUDA "$BUILD/libparc_cuda.a" -o "$work/cuda" \
        -fopenmp -lm -ldl
}
export PARC_CACHE="$work/cache" STANDIN_KERNELS="$work/line.so"

# on_cuda [NAME=VALUE…] OPTIONS…: runs the program with the stand-ins.
on_cuda() {
    LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} env "$@"
}

# trains NAME…: six steps give the curve and the weights of the CPU.
trains() {
    on_cuda "$@" "$work/cuda" --steps 6 --log "$work/cuda.log" \
        --export "$work/cuda.st" &&
        same_curve "$work/cpu.log" "$work/cuda.log" 1e-5
}

# refuses TEXT [NAME=VALUE…]: exit status 1, and TEXT is the only message.
refuses() {
    expected="cuda: error: $1"
    shift
    on_cuda "$@" "$work/cuda" --steps 2 --data synthetic >"$work/out" \
        2>"$work/said"
    [ $? = 1 ] && [ ! -s "$work/out" ] &&
        printf '%s\n' "$expected" | diff - "$work/said"
}

check "trains on the CPU" "$work/cpu" --steps 6 --log "$work/cpu.log"
check "trains on CUDA" trains A=
first=$(cksum <"$work/cuda.st")
for mode in STANDIN_ORDER=late STANDIN_ORDER=ahead STANDIN_ORDER=17 \
    PARC_GRAPH=0 PARC_SYNC=1 PARC_NANCHECK=1; do
    check "trains with $mode" trains $mode
    check "$mode gives the same weights" \
        test "$first" = "$(cksum <"$work/cuda.st")"
done
check "trains with TF32" trains PARC_TF32=1 # may have kernels of its own

# The library has TF32 for operands in f32 alone; it refuses others.
check "a program in bf16" cuda_tree "$work/half" examples/feedforward.pdl \
    --mesh 1x1 --arch sm_90a -D dim=16 -D hidden=32 -D batch=8 -D precision=bf16
check "a bf16 program trains with TF32" env PARC_CACHE="$work/none" sh -c "\
    tests/standin/build -fast '$work/half/kernels.cu' '$work/half/fast.so' &&
    PARC_TF32=1 tests/standin/run -k '$work/half/fast.so' '$work/half/train' \
        --steps 3"
check "trains without a graph, queued work late" \
    trains PARC_GRAPH=0 STANDIN_ORDER=late

# A trace has every statement of the plan, once per iteration, in sequence;
# steps that are not traced run as graphs.
check "trains with --trace" trains A=
first=$(cksum <"$work/cuda.st")
on_cuda STANDIN_ORDER=late "$work/cuda" --steps 6 --trace "$work/t.json" \
    --export "$work/cuda.st" >"$work/said" 2>&1
check "a traced run gives the same weights" \
    test "$first" = "$(cksum <"$work/cuda.st")"
check "all statements are in the trace" jq -e '
    [.traceEvents[] | select(.cat == "kernel")] |
    (map(.name) | unique) == ["dw", "loss", "moves", "update", "y"] and
    (group_by(.name) | map(length)) == [3, 3, 9, 3, 3] and
    (sort_by(.ts) | . as $e | [range(1; length) |
        $e[.].ts - $e[. - 1].ts - $e[. - 1].dur] | all(. > -0.01)) and
    (map(select(.name == "moves").args.iteration) | unique) == [0, 1, 2]' \
    "$work/t.json"
check "no step lasts longer than its statements and its input" jq -e '
    [.traceEvents[] | select(.ph == "X")] |
    (map(select(.cat == "step").dur) | add) -
    (map(select(.cat | IN("kernel", "input")).dur) | add) | fabs < 1' \
    "$work/t.json"

check "the arena has the planned bytes" jq -es \
    'all(.peak_bytes == 24064)' "$work/cuda.log"
check "an H200's rate is known" jq -es 'all(.mfu > 0)' "$work/cuda.log"

# A kernel that writes beyond the arena.
# shellcheck disable=SC2086
check "links with a fault" $cc -DCUDA -DFAULT "$BUILD/libparc_cuda.a" \
    -o "$work/fault" -fopenmp -lm -ldl
export STANDIN_ORDER=late
on_cuda "$work/fault" --steps 1 2>"$work/said"
check "a faulty kernel ends the run" test $? = 1
check "a faulty kernel is reported where it is detected" \
    grep -E "error: rank 0: the step: unspecified \
launch failure \(CUDA_ERROR_LAUNCH_FAILED\); something queued earlier failed: \
PARC_SYNC=1 names it$" "$work/said"
on_cuda PARC_SYNC=1 "$work/fault" --steps 1 2>"$work/said"
check "PARC_SYNC=1 names the faulty kernel" \
    grep -E "error: rank 0: line_update in \
'update' \(line.pdl:4:5\): unspecified launch failure \
\(CUDA_ERROR_LAUNCH_FAILED\)$" "$work/said"
unset STANDIN_ORDER

on_cuda "$work/cuda" --dry-run >"$work/said"
check "a dry run names the GPU" grep -qx \
    "device    GPU 0: parc stand-in GPU (sm_90), 4 multiprocessors" "$work/said"
check "a dry run reports memory outside the arena" grep -qE \
    "^other     [0-9.]+ [KMG]?i?B on the GPU: kernels, graphs, libraries$" \
    "$work/said"

# Messages about machines on which the program cannot run.
check "a missing driver ends the run" \
    env LD_LIBRARY_PATH= sh -c "! '$work/cuda' --steps 1 \
    2>'$work/said'"
check "a missing driver is named" \
    grep -qxF "cuda: error: the CUDA driver is missing: \
libcuda.so.1: cannot open shared object file: No such file or directory; it \
comes with NVIDIA's driver, which this machine needs to run a program built \
for CUDA; in a container, pass the GPUs on (docker run --gpus all)" \
    "$work/said"
mkdir "$work/only"
ln -s "$lib/libcuda.so.1" "$lib/libstandin.so" "$work/only"
: >"$work/only/libcublasLt.so.13" # found before the machine's own, if any
: >"$work/only/libcublasLt.so.12"
check "a missing cuBLASLt ends the run" env LD_LIBRARY_PATH="$work/only" sh -c \
    "! '$work/cuda' --steps 1 2>'$work/said'"
check "a missing cuBLASLt is named" \
    grep -qE "^cuda: error: cuBLASLt is missing: \
.*libcublasLt.so.13: file too short; .*libcublasLt.so.12: file too short; \
install the CUDA libraries" \
    "$work/said"
check "a machine without a GPU is refused" \
    refuses "the CUDA driver cannot start: no CUDA-capable device \
is detected (CUDA_ERROR_NO_DEVICE); nvidia-smi shows the GPUs that it sees, \
CUDA_VISIBLE_DEVICES can hide them" STANDIN_DEVICES=0
check "an old driver is refused" \
    refuses "the CUDA driver is of CUDA 11.8, and this \
program needs 12.0 or newer: update NVIDIA's driver" STANDIN_DRIVER=11080
check "a GPU with too little memory is refused" \
    refuses "a rank needs 23.5 KiB; GPU 0 (parc \
stand-in GPU) has 20.0 KiB free of 8.0 GiB, 3.5 KiB too little. parc --device-memory \
20.6 KiB says what would make it fit" STANDIN_FREE=20480
check "a GPU without an image is refused" \
    refuses "GPU 0 is a parc stand-in GPU (sm_100), and \
this program was built for sm_80, sm_90: build it again with parc --arch sm_100" \
    STANDIN_CAPABILITY=10.0
check "PARC_DEVICE selects a GPU" on_cuda PARC_DEVICE=7 "$work/cuda" --steps 1
check "PARC_DEVICE beyond the number of GPUs is refused" \
    refuses "PARC_DEVICE is '8'; it takes the number \
of one of the 8 GPUs that the driver shows, from 0 on" PARC_DEVICE=8
check "PARC_GRAPH=yes is refused" \
    refuses "PARC_GRAPH is 'yes' in the environment; it takes 0 or 1" \
    PARC_GRAPH=yes
check "less shared memory than a kernel needs is refused" \
    refuses "'line_update' \
needs 102400 bytes of shared memory, but a block of GPU 0 (parc stand-in GPU) \
has 65536: build it again with parc --arch sm_90" STANDIN_SHARED=65536

# The host memory next to the GPU, as sysfs names it.
mkdir -p "$work/sys/bus/pci/devices/0000:1b:00.0"
node() { # node N: writes N to the file
    echo "$1" >"$work/sys/bus/pci/devices/0000:1b:00.0/numa_node"
    on_cuda PARC_SYSFS="$work/sys" "$work/cuda" --dry-run
}
check "host memory is on the GPU's NUMA node" \
    sh -c 'echo "$1" | grep -q "memory of NUMA node 0"' \
    - "$(node 0)"
check "a machine with one NUMA node" \
    sh -c '! echo "$1" | grep NUMA' - "$(node -1)"
check "a machine without sysfs" \
    on_cuda PARC_SYSFS="$work/none" "$work/cuda" --steps 1

# Times of the candidates for matmuls.
check "PARC_TIMES writes the times of matmuls" trains PARC_TIMES="$work/times" \
    PARC_CACHE="$work/none"
check "PARC_TIMES has all candidates" jq -e '(.ms | length) > 1 and
    (.cold_ms | length) == (.ms | length) and .chosen < (.ms | length)' \
    "$work/times"

# The cache of matmul choices.
file=$(ls "$work"/cache/matmul-*.txt)
check "the cache has the choices" test "$(wc -l <"$file")" = 5
cp "$file" "$work/kept"
check "a second run reads the cache" trains A=
check "a second run does not change the cache" cmp "$file" "$work/kept"
sed -i '4s/^./x/' "$file"
on_cuda "$work/cuda" --steps 1 2>"$work/said"
check "a damaged cache is reported" \
    grep -qxF "note: '$file' is damaged in line 4; \
matmul kernels are measured again" "$work/said"
check "a damaged cache is rewritten" test "$(wc -l <"$file")" = 3
finish
