#!/bin/sh
# data.sh: a run reads the tokens that a reference reader in Python computes:
# from files of llm.c and Megatron, raw files, lists, patterns and mixtures; on
# each mesh, with --shuffle, and after a resume with another batch size. Files
# and specs that are not valid are refused by name and byte.
#
# The embedding of the model maps token i to the number i, and the loss is a sum
# over tokens and labels, exact in f32. The learning rate is 0. Hence the loss
# of a step is a checksum of its batch.
. "$(dirname "$0")/lib.sh"

cat >"$work/sum.pdl" <<'END'
model Sum(vocab=1000) {
    embed: Embedding(vocab, 1, init=arange(0))

    forward(tokens: int(vocab)[batch, seq], labels: int(vocab)[batch, seq]) {
        return mean(embed(tokens)) + 4.0 * mean(embed(labels))
    }
}

plan data_parallel(dp) {
    fully_shard dp { embed }
}

train {
    batch     = 8
    seq       = 16
    optimizer = SGD(lr=0.0)
}
END

# build NAME MESH [OPTIONS…]
build() {
    out=$work/$1 mesh=$2
    shift 2
    "$PARC" "$work/sum.pdl" --target cpu --threads 1 --mesh "$mesh" "$@" \
        -o "$out"
}

cat >"$work/reader.py" <<'END'
import json, random, struct, sys

SEQ, BATCH, VOCAB = 16, 8, 1000
random.seed(5)

def write(path, *parts):
    with open(path, "wb") as f:
        f.write(b"".join(parts))

def pack(code, values):
    return struct.pack("<%d%s" % (len(values), code), *values)

def index(code, lengths, width, version=1):
    at, pointers = 0, []
    for n in lengths:
        pointers.append(at * width)
        at += n
    documents = list(range(len(lengths) + 1))
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code, len(lengths),
                                         len(documents)) +
            pack("i", lengths) + pack("q", pointers) + pack("q", documents))

def make():
    def tokens(n):
        return [random.randrange(VOCAB) for _ in range(n)]
    data = {}
    for name, code, n in (("a", "H", 1000), ("b", "I", 777), ("c", "B", 500)):
        values = tokens(n) if code != "B" else [t % 256 for t in tokens(n)]
        data[name] = values
        write(name, pack(code, values))
    data["d"] = tokens(900)
    write("d", pack("I", [20240801, 7, 900] + [0] * 253), pack("I", data["d"]))
    lengths = [100, 1, 300, 250]
    for name, code, number, width in (("m4", "i", 4, 4), ("m8", "q", 5, 8),
                                      ("m2", "H", 8, 2)):
        data[name] = tokens(sum(lengths))
        write(name + ".bin", pack(code, data[name]))
        write(name + ".idx", index(number, lengths, width))
    good = index(8, lengths, 2)
    bad = {"version": index(8, lengths, 2, 3), "type": index(7, lengths, 2),
           "short": good[:60], "head": good[:20],
           "gap": good[:50] + pack("q", [2]) + good[58:],
           "large": index(8, [100, 1, 300, 251], 2),
           "few": index(8, [100, 1, 300], 2)}
    for name, text in bad.items():
        write("bad_%s.bin" % name, pack("H", data["m2"]))
        write("bad_%s.idx" % name, text)
    write("negative.bin", pack("i", [1, 2, -3] + [0] * 30))
    write("negative.idx", index(4, [33], 4))
    with open("tokens.json", "w") as f:
        json.dump(data, f)

def sequences(data, names):
    """The sequences of a list of files; none crosses the end of a file."""
    return [(data[n][i * SEQ:i * SEQ + SEQ], data[n][i * SEQ + 1:i * SEQ + SEQ + 1])
            for n in names for i in range((len(data[n]) - 1) // SEQ)]

def check(names, log, start=0, batch=BATCH):
    with open("tokens.json") as f:
        have = sequences(json.load(f), names.split(","))
    with open(log) as f:
        losses = [json.loads(line)["loss"] for line in f]
    assert losses
    for step, loss in enumerate(losses):
        rows = [have[(start + step * batch + i) % len(have)] for i in range(batch)]
        want = sum(sum(x) + 4 * sum(y) for x, y in rows) / (batch * SEQ)
        assert abs(loss - want) < 1e-3, (step, loss, want)

def shuffled(names, log, steps):
    """One epoch in another order: the same sequences, hence the same sum."""
    with open("tokens.json") as f:
        have = sequences(json.load(f), names.split(","))
    with open(log) as f:
        losses = [json.loads(line)["loss"] for line in f]
    rows = have[:steps * BATCH]
    want = sum(sum(x) + 4 * sum(y) for x, y in rows) / (BATCH * SEQ)
    assert len(rows) == len(have) == steps * BATCH and len(losses) == steps
    assert abs(sum(losses) - want) < 1e-3 * steps, (sum(losses), want)
    first = sum(sum(x) + 4 * sum(y) for x, y in rows[:BATCH]) / (BATCH * SEQ)
    assert abs(losses[0] - first) > 1e-3

def mixture(log, low, high, share):
    """Sources of one token each: the loss says how many sequences are `high`."""
    with open(log) as f:
        losses = [json.loads(line)["loss"] for line in f]
    counts = [(x / 5 - low) / (high - low) * BATCH for x in losses]
    assert all(abs(n - round(n)) < 1e-3 for n in counts), counts
    total = sum(counts)
    assert len(losses) * BATCH == 1024 and abs(total - 1024 * share) <= 2, total
    assert len({round(n) for n in counts}) > 2, "the order is periodic"

command, *rest = sys.argv[1:]
{"make": make,
 "check": lambda names, log, start="0", batch=str(BATCH):
     check(names, log, int(start), int(batch)),
 "shuffled": lambda names, log, steps: shuffled(names, log, int(steps)),
 "mixture": lambda log, low, high, share:
     mixture(log, float(low), float(high), float(share))}[command](*rest)
END
cd "$work" || exit 1
python3 reader.py make || exit 1
check "compile for one rank" build one 1
check "compile for two ranks" build two 2
check "compile with another batch" build four 2 -D batch=4

# reads SPEC FILES: 12 steps, beyond the end of each file.
reads() {
    ./one --data "$1" --steps 12 --log log && python3 reader.py check "$2" log &&
        ./two --data "$1" --steps 12 --log log2 && same_curve log log2 1e-6
}
check "raw, 16 bits" reads a a
check "u16:" reads u16:a a
check "u32:" reads u32:b b
check "bytes:" reads bytes:c c
check "llm.c, 32 bits" reads d d
check "a list" reads 'u16:a;m2.bin' a,m2
check "a list of kinds of its own" reads 'a;d;m8' a,d,m8
check "a pattern" reads 'm[0-9].bin' m2,m4,m8
check "Megatron, i32" reads m4.bin m4
check "Megatron, i64, by the index" reads m8.idx m8
check "Megatron, u16, by the prefix" reads m2 m2

# Sequences of 7 and 900 only, 2048 tokens each.
python3 -c 'import struct
for n in 7, 900:
    open("only%d" % n, "wb").write(struct.pack("<H", n) * 2048)'
mixes() {
    for program in one two; do
        ./$program --data "$1" --seed "$3" --steps 128 --log $program.log ||
            return 1
    done
    python3 reader.py mixture one.log 7 900 "$2" &&
        same_curve one.log two.log 1e-6
}
check "a mixture" mixes '0.7*only7+0.3*only900' 0.3 1
check "weights that are not normalized" mixes '1*only7+3*only900' 0.75 2
check "three sources" mixes '1*only7+2*only7;only7+1*u16:only900' 0.25 3
check "two seeds have different orders" sh -c '
    ./one --data "1*only7+1*only900" --seed 1 --steps 9 --log s1 &&
    ./one --data "1*only7+1*only900" --seed 2 --steps 9 --log s2 &&
    [ "$(jq -s "map(.loss)" s1)" != "$(jq -s "map(.loss)" s2)" ]'

head -c 1794 a >even # 56 sequences of 16 tokens are 7 steps
check "one epoch with --shuffle" sh -c '
    python3 - <<END
import json
data = json.load(open("tokens.json"))
data["even"] = data["a"][:897]
json.dump(data, open("tokens.json", "w"))
END
    ./two --data even --shuffle --steps 7 --log log &&
    python3 reader.py shuffled even log 7'

# Five steps of 8 sequences, then steps of 4, are the steps of 4 from the 40th
# sequence on.
continues() {
    rm -rf saved
    ./one $1 --data "$2" --steps 5 --save saved &&
        ./four --resume saved --steps 15 --log rest &&
        ./four $1 --data "$2" --steps 20 --log all &&
        jq -c .loss all | tail -10 >want && jq -c .loss rest >have &&
        cmp want have
}
check "resume with another batch" continues "" 'a;d'
check "resume a mixture with another batch" \
    continues "--shuffle --seed 4" '2*a+1*u32:b+1*d'

# refused SPEC TEXT: exit status 1 and a message.
refused() {
    ./one --data "$1" --steps 2 >out 2>&1
    [ $? = 1 ] && grep -qF -- "$2" out || { cat out; false; }
}
check "weight 0" refused '0*a+1*d' "the weight of 'a' is 0"
check "negative weight" refused '1*a+-2*d' "the weight of 'd' is -2"
check "weight nan" refused '1*a+nan*d' "the weight of 'd' is nan"
check "weight inf" refused '1*a+inf*d' "the weight of 'd' is inf"
check "weights far apart" refused '1e-12*a+1*d' "the weights differ by more"
check "an empty name" refused 'a;' "a source has an empty file name"
check "no match" refused 'x*.bin' "cannot read 'x*.bin': no file matches"
check "a missing file of a list" refused 'a;none' "cannot read 'none'"
check "version" refused bad_version.bin "bad_version.idx: byte 9: error"
check "type" refused bad_type.bin "bad_type.idx: byte 17: error"
check "truncated index" refused bad_short.bin "bad_short.idx: byte 60: error"
check "truncated header" refused bad_head.bin "bad_head.idx: byte 20: error"
check "gap" refused bad_gap.bin "bad_gap.idx: byte 50: error"
check "too many tokens" refused bad_large.bin "bad_large.idx: byte 46: error"
check "too few tokens" refused bad_few.bin "bad_few.bin: byte 802: error"
check "a negative token" refused negative.bin \
    "negative.bin: byte 8: error: token -3 is negative"
check "a token beyond the vocabulary" refused u16:d "is beyond the vocabulary"
check "--log over a file of a list" sh -c '
    ! ./one --data "a;d" --log d --steps 1 2>err &&
    grep -qF "would overwrite what --data reads" err'
cd "$root" || exit 1
finish
