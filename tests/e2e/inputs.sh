#!/bin/sh
# inputs.sh: inputs that --data names are read from NumPy's arrays and from files
# of tokens as a reference reader in Python reads them; on each mesh, with
# --shuffle, accumulation, mixtures and lists, and after a resume with other
# weights. Arrays that do not fit are refused by name and byte.
#
# The loss is a sum over all inputs, each with a factor of its own, and nothing
# is trained. Hence the loss of a step is a checksum of its batch.
. "$(dirname "$0")/lib.sh"

cat >"$work/named.pdl" <<'END'
model Named(vocab=1000, classes=10) {
    embed: Embedding(vocab, 1, init=arange(0))
    class: Embedding(classes, 1, init=arange(0))

    forward(x: [batch, 2, 3], source: int(vocab)[batch, 6],
            target: int(vocab)[batch, 4], labels: int(classes)[batch]) {
        return mean(x) + 2.0 * mean(embed(source)) + 3.0 * mean(embed(target)) + 5.0 * mean(class(labels))
    }
}

plan data_parallel(dp) {
    fully_shard dp { embed, class }
}

train {
    batch     = 8
    seq       = 6
    optimizer = SGD(lr=0.0)
}
END

build() { # build NAME MESH [OPTIONS…]
    out=$work/$1 mesh=$2
    shift 2
    "$PARC" "$work/named.pdl" --target cpu --threads 1 --mesh "$mesh" "$@" \
        -o "$out"
}

cat >"$work/reader.py" <<'END'
import json, math, random, struct, sys

BATCH = 8
random.seed(7)

def npy(path, descr, shape, values, version=1, order=False, head=None, spaces=0):
    code = {"<f4": "f", "|u1": "B", "<i4": "i", "<i8": "q", "<u2": "H",
            "<f8": "d", ">f4": "f"}[descr]
    text = head or "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (
        descr, order, tuple(shape))
    text = (text + " " * spaces + "\n").encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY" + bytes([version, 0]) + length + text +
                struct.pack("<%d%s" % (len(values), code), *values))

def tokens(n, below):
    return [random.randrange(below) for _ in range(n)]

def make():
    data = {}
    def save(name, descr, shape, values, **more):
        n = len(values) // shape[0]
        data[name] = [values[i * n:i * n + n] for i in range(shape[0])]
        npy(name, descr, shape, values, **more)
    save("x.npy", "<f4", (40, 2, 3), [i / 8 for i in tokens(240, 1000)], spaces=9)
    save("pixels.npy", "|u1", (40, 2, 3), tokens(240, 256), version=2)
    save("more.npy", "<f4", (24, 2, 3), [-i / 4 for i in tokens(144, 500)])
    save("labels.npy", "<i8", (40,), tokens(40, 10), version=3)
    save("labels4.npy", "<i4", (40,), tokens(40, 10))
    save("labels1.npy", "|u1", (24,), tokens(24, 10))
    save("target.npy", "<u2", (40, 4), tokens(160, 1000))
    save("target24.npy", "<u2", (24, 4), tokens(96, 1000))
    for name, width, rows in (("source", 6, 40), ("source24", 6, 24)):
        values = tokens(width * rows, 1000)
        data[name] = [values[i * width:i * width + width] for i in range(rows)]
        with open(name, "wb") as f:
            f.write(struct.pack("<%dH" % len(values), *values))
    json.dump(data, open("data.json", "w"))

    one = [1.0] * 240
    npy("fortran.npy", "<f4", (40, 2, 3), one, order=True)
    npy("double.npy", "<f8", (40, 2, 3), one)
    npy("big.npy", ">f4", (40, 2, 3), one)
    npy("shape.npy", "<f4", (40, 3, 2), one)
    npy("flat.npy", "<f4", (240,), one)
    npy("short.npy", "<f4", (41, 2, 3), one)
    npy("long.npy", "<f4", (39, 2, 3), one)
    npy("none.npy", "<f4", (0, 2, 3), [])
    npy("nan.npy", "<f4", (40, 2, 3), [1.0] * 100 + [float("nan")] + [1.0] * 139)
    npy("wide.npy", "<f4", (40, 2, 3), [65519.0] * 100 + [65520.0] * 140)
    npy("range.npy", "<i8", (40,), [1] * 3 + [10] + [1] * 36)
    npy("large.npy", "<i8", (40,), [2 ** 32 + 1] * 40)
    npy("negative.npy", "<i4", (40,), [1] * 39 + [-100])
    npy("version.npy", "<f4", (40, 2, 3), one, version=4)
    npy("key.npy", "<f4", (40, 2, 3), one, head="{'descr': '<f4', 'other': 1}")
    npy("fields.npy", "<f4", (40, 2, 3), one,
        head="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}")
    npy("missing.npy", "<f4", (40, 2, 3), one, head="{'descr': '<f4'}")
    npy("twice.npy", "<f4", (40, 2, 3), one,
        head="{'descr': '<f4', 'shape': (40, 2, 3), 'shape': (40, 2, 3)}")
    npy("tuple.npy", "<f4", (40, 2, 3), one,
        head="{'descr': '<f4', 'fortran_order': False, 'shape': (40, -2)}")
    with open("x.npy", "rb") as f:
        whole = f.read()
    open("cut.npy", "wb").write(whole[:30])
    open("tiny.npy", "wb").write(whole[:9])

FACTORS = {"x": 1, "source": 2, "target": 3, "labels": 5}

def rows_of(data, names):
    """NAME=FILE;FILE,…: the samples of each input."""
    inputs = dict(part.split("=") for part in names.split(","))
    return {name: [row for file in files.split(";") for row in data[file]]
            for name, files in inputs.items()}

def loss_of(rows, numbers):
    loss = 0
    for name, all_rows in rows.items():
        values = [v for i in numbers for v in all_rows[i % len(all_rows)]]
        loss += FACTORS[name] * sum(values) / len(values)
    return loss

def losses_of(log):
    with open(log) as f:
        return [json.loads(line)["loss"] for line in f]

def same(have, want):
    assert have and all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(have, want)), (
        have, want)

def check(names, log):
    rows = rows_of(json.load(open("data.json")), names)
    have = losses_of(log)
    same(have, [loss_of(rows, range(s * BATCH, s * BATCH + BATCH))
                for s in range(len(have))])

def epoch(names, log):
    """One epoch in another order: every sample once, inputs kept together."""
    rows = rows_of(json.load(open("data.json")), names)
    have, n = losses_of(log), len(rows["x"])
    assert len(have) * BATCH == n
    same([sum(have)], [loss_of(rows, range(n)) * len(have)])
    assert abs(have[0] - loss_of(rows, range(BATCH))) > 1e-3

def tags():
    """Labels of which a third do not count, -100."""
    ids = tokens(64 * 6, 50)
    labels = [-100 if random.random() < 0.4 else t for t in tokens(64 * 6, 10)]
    labels[6:12] = [-100] * 6
    npy("ids.npy", "|u1", (64, 6), ids)
    npy("tags.npy", "<i8", (64, 6), labels)
    npy("tags10.npy", "<i4", (64, 6), [10 if t < 0 else t for t in labels])
    npy("tags255.npy", "|u1", (64, 6), [255 if t < 0 else t for t in labels])
    json.dump([ids, labels], open("tags.json", "w"))

def weights_of(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        begin, end = json.loads(f.read(size))["table.weight"]["data_offsets"]
        f.seek(8 + size + begin)
        values = struct.unpack("<500f", f.read(end - begin))
    return [values[i * 10:i * 10 + 10] for i in range(50)]

def masked(log, weights):
    """The mean over the labels of the batch that count."""
    (ids, labels), table = json.load(open("tags.json")), weights_of(weights)
    want = []
    for at in range(0, 8 * 48, 48):
        losses = [math.log(sum(math.exp(x) for x in table[i])) - table[i][t]
                  for i, t in zip(ids[at:at + 48], labels[at:at + 48]) if t >= 0]
        want.append(sum(losses) / len(losses))
    same(losses_of(log), want)

command, *rest = sys.argv[1:]
{"make": make, "check": check, "epoch": epoch, "tags": tags,
 "masked": masked}[command](*rest)
END
cd "$work" || exit 1
python3 reader.py make || exit 1
check "compile for one rank" build one 1
check "compile for two ranks" build two 2
check "compile with accumulation" build micro 2 -D accumulate=2
check "compile in 16 bits" build bf16 2 -D precision=bf16
check "compile in f16" build f16 1 -D precision=f16

all="x=x.npy,source=source,target=target.npy,labels=labels.npy"
reads() { # reads SPEC: 12 steps, beyond the end of the data
    for program in one two micro; do
        ./$program --data "$1" --steps 12 --log $program.log &&
            python3 reader.py check "$1" $program.log || return 1
    done
}
check "arrays and tokens" reads "$all"
check "pixels, and labels of 4 bytes" reads \
    "labels=labels4.npy,x=pixels.npy,target=target.npy,source=source"
check "lists of arrays" reads \
    "x=x.npy;more.npy,source=source;source24,target=target.npy;target24.npy,labels=labels.npy;labels1.npy"
check "one epoch with --shuffle" sh -c './two --data "$1" --shuffle --steps 5 \
    --log log && python3 reader.py epoch "$1" log' sh "$all"
check "--shuffle is the same on all meshes" sh -c '
    ./one --data "$1" --shuffle --steps 8 --log s1 &&
    ./micro --data "$1" --shuffle --steps 8 --log s2' sh "$all"
check "the same losses" same_curve s1 s2 1e-6
check "16 bits" sh -c './one --data "$1" --steps 3 --log log &&
    ./bf16 --data "$1" --steps 3 --log log16' sh "$all"
check "nearly the same losses" same_curve log log16 1e-2
check "a part is synthetic" sh -c './one --steps 2 --log log --data \
    "x=synthetic,source=source,target=target.npy,labels=labels.npy" &&
    ./two --steps 2 --log log2 --data \
    "x=synthetic,source=source,target=target.npy,labels=labels.npy"'
check "it is equal on all meshes" same_curve log log2 1e-6

# Mixtures: all inputs change the source together.
mixed="x=0.5*x.npy+0.5*more.npy,source=0.5*source+0.5*source24"
mixed="$mixed,target=0.5*target.npy+0.5*target24.npy"
mixed="$mixed,labels=0.5*labels.npy+0.5*labels1.npy"
check "a mixture" sh -c './one --data "$1" --steps 9 --shuffle --log m1 &&
    ./two --data "$1" --steps 9 --shuffle --log m2' sh "$mixed"
check "the same mixture" same_curve m1 m2 1e-6
check "validation data" sh -c './two --eval --val "$1" --val-steps 3 >val &&
    ./one --data "$1" --steps 3 --log log &&
    jq -en --slurpfile v val --slurpfile l log \
        "(\$l | map(.loss) | add / 3) / \$v[0].val_loss - 1 | fabs < 1e-5"' \
    sh "$all"

# Resumed with other weights, each source continues where it was: 40 samples of
# x, then 24 of more and 16 more of x would repeat if a source started again.
resumed() {
    rm -rf saved
    ./one --data "$mixed" --steps 3 --save saved &&
        jq -e '[.state.data.sources[].used] | add == 24' \
            saved/step-00000003/index.json &&
        ./one --resume saved --save saved --steps 6 --log rest &&
        ./one --data "$mixed" --steps 6 --log whole &&
        jq -c .loss whole | tail -3 >want && jq -c .loss rest >have &&
        cmp want have
}
check "resume a mixture" resumed
other=$(printf %s "$mixed" | sed 's/0\.5\*/0.3*/; s/,\([a-z]*\)=0\.5\*/,\1=0.3*/g')
reweighted() {
    before=$(jq -c '[.state.data.sources[].used]' \
        saved/step-00000006/index.json) &&
        ./two --data "$other" --resume saved --save saved --steps 8 &&
        ./one --resume saved --save saved --steps 10 &&
        jq -e --argjson b "$before" '.state.data | .origin == 48 and
            ([.sources[].used] | add) == 80 and
            [.sources[].begin] == $b and
            ([.sources[].used] | .[0] > $b[0] and .[1] > $b[1])' \
            saved/step-00000010/index.json
}
check "resume with other weights" reweighted
# A mixture that has one source twice, after a change of its weights.
twice() { # twice A B: the spec with these weights
    printf 'x=%s*x.npy+%s*x.npy,source=%s*source+%s*source,' $1 $2 $1 $2
    printf 'target=%s*target.npy+%s*target.npy,' $1 $2
    printf 'labels=%s*labels.npy+%s*labels.npy' $1 $2
}
repeated() {
    rm -rf saved whole rest
    ./one --data "$(twice 0.7 0.3)" --save saved --steps 3 &&
        ./one --data "$(twice 0.4 0.6)" --resume saved --save saved --steps 6 &&
        ./one --resume saved --steps 9 --log whole &&
        ./one --resume saved --save saved --steps 7 &&
        ./one --resume saved --steps 9 --log rest &&
        jq -c .loss whole | tail -2 >want && jq -c .loss rest >have &&
        cmp want have &&
        jq -e '.state.data.sources | .[0].begin != .[1].begin' \
            saved/step-00000007/index.json
}
check "resume a mixture with a source twice" repeated

# Labels that do not count: -100, another value, or the number of classes.
tagger() { # tagger NAME LABELS ARGUMENTS MESH [OPTIONS…]
    out=$1 labels=$2 arguments=$3 mesh=$4
    shift 4
    cat >"$out.pdl" <<END
model Tagger(classes=10) {
    table: Embedding(50, classes)

    forward(ids: int(50)[batch, 6], labels: $labels[batch, 6]) {
        return cross_entropy(table(ids), labels$arguments)
    }
}

plan data_parallel(dp) {
    fully_shard dp { table }
}

train {
    batch     = 8
    seq       = 6
    optimizer = SGD(lr=0.0)
}
END
    "$PARC" "$out.pdl" --target cpu --threads 1 --mesh "$mesh" "$@" -o "$out"
}
masks() { # masks PROGRAM LABELS
    ./$1 --data "ids=ids.npy,labels=$2" --steps 8 --log log \
        --export table.st && python3 reader.py masked log table.st
}
python3 reader.py tags
minus="int(classes, ignore=-100)"
check "the tagger compiles" tagger tag1 "$minus" "" 1
check "with two ranks" tagger tag2 "$minus" "" 2
check "with accumulation" tagger tag3 "$minus" "" 2 -D accumulate=2
check "with 255" tagger tag255 "int(classes, ignore=255)" \
    ", ignore_index=255" 2
check "with the number of classes" tagger tag10 "int(classes + 1)" \
    ", ignore_index=classes" 2
for program in tag1 tag2 tag3; do
    check "$program: labels of -100 do not count" masks $program tags.npy
done
check "labels of 255 do not count" masks tag255 tags255.npy
check "labels of 10 do not count" masks tag10 tags10.npy
undeclared() {
    tagger plain "int(classes)" "" 1 || return 1
    ./plain --data ids=ids.npy,labels=tags.npy --steps 2 2>err
    [ $? = 1 ] && grep -F "tags.npy: byte " err |
        grep -F "are declared 'labels: int(10, ignore=-100)'"
}
check "-100 is refused where it is not declared" undeclared
check "another value is refused" sh -c '
    ! ./tag255 --data ids=ids.npy,labels=tags.npy --steps 2 2>err &&
    grep -F "is negative" err'
other() {
    python3 -c 'import sys
text = open("tags.npy", "rb").read()
head = 10 + int.from_bytes(text[8:10], "little")
size = int(text[:head].split(b"<i")[1][:1])
given, other = (n.to_bytes(size, "little", signed=True) for n in (-100, -2))
open("other.npy", "wb").write(text[:head] + text[head:].replace(given, other))'
    ! ./tag1 --data ids=ids.npy,labels=other.npy --steps 2 2>err &&
        grep -F "value -2 is negative, and is not -100, which 'labels' accepts" err
}
check "a negative value beside the one that is ignored" other

refused() { # refused SPEC TEXT…: exit status 1 and a message
    ./two --data "$1" --steps 8 >out 2>&1
    status=$?
    shift
    cat out
    [ $status = 1 ] || return 1
    for text; do
        grep -qF -- "$text" out || return 1
    done
}
rest=source=source,target=target.npy,labels=labels.npy
check "Fortran order" refused x=fortran.npy,$rest "fortran.npy: byte" \
    "np.ascontiguousarray"
check "f8" refused x=double.npy,$rest "type '<f8'" "astype('float32')"
check "big-endian" refused x=big.npy,$rest "type '>f4'"
check "another shape" refused x=shape.npy,$rest \
    "shape [40, 3, 2]; 'x' takes [samples, 2, 3]"
check "one dim" refused x=flat.npy,$rest "shape [240]; 'x' takes"
check "too short" refused x=short.npy,$rest "short.npy: byte " "states 41"
check "too long" refused x=long.npy,$rest "long.npy: byte " "states 39"
check "no samples" refused x=none.npy,$rest "at least one sample"
check "NaN" refused x=nan.npy,$rest "nan.npy: byte " "element 100 of 'x' is" \
    "not a finite number"
large() { # infinite in f16: the mean reads it in f32
    ./one --data "x=wide.npy,$rest" --steps 8 --log one.log &&
        ./f16 --data "x=wide.npy,$rest" --steps 8 --log f16.log &&
        python3 - one.log f16.log <<'PY'
import json, sys
a, b = ([json.loads(line)["loss"] for line in open(f) if '"loss"' in line]
        for f in sys.argv[1:])
assert len(a) == 8 == len(b), (a, b)
assert all(x > 60000 and abs(x - y) < 1e-3 * x for x, y in zip(a, b)), (a, b)
PY
}
check "a number beyond f16" large
check "a class too high" refused "${all%labels.npy}range.npy" \
    "range.npy: byte " "value 10 does not fit 'labels'" "integers below 10"
check "beyond 32 bits" refused "${all%labels.npy}large.npy" "value 4294967297"
check "negative" refused "${all%labels.npy}negative.npy" \
    "value -100 is negative"
check "version" refused x=version.npy,$rest "version.npy: byte 6: error"
check "an unknown key" refused x=key.npy,$rest "an unknown key"
check "fields" refused x=fields.npy,$rest "arrays with fields"
check "missing keys" refused x=missing.npy,$rest "fortran_order and shape"
check "a key twice, and a missing one" refused x=twice.npy,$rest \
    "fortran_order and shape"
check "a shape that is none" refused x=tuple.npy,$rest "the shape is not a tuple"
check "a truncated header" refused x=cut.npy,$rest "cut.npy: byte 8: error"
check "a file of 9 bytes" refused x=tiny.npy,$rest "tiny.npy: byte 9: error"
check "floats for integers" refused \
    x=x.npy,source=source,target=target.npy,labels=x.npy \
    "'labels' takes integers"
check "integers for floats" refused x=labels.npy,$rest \
    "'x' takes float32 or uint8"
check "tokens for floats" refused x=source,$rest "source: byte 0: error" \
    "not an array of NumPy"
check "samples of different number" refused \
    x=more.npy,$rest "'more.npy' has 24 samples for 'x', 'source' has 40"
check "mixed differently" refused "x=1*x.npy+1*x.npy,$rest" \
    "'x' has 2 sources, 'source' has 1"
check "weights that differ" refused \
    "x=1*x.npy+2*x.npy,source=2*source+1*source,target=1*target.npy+2*target.npy,labels=1*labels.npy+2*labels.npy" \
    "source 1 has the weight 1 for 'x' and 2 for 'source'"
check "an unknown name" refused "y=x.npy,$rest" "has no input 'y'" \
    "x: float[8, 2, 3]" "labels: int[8]"
check "named twice" refused "x=x.npy,x=x.npy,$rest" "'x' is named twice"
check "an input without data" refused "x=x.npy,source=source,target=target.npy" \
    "the input 'labels' has no data; write labels=FILE"
check "a file without a name" refused x.npy "write NAME=FILE for each"
check "a missing file" refused "x=gone.npy,$rest" "cannot read 'gone.npy'"
cd "$root" || exit 1

echo "-- float inputs keep their digits under 16 bits"
cat >"$work/steps.pdl" <<'PDL'
# 999 would be 1000 in bf16, and 2049 2048 in f16.
model Steps {
    param w[1] = ones

    forward(t: [batch], i: int(4096)[batch]) {
        late = t + 1.0
        return sum(square(float(t) * float(w) - float(i))) + sum(square(late - float(i) - 1.0))
    }
}

train {
    batch     = 4
    optimizer = SGD(lr=0.0)
}
PDL
python3 - "$work" <<'PY'
import struct, sys
for name, descr, code in (("t", "<f4", "f"), ("i", "<i4", "i")):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': (4,), }\n"
            % descr).encode()
    with open(sys.argv[1] + "/" + name + ".npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head +
                struct.pack("<4" + code, 999, 997, 2049, 3333))
PY
exact() { # LOG: all losses are 0
    cat "$1"
    grep -q 'loss 0.0000' "$1" && ! grep -q 'loss [^ ]*[1-9]' "$1"
}
for precision in bf16 f16; do
    "$PARC" "$work/steps.pdl" --target cpu --threads 1 -D precision=$precision \
        -o "$work/steps"
    data="t=$work/t.npy,i=$work/i.npy"
    "$work/steps" --data "$data" --val "$data" --val-every 1 --steps 1 \
        >"$work/steps.log" 2>&1
    check "precision=$precision" exact "$work/steps.log"
done
finish
