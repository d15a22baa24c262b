"""weights.py: reads, compares and changes files of weights, for the tests.

    weights.py same A B          the tensors of two models are equal
    weights.py rounds A B        B has the tensors of A, rounded to B's type
    weights.py sharded DIR MOST  DIR is a sharded model of transformers: the
                                 index lists each tensor of each file, and no
                                 file with several tensors has more than MOST
                                 bytes of data
    weights.py drop A B PATTERN  writes A without the tensors that match
    weights.py scale A B FACTOR  writes A with all elements times FACTOR (f32)
    weights.py integers A B PATTERN  writes A with the tensors that match as 64-bit integers
    weights.py rename A B X Y    writes A with X in names replaced by Y
    weights.py fill A B MOST     writes a sharded model with the names and shapes
                                 of A to directory B, in bf16 with MOST bytes in
                                 a file; the values are a function of name and
                                 index
    weights.py average E D A B … E is the average of A, B, …, in which each has D times the
                                 part of the next one, within 1e-6 of its largest element
    weights.py states A JSON TOLERANCE  the tensors of A that a JSON object lists are equal,
                                 relative to the largest element of each
    weights.py tensor A X B Y    the tensor X of A equals the tensor Y of B
    weights.py names A           prints the names of tensors

A model is a file, a directory or an index, as for --init. It uses nothing but
the standard library.
"""
import array
import fnmatch
import json
import os
import shutil
import struct
import sys
import zlib

WIDTH = {"F32": 4, "BF16": 2, "F16": 2}


def read_file(path):
    """The tensors of a file: name -> (dtype, shape, bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, t in header.items():
        first, last = t["data_offsets"]
        count = WIDTH[t["dtype"]]
        for size in t["shape"]:
            count *= size
        assert first == end and last - first == count, (name, t, end)
        end = last
        tensors[name] = (t["dtype"], t["shape"],
                         data[8 + n + first:8 + n + last])
    assert 8 + n + end == len(data), "bytes after the last tensor"
    return tensors


def write_file(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def read_index(path):
    with open(path) as file:
        index = json.load(file)
    files, tensors = {}, {}
    for name, file in index["weight_map"].items():
        if file not in files:
            files[file] = read_file(os.path.join(os.path.dirname(path), file))
        tensors[name] = files[file][name]
    assert sum(map(len, files.values())) == len(tensors), "a tensor not listed"
    total = sum(len(t[2]) for t in tensors.values())
    assert index["metadata"]["total_size"] == total, total
    return tensors, files


def read(path):
    if os.path.isdir(path):
        single = os.path.join(path, "model.safetensors")
        index = os.path.join(path, "model.safetensors.index.json")
        assert os.path.exists(single) != os.path.exists(index), path
        path = single if os.path.exists(single) else index
    return read_index(path)[0] if path.endswith(".json") else read_file(path)


def rounded(data, dtype):
    """f32 data as `dtype`, rounded to nearest, ties to even."""
    if dtype == "F32":
        return data
    if dtype == "F16":
        values = array.array("f", data)
        return struct.pack("<%de" % len(values), *values)
    out = array.array("H")
    for bits in array.array("I", data):
        out.append((bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff)
    return out.tobytes()


def same(a, b):
    a, b = read(a), read(b)
    assert sorted(a) == sorted(b), set(a) ^ set(b)
    for name in a:
        assert a[name] == b[name], name


def rounds(a, b):
    a, b = read(a), read(b)
    assert sorted(a) == sorted(b), set(a) ^ set(b)
    for name, (dtype, shape, data) in b.items():
        assert a[name][1] == shape, name
        assert rounded(a[name][2], dtype) == data, name


def sharded(directory, most):
    path = os.path.join(directory, "model.safetensors.index.json")
    files = read_index(path)[1]
    n = len(files)
    assert n > 1
    for i in range(n):
        tensors = files["model-%05d-of-%05d.safetensors" % (i + 1, n)]
        bytes = sum(len(t[2]) for t in tensors.values())
        assert bytes <= int(most) or len(tensors) == 1, bytes
    left = set(os.listdir(directory)) - set(files) - {os.path.basename(path)}
    assert not left - {"config.json"}, left


def drop(a, b, pattern):
    write_file(b, {name: t for name, t in read(a).items()
                   if not fnmatch.fnmatchcase(name, pattern)})


def scale(a, b, factor):
    out = {}
    for name, (dtype, shape, data) in read(a).items():
        assert dtype == "F32", name
        values = [float(factor) * x for x in array.array("f", data)]
        out[name] = (dtype, shape, array.array("f", values).tobytes())
    write_file(b, out)


def integers(a, b, pattern):
    out = {}
    for name, (dtype, shape, data) in read(a).items():
        if fnmatch.fnmatchcase(name, pattern):
            assert dtype == "F32", name
            dtype, data = "I64", array.array("q", map(int, array.array("f", data))).tobytes()
        out[name] = (dtype, shape, data)
    write_file(b, out)


def rename(a, b, old, new):
    write_file(b, {name.replace(old, new): t for name, t in read(a).items()})


def value(seed, i):
    """A number from -0.5 to 0.5: splitmix64 of the index."""
    x = (seed + (i + 1) * 0x9e3779b97f4a7c15) % 2**64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return (x ^ x >> 31) / 2**64 - 0.5


def made(name, shape):
    """Weights of norms are near 1, all others near 0."""
    count, seed = 1, zlib.crc32(name.encode()) << 32
    for size in shape:
        count *= size
    norm = len(shape) == 1 and name.endswith("weight")
    data = array.array("f", (norm + 0.2 * value(seed, i) for i in range(count)))
    return "BF16", shape, rounded(data.tobytes(), "BF16")


def fill(a, b, most):
    files, used, index = [{}], 0, {"metadata": {"total_size": 0}}
    for name, (_, shape, _) in read(a).items():
        tensor = made(name, shape)
        if files[-1] and used + len(tensor[2]) > int(most):
            files.append({})
            used = 0
        used += len(tensor[2])
        index["metadata"]["total_size"] += len(tensor[2])
        files[-1][name] = tensor
    index["weight_map"] = {}
    os.makedirs(b)
    for i, tensors in enumerate(files):
        file = "model-%05d-of-%05d.safetensors" % (i + 1, len(files))
        write_file(os.path.join(b, file), tensors)
        index["weight_map"].update(dict.fromkeys(tensors, file))
    with open(os.path.join(b, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file)
    if os.path.exists(os.path.join(a, "config.json")):
        shutil.copy(os.path.join(a, "config.json"), b)


def average(e, decay, *files):
    models, parts = [read(f) for f in files], []
    for i in range(len(files)):
        parts.append(float(decay) ** (len(files) - 1 - i))
    for name, (_, _, data) in read(e).items():
        rows = [array.array("f", m[name][2]) for m in models]
        want = [sum(p * x for p, x in zip(parts, xs)) / sum(parts) for xs in zip(*rows)]
        worst = max(abs(a - b) for a, b in zip(want, array.array("f", data)))
        assert worst <= 1e-6 * max(map(abs, want)), (name, worst)


def states(a, path, tolerance):
    a = read(a)
    with open(path) as file:
        rows = json.load(file)
    for name, want in rows.items():
        is_ = array.array("f", a[name][2])
        assert len(is_) == len(want), name
        worst = max(abs(x - y) for x, y in zip(is_, want))
        assert worst <= float(tolerance) * max(map(abs, want)), (name, worst)


def tensor(a, x, b, y):
    assert read(a)[x] == read(b)[y], (x, y)


def names(a):
    print("\n".join(sorted(read(a))))


if __name__ == "__main__":
    {f.__name__: f for f in (same, rounds, sharded, drop, scale, integers, rename, fill,
                               average, states, tensor, names)}[
        sys.argv[1]](*sys.argv[2:])
