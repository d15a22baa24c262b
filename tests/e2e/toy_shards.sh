#!/bin/sh
# toy_shards.sh: toy.pdl: which rank owns which rows of a 12x12 weight, and the
# exported weight, on meshes where FSDP and tensor parallelism split one dim.
# cpu: losses
. "$(dirname "$0")/lib.sh"

# The rows of net1.weight that each rank of mesh FxT owns, and its groups:
# tensor parallelism splits first, FSDP splits each part.
expected() { # expected F T
    awk -v F="$1" -v T="$2" 'BEGIN {
        for (f = 0; f < F; f++) for (t = 0; t < T; t++) {
            part = 144 / T; run = part / F
            first = t * part + f * run; last = first + run - 1
            column = row = ""
            for (i = 0; i < F; i++) column = column (i ? ", " : "") i * T + t
            for (i = 0; i < T; i++) row = row (i ? ", " : "") f * T + i
            printf "rank %d: fsdp=%d {%s} tp=%d {%s}: %d elements: ",
                   f * T + t, f, column, t, row, run
            a = int(first / 12); b = int(last / 12)
            if (first % 12 == 0 && run % 12 == 0)
                printf "rows %d .. %d\n", a, b
            else
                printf "[%d, %d] .. [%d, %d]\n", a, first % 12, b, last % 12
        }}'
}

owners() { # owners BINARY
    "$1" --print-shards net1.weight | grep '^rank'
}

same_owners() { # same_owners BINARY F T
    expected "$2" "$3" >"$work/want"
    owners "$1" >"$work/have"
    diff "$work/want" "$work/have"
}

in_order() { # in_order FILE: the exported weight is 101, 102, …, 244
    python3 - "$1" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", data[:8])
head = json.loads(data[8:8 + n])
w = head["net1.weight"]
assert w["shape"] == [12, 12] and w["dtype"] == "F32", w
a, b = w["data_offsets"]
v = struct.unpack("<144f", data[8 + n + a:8 + n + b])
assert list(v) == [101.0 + i for i in range(144)], v
PY
}

for mesh in 1x1 4x1 1x4 2x4 3x2; do
    binary=$work/toy-$mesh
    check "$mesh compiles" compile "$binary" toy "$mesh"
    check "$mesh exports" "$binary" --steps 0 --export "$work/$mesh.st"
    check "$mesh exports rows in order" in_order "$work/$mesh.st"
    check "$mesh prints the owners of rows" \
        same_owners "$binary" "${mesh%x*}" "${mesh#*x}"
    check "$mesh trains" "$binary" --steps 3 --log "$work/toy-$mesh.log"
    check "$mesh curve" same_curve "$work/toy-$mesh.log" "$work/toy-1x1.log" 1e-5
done
finish
