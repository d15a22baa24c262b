#!/usr/bin/env python3
"""report.py RESULTS.jsonl… [-o docs/gpu-results.md]: writes the measurements of
tests/gpu/run as a document. Each file has the results of one command.

Without -o: prints the tables of summary.txt.
"""
import pathlib
import sys

from results import key, read_lines

MOST = 11_900  # characters of a summary


def index(records):
    return {key(r): r for r in records}


def cases_of(records):
    """(step, name, kind, model, mesh, options, settings)"""
    found = index(records).get(("", "cases"), {})
    return [tuple(case) for case in found.get("cases", [])]


def of(records, name, part):
    record = index(records).get((name, part))
    return record if record and record["state"] != "began" else None


def shape(model, options):
    """The options that must be equal for a comparison with PyTorch: the sizes,
    without precision, rope_theta, clip and epilogues."""
    sizes = [o for o in options if "=" in o and o.split("=")[0] not in
             ("precision", "rope_theta", "clip", "epilogues")]
    if model == "gpt2" and not any(o.startswith("vocab=") for o in sizes):
        sizes.append("vocab=50257")
    return model, frozenset(sizes)


def value(x, form, nothing="-"):
    return nothing if x is None else format(x, form)


def gib(x):
    return value(x / 2**30 if x else None, ".2f")


# ---- tables: a title, the head of its columns, rows of text ------------------

def machine(records):
    m = of(records, "", "machine") or {}
    rows = [["GPU", ", ".join(m.get("gpus") or ["none"])],
            ["CUDA of the driver", value(m.get("cuda"), "")],
            ["PyTorch", value(m.get("torch"), "")]]
    for what, library in (m.get("libraries") or {}).items():
        rows.append([what, "missing" if not library else
                     value(library.get("version"), "", "found")])
    rows += [[k, v] for k, v in (m.get("smi") or {}).items()]
    rows.append(["copy within the device, read and written",
                 value(m.get("copy"), ".0f") + " GB/s"])
    rows.append(["parc", m.get("emitted", "")])
    if m.get("why"):
        rows.append(["problems", m["why"]])
    return "machine", ["", ""], rows


def failures(records, names):
    rows = []
    for r in records:
        if r["state"] != "failed" or r["case"] not in names | {""}:
            continue
        rows.append([r["case"] or "machine", r["part"], r.get("why", "")])
        rows += [["", *found] for found in r.get("diagnosis", [])]
    return "failed", ["case", "part", "why, and what a diagnosis says"], rows


def numerics(records, names):
    rows = []
    for step, name, kind, _, mesh, *_ in cases_of(records):
        if kind != "numerics" or name not in names:
            continue
        losses, repeat = (of(records, name, p) for p in ("losses", "repeat"))
        if not losses:
            continue
        verdict = "WRONG" if losses["state"] != "ok" else "not repeated" \
            if not repeat else "ok" if repeat["state"] == "ok" \
            else "DIFFERENT EACH TIME"
        if "difference" not in losses:
            verdict = "did not run"
        rows.append([name, mesh, value(losses.get("difference"), ".1e"),
                     value(losses.get("limit"), ".0e"), verdict])
    return ("losses of 10 steps against the CPU target",
            ["case", "mesh", "difference", "limit", "verdict"], rows)


def attention(records, names):
    rows = []
    for _, name, *_ in cases_of(records):
        for part in ("losses", "time"):
            r = of(records, name, part) if name in names else None
            rows += [[name, line] for line in (r or {}).get("attention", [])]
    return "attention", ["case", "runs on"], rows


def peers(records):
    found = {}
    for _, name, kind, model, way, options, _ in cases_of(records):
        r = of(records, name, "peer") if kind == "peer" else None
        if r and r.get("step_ms"):
            found.setdefault(shape(model, options), []).append(
                (way, r["step_ms"]))
    return found


def sample(r, name):
    values = (r.get("samples") or {}).get(name)
    return "/".join(f"{x:.0f}" for x in values) if values else "-"


def against_forecast(ms, seconds):
    """The forecast in milliseconds, with its error relative to `ms`."""
    return f"{seconds * 1e3:.1f} ({seconds * 1e3 / ms - 1:+.1%})" \
        if ms and seconds else "-"


def speed(records, names):
    rows, other = [], peers(records)
    for _, name, kind, model, mesh, options, _ in cases_of(records):
        r = of(records, name, "time") if name in names else None
        if not r or kind != "speed":
            continue
        ms = r.get("step_ms")
        against = ", ".join(f"{way} {t:.1f} ms ({t / ms:.2f} x)" for way, t in
                            other.get(shape(model, options), []) if ms)
        rows.append([name, mesh, value(ms, ".2f"),
                     against_forecast(ms, r.get("forecast")),
                     value(r.get("tokens_per_s"), ".0f"),
                     value(r.get("mfu"), ".3f"), value(r.get("hfu"), ".3f"),
                     gib(r.get("allocated")), gib(r.get("planned")),
                     sample(r, "sm_mhz"), sample(r, "watts"), against or "-"])
    return "steps", ["case", "mesh", "ms", "forecast", "tokens/s", "mfu", "hfu",
                     "GiB", "planned", "SM MHz", "W", "PyTorch compiled"], rows


def peer_rows(records, names):
    rows = []
    for _, name, kind, *_ in cases_of(records):
        r = of(records, name, "peer") if name in names else None
        if r:
            rows.append([name, value(r.get("step_ms"), ".2f"),
                         r.get("about") or r.get("why", "")])
    return "PyTorch", ["case", "ms a step", "with"], rows


def rates(record, copy, most):
    rows = []
    for name, kind, ms, calls, us, flops, moved, alone in \
            record["rows"][:most]:
        us = us or 1e-3
        if flops:
            rate = f"{flops / us / 1e6:.1f} Tflop/s"
        else:
            rate = f"{moved / us / 1e3:.0f} GB/s" + (
                f", {moved / us / 1e3 / copy:.2f} of a copy" if copy else "")
        rows.append([name, kind, f"{ms:.3f}",
                     value(alone and alone * calls / 1e3, ".3f"), str(calls),
                     rate])
    return rows


def traces(records, names, most):
    copy = (of(records, "", "machine") or {}).get("copy")
    for _, name, *_ in cases_of(records):
        r = of(records, name, "trace") if name in names else None
        if r and "rows" in r:
            yield (f"{name}: where the step goes ({r['ms']:.1f} ms, one by "
                   "one)", ["what", "", "ms a step", "forecast", "calls",
                            "rate"],
                   rates(r, copy, most))


def classes(records, names):
    rows = []
    for _, name, *_ in cases_of(records):
        r = of(records, name, "trace") if name in names else None
        rows += [[name, kind, f"{ms:.2f}",
                  against_forecast(ms, alone / 1e3)]
                 for kind, ms, alone in (r or {}).get("classes", [])]
    return ("classes of statements: traced and forecast",
            ["case", "class", "ms a step", "forecast"], rows)


def products(records, names, most):
    for _, name, *_ in cases_of(records):
        r = of(records, name, "products") if name in names else None
        if r and r.get("rows"):
            yield (f"{name}: products", r["head"], r["rows"][:most])


# ---- text and Markdown -------------------------------------------------------

def as_text(table):
    title, head, rows = table
    rows = [[" ".join(str(cell).split()) for cell in row] for row in rows]
    lines = [head] + rows if any(head) else rows
    widths = [max([len(row[i]) for row in lines if i < len(row) - 1] or [0])
              for i in range(max(len(row) for row in lines))]
    return f"\n{title}\n" + "".join(
        "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() +
        "\n" for row in lines)


def as_markdown(table):
    title, head, rows = table
    clean = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row]
             for row in rows]
    return "\n".join([f"\n## {title[0].upper()}{title[1:]}\n",
                      "| " + " | ".join(head) + " |",
                      "|" + " --- |" * len(head)] +
                     ["| " + " | ".join(row) + " |" for row in clean]) + "\n"


def summary(records, names, most=MOST):
    """The tables of the named cases, most important first, up to `most`
    characters."""
    text = ""
    left = [name for _, name, kind, *_ in cases_of(records)
            if name in names and not any(
                r["case"] == name and r["state"] != "began" for r in records)]
    tables = [machine(records), failures(records, names),
              numerics(records, names), speed(records, names), classes(records, names),
              peer_rows(records, names), *products(records, names, 30),
              *traces(records, names, 12), attention(records, names)]
    if left:
        text += f"not run yet: {', '.join(left)}\n"
    for table in tables:
        more = as_text(table) if table[2] else ""
        if len(text) + len(more) > most - 60:
            text += f"\n({table[0]}: no space here; see results.jsonl)\n"
            continue
        text += more
    return text[:most]


def write_summary(out, records):
    names = {case[1] for case in cases_of(records)}
    (out / "summary.txt").write_text(summary(records, names))


def document(records):
    names = {case[1] for case in cases_of(records)}
    date = max((r.get("date", "") for r in records), default="")
    text = (f"# Measurements on a GPU\n\nMeasured on {date} by `tests/gpu/run`;"
            " written by `tests/gpu/report.py` from its results. `mfu` and "
            "`hfu` are explained in `docs/cuda_runtime.md`; MHz and W are "
            "least/median/most of a case. Forecasts are those of `--machine` for "
            "this GPU, packed before the run (`docs/forecast.md`).\n")
    tables = [machine(records), numerics(records, names),
              speed(records, names), classes(records, names),
              peer_rows(records, names),
              attention(records, names), *products(records, names, 60),
              *traces(records, names, 20), failures(records, names)]
    return text + "".join(as_markdown(t) for t in tables if t[2])


def main():
    arguments = sys.argv[1:]
    to = None
    if "-o" in arguments[:-1]:
        at = arguments.index("-o")
        to = pathlib.Path(arguments[at + 1])
        del arguments[at:at + 2]
    if not arguments:
        sys.exit(__doc__)
    found = {}
    for path in arguments:
        for record in read_lines(path)[0]:
            if "state" in record and record["state"] != "began":
                found[key(record)] = record
    records = list(found.values())
    measured = [r for r in records if r["case"] and r["state"] == "ok"]
    if not measured:
        sys.exit("report.py: no case of these results ended well: there is "
                 "nothing to write")
    if to:
        to.write_text(document(records))
    else:
        print(summary(records, {case[1] for case in cases_of(records)}))


if __name__ == "__main__":
    main()
