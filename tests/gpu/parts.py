"""Implements the parts of cases: each part runs some programs and returns its
state (ok, failed, skipped) and the values for its record."""
import collections
import filecmp
import json
import os
import re
import shutil
import statistics
import sys

from programs import Samples
from results import read_lines

TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "f16": 1e-2}
SYNTHETIC = ("toy", "feedforward", "vit", "translation")  # they read no text
LOSSES = 10   # steps of numeric cases
WARM = 6      # steps before the ones that are timed; some of them are traced
ROWS = 40     # of a trace
HANG = "30"   # PARC_TIMEOUT while a failure is diagnosed
MACHINES = {"A100": "a100-sxm-80", "H100": "h100-sxm", "H200": "h200",
            "B200": "b200"}  # a part of the GPU's name: parc's machine file


class OutOfTime(Exception):
    """The time limit of the command was reached while a program ran."""


# ---- programs ----------------------------------------------------------------

def binary(run, case):
    return run.trees / run.tree_of[case.name] / "train"


def environment(run, case, extra):
    env = dict(case.settings, **extra)
    if case.ranks > len(run.machine.get("gpus") or [0]):
        path = run.programs.env.get("LD_LIBRARY_PATH", "")
        env["LD_LIBRARY_PATH"] = f"{run.work / 'loopback'}:{path}"
        env["PARC_DEVICE"] = "0"
    return env


def program(run, case, arguments, extra=None, before=(), limit=None):
    """Runs the case's program. Raises OutOfTime if it was killed because the
    command has no time left, although it had not reached its own limit."""
    limit = limit or run.limit(case)
    allowed = min(limit, run.left() - 5)
    outcome = run.programs.run(
        case.name, [*before, *run.launch, binary(run, case), *arguments],
        allowed, environment(run, case, extra or {}))
    if outcome.late and allowed < limit:
        raise OutOfTime
    return outcome


def data_of(run, case):
    synthetic = case.kind != "numerics" or case.model in SYNTHETIC
    return "synthetic" if synthetic else f"bytes:{run.trees / 'text.txt'}"


# ---- diagnosis ---------------------------------------------------------------

def tiny_case(run, case):
    """The numeric case on one rank that compute-sanitizer runs: this case, else
    the first one with the same model and settings, else the first of all."""
    tiny = [c for c in run.cases if c.kind == "numerics" and c.ranks == 1 and
            binary(run, c).exists()]
    same = [c for c in tiny if c.name == case.name] or \
        [c for c in tiny if c.model == case.model and
         c.settings == case.settings] or tiny
    return same[0] if same else None


def diagnose(run, case, arguments, find_fault, why):
    """Repeats a failed program with PARC_SYNC=1 and with PARC_GRAPH=0, and runs
    a tiny case under compute-sanitizer. Returns pairs (variant, result)."""
    kind = re.sub(r"\d+", "#", why)
    if kind in run.diagnosed:
        return [["", "as another case above"]]
    run.diagnosed.add(kind)
    found = []
    try:
        for name in ("PARC_SYNC=1", "PARC_GRAPH=0"):
            variable, value = name.split("=")
            outcome = program(run, case, arguments,
                              {variable: value, "PARC_TIMEOUT": HANG},
                              limit=run.limit(case) / 2)
            found.append([name, find_fault(outcome) or "no fault"])
        tiny = tiny_case(run, case)
        if tiny and "compute-sanitizer" in run.machine.get("tools", []):
            outcome = program(
                run, tiny, ["--steps", 2, "--data", data_of(run, tiny)],
                before=["compute-sanitizer", "--error-exitcode", "9",
                        "--print-limit", "5"])
            errors = [line for line in outcome.output.splitlines()
                      if line.startswith("=========") and
                      "COMPUTE-SANITIZER" not in line]
            found.append([f"compute-sanitizer {tiny.name}",
                          "\n".join(errors[-12:])[-700:] or outcome.says()])
    except OutOfTime:
        found.append(["", "the time of the command ended the diagnosis"])
    return found


def last_words(outcome):
    lines = outcome.tail.splitlines()
    return f"{outcome.says()}: {lines[-1] if lines else 'no output'}"


def failure(run, case, arguments, find_fault, outcome, **values):
    why = find_fault(outcome)
    return "failed", dict(
        values, why=why, tail=outcome.tail,
        diagnosis=diagnose(run, case, arguments, find_fault, why))


# ---- numerics ----------------------------------------------------------------

def read_log(path, steps):
    """Reads the lines of a log. Returns them, and a message if some are missing
    or incomplete, else None."""
    lines, broken = read_lines(path)
    lines = [line for line in lines if "loss" in line]
    if len(lines) == steps and not broken:
        return lines, None
    return lines, f"the log has {len(lines)} of {steps} steps" + (
        f" and {broken} incomplete lines" if broken else "")


def precision(case):
    for option in case.options:
        if option.startswith("precision="):
            return option.split("=")[1]
    return "f32"


def difference(curve, expected):
    """The largest relative difference; infinite if a loss is not finite."""
    worst = 0.0
    for a, b in zip(curve, expected):
        if a is None or b is None or a != a:
            return float("inf")
        worst = max(worst, abs(a - b) / max(abs(b), 1e-30))
    return worst


def losses(run, case):
    log, weights = (run.files / f"{case.name}.{x}" for x in ("jsonl", "st"))
    expected, wrong = read_log(run.trees / f"{case.name}.cpu.jsonl", LOSSES)
    if wrong:
        return "failed", {"why": f"CPU target: {wrong}"}
    limit, found = TOLERANCE[precision(case)], {}
    arguments = ["--steps", LOSSES, "--data", data_of(run, case), "--log", log,
                 "--export", weights]

    def find_fault(outcome):
        if not outcome.ok:
            return last_words(outcome)
        curve, wrong = read_log(log, LOSSES)
        worst = difference([s["loss"] for s in curve],
                           [s["loss"] for s in expected])
        found.setdefault("difference", worst)
        if wrong or worst > limit:
            return wrong or (f"WRONG: losses differ by {worst:.1e}, the limit "
                             f"is {limit:.0e}")
        return None

    log.unlink(missing_ok=True)
    times, variable = times_of(run, case)
    outcome = program(run, case, arguments, variable)
    found["attention"] = attention(times)
    if find_fault(outcome):
        return failure(run, case, arguments, find_fault, outcome, limit=limit,
                       **found)
    return "ok", dict(found, limit=limit)


def repeat(run, case):
    """Checks that two runs export bit-identical weights."""
    first, second = (run.files / f"{case.name}.{x}" for x in ("st", "again.st"))
    arguments = ["--steps", LOSSES, "--data", data_of(run, case), "--export"]
    for path in (first, second):
        if path == first and path.exists():
            continue
        outcome = program(run, case, [*arguments, path])
        if not outcome.ok:
            return failure(run, case, [*arguments, path],
                           lambda o: None if o.ok else last_words(o), outcome)
    same = filecmp.cmp(first, second, shallow=False)
    first.unlink()
    second.unlink()
    if same:
        return "ok", {}
    return "failed", {"why": "two runs have different weights"}


def times_of(run, case):
    """The file to which the program writes its measurements of kernels, and the
    variable that names it."""
    path = run.files / f"{case.name}.times"
    path.unlink(missing_ok=True)
    return path, {"PARC_TIMES": str(path)}


def attention(path):
    """The implementation of each attention call."""
    return [line["attention"] for line in read_lines(path)[0]
            if "attention" in line]


# ---- speed -------------------------------------------------------------------

def median(lines, field):
    values = [line[field] for line in lines if line.get(field) is not None]
    return statistics.median(values) if values else None


def trace_file(run, case):
    return run.files / f"{case.name}.trace"


def forecast(run, case):
    """The time that parc has forecast for the step on this GPU: the object `time`
    of the plan's JSON, or an empty one."""
    gpu = (run.machine.get("gpus") or [""])[0]
    machine = os.environ.get("MACHINE") or next(
        (name for part, name in MACHINES.items() if part in gpu), "none")
    path = run.trees / f"{run.tree_of[case.name]}.{machine}.json"
    return json.loads(path.read_text())["time"] if path.exists() else {}


def timing(run, case):
    """Times the steps after the first WARM ones, of which the program traces
    some (trace reads their file)."""
    log = run.files / f"{case.name}.jsonl"
    arguments = ["--steps", run.steps + WARM, "--data", "synthetic", "--log",
                 log, "--trace", trace_file(run, case)]

    def find_fault(outcome):
        return read_log(log, run.steps + WARM)[1] if outcome.ok \
            else last_words(outcome)

    log.unlink(missing_ok=True)
    trace_file(run, case).unlink(missing_ok=True)
    times, variable = times_of(run, case)
    with Samples() as samples:
        outcome = program(run, case, arguments, variable)
    lines = read_log(log, run.steps + WARM)[0][WARM:]
    tree = run.trees / f"{run.tree_of[case.name]}.json"
    values = {"samples": samples.values, "steps": len(lines),
              "attention": attention(times),
              "planned": json.loads(tree.read_text())["memory"]["peak"],
              "allocated": lines[-1].get("peak_bytes") if lines else None,
              "forecast": forecast(run, case).get("step_seconds")}
    for field in ("step_ms", "tokens_per_s", "mfu", "hfu"):
        values[field] = median(lines, field)
    if find_fault(outcome):
        return failure(run, case, ["--steps", 2, "--data", "synthetic"],
                       lambda o: None if o.ok else last_words(o), outcome,
                       **values) if not outcome.ok else \
            ("failed", dict(values, why=find_fault(outcome)))
    return "ok", values


def trace(run, case):
    """Records the times of kernels, matmuls, attention and collectives in a
    traced step, in which they run one by one. Runs the program only if the work
    directory has lost the trace since the steps were timed."""
    path = trace_file(run, case)
    if not path.exists():
        outcome = program(run, case, ["--steps", WARM, "--data", "synthetic",
                                      "--trace", path])
        if not outcome.ok:
            return "failed", {"why": last_words(outcome), "tail": outcome.tail}
    events = [e for e in json.loads(path.read_text())["traceEvents"]
              if e.get("pid") == 0]
    path.unlink()
    steps = sum(e.get("cat") == "step" for e in events) or 1
    work = collections.defaultdict(list)
    for event in events:
        if event.get("args", {}).get("phase"):
            work[event["name"]].append(event)
    alone = {s["id"]: s["alone_seconds"] * 1e6
             for s in forecast(run, case).get("statements", [])}
    rows = [[name, calls[0]["cat"], sum(e["dur"] for e in calls) / steps / 1e3,
             len(calls) // steps, statistics.median(e["dur"] for e in calls),
             calls[0]["args"].get("flops") or 0,
             calls[0]["args"].get("bytes") or 0, alone.get(name)]
            for name, calls in work.items()]
    rows.sort(key=lambda row: -row[2])
    return "ok", {"rows": rows[:ROWS], "ms": sum(row[2] for row in rows),
                  "classes": classes(rows)}


def classes(rows):
    """[class, ms a step, ms that were forecast] of the statements that have a
    forecast."""
    known = [row for row in rows if row[7] is not None]
    return [[kind, sum(row[2] for row in known if row[1] == kind),
             sum(row[7] * row[3] / 1e3 for row in known if row[1] == kind)]
            for kind in dict.fromkeys(row[1] for row in known)]


def products(run, case):
    """Records the time of every candidate for every matmul: that of its first
    run, and the minimum of later rounds on a warm device. The cache of choices
    starts empty."""
    times, variable = times_of(run, case)
    cache = run.files / f"{case.name}.cache"
    shutil.rmtree(cache, ignore_errors=True)
    outcome = program(run, case, ["--dry-run"],
                      dict(variable, PARC_CACHE=str(cache)))
    if not outcome.ok:
        return "failed", {"why": last_words(outcome), "tail": outcome.tail}
    rows = []
    for line in read_lines(times)[0]:
        if "attention" in line:
            continue
        ms, cold, best = line["ms"], line["cold_ms"], line["chosen"]
        rank = sorted(range(len(cold)), key=lambda i: cold[i]).index(best)
        rows.append([line["name"],
                     "x".join(str(line[x]) for x in ("batch", "m", "n", "k")),
                     f"{cold[0] * 1e3:.1f}", f"{ms[0] * 1e3:.1f}",
                     f"{ms[best] * 1e3:.1f}", f"{best + 1} of {len(ms)}",
                     str(rank + 1),
                     f"{line['flops'] / max(ms[best], 1e-6) / 1e9:.0f}"])
    return "ok", {"rows": rows, "head": [
        "product", "batch x m x n x k", "first-ranked, cold us", "warm us",
        "chosen us", "chosen", "cold rank", "Tflop/s"]}


def peer(run, case):
    if os.environ.get("TORCH") == "0":
        return "skipped", {"why": "TORCH=0"}
    if not run.machine.get("torch"):
        return "skipped", {"why": "PyTorch is not installed"}
    allowed = min(run.limit(case), run.left() - 5)
    outcome = run.programs.run(
        case.name, [sys.executable, run.trees / "tools/peer.py", case.model,
                    case.mesh, run.steps + WARM, *case.options], allowed)
    if outcome.late and allowed < run.limit(case):
        raise OutOfTime
    seconds, about = [], None
    for line in outcome.output.splitlines():
        if line.startswith("# "):
            about = line[2:]
        elif re.fullmatch(r"\d+\.\d+", line):
            seconds.append(float(line))
    seconds = seconds[WARM:]
    values = {"step_ms": statistics.median(seconds) * 1e3 if seconds else None,
              "steps": len(seconds), "about": about}
    if not outcome.ok:
        return "failed", dict(values, why=last_words(outcome),
                              tail=outcome.tail)
    return "ok", values


# ---- the machine -------------------------------------------------------------

def look_at_machine(run):
    """Finds libraries that only pip has installed, and records versions, limits
    and the rate of a copy. Every command repeats this, because it may run on
    another machine than the previous one."""
    tool = [sys.executable, run.trees / "tools/machine.py"]
    found = run.programs.run("libraries", [*tool, "directories"], 60)
    directories = found.output.strip() if found.ok else ""
    env = run.programs.env
    env["LD_LIBRARY_PATH"] = ":".join(
        filter(None, (directories, env.get("LD_LIBRARY_PATH"))))
    outcome = run.programs.run("machine", tool, 60)
    problems = []
    try:
        run.machine = json.loads(outcome.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        problems.append(f"machine.py: {last_words(outcome)}")
    for what, library in run.machine.get("libraries", {}).items():
        if not library and what != "NVRTC":
            problems.append(f"{what} is missing")
    if run.machine and not run.machine["gpus"]:
        problems.append("the driver shows no GPU, or there is no driver")
    copy = copy_rate(run, problems)
    build_loopback(run, problems)
    values = dict(run.machine, copy=copy, directories=directories,
                  emitted=(run.trees / "about").read_text().strip())
    if problems:
        values["why"] = "; ".join(problems)
    run.results.end("", "machine", "failed" if problems else "ok", **values)
    run.say(f"machine: {', '.join(run.machine.get('gpus', []))} "
            + "; ".join(problems))
    run.publish()


def copy_rate(run, problems):
    tools, program = run.trees / "tools", run.work / "copy_rate"
    cc = run.programs.env["CC"]
    built = run.programs.run(
        "copy_rate", [cc, "-std=c11", "-O2", "-D_GNU_SOURCE", f"-I{tools}",
                      "-o", program, tools / "copy_rate.c", "-ldl"], 60)
    ran = run.programs.run("copy_rate", [program], 60) if built.ok else built
    try:
        return float(ran.output)
    except ValueError:
        problems.append(f"copy_rate: {last_words(ran)}")
        return None


def build_loopback(run, problems):
    (run.work / "loopback").mkdir(exist_ok=True)
    outcome = run.programs.run(
        "loopback", [run.trees / "tools/loopback",
                     run.work / "loopback/libnccl.so.2"], 60)
    if not outcome.ok:
        problems.append(f"loopback: {last_words(outcome)}")


def build(run, cases):
    """Builds all trees of the step in parallel. is_built() later reports a tree
    whose binary is missing."""
    trees = sorted({run.tree_of[c.name] for c in cases
                    if c.name in run.tree_of})
    goals = [run.trees / tree / "train" for tree in trees]
    missing = [goal for goal in goals if not is_whole(goal)]
    if not missing or not has_make(run):
        return
    run.programs.run(
        "build", ["make", "-s", "-k", f"-j{os.cpu_count()}", "-f",
                  run.trees / "tools/trees.mk", f"TREES={' '.join(trees)}"],
        run.left() - LEAST_FOR_CASES, cwd=run.trees)


LEAST_FOR_CASES = 30
LEAST_FOR_BUILD = 60


def is_whole(program):
    """Whether the linker has finished it: only then it may be executed."""
    if program.exists() and not os.access(program, os.X_OK):
        program.unlink()
    return program.exists()


def has_make(run):
    return "make" in run.machine.get("tools", ["make"])


def compilation(run, tree):
    """The command of a tree's Makefile, for a machine without make."""
    flags = re.search(r"^CFLAGS = (.*)$", (tree / "Makefile").read_text(),
                      re.MULTILINE).group(1).split()
    sources = [*tree.glob("*.c"), *tree.glob("runtime/**/*.c")]
    return [run.programs.env["CC"], *flags, "-o", "train", *sources, "-ldl",
            "-lm"]


def is_built(run, case):
    tree = binary(run, case).parent
    if is_whole(binary(run, case)):
        return "ok", {}
    outcome = run.programs.run(
        f"build {case.name}",
        ["make"] if has_make(run) else compilation(run, tree),
        min(max(run.limit(case), LEAST_FOR_BUILD), run.left() - 5), cwd=tree)
    if outcome.ok:
        return "ok", {}
    return "failed", {"why": "the tree does not build", "tail": outcome.tail}


# The parts of each kind of case: name, function, and the part that must have
# succeeded before (None: no part).
OF_KIND = {
    "numerics": [("build", is_built, None), ("losses", losses, "build"),
                 ("repeat", repeat, "losses")],
    "speed": [("build", is_built, None), ("time", timing, "build"),
              ("trace", trace, "time")],
    "products": [("build", is_built, None), ("products", products, "build")],
    "peer": [("peer", peer, None)],
}
