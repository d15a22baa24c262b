"""Runs programs, each in its own process group with a time limit, and returns
their exit status and output. A crash or hang of a program does not end the
run."""
import ctypes
import dataclasses
import os
import signal
import statistics
import subprocess
import tempfile
import time

TAIL = 700  # characters of a program's output in a record
LOGGED = 200_000  # and in the log
LOG_MOST = 12 << 20  # bytes of the log
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Outcome:
    status: int       # of the program; negative: the signal that ended it
    seconds: float
    late: bool        # killed at its time limit
    output: str

    @property
    def ok(self):
        return self.status == 0 and not self.late

    @property
    def tail(self):
        return self.output.strip()[-TAIL:]

    def says(self):
        """One phrase for tables."""
        if self.late:
            return f"did not end within {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        return f"status {self.status}"


def _own_group():
    """Runs in the child: creates a process group, which can be killed as a
    whole, and requests a SIGKILL when the parent exits."""
    os.setpgrp()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Programs:
    def __init__(self, out, env):
        self.log = out / "log.txt"
        self.env = env
        self.running = None

    def write(self, text):
        """Appends to the log until it reaches its maximum size."""
        with open(self.log, "a", encoding="utf-8", errors="replace") as f:
            if f.tell() < LOG_MOST:
                f.write(text)

    def end_running(self):
        if self.running:
            try:
                os.killpg(self.running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run(self, title, command, limit, env=None, cwd=None):
        command = [str(word) for word in command]
        begin = time.monotonic()
        late = False
        with tempfile.TemporaryFile() as to:
            try:
                self.running = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=to, stderr=to,
                    env=dict(self.env, **(env or {})), cwd=cwd,
                    preexec_fn=_own_group)
            except OSError as error:
                return Outcome(127, 0.0, False, f"{command[0]}: {error}")
            try:
                status = self.running.wait(timeout=max(limit, 1))
            except subprocess.TimeoutExpired:
                late, status = True, -signal.SIGKILL
            self.end_running()  # processes that the program has left running
            self.running.wait()
            self.running = None
            size = to.seek(0, os.SEEK_END)
            to.seek(max(0, size - LOGGED))
            output = to.read().decode(errors="replace")
        outcome = Outcome(status, time.monotonic() - begin, late, output)
        settings = " ".join(f"{k}={v}" for k, v in (env or {}).items())
        self.write(f"== {title}: {settings} {' '.join(command)}\n{output}"
                   f"== {outcome.says()}, {outcome.seconds:.1f} s\n\n")
        return outcome


class Samples:
    """Samples clocks, power and temperature with nvidia-smi while a program
    runs; `values` has minimum, median and maximum of each."""
    FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
    NAMES = ("sm_mhz", "memory_mhz", "watts", "celsius")

    def __enter__(self):
        self.to = tempfile.TemporaryFile(mode="w+")
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", f"--query-gpu={','.join(self.FIELDS)}", "-i",
                 "0", "--format=csv,noheader,nounits", "-lms", "200"],
                stdin=subprocess.DEVNULL, stdout=self.to,
                stderr=subprocess.DEVNULL, preexec_fn=_own_group)
        except OSError:
            self.process = None
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.to.seek(0)
        rows = []
        for line in self.to:
            try:
                row = [float(word) for word in line.split(",")]
            except ValueError:
                continue
            if len(row) == len(self.NAMES):
                rows.append(row)
        self.to.close()
        self.values = {
            name: [min(x), statistics.median(x), max(x)]
            for name, x in zip(self.NAMES, zip(*rows))}
