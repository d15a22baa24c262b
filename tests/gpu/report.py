#!/usr/bin/env python3
"""report.py DIR: the table of a run of tests/gpu/run, from what it left in
DIR/build. Its status says whether the losses are right."""
import collections
import json
import pathlib
import statistics
import sys

TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 1e-2}
WARM = 5  # steps before the ones that are timed


def cases(folder):
    for line in (folder / "cases").read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, model, mesh, *options = line.split()
            yield name, kind, model, mesh, options


def steps(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def precision(options):
    for option in options:
        if option.startswith("precision="):
            return option.split("=")[1]
    return "f32"


def numerics(folder, build):
    """Whether all that are compared agree."""
    fine = True
    print("\nlosses of 10 steps against the CPU target"
          "                difference   limit")
    for name, kind, _, mesh, options in cases(folder):
        if kind != "numerics":
            continue
        ours = [s["loss"] for s in steps(build / f"{name}.jsonl")]
        theirs = [s["loss"] for s in steps(folder / f"{name}.cpu.jsonl")]
        limit = TOLERANCE[precision(options)]
        if not ours or len(ours) != len(theirs):
            print(f"  {name:<40} {mesh:<8} did not run")
            fine = False
            continue
        worst = max(abs(a - b) / max(abs(b), 1e-30)
                    for a, b in zip(ours, theirs))
        right = worst <= limit
        repeats = (build / f"{name}.repeats").exists()
        verdict = "WRONG" if not right else \
            "ok" if repeats else "ANOTHER EACH TIME"
        print(f"  {name:<40} {mesh:<8} {worst:12.1e} {limit:9.0e}  {verdict}")
        fine &= right and repeats
    return fine


def attention(folder, build):
    """What each program's attention runs on, as its --dry-run says."""
    print("\nattention")
    for name, *_ in cases(folder):
        path = build / f"{name}.dry"
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            if line.startswith("attention "):
                print(f"  {name:<24} {line[len('attention '):]}")


def torch_ms(build, name):
    path = build / f"{name}.torch"
    if not path.exists():
        return None
    seconds = [float(line) for line in path.read_text().splitlines()
               if not line.startswith("#")]
    return statistics.median(seconds[WARM:]) * 1e3 if len(seconds) > WARM \
        else None


def speed(folder, build):
    print("\nstep                                     ms    tokens/s    mfu   "
          "allocated     planned   PyTorch compiled")
    for name, kind, _, mesh, _ in cases(folder):
        log = steps(build / f"{name}.jsonl") if kind == "speed" else []
        if len(log) <= WARM:
            continue
        log = log[WARM:]
        ms = statistics.median(s["step_ms"] for s in log)
        mfu = statistics.median(s.get("mfu") or 0 for s in log)
        tokens = statistics.median(s["tokens_per_s"] for s in log)
        plan = json.loads((folder / f"{name}.json").read_text())
        peer = torch_ms(build, name)
        against = f"{peer:8.1f} ms, {peer / ms:5.2f} x" if peer else ""
        print(f"  {name:<24} {mesh:<6} {ms:9.2f} {tokens:11.0f} {mfu:6.3f} "
              f"{log[-1]['peak_bytes']:11d} {plan['memory']['peak']:11d}   "
              f"{against}")


def rates(folder, build, copy_rate):
    for name, kind, *_ in cases(folder):
        path = build / f"{name}.trace"
        if kind != "speed" or not path.exists():
            continue
        events = json.loads(path.read_text())["traceEvents"]
        work = collections.defaultdict(list)
        for event in events:
            if event.get("pid") == 0 and event.get("args", {}).get("phase"):
                work[event["name"]].append(event)
        turns = sum(e.get("cat") == "step" and e.get("pid") == 0
                    for e in events) or 1
        print(f"\n{name}, where the step goes                  ms a step"
              "        rate")
        rows = sorted(work.items(),
                      key=lambda item: -sum(e["dur"] for e in item[1]))
        for what, calls in rows[:40]:
            total = sum(e["dur"] for e in calls)
            us = statistics.median(e["dur"] for e in calls) or 1e-3
            flops = calls[0]["args"].get("flops") or 0
            moved = calls[0]["args"].get("bytes") or 0
            rate = f"{flops / us / 1e6:8.1f} Tflop/s" if flops else \
                f"{moved / us / 1e3:8.1f} GB/s, " \
                f"{moved / us / 1e3 / copy_rate:4.2f} of a copy"
            print(f"  {what:<36} {calls[0]['cat']:<11} "
                  f"{total / turns / 1e3:9.3f}   {rate}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    build = folder / "build"
    machine = (build / "machine").read_text().splitlines()
    print("\n".join(machine[:-1]))
    copy_rate = float(machine[-1])
    print(f"device copy {copy_rate:.0f} GB/s (read and written)")
    fine = numerics(folder, build)
    attention(folder, build)
    speed(folder, build)
    rates(folder, build, copy_rate)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
