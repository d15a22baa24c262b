#!/bin/sh
# Attention for the usual sizes of heads keeps all that it works on in
# registers. ARCHS="sm_80 sm_90a sm_100" HEADS=heads looks at all of them.
. "$(dirname "$0")/lib.sh"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
    echo "no nvcc: registers are not looked at"
    finish
    exit
fi

# no_spill ARCH: compiles without a warning, and ptxas spills nothing.
no_spill() {
    "$nvcc" -arch="$1" -cubin -Werror all-warnings -Xptxas -v -Iruntime/cuda \
        -Iruntime -o "$work/heads.cubin" "$work/heads.cu" \
        >"$work/ptxas" 2>&1 || { cat "$work/ptxas"; return 1; }
    grep -c "Compiling entry function" "$work/ptxas" &&
        ! grep -B 2 " [1-9][0-9]* bytes spill" "$work/ptxas"
}

"$BUILD/unit/instances" --text "${HEADS:-causal}" >"$work/heads.cu"
for arch in ${ARCHS:-sm_90a}; do
    check "registers of $arch" no_spill "$arch"
done
finish
