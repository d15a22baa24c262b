"""Traces a model as it is, and with other values of its numbers.

The numbers are those of the constructors that the user's function calls. Modules that one
function constructs with a number of one name and value, such as an encoder and a decoder, share
the formal if the model accepts the change of all of them; else it is `encoder_dim`. If no size
of a model follows from its own numbers, those of the modules in it are formals too: a wrapper
hides no numbers.
"""

import dataclasses
import os

import torch

from . import construct, loops
from .body import ImportFault
from .equality import form_of
from .example import fitted, inputs_of, resized
from .keep_all import KeepAll
from .names import number_name, unused
from .sample import Sample
from .trace import bodies

SIZES = ("batch", "seq")
FEW, DRAWS = 4096, 12  # elements of a parameter, and seeds for parameters with fewer
TRACES = 2  # other values of a number: an expression that fits one may be chance


@dataclasses.dataclass
class Source:
    """A number of constructors. `formal`: its name in the file; `value`: in the model as it is;
    `targets`: {place of a module: path} (construct.changing); `modules`: these modules."""

    formal: str
    value: float
    targets: dict
    modules: list


def build(function, seed=0):
    """The model, the example inputs and the Constructions. The seed is fixed, so that a file
    is the same each time: the scales of initial weights are read off their elements."""
    with construct.recording() as seen, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = function()
    if not isinstance(made, tuple) or len(made) != 2 or \
            not isinstance(made[0], torch.nn.Module):
        code = getattr(function, "__code__", None)
        line = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}: " if code else ""
        raise ImportFault([f"{line}the function must return a module and its example inputs, "
                           "a tuple of arguments or a dict of keyword arguments"])
    seen.note_copies(made[0])
    return made[0], made[1], seen


def redrawn(function, params):
    """[{name: parameter}] of the model with other seeds, if parameters have few elements: these
    show their distribution by chance only. Empty if the user's function sets the seed."""
    found = []
    if all(p.numel() >= FEW for p in params.values()):
        return found
    for seed in range(1, DRAWS):
        try:
            own = dict(build(function, seed)[0].named_parameters(remove_duplicate=False))
        except Exception:  # the user's code may raise anything
            return found
        if all(n in own and torch.equal(p, own[n]) for n, p in params.items()):
            return []
        found.append({n: p.detach() for n, p in own.items() if p.numel() < FEW})
    return found


# ---- which numbers ---------------------------------------------------------


def is_own(module):
    """Whether the class of a module is the user's."""
    return not type(module).__module__.startswith("torch.")


def owners(model, seen):
    """{id of a module: the module of the model whose constructor made it, or None}."""
    inside = {id(m): m for m in model.modules()}

    def owner(at):
        while at is not None and at not in inside:
            at = seen.parent.get(at)
        return inside.get(at)

    return {at: owner(seen.parent.get(at)) for at in inside if at in seen.paths}


def constructed(model, seen, parents):
    """The modules with numbers that one of these constructors, or the user's function (None),
    made: those of the user's classes, or else the first one."""
    owner = owners(model, seen)
    found = [m for m in model.modules() if id(m) in owner and seen.paths[id(m)] and
             any(owner[id(m)] is p for p in parents)]
    return [m for m in found if is_own(m)] or (found[:1] if None in parents else [])


# ---- other values ----------------------------------------------------------


def others(value, numbers):
    """Other values of a number, the most telling first. A float changes by little, because
    probabilities have a limit. An integer is doubled; a smaller value shows a size that is
    rounded, or has a minimum. What divides other `numbers`, such as a number of heads, does so
    in the first traces. 1 and 0 have a meaning of their own."""
    if isinstance(value, float):
        return [value * 1.75, value * 1.125]
    parts = [value * 3 // 4] * (value % 4 == 0) + [value // 2] * (value % 2 == 0 and value > 2)
    divided = [n for n in numbers if isinstance(n, int) and n > value > 1 and n % value == 0]
    return sorted([value * 2, *parts, value * 4, value * 3],
                  key=lambda other: any(n % other for n in divided))


def is_accepted(sample):
    """Whether the model computes the example inputs; sizes alone do not show that an integer is
    too large for a table."""
    try:
        with torch.no_grad(), KeepAll():
            sample.model(*sample.args, **sample.kwargs)
    except Exception:  # the user's code may raise anything
        return False
    return True


def changed_sample(function, source, value, like):
    """A trace of the model with another value of a number, or None if it cannot be so."""
    for inputs in (inputs_of, lambda e: fitted(e, source.value, value / source.value)):
        try:
            with construct.changing(source.targets, value) as changed:
                model, example, seen = build(function)
            if len(changed) < len(source.targets):
                return None
            sample = Sample(model, *inputs(example), seen.numbers, like)
        except Exception:  # the user's code may refuse the number in any way
            continue
        if is_accepted(sample):
            sample.changed = {source.formal: value}
            return sample
    return None


def resized_samples(model, example, name, numbers, like):
    """Traces of the model with another batch or sequence."""
    found = []
    for factor in (2, 0.5, 3):
        try:
            sample = Sample(model, *resized(example, name, factor), numbers, like)
        except Exception:  # for example a model of images has no sequence
            continue
        if len(found) < TRACES and is_accepted(sample):
            found.append((name, sample))
    return found


def changes(function, source, base, numbers):
    """Traces with other values of a number; one, if the operators do not depend on it."""
    found = []
    for value in others(source.value, numbers):
        sample = changed_sample(function, source, value, base)
        if sample:
            found.append((source.formal, sample))
            if len(found) == TRACES or form_of(sample.body) == form_of(base.body):
                break
    return found


# ---- all traces ------------------------------------------------------------


def has_other_sizes(sample, base):
    """Whether the parameters of two traces differ in number or shape."""
    return [(n, p.shape) for n, p in sample.params.items()] != \
        [(n, p.shape) for n, p in base.params.items()]


class Search:
    """`found`: [(formal or None, Sample)]; `sources`: those that were tried; `sized`: the
    ids of modules of which a number decides the sizes of parameters."""

    def __init__(self, function):
        self.function = function
        self.model, example, self.seen = build(function)
        numbers = self.seen.numbers
        self.base = Sample(self.model, *inputs_of(example), numbers)
        self.found, self.sources, self.sized = [(None, self.base)], [], set()
        for name in SIZES:
            self.found += resized_samples(self.model, example, name, numbers, self.base)
        level = constructed(self.model, self.seen, [None])
        while level:
            self.add(level)
            level = constructed(self.model, self.seen,
                                [m for m in level if id(m) not in self.sized])

    def add(self, modules):
        """Tries the numbers of some modules, those of one name and value together."""
        paths = {id(m): p for p, m in self.model.named_modules()}
        free = {id(m): [n for n in self.seen.paths[id(m)] if self.is_free(paths[id(m)], n)]
                for m in modules}
        for name in dict.fromkeys(n for m in modules for n in free[id(m)]):
            having = [m for m in modules if name in free[id(m)]]
            values = {self.seen.numbers[id(m)][name] for m in having}
            if len(values) == 1 and (self.attempt(name, name, having) or len(having) == 1):
                continue
            for m in having:
                self.attempt(f"{paths[id(m)].replace('.', '_')}_{name}", name, [m])

    def is_free(self, path, name):
        """Whether a number follows from none that was changed."""
        own = self.base.numbers[path][name]
        return own and all(s.numbers.get(path, {}).get(name, own) == own for _, s in self.found)

    def attempt(self, formal, name, modules):
        """Traces the model with other values of a number. Returns whether there are any."""
        taken = {*SIZES, *(s.formal for s in self.sources)}
        source = Source(unused(number_name(formal), taken),
                        self.seen.numbers[id(modules[0])][name],
                        {self.seen.place[id(m)]: self.seen.paths[id(m)][name]
                         for m in modules}, modules)
        numbers = [self.seen.numbers[id(m)][n] for m in modules for n in self.seen.paths[id(m)]]
        made = changes(self.function, source, self.base, numbers)
        self.found += made
        if made or len(modules) == 1:
            self.sources.append(source)
        if any(has_other_sizes(s, self.base) for _, s in made):
            self.sized.update(map(id, modules))
        return bool(made)


def samples(function):
    """[(formal or None, Sample)]: the model as it is, then with other values of each number
    that its code accepts; and [Source] of all numbers."""
    search = Search(function)
    loops.roll_like([{b.path: b for b in bodies(s.body)} for _, s in search.found])
    return search.found, search.sources
