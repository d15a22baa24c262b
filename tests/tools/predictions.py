#!/usr/bin/env python3
"""predictions.py: checks what --predict wrote, for the tests.

    predictions.py show FILE         names, types and shapes
    predictions.py close A B LIMIT   whether all values differ by at most LIMIT
    predictions.py squares FILE Y N  the mean squared difference of the first N
                                     samples from the NumPy array Y (f4)
    predictions.py entropy FILE TOKENS N
                                     the cross entropy of the logits of the
                                     first N samples for a file of bytes, whose
                                     labels are the bytes one later

It uses nothing but the standard library.
"""
import array
import json
import math
import struct
import sys


def read(path):
    """The header, and the values of each tensor (f32, i32 or i64)."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__")
    values = {}
    for name, t in header.items():
        begin, end = (8 + n + x for x in t["data_offsets"])
        values[name] = array.array({"F32": "f", "I32": "i", "I64": "q"}[t["dtype"]],
                                   data[begin:end])
        assert len(values[name]) == math.prod(t["shape"])
    assert max(t["data_offsets"][1] for t in header.values()) == len(data) - 8 - n
    return header, values


def show(path):
    for name, t in read(path)[0].items():
        print(name, t["dtype"], *t["shape"])


def close(a, b, limit):
    (one, x), (two, y) = read(a), read(b)
    assert one == two, "the headers differ"
    worst = max(abs(p - q) for name in x for p, q in zip(x[name], y[name]))
    print("differ by", worst)
    sys.exit(not worst <= float(limit))


def squares(path, target, n):
    header, values = read(path)
    row = header["prediction"]["shape"][1]
    with open(target, "rb") as file:
        data = file.read()
    y = array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])
    count = int(n) * row
    print(sum((p - q) ** 2 for p, q in zip(values["prediction"][:count],
                                           y[:count])) / count)


def entropy(path, tokens, n):
    header, values = read(path)
    _, seq, vocab = header["logits"]["shape"]
    with open(tokens, "rb") as file:
        text = file.read()
    logits, total = values["logits"], 0.0
    for i in range(int(n) * seq):
        row = logits[i * vocab:(i + 1) * vocab]
        most = max(row)
        total += most + math.log(sum(math.exp(x - most) for x in row))
        total -= row[text[i + 1]]
    print(total / (int(n) * seq))


{"show": show, "close": close, "squares": squares,
 "entropy": entropy}[sys.argv[1]](*sys.argv[2:])
