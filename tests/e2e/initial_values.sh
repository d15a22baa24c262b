#!/bin/sh
# initial_values.sh: truncated normal initial values, and values that depend on the
# index in an array, have their bounds, mean and deviation, and are the same on
# every mesh and under a plan that splits the array.
. "$(dirname "$0")/lib.sh"

cat >"$work/m.pdl" <<'END'
module Block(dim) {
    net: Linear(dim, dim, init=truncated_normal(0.02, depth=-0.5),
                bias_init=normal(1.0, depth=-1))
    forward(x) { return x + net(x) }
}
model M(dim=128) {
    layers: [4] Block(dim)
    out:    Linear(dim, dim, bias=false, init=truncated_normal(1.0, -0.5, 3.0))
    forward(x: [batch, dim]) {
        for layer in layers { x = layer(x) }
        return mean(square(out(x)))
    }
}
plan both(dp, tp) {
    parallelize tp {
        layers.*.net: ColwiseParallel(output=Replicate)
    }
    fully_shard dp { layers.0-1, layers.2-3, out }
}
END
export_on() { # export_on MESH
    "$PARC" "$work/m.pdl" --target cpu --threads 1 --mesh "$1" -o "$work/$1" &&
        "$work/$1" --steps 0 --seed 3 --export "$work/$1.safetensors"
}
check "1x1" export_on 1x1
check "2x2" export_on 2x2
check "both export the same" cmp "$work/1x1.safetensors" "$work/2x2.safetensors"

# within NAME LEAST MOST MEAN DEVIATION: the values are from LEAST to MOST, and have
# this mean and deviation up to 4 % of the deviation.
cat >"$work/moments.py" <<'END'
import array, json, struct, sys
path, name, least, most, mean, deviation = sys.argv[1:3] + [float(x) for x in sys.argv[3:]]
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
begin, end = json.loads(data[8:8 + n])[name]["data_offsets"]
x = array.array("f", data[8 + n + begin:8 + n + end])
average = sum(x) / len(x)
spread = (sum((v - average) ** 2 for v in x) / len(x)) ** 0.5
print(min(x), max(x), average, spread)
error = 0.04 * deviation
ok = (least * 1.000001 <= min(x) < 0.97 * least and 0.9 * most < max(x) <= most * 1.000001 and
      abs(average - mean) < error and abs(spread - deviation) < error)
sys.exit(not ok)
END
within() {
    python3 "$work/moments.py" "$work/2x2.safetensors" "$@"
}
check "two standard deviations" within layers.0.net.weight -0.04 0.04 0 0.0175925
check "of the second layer" within layers.1.net.weight -0.0282843 0.0282843 0 0.0124398
check "of the last layer" within layers.3.net.weight -0.02 0.02 0 0.0087963
check "bounds" within out.weight -0.5 3 0.5037 0.6870
prints() { # --print-shards draws the same values
    "$work/1x1" --seed 3 --print-shards layers.2.net.weight | sed '1,2d' >"$work/a"
    "$work/1x1" --seed 3 --print-shards layers.2.net.weight \
        --init "$work/2x2.safetensors" | sed '1,2d' >"$work/b"
    cat "$work/a" && [ -s "$work/a" ] && cmp "$work/a" "$work/b"
}
check "single values are the same" prints
finish
