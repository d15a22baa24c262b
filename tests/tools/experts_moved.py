"""experts_moved.py BEFORE AFTER NAMES PATTERN: whether the matrices of tensors [experts, …] of two
files of weights differ, 1, or are the same bytes, 0, as "1 1 0 0" says."""
import json
import sys


def read(path):
    data = open(path, "rb").read()
    size = 8 + int.from_bytes(data[:8], "little")
    return {name: (t["shape"][0], data[size + t["data_offsets"][0]:size + t["data_offsets"][1]])
            for name, t in json.loads(data[8:size]).items() if name != "__metadata__"}


def main(before, after, names, pattern):
    before, after = read(before), read(after)
    for name in names.split(","):
        n, old = before[name]
        new, each = after[name][1], len(old) // n
        is_ = " ".join(str(int(old[i * each:][:each] != new[i * each:][:each])) for i in range(n))
        if is_ != pattern:
            sys.exit(f"{name}: {is_}, not {pattern}")


main(*sys.argv[1:])
