#!/usr/bin/env python3
"""steps.py WORK OUT STEP [PATTERN]: runs the cases of some steps, part by part.
steps.py plan CASES: prints the seconds that they may take. tests/gpu/run starts
it; the comment at its top lists the environment variables."""
import dataclasses
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import parts
import report
from programs import Programs
from results import Results

ATTEMPTS = 3  # for a part during which the command was killed
LEAST = 25    # seconds that must be left before a part starts
LIMIT = 560   # seconds of a command
BUDGET = 1680  # seconds of all commands: 28 minutes
START = 45    # of a command: unpacks, builds, looks at the machine


@dataclasses.dataclass
class Case:
    step: int
    name: str
    seconds: float  # estimate of the case, and limit of each program
    kind: str
    model: str
    mesh: str
    options: list
    settings: dict

    @property
    def ranks(self):
        n = 1
        for size in self.mesh.split("x"):
            n *= int(size) if size.isdigit() else 1
        return n


def read_cases(path):
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        step, name, seconds, kind, model, mesh, *words = line.split()
        settings = dict(w.split("=", 1) for w in words
                        if re.match(r"PARC_\w+=", w))
        options = [w for w in words if not re.match(r"PARC_\w+=", w)]
        yield Case(int(step), name, float(seconds), kind, model, mesh, options,
                   settings)


def print_plan(path):
    """Prints the seconds of each step, of the starts of commands, and of all."""
    cases = list(read_cases(path))
    for step in sorted({c.step for c in cases}):
        names = [c for c in cases if c.step == step]
        print(f"step {step}: {sum(c.seconds for c in names):.0f} s, "
              f"{len(names)} cases")
    work = sum(c.seconds for c in cases)
    commands = -(-work // (LIMIT - START - LEAST))
    print(f"{commands:.0f} commands of {LIMIT} s, {START} s each to start")
    print(f"all: {work + commands * START:.0f} of {BUDGET} s")


def number(name, default):
    return float(os.environ.get(name, "") or default)


class Run:
    """The state that the parts share: directories, cases, limits, programs, results
    and the deadline of the command."""

    def __init__(self, work, out):
        self.begin = time.monotonic()
        self.work, self.out, self.trees = work, out, work / "trees"
        self.case_seconds = number("CASE_SECONDS", 0)
        self.steps = int(number("STEPS", 15))
        self.launch = os.environ.get("LAUNCH", "").split()
        self.files = work / "files"
        self.files.mkdir(exist_ok=True)
        self.tree_of = dict(line.split() for line in
                            (self.trees / "trees").read_text().splitlines())
        self.cases = [c for c in read_cases(self.trees / "cases")
                      if c.kind == "peer" or c.name in self.tree_of or
                      (self.trees / "missing" / c.name).exists()]
        self.machine = {}
        self.diagnosed = set()
        self.results = Results(
            [out, work, pathlib.Path(os.environ.get("RUN_AT", work))],
            os.environ.get("EARLIER"), (work / "sum").read_text().strip())
        self.used = self.results.used()
        self.deadline = self.begin + min(number("LIMIT", LIMIT),
                                         number("BUDGET", BUDGET) - self.used)
        env = dict(os.environ)
        toolkit = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
        env["PATH"] = f"{env.get('PATH', '/usr/bin:/bin')}:{toolkit}/bin"
        env.setdefault("CC", next((c for c in ("cc", "gcc", "clang")
                                   if shutil.which(c)), "cc"))
        env.setdefault("PARC_TIMEOUT", "60")
        env.setdefault("STANDIN_LIMIT", "60")  # of tests/gpu/loopback.c
        env.setdefault("PARC_CACHE", str(work / "cache"))
        self.programs = Programs(out, env)

    def left(self):
        return self.deadline - time.monotonic()

    def limit(self, case):
        """The seconds of one program of a case."""
        return self.case_seconds or case.seconds

    def say(self, text):
        print(text, flush=True)
        self.programs.write(text + "\n")

    def publish(self):
        self.results.use(self.used + time.monotonic() - self.begin)
        report.write_summary(self.out, self.results.all())


def run_part(run, case, part, do):
    """Runs one part of a case, unless its result has been recorded. Returns
    False if the command has no time left for it."""
    old = run.results.get(case.name, part)
    again = os.environ.get("AGAIN") == "1"
    if old and old["state"] != "began" and not \
            (again and old["state"] == "failed"):
        return True
    if run.left() < LEAST:
        return False
    if old and old["state"] == "began" and old["attempts"] >= ATTEMPTS:
        run.results.end(case.name, part, "failed", why=(
            f"the command ended during this part {ATTEMPTS} times"))
        run.say(f"{case.name} {part}: failed: given up")
        return True
    run.results.begin(case.name, part)
    begin = time.monotonic()
    try:
        state, values = do(run, case)
    except parts.OutOfTime:
        return False
    except Exception as error:  # a fault of a part must not end the run
        state, values = "failed", {"why": f"{type(error).__name__}: {error}"}
    seconds = round(time.monotonic() - begin, 1)
    run.results.end(case.name, part, state, seconds=seconds, **values)
    run.say(f"{case.name} {part}: {state}, {seconds} s"
            + (f": {values['why']}" if "why" in values else ""))
    run.publish()
    return True


def is_finished(run, case):
    """Whether all parts of a case have a result, or need a part that failed."""
    for part, _, needed in parts.OF_KIND[case.kind]:
        first = run.results.get(case.name, needed) if needed else None
        old = run.results.get(case.name, part)
        if (not first or first["state"] == "ok") and \
                (not old or old["state"] == "began"):
            return False
    return os.environ.get("AGAIN") != "1"


def run_case(run, case):
    """Runs all parts of a case except those that need a failed part. Returns
    False if the command has no time left."""
    missing = run.trees / "missing" / case.name
    for part, do, needed in parts.OF_KIND[case.kind]:
        if missing.exists():
            why = "not emitted: " + missing.read_text().strip()[-500:]
            run.results.end(case.name, part, "failed", why=why)
            run.say(f"{case.name}: {why}")
            return True
        first = run.results.get(case.name, needed) if needed else None
        if first and first["state"] != "ok":
            continue
        if not run_part(run, case, part, do):
            return False
    return True


def main():
    if sys.argv[1] == "plan":
        print_plan(pathlib.Path(sys.argv[2]))
        return
    work, out = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    step, pattern = sys.argv[3], (sys.argv[4:] or ["*"])[0]
    run = Run(work, out)

    def stop(*_):
        run.programs.end_running()
        run.publish()
        os._exit(3)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    cases = [c for c in run.cases if fnmatch.fnmatch(c.name, pattern) and
             (step == "all" or str(c.step) in step.split(","))]
    if not cases:
        sys.exit(f"run: no case of step '{step}' is named '{pattern}'")
    run.results.end("", "cases", "ok", cases=[
        [c.step, c.name, c.kind, c.model, c.mesh, c.options, c.settings]
        for c in run.cases])
    parts.look_at_machine(run)
    parts.build(run, [c for c in cases if not is_finished(run, c)])
    late = [c.name for c in cases if not run_case(run, c)]
    run.publish()
    print(report.summary(run.results.all(), {c.name for c in cases},
                         most=9000))
    if late:
        spent = run.results.used() > number("BUDGET", BUDGET) - LEAST
        print(f"\n{len(late)} cases are left ({', '.join(late)}): "
              + ("the time of all commands is used up (BUDGET)" if spent
                 else "call the same command again"))
    failed = any(r["state"] == "failed" for r in run.results.all()
                 if r["case"] in {c.name for c in cases})
    sys.exit(3 if late else 1 if failed else 0)


if __name__ == "__main__":
    main()
