"""Finds the schedule of PDL that has the learning rates of a PyTorch scheduler.

The scheduler is run for its steps, and schedules that could have the same
learning rates are compared with it. PDL counts steps from 1. PyTorch's first
step has the learning rate of step 0, so that PyTorch's `T_max=100` is often
`steps=101`.
"""
import contextlib
import functools
import math
import warnings
from dataclasses import dataclass

from torch.optim import lr_scheduler

EXACT = 1e-6                # difference of factors of the learning rate
LONGEST = 1 << 20           # steps in which an unknown function must end


@dataclass
class Schedule:
    """A schedule of PDL; `low` is min_lr divided by the learning rate."""
    kind: str
    steps: int = 0
    warmup: int = 0
    low: float = 0.0

    def factor(self, t):
        """The learning rate of step t, divided by the optimizer's."""
        if t <= self.warmup:
            return t / self.warmup
        first = max(self.warmup, 1)
        if self.kind == "constant" or t <= first:
            return 1.0
        if t >= self.steps:
            return self.low
        done = (t - first) / (self.steps - first)
        if self.kind == "cosine":
            done = (1 - math.cos(math.pi * done)) / 2
        return 1 + (self.low - 1) * done

    def valid(self):
        """Whether parc accepts the schedule."""
        return self.kind == "constant" or \
            self.warmup < self.steps and self.low <= 1

    def end(self):
        return max(self.steps, self.warmup, 1)


def _parts(scheduler):
    return [scheduler] + [p for s in getattr(scheduler, "_schedulers", ())
                          for p in _parts(s)]


@contextlib.contextmanager
def _unchanged(scheduler):
    """Restores the scheduler and the learning rates of its optimizer."""
    parts = [(p, dict(vars(p))) for p in _parts(scheduler)]
    groups = [(g, {k: v for k, v in g.items() if k != "params"})
              for g in scheduler.optimizer.param_groups]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for part, attributes in parts:
            vars(part).clear()
            vars(part).update(attributes)
        for group, values in groups:
            group.update(values)


class Curve:
    """The factors of a scheduler by step, from 1."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.base = float(scheduler.optimizer.param_groups[0].get(
            "initial_lr", scheduler.optimizer.param_groups[0]["lr"]))
        self.known = []
        functions = getattr(scheduler, "lr_lambdas", None)
        self.function = functions[0] if functions else None

    def run(self, steps):
        """Runs the scheduler for `steps` steps from its present one."""
        self.known = []
        with _unchanged(self.scheduler):
            group = self.scheduler.optimizer.param_groups[0]
            for _ in range(steps):
                self.known.append(float(group["lr"]) / self.base)
                self.scheduler.step()

    def factor(self, t):
        if self.function is not None:
            return float(self.function(t - 1))
        if t > len(self.known):
            self.run(2 * t)
        return self.known[t - 1]


# What could have the learning rates of a scheduler: (kind, steps, warmup, low)
# with PyTorch's numbers of steps.

def _linear(s, curve):
    if s.start_factor < s.end_factor:
        return [("constant", 0, s.total_iters, 0.0)]
    return [("linear", s.total_iters, 0, s.end_factor)]


def _cosine(s, curve):
    return [("cosine", s.T_max, 0, s.eta_min / curve.base)]


def _sequence(s, curve):
    """A warm-up, then another scheduler."""
    if len(s._schedulers) != 2:
        return []
    first, then = s._schedulers
    if not isinstance(first, (lr_scheduler.LinearLR, lr_scheduler.LambdaLR)):
        return []
    warmup = s._milestones[0]
    return [(kind, steps + warmup if steps else 0, warmup, low)
            for kind, steps, _, low in guesses(then, curve)]


def _lambda(s, curve):
    function = s.lr_lambdas[0]
    if not isinstance(function, functools.partial):
        return _unknown(curve)
    given = function.keywords
    steps = given.get("num_training_steps")
    warmup = given.get("num_warmup_steps", 0)
    low = given.get("min_lr_rate", 0.0)
    if "lr_end" in given:
        low = given["lr_end"] / curve.base
    if steps is None:
        return [("constant", 0, warmup, 0.0)] if warmup else _unknown(curve)
    return [(kind, steps, warmup, low) for kind in ("linear", "cosine")]


def _unknown(curve):
    """Guesses from the factors alone: the peak is the end of the warm-up, and the
    end is the first step from which the factor is constant."""
    warmup = 1
    while curve.factor(warmup) < curve.factor(warmup + 1) and warmup < LONGEST:
        warmup += 1
    end = warmup
    while end < LONGEST and not curve.factor(end) == curve.factor(2 * end) \
            == curve.factor(4 * end):
        end *= 2
    low = curve.factor(end)
    first = warmup
    while first < end:
        middle = (first + end) // 2
        if curve.factor(middle) == low:
            end = middle
        else:
            first = middle + 1
    warmup = warmup if warmup > 1 else 0
    if end == max(warmup, 1):
        return [("constant", 0, warmup, 0.0)]
    return [(kind, end, warmup, low) for kind in ("linear", "cosine")]


GUESSES = (
    (lr_scheduler.SequentialLR, _sequence),
    (lr_scheduler.LinearLR, _linear),
    (lr_scheduler.CosineAnnealingLR, _cosine),
    (lr_scheduler.LambdaLR, _lambda),
    (lr_scheduler.ConstantLR, lambda s, curve: [("constant", 0, 0, 0.0)]),
)


def guesses(scheduler, curve):
    for kind, guess in GUESSES:
        if type(scheduler) is kind:
            return guess(scheduler, curve)
    return []


def _candidates(guess):
    """A guess with PyTorch's numbers of steps, and with one step more."""
    kind, steps, warmup, low = guess
    for more in (0, 1):
        for warm in {warmup, warmup + more} if warmup else {0}:
            yield Schedule(kind, steps + more if steps else 0, warm, low)


def _difference(schedule, curve, first):
    """The largest difference of factors from step `first` to the end."""
    end = schedule.end()
    if schedule.kind == "constant":     # it must stay constant
        end = 4 * end + 100
    steps = range(first, end + 1, max((end - first) // 4000, 1))
    return max(abs(schedule.factor(t) - curve.factor(t)) for t in (*steps, end))


def find_schedule(scheduler):
    """The Schedule with the learning rates of a scheduler, and the largest
    difference in its warm-up as a factor of the learning rate; (None, 0) if
    PDL has none. After the warm-up, learning rates are equal."""
    if getattr(scheduler, "optimizer", None) is None:
        return None, 0.0
    curve = Curve(scheduler)
    best = (None, math.inf)
    found = guesses(scheduler, curve)
    if found and curve.function is None:
        curve.run(max(_longest(g) for g in found))
    for guess in found:
        for schedule in _candidates(guess):
            if not schedule.valid() or \
                    _difference(schedule, curve, max(schedule.warmup, 1)) > EXACT:
                continue
            warm = _difference(schedule, curve, 1)
            if warm < best[1]:
                best = (schedule, warm)
    return best if best[0] else (None, 0.0)


def _longest(guess):
    return 4 * (guess[1] + guess[2]) + 200 if guess[0] == "constant" else \
        guess[1] + guess[2] + 4
