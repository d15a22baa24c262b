"""A trace of a model with formals, prelude modules and loops."""

import functools
import inspect
import os
import re

from ..ir import loops
from ..ir.body import ImportFault, drop_unused, fault, statements
from ..ir.names import ascii_name, number_names, plain_name
from ..patterns import patterns, prelude, sinusoids
from . import containers, outputs, sequential, tokens, torch_modules
from .argument_names import argument_names, forward_names
from .example import tensors
from .trace import Trace, bodies


class Nameless:
    """In place of another trace, for one whose inputs keep the order of the graph. Elements tell
    the names of inputs, and a large model has few."""

    def __init__(self):
        self.orders, self.comparisons, self.shown = {}, prelude.Comparisons(), {}


class Sample(Trace):
    """A trace with formals, prelude modules and loops. Its inputs get the names and the
    order of the user's forwards, or, with `like`, the order of another trace. `changed`:
    {formal: its value} if it is another one; `numbers`: {path: {name: number}}."""

    def __init__(self, model, args, kwargs, numbers, like=None, program=None):
        super().__init__(model, args, kwargs, program)
        self.of_modules = numbers
        self.args, self.kwargs = args, kwargs
        self.changed = {}
        self.numbers = {p: numbers.get(id(m), {}) for p, m in model.named_modules()}
        self.warnings = outputs.limit(self.body)
        self.shown = like.shown if like else {
            b.path: names for b, names in argument_names(self).items()}
        self.orders = like.orders if like else {}
        self.comparisons = like.comparisons if like else prelude.Comparisons()
        self.tied = tied_names(self.params)
        calls = {s.callee: s for b in bodies(self.body) for s in b.stmts if s.callee}
        tokens.take_apart(self.body)
        known = sorted({(n, x) for own in numbers.values() for n, x in own.items()})
        for b in list(bodies(self.body)):
            torch_modules.rewrite(b, model.get_submodule(b.path))
            patterns.rewrite(b, known)
        patterns.prune(self.body)
        for b in bodies(self.body):
            module = model.get_submodule(b.path)
            for v in b.inputs:
                v.name = ascii_name(self.shown.get(b.path, {}).get(v.name) or plain_name(v.name))
            if not like:
                self.orders[b.path] = self.orders[place_of_kind(b)] = order_of(b, module)
            put_in_order(b, calls.get(b), self.orders.get(
                b.path, self.orders.get(place_of_kind(b), ())))
            b.formals = number_names(numbers.get(id(module), {}))
            b.line = class_line(type(module)) or (calls[b].line if b in calls else "")
            b.params = {n: b.params[n] for n in sorted(b.params, key=self.place_of(b))}
            prelude.recognise(b, module, self.comparisons)
        for b in reversed(list(bodies(self.body))):
            prelude.inline(b)
            patterns.rewrite(b)
            sinusoids.express(b)
            self.faults += [fault(line, why, b, remedy)
                            for line, why, remedy in patterns.write_tables(b)]
            patterns.simplify(b)
            sequential.inline(b, model)
            for own in [*containers.outline(b), b]:
                loops.roll_all(own, lambda array, b=own: self.is_tied(b, array))
                drop_unused(own)
        self.faults += [fault(line, why, b, remedy) for b in bodies(self.body)
                        for line, why, remedy in patterns.leftovers(b)]
        if self.faults:
            raise ImportFault(self.faults)
        self.used = [self.inputs.index(v.caller) for v in self.body.inputs]

    def like(self, other):
        """The same trace with the names and the order of the inputs of another one."""
        return Sample(self.model, self.args, self.kwargs, self.of_modules, other, self.program)

    def place_of(self, body):
        """The place of a parameter of a body in the state dict."""
        places = {n: i for i, n in enumerate(self.params)}
        return lambda name: places[f"{body.path}.{name}".lstrip(".")]

    def is_tied(self, body, array):
        """Whether single elements of an array share parameters with other modules or in other
        ways, or the body reads their parameters."""
        prefix = f"{body.path}.{array}.".lstrip(".")
        own = {}  # {element: {names of a parameter in it}}
        for names in self.tied.values():
            elements = {n[len(prefix):].split(".")[0] if n.startswith(prefix) else None
                        for n in names}
            if len(elements) > 1:
                return True
            at = elements.pop()
            if at is not None:
                own.setdefault(at, set()).add(tuple(n[len(prefix + at):] for n in names))
        count = len({n[len(prefix):].split(".")[0] for n in self.params if n.startswith(prefix)})
        return len(own) not in (0, count) or any(x != own[at] for at in own for x in own.values()) \
            or any(n.startswith(f"{array}.") for n in body.params)

    def bound(self, value):
        """The number of classes of an integer input. Of those that nothing looks up, an
        example of 0 and 1 is a mask."""
        found = bound_in(self.body, value)
        if found is None and 0 <= self.example_of(value).min() <= \
                self.example_of(value).max() <= 1:
            return 2
        if found is None:
            raise ImportFault([fault(
                "", f"neither an embedding nor a loss says how large the integers of the "
                f"input '{value.name}' are", self.body,
                "look it up in an embedding, or pass it as a float")])
        return found

    def ignored(self, value):
        """The negative number that the example's elements of an integer input have, or None:
        labels without a loss."""
        t = self.example_of(value)
        found = t[t < 0]
        return int(found[0]) if len(found) else None

    def example_of(self, value):
        return tensors([self.args, self.kwargs])[self.used[self.body.inputs.index(value)]]


def tied_names(params):
    """{id of a parameter: its names} of those with several names."""
    names = {}
    for n, p in params.items():
        names.setdefault(id(p), []).append(n)
    return {p: own for p, own in names.items() if len(own) > 1}


def order_of(body, module):
    """The places of a body's inputs in the order of the forward's arguments."""
    names = forward_names(module)
    if any(v.name not in names for v in body.inputs):
        return list(range(len(body.inputs)))
    return sorted(range(len(body.inputs)), key=lambda i: names.index(body.inputs[i].name))


def place_of_kind(body):
    """The place of a body of an array that the other trace lacks: elements with equally many
    inputs have one order."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", body.path), len(body.inputs)


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
