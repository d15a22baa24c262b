#!/bin/sh
# kernel_costs.sh: no kernel of the Llama block moves more bytes than each
# tensor once, except for partial sums that it names. No tensor is stored that
# could have stayed on the chip. If ptxas is installed, no kernel may spill
# registers or have a stack.
. "$(dirname "$0")/lib.sh"

"$PARC" examples/llama.pdl --mesh 8x8 --target cuda --emit plan >"$work/plan"

# The bytes that a kernel moves beyond the minimum and beyond those that it
# gives a reason for. Sizes are printed to about three digits.
excess() {
    awk '
        BEGIN { of["B"] = 1; of["KiB"] = 1024; of["MiB"] = 1048576
            of["GiB"] = 1073741824 }
        function bytes(x, unit) { return x * of[unit] }
        /^Kernels/ { on = 1 } /^$/ { on = on && n == 0 } on && $2 == "x" {
            n++
            moved = bytes($3, $4) + bytes($5, $6)
            named = 0
            for (i = 9; i < NF; i++)
                if ($(i + 1) ~ /^(B|KiB|MiB|GiB)$/)
                    named += bytes($i, $(i + 1))
            least = bytes($7, $8)
            if (moved > (least + named) * 1.01 + 64) {
                print "moves more: " $0
                bad = 1
            }
            if (/too long/) {
                print "streamed: " $0
                bad = 1
            }
        }
        END { if (n < 30) print n + 0 " kernels"; exit bad || n < 30 }' \
        "$work/plan"
}
check "each tensor is accessed once" excess

# Tensors between kernels: scalars of the gradient norm; the base of rope's
# tables; and the picked scores, whose kernel waits for a sum over ranks.
between() {
    awk '/^Tensors that only kernels/ { on = 1; next } /^$/ { on = 0 }
        on && !($1 == 4 && $2 == "B") && $3 !~ /^(frequency|picked)/ {
            print
            bad = 1
        }
        on { n++ }
        END { if (n < 2) print n + 0 " tensors"; exit bad || n < 2 }' \
        "$work/plan"
}
check "no tensor is stored only between kernels" between

# GPT-2's block leaves epilogues to the library: no kernel re-reads a tensor to
# add a bias, to sum its gradient, or for GELU; an input's gradients are summed
# once.
with() { # with TIMES WHAT
    [ "$(sed -n '/^Matmuls/,/^$/p' "$work/gpt2" | grep -c "  with $2\$")" = "$1" ]
}
"$PARC" examples/gpt2.pdl --mesh 2x2 --target cuda --emit plan >"$work/gpt2"
check "matmuls of queries, keys and values add their biases" with 3 bias
check "a matmul computes GELU and its bias" with 1 'bias, gelu'
check "a matmul computes GELU's gradient" with 1 'gelu gradient'
check "matmuls of weight gradients sum the biases' gradients" \
    with 6 'bias gradient'
check "matmuls add gradients" with 2 add
"$PARC" examples/gpt2.pdl --mesh 2x2 --target cuda -D epilogues=none \
    --emit plan >"$work/gpt2"
check "epilogues=none has no epilogue" with 0 '.*'

if command -v nvcc >/dev/null && "$PARC" examples/llama.pdl --mesh 8x8 \
    --target cuda -S "$work/tree" >"$work/log" 2>&1; then
    spills() {
        for source in kernels instances; do
            nvcc -arch=sm_90a -cubin -I"$work/tree/runtime" \
                -I"$work/tree/runtime/cuda/device" -Xptxas -v \
                -o "$work/$source.cubin" "$work/tree/$source.cu" || return 1
        done 2>"$work/ptxas" || cat "$work/ptxas"
        grep -q 'bytes stack frame' "$work/ptxas" &&
            ! grep 'bytes stack frame' "$work/ptxas" |
            grep -v ' 0 bytes stack frame, 0 bytes spill'
    }
    check "no kernel spills registers" spills
else
    echo "skipped: no nvcc, or no tree: $(head -n 1 "$work/log")" >&2
fi
finish
