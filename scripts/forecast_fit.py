#!/usr/bin/env python3
"""forecast_fit.py: writes machines/*.json from tables of microbenchmarks
(`make forecast-fit`); `--errors` prints how far the machines are from the tables.

constants.csv has constants as published. The other tables have times, from which
constants follow by the formulas of forecast/duration.c:
  streaming.csv    bytes / rate / part: the parts of the memory's rate
  matmuls.csv      waves of tiles: the sustained part of the peak, rates of tiles
  attention.csv    per_tile * tiles + flops / rate
  collectives.csv  start + fill * sqrt(bytes) + bytes / rate
What the tables do not determine remains as in constants.csv.
"""
import csv
import functools
import json
import math
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLES = os.path.join(ROOT, "tests", "forecast", "microbenchmarks")
DESCRIPTIONS = {
    "a100-sxm-80": "A100 SXM4 80 GB, 8 in a node with NVLink 3 and a 200 Gb/s NIC each",
    "h100-sxm": "H100 SXM5 80 GB, 8 in a node with NVLink 4 and a 400 Gb/s NIC each",
    "h200": "H200 SXM 141 GB, 8 in a node with NVLink 4 and a 400 Gb/s NIC each",
    "b200": "B200 SXM 180 GB, 8 in a node with NVLink 5 and a 400 Gb/s NIC each",
}
# The machine whose times count where a machine has few, and the spread that this adds.
NEAR = {
    "a100-sxm-80": ("a100-pcie-80", 0.05),
    "h100-sxm": ("h200", 0.05),
    "h200": ("h100-sxm", 0.05),
    "b200": ("gb200", 0.15),
}
FEW = 4  # times or sizes, below which the times of the near machine count too
# The kernels of streaming.csv that determine each part of the memory's rate. Kernels
# that only read ("dot", "sum") determine none.
PARTS = {
    "streaming": {"copy", "mul", "add", "triad", "add_scalar", "relu", "fmin", "binary"},
    "row": {"layer_norm", "rms_norm"},
    "column": {"rms_norm_grad"},
}
LARGE = 64e6  # bytes of a kernel that determines a part
TILE = 128  # queries of a tile of attention
# Backward relative to forward, where only their sum was timed: 63% and 73% of the peak
# of an A100 in the FlashAttention-2 paper.
BACKWARD = 0.63 / 0.73
SPLIT_OF_K = (1, 2, 4, 8)  # as in duration.c


# ---- tables ------------------------------------------------------------------


@functools.cache
def rows(name):
    """The rows of a table."""
    with open(os.path.join(TABLES, name), newline="") as file:
        return list(csv.DictReader(file))


def typed(machine, name):
    """A constant of constants.csv, also of a machine that has no file."""
    for row in rows("constants.csv"):
        if row["machine"] == machine and row["constant"] == name:
            return float(row["value"])
    raise KeyError("%s of %s" % (name, machine))


def times(table, machine, few=FEW):
    """The rows of a table for a machine, as floats where they are numbers; also those
    of the near machine if the machine has fewer than `few`, with "spread" and with
    seconds for the peak of the machine."""
    near, spread = NEAR[machine]
    own = [row for row in table if row["machine"] == machine]
    other = [row for row in table if row["machine"] == near]
    found = [dict(row, seconds=float(row["seconds"]), spread=0.0) for row in own]
    if len({tuple(sizes(row)) for row in own}) < few:
        scale = 1.0
        if "bytes" not in table[0]:
            scale = typed(near, "peak.bf16") / typed(machine, "peak.bf16")
        found += [dict(row, seconds=float(row["seconds"]) * scale, spread=spread)
                  for row in other]
    return found


def sizes(row):
    """What distinguishes the problems of a table: all but the time and its source."""
    return [row[key] for key in row if key not in ("machine", "seconds", "date", "from")]


def grouped(table, *keys):
    """The rows of a table by the values of these columns."""
    groups = {}
    for row in table:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


# ---- machine files -----------------------------------------------------------


def constant(row):
    """The entry of a machine file for a row of constants.csv."""
    return {"value": float(row["value"]), "spread": float(row["spread"]),
            "from": row["from"], "date": row["date"]}


def fitted(value, worst, used, least=0.02):
    """The entry for a constant that follows from times, whose largest error is
    `worst`."""
    spread = max([worst, least] + [row["spread"] for row in used])
    sources = list(dict.fromkeys(row["from"] for row in used))
    return {"value": float("%.4g" % value), "spread": float("%.2g" % spread),
            "from": "; ".join(sources), "date": max(row["date"] for row in used)}


def entry(entries, **keys):
    """The entry of a list with these keys, which is added if none has them."""
    for one in entries:
        if all(one.get(key) == value for key, value in keys.items()):
            return one
    entries.append(dict(keys))
    return entries[-1]


def put(machine, row):
    """Puts a row of constants.csv where the machine file has it."""
    name = row["constant"].split(".")
    if name[0] == "tile":
        m, n = (int(size) for size in name[1].split("x"))
        entry(machine["tile"], m=m, n=n)["rate"] = constant(row)
    elif name[0] == "attention":
        key = {"head": int(name[1]), "pass": name[2]}
        entry(machine["attention"], **key)[name[3]] = constant(row)
    elif name[0] == "collective":
        nodes, ranks = (int(size) for size in name[2].split("x"))
        one = entry(machine["collective"], kind=name[1], nodes=nodes, ranks=ranks)
        one[name[3]] = constant(row)
    else:
        machine.setdefault(name[0], {})[name[1]] = constant(row)


def value(machine, name):
    """The value of a constant of a machine file: value(machine, "hbm.rate")."""
    group, field = name.split(".")
    return machine[group][field]["value"]


# ---- least squares -----------------------------------------------------------


def solve(matrix, right):
    """Gaussian elimination with pivots."""
    n = len(right)
    a = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for k in range(n):
            if k != i:
                f = a[k][i] / a[i][i]
                a[k] = [x - f * y for x, y in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def fit(points, used):
    """The factors of the terms `used` with the least squares of relative errors, and
    the largest relative error. A point is its terms, the part of its time that no
    factor changes, and its time. A term with a negative factor is left out."""
    used = list(used)
    while True:
        x = [[terms[i] / t for i in used] for terms, _, t in points]
        y = [1 - known / t for _, known, t in points]
        normal = [[sum(r[i] * r[k] for r in x) for k in range(len(used))]
                  for i in range(len(used))]
        found = solve(normal, [sum(r[i] * v for r, v in zip(x, y))
                               for i in range(len(used))])
        if min(found) >= 0:
            break
        used.pop(found.index(min(found)))
    p = [0.0] * len(points[0][0])
    for i, factor in zip(used, found):
        p[i] = factor
    worst = max(abs((sum(a * b for a, b in zip(p, terms)) + known) / t - 1)
                for terms, known, t in points)
    return p, worst


# ---- kernels -----------------------------------------------------------------


def kernel_rows(name, part):
    """The kernels that determine a part: those of the near machine too, since parts of
    the rate differ less than rates."""
    table = [row for row in rows("streaming.csv")
             if row["kind"] in PARTS[part] and float(row["bytes"]) >= LARGE]
    return times(table, name, few=math.inf)


def kernel_seconds(machine, row, part):
    """duration.c: bytes_seconds, at the memory rate of the machine of the row."""
    rate = typed(row["machine"], "hbm.rate") * value(machine, "hbm." + part)
    return value(machine, "hbm.start") + float(row["bytes"]) / rate


def fit_kernels(machine, name):
    """The parts of the memory's rate: medians."""
    for part in PARTS:
        used = kernel_rows(name, part)
        found = [float(row["bytes"]) / typed(row["machine"], "hbm.rate") /
                 (row["seconds"] - value(machine, "hbm.start")) for row in used]
        if found:
            middle = statistics.median(found)
            worst = max(abs(one / middle - 1) for one in found)
            machine["hbm"][part] = fitted(middle, worst, used)


# ---- matmuls -----------------------------------------------------------------


def matmul_seconds(machine, row):
    """duration.c: matmul_seconds, for one matrix and operands in 16 bits."""
    m, n, k = (float(row[key]) for key in ("m", "n", "k"))
    sms = value(machine, "device.sms")
    memory = value(machine, "hbm.rate") * value(machine, "hbm.streaming")
    peak = value(machine, "peak.bf16") * value(machine, "matmul.sustained") / sms
    least = math.inf
    for tile in machine["tile"]:
        count = math.ceil(m / tile["m"]) * math.ceil(n / tile["n"])
        flops = 2 * tile["m"] * tile["n"] * k
        for parts in SPLIT_OF_K:
            seconds = math.ceil(count * parts / sms) * (
                flops / parts / (peak * tile["rate"]["value"]) +
                value(machine, "matmul.wave"))
            if parts > 1:
                seconds += 8 * m * n * parts / memory
            least = min(least, seconds)
    moved = (m * k + k * n) * float(row["operand_bytes"]) + m * n * float(
        row["result_bytes"])
    return value(machine, "matmul.start") + max(moved / memory, least)


def search(tries, change, error):
    """The best of these values of a constant, or None if none lowers the error by two
    thousandths."""
    best, least = None, error() - 2e-3
    for one in tries:
        before = change(one)
        if error() < least:
            best, least = one, error()
        change(before)
    return best


def fit_matmuls(machine, name):
    """The sustained rate, then those of smaller tiles: a search with steps of a
    hundredth for the least mean error, one constant at a time. A smaller tile is never
    faster."""
    used = times(rows("matmuls.csv"), name)
    tiles = grouped(machine["tile"], "m", "n")
    knobs = [[machine["matmul"]["sustained"]]]
    for shapes in (((256, 128),), ((128, 128),), ((128, 64), (64, 128)), ((64, 64),)):
        knobs.append([tiles[shape][0]["rate"] for shape in shapes])

    def error():
        """The mean error over the table."""
        return statistics.mean(abs(matmul_seconds(machine, row) / row["seconds"] - 1)
                               for row in used)

    def change(knob, to):
        """Sets the constants of a knob; what they were."""
        before = knob[0]["value"]
        for one in knob:
            one["value"] = to
        return before

    changed = set()
    for i in [0, 2, 3, 4] * 3:
        high = knobs[i - 1][0]["value"] if i else 0.95
        low = knobs[i + 1][0]["value"] if 0 < i < 4 else 0.5
        tries = [x / 100 for x in range(50, 101) if low <= x / 100 <= high]
        best = search(tries, functools.partial(change, knobs[i]), error)
        if best is not None:
            change(knobs[i], best)
            changed.add(i)
    for i in sorted(changed):
        for one in knobs[i]:
            one.update(fitted(one["value"], 2 * error(), used))


# ---- attention ---------------------------------------------------------------


def attention_terms(row):
    """Tiles of queries and flops of a pass: duration.c, attention_seconds."""
    batch, heads, seq, head = (int(row[key]) for key in ("batch", "heads", "seq", "head"))
    tiles = math.ceil(seq / TILE)
    flops = 4 * batch * heads * seq * seq * head
    if row["causal"] == "1":
        flops *= (tiles + 1) / tiles / 2
    return [batch * heads * tiles,
            flops * {"forward": 1, "backward": 2.5, "both": 3.5}[row["pass"]]]


def attention_seconds(machine, row):
    """The time of a pass, or of both."""
    tiles, flops = attention_terms(row)
    total = 0
    for which, part in (("forward", 1), ("backward", 2.5)):
        if row["pass"] in (which, "both"):
            one = entry(machine["attention"], head=int(row["head"]), **{"pass": which})
            total += value(machine, "hbm.start") + one["per_tile"]["value"] * tiles
            total += flops * (part / 3.5 if row["pass"] == "both" else 1) / (
                one["rate"]["value"])
    return total


def attention_rows(name):
    """The rows for each size of heads and pass."""
    groups = grouped(rows("attention.csv"), "head", "pass")
    found = {key: times(group, name) for key, group in groups.items()}
    return {key: used for key, used in found.items() if used}


def fit_attention(machine, name):
    """Rates and times per tile. Of both passes together, forward has 2 of 7 flops and
    of the time per tile."""
    for (head, which), used in attention_rows(name).items():
        starts = value(machine, "hbm.start") * (2 if which == "both" else 1)
        points = [(attention_terms(row), starts, row["seconds"]) for row in used]
        (per_tile, per_flop), worst = fit(points, (0, 1))
        passes = [(which, per_tile, 1 / per_flop)]
        if which == "both":
            forward = (1 + 2.5 / BACKWARD) / 3.5 / per_flop
            passes = [("forward", per_tile / 3.5, forward),
                      ("backward", per_tile / 1.4, forward * BACKWARD)]
        for one, tile, rate in passes:
            at = entry(machine["attention"], head=int(head), **{"pass": one})
            at["rate"] = fitted(rate, worst, used)
            at["per_tile"] = fitted(tile, max(worst, 0.3), used)


# ---- collectives -------------------------------------------------------------


def collective_rows(name):
    """The rows for each kind and group."""
    groups = grouped(rows("collectives.csv"), "kind", "nodes", "ranks")
    found = {key: times(group, name) for key, group in groups.items()}
    return {key: used for key, used in found.items() if used}


def collective_seconds(one, row):
    """duration.c: collective_work, with the parameters of the group."""
    size = float(row["bytes"])
    fill = one["fill"]["value"] if "fill" in one else 0
    return one["start"]["value"] + fill * size ** 0.5 + size / one["rate"]["value"]


def fit_collectives(machine, name):
    """All parameters of a group from many sizes; from two, all but the start; from one,
    the rate."""
    names = ("start", "fill", "rate")
    for (kind, nodes, ranks), used in collective_rows(name).items():
        one = entry(machine["collective"], kind=kind, nodes=int(nodes), ranks=int(ranks))
        count = len({row["bytes"] for row in used})
        free = (0, 1, 2) if count >= FEW else (1, 2) if count > 1 else (2,)
        points = []
        for row in used:
            terms = [1, float(row["bytes"]) ** 0.5, float(row["bytes"])]
            known = sum(one[names[i]]["value"] * terms[i] for i in (0, 1)
                        if i not in free and names[i] in one)
            points.append((terms, known, row["seconds"]))
        p, worst = fit(points, free)
        for i in free:
            found = 1 / p[i] if names[i] == "rate" else p[i]
            one[names[i]] = fitted(found, worst, used, 0.02 if count >= FEW else 0.1)


# ---- all of a machine --------------------------------------------------------


def complete(machine):
    """The fields that no table gives: no pipeline fill, the blocks of the machine. The
    order of lists."""
    machine["attention"].sort(key=lambda one: (one["head"], one["pass"]))
    machine["collective"].sort(key=lambda one: (one["kind"], one["nodes"], one["ranks"]))
    for one in machine["collective"]:
        if "fill" not in one:
            one["fill"] = dict(one["rate"], value=0.0)
        if "blocks" not in one:
            one["blocks"] = dict(machine["node"]["blocks"])


def machine_of(name):
    """A machine file as dictionaries and lists."""
    machine = {"name": name, "target": "cuda", "description": DESCRIPTIONS[name]}
    lists = {"tile": [], "attention": [], "collective": []}
    both = dict(machine, **lists)
    for row in rows("constants.csv"):
        if row["machine"] == name:
            put(both, row)
    fit_kernels(both, name)
    fit_matmuls(both, name)
    fit_attention(both, name)
    fit_collectives(both, name)
    complete(both)
    order = [key for key in both if key not in lists] + list(lists)
    return {key: both[key] for key in order}


def errors_of(machine):
    """The relative error of each time of the tables, by class."""
    name = machine["name"]
    errors = {"matmul": [(matmul_seconds(machine, row), row)
                         for row in times(rows("matmuls.csv"), name)],
              "attention": [(attention_seconds(machine, row), row)
                            for used in attention_rows(name).values() for row in used]}
    for part in PARTS:
        errors[part] = [(kernel_seconds(machine, row, part), row)
                        for row in kernel_rows(name, part)]
    errors["collective"] = []
    for (kind, nodes, ranks), used in collective_rows(name).items():
        one = entry(machine["collective"], kind=kind, nodes=int(nodes), ranks=int(ranks))
        errors["collective"] += [(collective_seconds(one, row), row) for row in used]
    return {key: [seconds / row["seconds"] - 1 for seconds, row in pairs]
            for key, pairs in errors.items() if pairs}


def print_errors():
    """A line for each machine and class: n, and errors in percent."""
    print("%-12s %-10s %4s %6s %7s %8s" % ("machine", "class", "n", "mean", "median",
                                           "largest"))
    for name in DESCRIPTIONS:
        for key, errors in errors_of(machine_of(name)).items():
            print("%-12s %-10s %4d %6.1f %+7.1f %+8.1f" % (
                name, key, len(errors), 100 * statistics.mean(map(abs, errors)),
                100 * statistics.median(errors), 100 * max(errors, key=abs)))


def text_of(value, indent=0):
    """JSON with a line for each constant."""
    pad = " " * (indent + 2)
    if isinstance(value, dict) and "from" not in value:
        fields = ["%s%s: %s" % (pad, json.dumps(key), text_of(value[key], indent + 2))
                  for key in value]
        return "{\n%s\n%s}" % (",\n".join(fields), " " * indent)
    if isinstance(value, list):
        entries = [pad + text_of(one, indent + 2) for one in value]
        return "[\n%s\n%s]" % (",\n".join(entries), " " * indent)
    return json.dumps(value)


def main():
    """Writes the machine files into the directory of the first argument."""
    if sys.argv[1:] == ["--errors"]:
        print_errors()
        return
    to = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "machines")
    for name in DESCRIPTIONS:
        with open(os.path.join(to, name + ".json"), "w") as file:
            file.write(text_of(machine_of(name)) + "\n")


if __name__ == "__main__":
    main()
