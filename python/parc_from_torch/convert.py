"""From a function that builds a PyTorch model to a PDL file."""

import contextlib
import copy
import dataclasses
import functools
import inspect
import logging
import os
import re

import torch

from . import (construct, formals, loops, outputs, patterns, prelude, sequential, sinusoids,
               torch_modules)
from .argument_names import argument_names, forward_names
from .blocks import blocks_of
from .body import ImportFault, Value, drop_unused, fault, statements
from .example import fitted, inputs_of, resized
from .names import ascii_name, number_name, number_names, plain_name
from .trace import Trace, bodies
from .state_names import state_names
from .verify import tensors, verify
from .write import Writer


class Sample(Trace):
    """A trace with formals, prelude modules and loops. Its inputs get the names and the
    order of the user's forwards, or, with `like`, the order of another trace."""

    def __init__(self, model, args, kwargs, numbers, like=None):
        super().__init__(model, args, kwargs)
        self.args, self.kwargs = args, kwargs
        self.warnings = outputs.limit(self.body)
        names = {} if like else argument_names(self)
        self.orders = like.orders if like else {}
        self.names_of = {}
        for n, p in self.params.items():
            self.names_of.setdefault(id(p), []).append(n)
        calls = {s.callee: s for b in bodies(self.body) for s in b.stmts if s.callee}
        known = sorted({(n, x) for own in numbers.values() for n, x in own.items()})
        for b in list(bodies(self.body)):
            torch_modules.rewrite(b, model.get_submodule(b.path))
            patterns.rewrite(b, known)
        patterns.prune(self.body)
        for b in bodies(self.body):
            module = model.get_submodule(b.path)
            for v in b.inputs:
                v.name = ascii_name(names.get(b.path, {}).get(v.name) or plain_name(v.name))
            place = re.sub(r"\.\d+(?=\.|$)", ".*", b.path)  # elements have one order
            if not like:
                self.orders[place] = order_of(b, module)
            put_in_order(b, calls.get(b), self.orders.get(place, ()))
            b.formals = number_names(numbers.get(id(module), {}))
            b.line = class_line(type(module)) or (calls[b].line if b in calls else "")
            b.params = {n: b.params[n] for n in sorted(b.params, key=self.place_of(b))}
            prelude.recognise(b, module)
        for b in reversed(list(bodies(self.body))):
            prelude.inline(b)
            patterns.rewrite(b)
            sinusoids.express(b)
            patterns.write_tables(b)
            sequential.inline(b, model)
            loops.roll_all(b, lambda array, b=b: self.is_tied(b, array))
            drop_unused(b)
        self.faults += [fault(line, why, b, remedy) for b in bodies(self.body)
                        for line, why, remedy in patterns.leftovers(b)]
        if self.faults:
            raise ImportFault(self.faults)
        self.used = [self.inputs.index(v.caller) for v in self.body.inputs]

    def place_of(self, body):
        """The place of a parameter of a body in the state dict."""
        places = {n: i for i, n in enumerate(self.params)}
        return lambda name: places[f"{body.path}.{name}".lstrip(".")]

    def is_tied(self, body, array):
        """Whether single elements of an array share parameters with other modules, or
        the body reads their parameters."""
        prefix = f"{body.path}.{array}.".lstrip(".")
        shared = [self.names_of[id(p)] for n, p in self.params.items() if n.startswith(prefix)]
        return any(len(names) > 1 for names in shared) or \
            any(n.startswith(f"{array}.") for n in body.params)

    def bound(self, value):
        """The number of classes of an integer input."""
        found = bound_in(self.body, value)
        if found is None:
            raise ImportFault([fault(
                "", f"neither an embedding nor a loss says how large the integers of the "
                f"input '{value.name}' are", self.body,
                "look it up in an embedding, or pass it as a float")])
        return found

    def ignored(self, value):
        """The negative number that the example's elements of an integer input have, or None:
        labels without a loss."""
        t = tensors([self.args, self.kwargs])[self.used[self.body.inputs.index(value)]]
        found = t[t < 0]
        return int(found[0]) if len(found) else None


def order_of(body, module):
    """The places of a body's inputs in the order of the forward's arguments."""
    names = forward_names(module)
    if any(v.name not in names for v in body.inputs):
        return list(range(len(body.inputs)))
    return sorted(range(len(body.inputs)), key=lambda i: names.index(body.inputs[i].name))


def put_in_order(body, call, order):
    if len(order) != len(body.inputs):
        return
    body.inputs = [body.inputs[i] for i in order]
    if call:
        call.args = [call.args[i] for i in order]


@functools.cache
def class_line(cls):
    """The line of the user's class, or ''."""
    try:
        path = inspect.getsourcefile(cls)
        line = inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return ""
    return "" if "site-packages/torch/" in path else f"{os.path.basename(path)}:{line}"


# Statements whose result has the numbers of their operand, or other numbers of the model.
MOVED = {"unsqueeze", "squeeze", "reshape", "transpose", "slice", "select", "broadcast", "pad",
         "concat", "float", "int"}


def bound_in(body, value):
    for s in statements(body.stmts):
        if value not in s.args:
            continue
        if s.op == "embedding" and s.args[1] is value:
            return s.args[0].dims[0]
        if s.op == "cross_entropy" and s.args[1] is value:
            return s.args[0].dims[-1]
        if s.op == "gather" and s.args[1] is value:
            return s.args[0].dims[-1]
        if s.op == "onehot" and s.args[0] is value:
            return s.args[1]
        if s.op in MOVED or s.op == "where" and value in s.args[1:]:
            found = bound_in(body, s.outs[0])
            if found is not None:
                return found
        if s.op == "call":
            child = s.callee
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
    """The model, the example inputs and the numbers of constructors. The seed is fixed, so
    that a file is the same each time: the scales of initial weights are read off their
    elements."""
    with construct.recording() as seen, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = function()
    if not isinstance(made, tuple) or len(made) != 2 or \
            not isinstance(made[0], torch.nn.Module):
        code = getattr(function, "__code__", None)
        line = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}: " if code else ""
        raise ImportFault([f"{line}the function must return a module and its example inputs, "
                           "a tuple of arguments or a dict of keyword arguments"])
    seen.note_copies(made[0])
    return made[0], made[1], seen.numbers


def factors(value):
    """What a number is multiplied by: a float by little, because probabilities have a
    limit, and 1 and 0 have a meaning of their own."""
    if isinstance(value, float):
        return [1.75, 1.125]
    return [2, 0.5] if value % 2 == 0 and value > 2 else [2]


def runs(sample):
    """The sample of a model that runs. A trace does not see that the model looks up a row
    that a table does not have."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        sample.model(*sample.args, **sample.kwargs)
    return sample


def changed_sample(function, cls, name, value, like):
    """A trace of the model with one number changed, or None if it cannot be so."""
    for factor in factors(value):
        other = type(value)(value * factor)
        for inputs in (inputs_of, lambda example, by=factor: fitted(example, value, by)):
            try:
                with construct.changing(cls, name, other) as changed:
                    model, example, numbers = build(function)
                if not changed:
                    return None
                return runs(Sample(model, *inputs(example), numbers, like))
            except Exception:  # the user's code may refuse the number in any way
                continue
    return None


def resized_sample(model, example, name, numbers, like):
    """A trace of the model with another batch or sequence, or None."""
    for factor in (2, 0.5):
        try:
            return runs(Sample(model, *resized(example, name, factor), numbers, like))
        except Exception:  # for example a model of images has no sequence
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
    constructor changed that its code accepts."""
    model, example, numbers = build(function)
    base = Sample(model, *inputs_of(example), numbers)
    found = [(None, base)]
    for name in ("batch", "seq"):
        more = resized_sample(model, example, name, numbers, base)
        if more:
            found.append((name, more))
    module, own = origin(model, numbers)
    for name, value in own.items():
        if not value:
            continue
        more = changed_sample(function, type(module), name, value, base)
        say(f"another {name} than {value}: " +
            ("traced" if more else "the model refuses it"))
        if more:
            found.append((number_name(name), more))
    loops.roll_like([{b.path: b for b in bodies(s.body)} for _, s in found])
    return found


def find_windows(function, base, seq, kept):
    """Faults of numbers that would be windows of attention in a longer sequence. Such a
    number is at least the sequence, and nothing depends on it; attention gets a window
    where it is smaller."""
    module, own = origin(base.model, {id(base.model.get_submodule(b.path)): b.formals
                                      for b in bodies(base.body)})
    for name, x in own.items():
        if not isinstance(x.base, int) or x.base < seq or name not in [n for n, _ in kept] or \
                any(depends(b, name) for b in bodies(base.body)):
            continue
        more = changed_sample(function, type(module), name, max(seq // 4, 1), base)
        if more and has_window(more.body) and not has_window(base.body):
            yield (f"{name}={x.base} is a window of attention, and the example has only {seq} "
                   f"tokens: give an example with more tokens than {name}, or a smaller {name}")


def has_window(body):
    return any("window" in s.named for b in bodies(body) for s in statements(b.stmts))


def depends(body, name):
    """Whether a number in the statements of a body depends on a formal."""
    def found(x):
        if isinstance(x, formals.Number):
            return any(f == name and v != x.base for f, v in x.other)
        return isinstance(x, (tuple, list)) and any(map(found, x))

    return any(found([*s.args, *s.named.values(), *(v.dims for v in s.outs)])
               for s in statements(body.stmts))


def same_structure(base, other):
    try:
        formals.merge_bodies([fresh(base), fresh(other)], ["x"])
        return True
    except formals.Different:
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


@dataclasses.dataclass
class Imported:
    """A model in PDL, to which `file` adds the blocks plan and train."""

    writer: Writer
    lines: list
    size: dict

    def file(self, parallelize=None, optimizer=None):
        """The file with the plan of a function.

        parallelize: the user's function that parallelizes the model, or None: what
                     the model suggests, or FSDP
        optimizer:   a function of the model that returns an optimizer, or an optimizer
                     and a scheduler"""
        blocks, warnings = blocks_of(self.writer, self.size, parallelize, optimizer)
        return Converted(self.lines + blocks, self.writer.trace.model,
                         self.writer.trace.warnings + self.writer.initializers.warnings +
                         warnings)


def import_model(function, source="", say=lambda text: None):
    """A model that `function` returns, with example inputs, in PDL.

    An ImportFault lists everything that PDL cannot express."""
    with silent():
        found = samples(function, say)
    base = found[0][1]
    kept, size = merged(found), sizes(base)
    names = [formal for formal, _ in kept[1:]]
    shared = {n: formals.Number(size[n], tuple((o, sizes(s).get(n)) for o, s in kept[1:]))
              for n in ("batch", "seq") if n in names and n in size}
    base.body.formals = root_formals(base, kept)
    head = [f"{base.body.cls}, imported by parc-from-torch" +
            (f" from {source}" if source else "") + "."]
    faults = list(find_windows(function, base, size["seq"], kept)) if "seq" in size else []
    if faults:
        raise ImportFault(faults)
    writer = Writer(base, shared, kept)
    lines = writer.file(base.body, head)
    verify(writer, kept, base.body)
    lines += state_names(writer, base.body)
    return Imported(writer, lines, size)


def convert(function, source="", parallelize=None, optimizer=None, say=lambda text: None):
    """A model as a PDL file with the plan of a function (Imported.file)."""
    return import_model(function, source, say).file(parallelize, optimizer)


def root_formals(base, kept):
    """The formals of the model: the numbers that its constructor takes and that can be
    changed. Other numbers, such as those that it computes, follow from them."""
    own = {id(base.model.get_submodule(b.path)): b.formals for b in bodies(base.body)}
    found = {**origin(base.model, own)[1], **base.body.formals}
    free = {name for name, _ in kept}
    return {n: x for n, x in found.items() if n in free}


def sizes(base):
    """The sizes of the batch and the sequence in the example inputs."""
    first = next((v for v in base.inputs if isinstance(v, Value) and v.shape), None)
    found = {"batch": first.shape[0]} if first else {}
    ids = next((v for v in base.inputs if isinstance(v, Value) and len(v.shape) == 2 and
                not v.dtype.is_floating_point), None)
    if ids:
        found["seq"] = ids.shape[1]
    return found
