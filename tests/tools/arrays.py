#!/usr/bin/env python3
"""arrays.py: writes small data sets as NumPy files, for the tests and documents.

    arrays.py images DIR N [SIZE]  images.npy, u1 [N, 3, SIZE, SIZE] (16), and
                                   labels.npy, i8 [N]: which of ten squares of
                                   the image is bright
    arrays.py pairs DIR N [S T]    source.npy, i4 [N, S] (24): words in small
                                   letters; target.npy and labels.npy, i4 [N, T]
                                   (32): the words in capitals, after a start
                                   token, and before an end token. The padding
                                   and the start are 255, the end is 0
    arrays.py rows DIR N           x.npy, f4 [N, 16], and y.npy, f4 [N, 2]: a
                                   smooth function of x

The values depend on nothing but these numbers; the first samples of a larger set
are those of a smaller one. It uses nothing but the standard library.
"""
import array
import math
import os
import random
import struct
import sys

CODES = {"u1": "B", "i4": "i", "i8": "q", "f4": "f"}
PAD, END = 255, 0


def write(path, kind, shape, values):
    """Writes a file of version 1.0, in C order, little-endian."""
    text = "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s,), }" % (
        "|" if kind == "u1" else "<", kind, ", ".join(map(str, shape)))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    data = array.array(CODES[kind], values)
    assert len(data) == math.prod(shape) and data.itemsize == int(kind[1])
    if sys.byteorder == "big":
        data.byteswap()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)))
        file.write(text.encode() + data.tobytes())


def images(directory, n, size=16):
    side = size // 4  # of a square
    bright = [(k // 4 * side, k % 4 * side) for k in range(10)]
    draw = random.Random(1).random
    pixels, labels = [], []
    for _ in range(n):
        label = int(10 * draw())
        top, left = bright[label]
        labels.append(label)
        for _ in range(3):
            for row in range(size):
                for column in range(size):
                    inside = (0 <= row - top < side and
                              0 <= column - left < side)
                    pixels.append(int(150 * draw()) + 100 * inside)
    write(f"{directory}/images.npy", "u1", (n, 3, size, size), pixels)
    write(f"{directory}/labels.npy", "i8", (n,), labels)


def pairs(directory, n, source_length=24, length=32):
    draw = random.Random(2).random
    source, target, labels = [], [], []

    def padded(tokens, size):
        return (tokens + [PAD] * size)[:size]
    for _ in range(n):
        word = [97 + int(26 * draw())
                for _ in range(8 + int((source_length - 8) * draw()))]
        answer = [letter - 32 for letter in word] + [END]
        source += padded(word, source_length)
        target += padded([PAD] + answer, length)
        labels += padded(answer, length)
    write(f"{directory}/source.npy", "i4", (n, source_length), source)
    write(f"{directory}/target.npy", "i4", (n, length), target)
    write(f"{directory}/labels.npy", "i4", (n, length), labels)


def rows(directory, n):
    draw = random.Random(3).random
    x, y = [], []
    for _ in range(n):
        row = [2 * draw() - 1 for _ in range(16)]
        x += row
        y += [math.sin(3 * row[0]) + row[1] * row[2], row[3] - row[4] ** 2]
    write(f"{directory}/x.npy", "f4", (n, 16), x)
    write(f"{directory}/y.npy", "f4", (n, 2), y)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:] or [""]
    makers = {"images": images, "pairs": pairs, "rows": rows}
    if kind not in makers or len(rest) < 2:
        sys.exit(__doc__)
    os.makedirs(rest[0], exist_ok=True)
    makers[kind](rest[0], *map(int, rest[1:]))
