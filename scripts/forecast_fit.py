#!/usr/bin/env python3
"""forecast_fit.py: writes machines/*.json from tables of microbenchmarks
(`make forecast-fit`).

constants.csv has constants as published, collectives.csv measured times, from which
the parameters of a collective follow: time = start + fill * sqrt(bytes) + bytes / rate.
"""
import csv
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLES = os.path.join(ROOT, "tests", "forecast", "microbenchmarks")
DESCRIPTIONS = {
    "h100-sxm": "H100 SXM5 80 GB, 8 in a node with NVLink 4 and a 400 Gb/s NIC each",
}


def rows(name):
    with open(os.path.join(TABLES, name), newline="") as file:
        return list(csv.DictReader(file))


def constant(row, value=None, spread=None):
    return {
        "value": float(row["value"]) if value is None else value,
        "spread": float(row["spread"]) if spread is None else spread,
        "from": row["from"],
        "date": row["date"],
    }


def entry(entries, **keys):
    """The entry of a list with these keys, which is added if there is none."""
    for one in entries:
        if all(one.get(key) == value for key, value in keys.items()):
            return one
    entries.append(dict(keys))
    return entries[-1]


def place(machine, row):
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


def fit(points):
    """start, fill and 1 / rate with the least squares of relative errors, and the
    largest relative error. A negative parameter is left out."""
    used = [0, 1, 2]
    while True:
        base = [[1, b ** 0.5, b] for b, _ in points]
        x = [[row[i] / t for i in used] for row, (_, t) in zip(base, points)]
        normal = [[sum(r[i] * r[k] for r in x) for k in range(len(used))]
                  for i in range(len(used))]
        found = solve(normal, [sum(r[i] for r in x) for i in range(len(used))])
        if min(found) >= 0:
            break
        used.pop(found.index(min(found)))
    p = [0.0, 0.0, 0.0]
    for i, value in zip(used, found):
        p[i] = value
    worst = max(abs(sum(a * b for a, b in zip(p, row)) / t - 1)
                for row, (_, t) in zip(base, points))
    return p, worst


def place_fits(machine, name):
    groups = {}
    for row in rows("collectives.csv"):
        if row["machine"] == name:
            key = (row["kind"], int(row["nodes"]), int(row["ranks"]))
            groups.setdefault(key, []).append(row)
    for (kind, nodes, ranks), group in groups.items():
        points = [(float(row["bytes"]), float(row["seconds"])) for row in group]
        (start, fill, per_byte), worst = fit(points)
        one = entry(machine["collective"], kind=kind, nodes=nodes, ranks=ranks)
        for field, value in (("start", start), ("fill", fill), ("rate", 1 / per_byte)):
            one[field] = constant(group[0], float("%.4g" % value), float("%.2g" % worst))


def complete(machine):
    """The fields that no table gives: no pipeline fill, the blocks of the machine."""
    for one in machine["collective"]:
        if "fill" not in one:
            one["fill"] = dict(one["rate"], value=0.0)
        if "blocks" not in one:
            one["blocks"] = dict(machine["node"]["blocks"])


def machine_of(name):
    machine = {"name": name, "target": "cuda", "description": DESCRIPTIONS[name]}
    lists = {"tile": [], "attention": [], "collective": []}
    both = dict(machine, **lists)
    for row in rows("constants.csv"):
        if row["machine"] == name:
            place(both, row)
    place_fits(both, name)
    complete(both)
    order = [key for key in both if key not in lists] + list(lists)
    return {key: both[key] for key in order}


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
    to = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "machines")
    for name in DESCRIPTIONS:
        with open(os.path.join(to, name + ".json"), "w") as file:
            file.write(text_of(machine_of(name)) + "\n")


if __name__ == "__main__":
    main()
