#!/bin/sh
# layer_names.sh: `names hf` for layers that the file numbers in another way than
# the model's arrays, and for elements with names of their own: a file with such
# names is loaded, trained and exported on 1x1 and 2x2.
. "$(dirname "$0")/lib.sh"
weights() {
    python3 "$root/tests/tools/weights.py" "$@"
}

cd "$work" || exit 1
cat >model.pdl <<'EOF_MODEL'
module Mix(dim) {
    q:  Linear(dim, dim, bias=false)
    up: Linear(dim, dim)
    forward(x) { return x + up(silu(q(x))) }
}
module Pair(dim) {
    local:  Mix(dim)
    global: Mix(dim)
    forward(x) { return global(local(x)) }
}
model Net(vocab=256, dim=32, n=3) {
    embed: Embedding(vocab, dim)
    first: Mix(dim)
    pairs: [n] Pair(dim)
    tail:  [4] Mix(dim)
    head:  Linear(dim, vocab, bias=false)
    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        h = first(embed(tokens))
        for pair in pairs { h = pair(h) }
        for layer in tail { h = layer(h) }
        return cross_entropy(head(h), labels)
    }
}
plan both(dp, tp) {
    parallelize tp {
        pairs.*.*.q:  ColwiseParallel(output=Shard(-1))
        pairs.*.*.up: RowwiseParallel
        head: ColwiseParallel
    }
    fully_shard dp { embed, pairs.*, tail.*, model }
}
train {
    batch = 4
    seq = 16
}
names hf {
    embed             -> model.embed
    head              -> lm_head
    first             -> model.layers.0
    pairs.*.local     -> model.layers.2i+1
    pairs.*.global    -> "model.layers.2i+2"
    pairs.*.global.up -> model.layers.2i+2.mlp: transpose
    tail.*            -> model.tail.i-1
    tail.0            -> model.before
    tail.1-2.up       -> model.mid.*
    tail.3.q          -> model.last: transpose
    config { n_layers = 2 * n + 1 }
}
EOF_MODEL
# The same without a block of names: the arrays are not cut.
sed '/^names hf/,$d' model.pdl >plain.pdl
# hf_name NAME: the tensor's name in files, computed independently.
cat >hf.py <<'EOF_PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
import array
import weights

def hf_name(name):
    part = name.split(".")
    rest = ".".join(part[2:])
    if part[0] == "first":
        return "model.layers.0." + name[6:], False
    if part[0] == "pairs":
        layer = 2 * int(part[1]) + (1 if part[2] == "local" else 2)
        up = part[2:4] == ["global", "up"]
        rest = ".".join((["mlp"] if up else [part[3]]) + part[4:])
        return "model.layers.%d.%s" % (layer, rest), up
    if part[0] == "tail":
        i = int(part[1])
        if i == 0:
            return "model.before." + rest, False
        if i == 3 and part[2] == "q":
            return "model.last." + part[3], True
        if i < 3 and part[2] == "up":
            return "model.mid.%d.%s" % (i, part[3]), False
        return "model.tail.%d.%s" % (i - 1, rest), False
    return {"embed": "model.embed", "head": "lm_head"}[part[0]] + ".weight", False

out = {}
for name, (dtype, shape, data) in weights.read(sys.argv[2]).items():
    name, turned = hf_name(name)
    if turned and len(shape) == 2:
        x = array.array("f", data)
        rows, columns = shape
        data = array.array("f", (x[r * columns + c] for c in range(columns)
                                 for r in range(rows))).tobytes()
        shape = [columns, rows]
    assert name not in out, name
    out[name] = (dtype, shape, data)
weights.write_file(sys.argv[3], out)
EOF_PYTHON
translate() { # translate A B: A with the model's names as B with those of files
    python3 hf.py "$root/tests/tools" "$1" "$2"
}
train() { # train PROGRAM OPTIONS…
    program=$1
    shift
    "./$program" --data "bytes:$text" --steps 2 --seed 3 "$@"
}

for mesh in 1x1 2x2; do
    for model in model plain; do
        check "$mesh: $model compiles" "$PARC" $model.pdl --target cpu \
            --mesh $mesh --threads 1 -o $model$mesh
    done
    check "$mesh: initial weights" ./plain$mesh --steps 0 --seed 5 --export own
    check "$mesh: with the names of files" translate own hf
    check "$mesh: they are loaded" ./model$mesh --steps 0 --init hf \
        --export loaded --export-names parc
    check "$mesh: bit by bit" weights same own loaded
    check "$mesh: and exported" ./model$mesh --steps 0 --init hf --export same/
    check "$mesh: under the same names" weights same hf same
    check "$mesh: config.json" grep -q '"n_layers": 7' same/config.json
    check "$mesh: trains" train model$mesh --init hf --export trained/ \
        --export-shard-size 10KB
    check "$mesh: trains without names" train plain$mesh --init own --export own2
    check "$mesh: names of trained weights" translate own2 hf2
    check "$mesh: the same steps" weights same hf2 trained
    check "$mesh: weights changed" sh -c '! cmp -s hf hf2'
    check "$mesh: a part" ./model$mesh --steps 0 --init trained \
        --export only --export-only 'pairs.*.global.up' --export-only tail.1
    check "$mesh: drops the rest" python3 - <<EOF_PYTHON
import sys
sys.path.insert(0, "$root/tests/tools")
import weights
have = weights.read("only")
assert sorted(have) == sorted(
    ["model.layers.%d.mlp.%s" % (i, p) for i in (2, 4, 6)
     for p in ("weight", "bias")] +
    ["model.tail.0.q.weight", "model.mid.1.weight", "model.mid.1.bias"]), have
all = weights.read("trained")
assert all[next(iter(have))] and all.items() >= have.items()
EOF_PYTHON
done
check "a missing layer" weights drop hf part 'model.layers.4.q.*'
check "is named" sh -c "! ./model1x1 --steps 0 --init part 2>err &&
    grep -F \"no tensor 'model.layers.4.q.weight'\" err"
check "--explain" sh -c "'$PARC' model.pdl --mesh 2x2 --explain \
    'pairs.*.local.q.weight' 2>err | grep -F \
    'in files: model.layers.2i+1.q.weight [32, 32]'"

# ---- dumps ------------------------------------------------------------------
dump() {
    "$PARC" model.pdl --mesh 2x2 --target cpu --dump-after=propagate \
        --stop-after=propagate >dump.ir
}
check "a dump" dump
check "has the indices" grep -F \
    '"model.layers.*.q.weight" stack=[0] scale=[2] offset=[1] [' dump.ir
check "compiles" "$PARC" --start-after=propagate dump.ir --target cpu \
    --threads 1 -o again
check "exports" ./again --steps 0 --init hf --export again.hf
check "names of a dump" weights same hf again.hf
refused() { # refused NUMBERS: a dump with other numbers of a name
    sed "s/ stack=\[0\] scale=\[2\] offset=\[1\]/$1/" dump.ir >bad.ir
    ! "$PARC" --start-after=propagate bad.ir --emit plan 2>err &&
        grep -F 'the tensor of the file does not fit the type' err
}
check "no numbers" refused ""
check "a stack dim that does not exist" refused " stack=[1] scale=[2] offset=[1]"
check "a number without scale" refused " stack=[0] scale=[] offset=[1]"
check "scale 0" refused " stack=[0] scale=[0] offset=[1]"
cd "$root" || exit 1
finish
