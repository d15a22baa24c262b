#!/bin/sh
# cuda_sass.sh: the machine code of a Llama's kernels has the accesses to memory
# that they were planned for: vectors of 128 bits, no local memory, and loads
# before the stores and barriers that would delay them (tests/tools/sass_gate.py).
# It needs NVRTC, and cuobjdump and nvdisasm from the CUDA toolkit or the pip
# packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm, which
# `scripts/setup.sh emulation` installs; it is skipped without.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nvrtc.sh"

packages=$(python3 -c 'import nvidia
print(":".join(p + "/cu13/bin" for p in nvidia.__path__))' 2>/dev/null)
PATH=$PATH:$toolkit/bin:$root/build/tools/nvidia/cu13/bin${packages:+:$packages}
if ! command -v cuobjdump >"$work/log" || ! command -v nvdisasm >"$work/log"
then
    echo "SKIPPED $(basename "$0"): cuobjdump and nvdisasm are not installed;" \
        "no machine code was checked" >&2
    finish
    exit
fi

gate() { # gate TREE PATTERN
    cuobjdump -sass "$1/kernels.sm_90a.cubin" >"$work/sass" &&
        python3 "$root/tests/tools/sass_gate.py" "$2" <"$work/sass"
}

llama() { # llama NAME OPTIONS…
    name=$1
    shift
    check "$name compiles" tree "$work/tree" examples/llama.pdl \
        --arch sm_90a -D n_layers=2 -D vocab=128256 -D batch=4 -D seq=4096 "$@"
    check "$name: accesses of kernels" gate "$work/tree" \
        '^k\d+_(?!adamw).*(norm|norm_grad|cross_entropy|and_grad|silu|rope)(_grad)?(_\d+)?$'
    rm -rf "$work/tree"
}

# The sizes of Llama 3.2 1B and Llama 3 8B, and a rank's part with 8-way tensor
# parallelism.
llama "dim 2048" --mesh 1x1 -D dim=2048 -D n_heads=32 -D n_kv_heads=8 \
    -D hidden=8192 -D precision=bf16
llama "dim 4096, f32" --mesh 1x1 -D dim=4096 -D n_heads=32 -D n_kv_heads=8 \
    -D hidden=14336 -D precision=f32
llama "dim 4096 on 2x8" --mesh 2x8 -D dim=4096 -D n_heads=32 -D n_kv_heads=8 \
    -D hidden=14336 -D precision=bf16

# The gate can fail: a load that waits for a store is found.
printf '%s\n' 'Function : k0' '/*0010*/ LDG.E.128 R4, desc[UR4][R2.64] ;' \
    '/*0020*/ ST.E.128 desc[UR4][R2.64], R4 ;' >"$work/sass"
check "the gate accepts a load and a store" \
    python3 tests/tools/sass_gate.py k0 <"$work/sass"
echo '/*0030*/ LDG.E.128 R4, desc[UR4][R2.64+0x10] ;' >>"$work/sass"
python3 tests/tools/sass_gate.py k0 <"$work/sass" >"$work/refusal"
check "the gate refuses a load that follows a store" \
    grep -q 'k0: the load at 0030 follows the store at 0020' "$work/refusal"
finish
