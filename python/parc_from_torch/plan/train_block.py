"""Prints a `train` block of PDL for an optimizer and a scheduler of PyTorch."""
from fnmatch import fnmatchcase
import re
import textwrap

import torch

from ..ir.literals import number
from .paths import Arrays
from .schedules import find_schedule

INDENT = "    "
WIDTH = 90
PRECISIONS = {
    None: None, torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16",
    "f32": "f32", "bf16": "bf16", "f16": "f16",
    "float32": "f32", "bfloat16": "bf16", "float16": "f16",
    # Lightning's names
    "32": "f32", "32-true": "f32", "bf16-mixed": "bf16", "bf16-true": "bf16",
    "16-mixed": "f16", "16-true": "f16", "16": "f16", 32: "f32", 16: "f16",
}
# The optimizers: name in PDL, and (argument, default) in its order.
ADAM = (("betas", (0.9, 0.999)), ("eps", 1e-8))
OPTIMIZERS = (
    (torch.optim.AdamW, "AdamW", (*ADAM, ("weight_decay", 0.01))),
    (torch.optim.Adam, "Adam", (*ADAM, ("weight_decay", 0))),
    (torch.optim.SGD, "SGD", (("momentum", 0), ("weight_decay", 0))),
    (torch.optim.Adafactor, "Adafactor", (
        ("beta2_decay", -0.8), ("eps1", 2**-23), ("eps2", 1e-3), ("clip_threshold", 1), ("weight_decay", 0))),
)
# torch.optim.Muon, which old versions lack.
MUON = (("momentum", 0.95), ("nesterov", True), ("eps", 1e-7), ("weight_decay", 0.1),
        ("ns_coefficients", (3.4445, -4.775, 2.0315)), ("ns_steps", 5),
        ("adjust_lr_fn", "original"))
if hasattr(torch.optim, "Muon"):
    OPTIMIZERS += (torch.optim.Muon, "Muon", MUON),
# Options that change the update and have no counterpart.
UNSUPPORTED = ("nesterov", "dampening", "amsgrad", "maximize")


def train_block(optimizer, scheduler, batch, seq, precision, clip, reduce=None,
                model=None, arrays=None, accumulate=None):
    """The lines of the block, without newlines, and the list of warnings.

    optimizer: SGD, Adam, AdamW, Adafactor or Muon, or None for the default; or a list of a
               Muon and an AdamW
    scheduler: a scheduler of torch.optim.lr_scheduler, or None
    batch:     sequences of the global batch; None for the default
    seq:       tokens of a sequence, or None
    precision: a name of PDL, of Lightning or a dtype
    clip:      the largest norm of all gradients, or None
    reduce:    type of gradient reductions, as Recording.reduce
    model:     the model: its names are needed for parameter groups
    arrays:    as in plan_block
    """
    block = TrainBlock(model, Arrays(arrays or {}))
    rows = [("batch", batch), ("seq", seq),
            ("precision", block.precision(precision)),
            ("reduce", reduce if reduce != "f32" else None),
            ("optimizer", block.optimizer(optimizer)),
            ("schedule", block.schedule(scheduler)),
            ("clip", number(clip) if clip else None),
            ("accumulate", accumulate if accumulate != 1 else None)]
    rows = [(name, str(value)) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in rows), default=0)
    notes = [INDENT + line for text in block.warnings for line in textwrap.wrap(
        text, WIDTH - len(INDENT) - 2, initial_indent="# ",
        subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False)]
    body = [f"{INDENT}{name:<{width}} = {value}" for name, value in rows]
    return ["train {", *notes, *body, "}"], block.warnings


def argument(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return f"({', '.join(number(v) for v in value)})"
    return number(value)


class TrainBlock:
    def __init__(self, model, arrays):
        self.arrays, self.warnings = arrays, []
        self.names = {id(p): n for n, p in model.named_parameters()} \
            if model is not None else {}
        self.trained = {id(p) for p in model.parameters() if p.requires_grad} \
            if model is not None else set()

    def warn(self, text):
        if text not in self.warnings:
            self.warnings.append(text)

    def precision(self, precision):
        if precision not in PRECISIONS:
            self.warn(f"precision {precision} has no counterpart: parc computes in "
                      "f32, bf16 or f16")
            return None
        if isinstance(precision, str) and precision.endswith("-true") and \
                PRECISIONS[precision] != "f32":
            self.warn(f"precision {precision}: parc stores parameters in f32")
        name = PRECISIONS[precision]
        return None if name == "f32" else name

    # Optimizers

    def optimizer(self, optimizer):
        if optimizer is None:
            return None
        if isinstance(optimizer, (tuple, list)):
            return self._several(optimizer)
        found = [row for row in OPTIMIZERS if type(optimizer) is row[0]]
        if not found:
            self.warn(f"optimizer {type(optimizer).__name__} has no counterpart: "
                      "parc's default AdamW is used")
            return None
        _, name, options = found[0]
        groups = optimizer.param_groups
        if name == "Adam" and groups[0].get("decoupled_weight_decay"):
            name, options = "AdamW", OPTIMIZERS[0][2]
        self._check_options(groups, name)
        main = max(groups, key=lambda g: (float(g["weight_decay"]) != 0,
                                          self._count(g)))
        arguments = self._arguments(main, options)
        without = self._no_decay(groups, main)
        if without:
            arguments.append(f"no_decay={without}")
        self._check_members(groups)
        return f"{name}({', '.join(arguments)})"

    def _arguments(self, group, options):
        given = settings(group)
        return [f"lr={number(rate(group))}"] + [
            f"{key}={argument(given[key])}" for key, default in options
            if not same(given[key], default)]

    def _several(self, optimizers):
        """A Muon, and an AdamW for the other parameters: a group of Muon in PDL."""
        kinds = {type(o).__name__: o for o in optimizers}
        if set(kinds) != {"Muon", "AdamW"} or len(optimizers) != 2 or \
                any(len(o.param_groups) != 1 for o in optimizers):
            self.warn("several optimizers have no counterpart, except a Muon and an AdamW with "
                      "one group each: parc's default AdamW is used")
            return None
        muon, adamw = (kinds[k].param_groups[0] for k in ("Muon", "AdamW"))
        self._check_options([adamw], "AdamW")
        self._check_members([muon, adamw])
        arguments = self._arguments(muon, MUON)
        if not same(adamw["betas"], (0.9, 0.999)):
            arguments.append(f"betas={argument(adamw['betas'])}")
        if not same(adamw["eps"], 1e-8):
            arguments.append(f"adamw_eps={argument(adamw['eps'])}")
        rest = self._patterns(self._group_names([adamw]), self._group_names([muon]))
        if rest is None:
            self.warn("the parameters of AdamW are not known: Muon updates all")
            return f"Muon({', '.join(arguments)})"
        own = [rest, "optimizer=AdamW"]
        factor = float(rate(adamw)) / float(rate(muon))
        if factor != 1:
            own.append(f"lr_factor={number(float(f'{factor:.12g}'))}")
        if float(adamw["weight_decay"]) != float(muon["weight_decay"]):
            own.append(f"weight_decay={number(adamw['weight_decay'])}")
        return f"Muon({', '.join(arguments)}, groups=group({', '.join(own)}))"

    def _count(self, group):
        return sum(p.numel() for p in group["params"])

    def _check_options(self, groups, name):
        for option in UNSUPPORTED:
            if any(g.get(option) for g in groups) and (option, name) != ("nesterov", "Muon"):
                self.warn(f"the optimizer's option {option} has no counterpart")

    def _check_members(self, groups):
        members = {id(p) for g in groups for p in g["params"]}
        left = [self.names[i] for i in self.trained - members]
        if left:
            self.warn("the optimizer does not have " + ", ".join(sorted(left))
                      + ": parc trains all parameters that are not frozen")

    def _no_decay(self, groups, main):
        """The patterns of parameters without weight decay, in PDL, or None."""
        for key in ("lr", "betas", "eps", "momentum"):
            if len({str(g.get(key)) for g in groups}) > 1:
                self.warn(f"groups of parameters have different {key}: parc has one "
                          f"for all, {argument(main[key])}")
        decay = float(main["weight_decay"])
        others = [g for g in groups if float(g["weight_decay"]) not in (0.0, decay)]
        if others:
            self.warn("groups of parameters have different weight decay: parc has "
                      f"one value, {number(decay)}, or none")
        without = [g for g in groups if float(g["weight_decay"]) == 0.0 != decay]
        if not without:
            return None
        return self._patterns(self._group_names(without), self._group_names(
            [g for g in groups if g not in without]))

    def _group_names(self, groups):
        """Names of the groups' parameters, or None for one without a name."""
        return [name for g in groups for name in (
            g.get("param_names") or [self.names.get(id(p)) for p in g["params"]])]

    def _patterns(self, without, others):
        if None in without or None in others:
            self.warn("some parameters have no weight decay, but the names of "
                      "parameters are not known: pass the model")
            return None
        without = {self.arrays.split(n)[0] for n in without}
        others = {self.arrays.split(n)[0] for n in others}
        if without & others:
            self.warn("weight decay differs between the elements of an array: "
                      + ", ".join(sorted(without & others)))
            without -= others
        chosen = cover(without, others)
        quoted = [f'"{p}"' for p in chosen]
        if not quoted:
            return None
        return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"

    # Schedules

    def schedule(self, scheduler):
        if scheduler is None:
            return None
        found, difference = find_schedule(scheduler)
        if found is None:
            self.warn(f"schedule {type(scheduler).__name__} has no counterpart: the "
                      "learning rate is constant")
            return None
        if difference > 1e-6:
            self.warn("the learning rate grows to the same value in the same steps, "
                      "but from another start: it differs by at most "
                      f"{100 * difference:.3g}% of lr in the first {found.warmup} "
                      "steps")
        if found.kind == "constant" and not found.warmup:
            return None
        arguments = [f"steps={found.steps}"] if found.kind != "constant" else []
        if found.warmup:
            arguments.append(f"warmup={found.warmup}")
        if found.kind != "constant" and found.low:
            group = scheduler.optimizer.param_groups[0]
            low = found.low * float(group.get("initial_lr", group["lr"]))
            arguments.append(f"min_lr={number(float(f'{low:.12g}'))}")
        return f"{found.kind}({', '.join(arguments)})"


def rate(group):
    """The learning rate, without a scheduler's factor."""
    return group.get("initial_lr", group["lr"])


def settings(group):
    """The settings of a group of parameters, under the names of PDL."""
    made = {key: value for key, value in group.items() if key != "params"}
    if isinstance(made.get("eps"), (tuple, list)):  # Adafactor's
        first, made["eps2"] = made.pop("eps")
        made["eps1"] = 2**-23 if first is None else first
        made["clip_threshold"] = made["d"]
    if "adjust_lr_fn" in made:
        made["adjust_lr_fn"] = made["adjust_lr_fn"] or "original"
    return made


def same(value, default):
    if isinstance(default, (bool, str)):
        return value == default
    values = value if isinstance(value, (tuple, list)) else (value,)
    defaults = default if isinstance(default, tuple) else (default,)
    return [float(v) for v in values] == [float(d) for d in defaults]


def _pattern_choices(name):
    """Patterns that match a name, the most usual first."""
    *modules, last = name.split(".")
    yield f"*.{last}" if modules else last
    for module in reversed(modules):
        for word in reversed([w for w in re.split(r"[_\d*]+", module) if w]):
            yield f"*{word}*"
    for module in reversed(modules):
        if module != "*":
            yield f"*{module}*"
    for i in range(1, len(modules)):
        yield "*." + ".".join([*modules[i:], last])
    yield name


def cover(wanted, others):
    """Patterns that match all names of `wanted` and none of `others`."""
    chosen, left = [], set(wanted)
    while left:
        best = None
        for name in sorted(left):
            for pattern in dict.fromkeys(_pattern_choices(name)):
                if any(fnmatchcase(o, pattern) for o in others):
                    continue
                count = sum(fnmatchcase(n, pattern) for n in left)
                if best is None or count > best[0]:
                    best = (count, pattern)
        if best is None:        # a name of `others` that `*` in the name matches
            return []
        chosen.append(best[1])
        left = {n for n in left if not fnmatchcase(n, best[1])}
    return chosen
