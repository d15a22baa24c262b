"""From a function that builds a PyTorch model to a PDL file."""

import contextlib
import copy
import dataclasses
import inspect
import logging

import torch

from . import construct, formals, loops, patterns, prelude
from .body import ImportFault, Loop, Value
from .defaults import plain_fsdp, transformers_plan
from .plan_block import plan_block
from .record import record
from .recording import RecordError
from .trace import Trace, bodies
from .train_block import train_block
from .verify import verify
from .write import Writer


def inputs_of(example):
    """(args, kwargs) of the example inputs; each tensor is an input of its own."""
    def own(x):
        return x.clone() if isinstance(x, torch.Tensor) else x

    if isinstance(example, dict):
        return (), {k: own(v) for k, v in example.items()}
    if isinstance(example, torch.Tensor):
        return (own(example),), {}
    return tuple(own(x) for x in example), {}


def wider(example, name):
    """The example inputs with twice the batch, or twice the sequence."""
    dim = 0 if name == "batch" else 1
    args, kwargs = inputs_of(example)

    def more(x):
        if not isinstance(x, torch.Tensor) or x.dim() <= dim or \
                (dim and x.dtype.is_floating_point):
            return x
        return torch.cat([x, x], dim)

    return tuple(more(x) for x in args), {k: more(x) for k, x in kwargs.items()}


class Sample(Trace):
    """A trace with names for inputs, formals and prelude modules."""

    def __init__(self, model, args, kwargs, numbers):
        super().__init__(model, args, kwargs)
        self.args, self.kwargs = args, kwargs
        self.failed_loops = []
        for b in bodies(self.body):
            patterns.rewrite(b)
            module = model.get_submodule(b.path)
            b.formals = dict(numbers.get(id(module), {}))
            prelude.recognise(b, module)
        for b in bodies(self.body):
            prelude.inline(b)
            self.failed_loops += [f"{b.path}.{n}".strip(".") for n in loops.roll_all(b)]
            patterns.rewrite_loops(b)
        self.used = [self.inputs.index(v.caller) for v in self.body.inputs]

    def argument_names(self, body):
        names = list(inspect.signature(
            type(self.model.get_submodule(body.path)).forward).parameters)[1:]
        return [names[i] if i < len(names) else f"x{i}" for i in range(len(body.inputs))]

    def bound(self, value):
        """The number of classes of an integer input."""
        found = bound_in(self.body, value)
        if found is None:
            raise ImportFault([f"input {value.name}: neither an embedding nor a loss "
                               "says how large its integers are"])
        return found


def statements(stmts):
    for s in stmts:
        if isinstance(s, Loop):
            yield from statements(s.body)
        else:
            yield s


def bound_in(body, value):
    for s in statements(body.stmts):
        if value not in s.args:
            continue
        if s.op == "embedding" and s.args[1] is value:
            return s.args[0].dims[0]
        if s.op == "cross_entropy" and s.args[1] is value:
            return s.args[0].dims[-1]
        if s.op == "call":
            child = body.children[s.child][0]
            found = bound_in(child, child.inputs[s.args.index(value)])
            if found is not None:
                return found
    return None


def origin(model, numbers):
    """The outermost module that was constructed with numbers, and these."""
    for module in model.modules():
        if numbers.get(id(module)):
            return module, numbers[id(module)]
    return model, {}


def build(function):
    with construct.recording() as seen:
        made = function()
    if not isinstance(made, tuple) or len(made) != 2 or \
            not isinstance(made[0], torch.nn.Module):
        raise ImportFault(["the function must return a module and its example inputs, "
                           "a tuple of arguments or a dict of keyword arguments"])
    return made[0], made[1], seen.numbers


def fitted(example, size):
    """The example inputs with their float dims of `size` doubled, for a model of
    which that is the number of features."""
    args, kwargs = inputs_of(example)

    def more(x):
        if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
            for dim in range(1, x.dim()):
                x = torch.cat([x, x], dim) if x.shape[dim] == size else x
        return x

    return tuple(more(x) for x in args), {k: more(x) for k, x in kwargs.items()}


def changed_sample(function, cls, name, value):
    """A trace of the model with one number doubled, or None if it cannot be so."""
    for inputs in (inputs_of, lambda example: fitted(example, value)):
        try:
            with construct.changing(cls, name, 2 * value):
                model, example, numbers = build(function)
            return Sample(model, *inputs(example), numbers)
        except Exception:  # the user's code may refuse the number in any way
            continue
    return None


@contextlib.contextmanager
def silent():
    """Without torch's messages about models that do not trace."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def samples(function, say):
    """[(formal or None, Sample)]: the model as it is, then with each number of its
    constructor doubled that its code accepts."""
    model, example, numbers = build(function)
    base = Sample(model, *inputs_of(example), numbers)
    found = [(None, base)]
    for name in ("batch", "seq"):
        try:
            found.append((name, Sample(model, *wider(example, name), numbers)))
        except Exception:  # for example a model of images has no sequence
            continue
    module, own = origin(model, numbers)
    for name, value in own.items():
        if not value:
            continue
        more = changed_sample(function, type(module), name, value)
        say(f"{name}={2 * value}: " + ("traced" if more else "the model refuses it"))
        if more:
            found.append((name, more))
    return found


def same_structure(base, other):
    try:
        formals.merge_bodies([fresh(base), fresh(other)], ["x"])
        return True
    except (formals.Different, TypeError, AttributeError):
        return False


def fresh(body):
    return copy.deepcopy(body)


@dataclasses.dataclass
class Converted:
    """`lines`: the PDL file; `model`: the user's module; `warnings`: what of the
    plan and of the training has no counterpart."""

    lines: list
    model: torch.nn.Module
    warnings: list


def merged(found):
    """The traces of equal structure. Their sizes become Numbers in the bodies of the
    first one."""
    base = found[0][1]
    kept = [found[0]] + [(n, s) for n, s in found[1:] if same_structure(base.body, s.body)]
    formals.merge_bodies([s.body for _, s in kept], [formal for formal, _ in kept[1:]])
    return kept


def convert(function, source="", parallelize=None, optimizer=None, say=lambda text: None):
    """A model that `function` returns, with example inputs, as a PDL file.

    parallelize: the user's function that parallelizes the model, or None: what
                 the model suggests, or FSDP
    optimizer:   a function of the model that returns an optimizer, or an optimizer
                 and a scheduler

    An ImportFault lists everything that PDL cannot express."""
    with silent():
        found = samples(function, say)
    base = found[0][1]
    if base.failed_loops:
        raise ImportFault([f"{n}: the calls of its elements are not one loop"
                           for n in base.failed_loops])
    kept, size = merged(found), sizes(base)
    names = [formal for formal, _ in kept[1:]]
    shared = {n: formals.Number(size[n], tuple((o, 2 * size[n] if o == n else size[n])
                                               for o in names))
              for n in ("batch", "seq") if n in names and n in size}
    own = {id(base.model.get_submodule(b.path)): b.formals for b in bodies(base.body)}
    base.body.formals = {**origin(base.model, own)[1], **base.body.formals}
    head = [f"{base.body.cls}, imported by parc-from-torch" +
            (f" from {source}" if source else "") + "."]
    writer = Writer(base, shared)
    lines = writer.file(base.body, base.body.cls, head)
    verify(writer, kept, base.body)
    blocks, warnings = blocks_of(base, size, parallelize, optimizer)
    return Converted(lines + blocks, base.model, warnings)


def arrays_of(body):
    """{path: number of elements} of the arrays."""
    return {f"{b.path}.{s.array}".strip("."): s.count.base
            for b in bodies(body) for s in b.stmts if isinstance(s, Loop)}


def blocks_of(base, size, parallelize, optimizer):
    """The lines of the blocks plan and train, and their warnings."""
    model, arrays = base.model, arrays_of(base.body)
    default = transformers_plan if getattr(model, "tp_plan", None) else plain_fsdp
    try:
        recording = record(parallelize or default, model)
    except RecordError as e:
        raise ImportFault([str(e)])
    inputs = {b.path: len(b.inputs) for b in bodies(base.body)}
    plan, warnings = plan_block(recording, arrays, inputs=inputs)
    made = optimizer(model) if optimizer else None
    made, scheduler = made if isinstance(made, tuple) else (made, None)
    train, more = train_block(made or torch.optim.AdamW(model.parameters(), lr=3e-4),
                              scheduler, size.get("batch", 1), size.get("seq"),
                              recording.precision or "f32", None, recording.reduce,
                              model=model, arrays=arrays)
    return ["", *plan, "", *train], warnings + more


def sizes(base):
    """The sizes of the batch and the sequence in the example inputs."""
    first = next((v for v in base.inputs if isinstance(v, Value) and v.shape), None)
    found = {"batch": first.shape[0]} if first else {}
    ids = next((v for v in base.inputs if isinstance(v, Value) and len(v.shape) == 2 and
                not v.dtype.is_floating_point), None)
    if ids:
        found["seq"] = ids.shape[1]
    return found
