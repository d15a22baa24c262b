#!/bin/sh
# rope.sh: scaled rotary embeddings train as the same frequencies written by hand do.
# cpu: losses
. "$(dirname "$0")/lib.sh"

model() { # model BODY: a model that rotates x, [batch, seq, 2, 16], to y and z
    cat <<END
model Small(theta=100.0) {
    wx: Linear(8, 32)

    forward(h: [batch, seq, 8]) {
        x = heads(wx(h), 2)
$1
        weights = sin(reshape(arange(seq * 32), 1, seq, 2, 16))
        return mean(square(y * weights - 0.1)) + mean(square(z * weights - 0.2))
    }
}
plan p(dp, tp) {
    parallelize tp { wx: ColwiseParallel }
    fully_shard dp { model }
}
train {
    batch = 4
    seq = 48
    precision = f32
    optimizer = AdamW(lr=1e-2)
}
END
}
# by_hand RESULT KEPT MAGNITUDE STYLE: frequencies f of pairs i, of which the part KEPT is
# not divided by 4
by_hand() {
    cat <<END
        i = arange(8)
        f = exp(i * (-log(theta) / 8))
        kept = minimum(maximum($2, i * 0), i * 0 + 1)
        angle = reshape(arange(seq), seq, 1, 1) * (f * (kept + (1 - kept) / 4))
        c = cos(angle) * $3
        s = sin(angle) * $3
END
    if [ "$4" = half ]; then
        echo '        a, b = split(x, 2)'
        echo "        $1 = concat(a * c - b * s, b * c + a * s)"
    else
        echo '        p = reshape(x, batch, seq, 2, 8, 2)'
        echo '        a = reshape(slice(p, 0, 1), batch, seq, 2, 8)'
        echo '        b = reshape(slice(p, 1, 1), batch, seq, 2, 8)'
        echo "        $1 = reshape(concat(unsqueeze(a * c - b * s, 4),
            unsqueeze(b * c + a * s, 4)), batch, seq, 2, 16)"
    fi
}
run() { # run NAME BODY MESH
    binary=$work/$1
    model "$2" >"$binary.pdl"
    check "$1 compiles" "$PARC" "$binary.pdl" --target cpu --threads 1 --mesh "$3" -o "$binary"
    check "$1 trains" "$binary" --threads 1 --steps 10 --seed 5 --log "$binary.log"
}
# compare NAME SCALING KEPT MAGNITUDE SCALING KEPT MAGNITUDE: two scalings in each style
compare() {
    for style in half interleaved; do
        run "$1-$style-hand" "$(by_hand y "$3" "$4" $style; by_hand z "$6" "$7" $style)" 1x1
        for mesh in $(few_or_all 2x2 "1x1 2x2"); do
            run "$1-$style-$mesh" "        y = rope(x, theta, style=$style, scaling=$2)
        z = rope(x, theta, style=$style, scaling=$5)" "$mesh"
            check "$1, $style on $mesh: losses" same_curve "$work/$1-$style-$mesh.log" \
                "$work/$1-$style-hand.log" 1e-6
        done
    done
}
# Pair 0 makes 16 / (2 pi) = 2.5 rotations in 16 tokens, pair 7 0.05. YaRN: 2 rotations at
# pair 0.42, 0.2 at pair 4.4, rounded to 0 and 5.
compare even none 'i * 0 + 1' 1 '("linear", 4)' 'i * 0' 1
compare ramp '("llama3", 4.0, 0.2, 2.0, 16)' '(f * (16 / 6.283185307) - 0.2) / 1.8' 1 \
    '("yarn", 4.0, 0.2, 2.0, 16)' '1 - i / 5' '(0.1 * log(4.0) + 1)'
compare exact none 'i * 0 + 1' 1 '("yarn_exact", 4.0, 0.2, 2.0, 16)' \
    '1 - (i - 0.4196405) / 4.0000000' '(0.1 * log(4.0) + 1)'

refused() { # refused SCALING MESSAGE
    model "        y = rope(x, scaling=$1)
        z = y" >"$work/bad.pdl"
    ! "$PARC" "$work/bad.pdl" --emit plan 2>"$work/err" && grep -F -- "$2" "$work/err"
}
check "an unknown scaling" refused '"dynamic"' "must be default, linear, llama3, yarn or yarn_exact"
check "a factor below 1" refused '("linear", 0.5)' "a factor of at least 1"
check "no factor" refused '("linear",)' "needs 1 number, not 0"
check "no context" refused '("llama3", 8.0)' "needs 4 numbers, not 1"
check "a word for a number" refused '("linear", "4")' "a name and numbers, not '4'"
check "no original context" refused '("llama3", 8.0, 1.0, 4.0, 0)' "the tokens of the original"
check "bounds in the wrong order" refused '("yarn", 8.0, 32.0, 1.0, 64)' "0 < low < high"
check "a number" refused 8 "must be default, linear, llama3, yarn or yarn_exact"
finish
