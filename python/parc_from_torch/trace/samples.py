"""Traces a model with other values of its numbers.

The numbers are those of the constructors that the user's function calls. Modules that one
function constructs with a number of one name and value, such as an encoder and a decoder, share
the formal if the model accepts the change of all of them; else it is `encoder_dim`. If no size
of a model follows from its own numbers, those of the modules in it are formals too: a wrapper
hides no numbers.
"""

import contextlib
import dataclasses
import functools
import math
import os

import torch
from torch.utils import _pytree as pytree

from ..ir import loops
from ..ir.body import ImportFault
from ..ir.equality import form_of
from ..ir.names import number_name, unused
from . import construct
from .example import fitted, folded, inputs_of, resized
from .few_elements import FillFew, first_elements, is_large
from .keep_all import KeepAll
from .sample import Nameless, Sample
from .shrink import shrink, work
from .trace import bodies

SIZES = ("batch", "seq")
FEW, DRAWS = 4096, 12  # elements of a parameter, and seeds for parameters with fewer
MANY = 8  # numbers that are changed together, to find those that nothing depends on
TRACES = 2  # other values of a number: an expression that fits one may be chance


@dataclasses.dataclass
class Source:
    """A number of constructors. `formal`: its name in the file; `value`: in the model that is
    traced; `first`: in the model as it is; `targets`: {place of a module: path} (construct.changing); `modules`: these modules;
    `unused`: nothing in the model changes with it."""

    formal: str
    value: float
    targets: dict
    modules: list
    name: str
    first: float
    unused: bool = False

    def container(self):
        """The path of the config or dict that has the number."""
        return next(iter(self.targets.values()))[:-1]


def build(function, seed=0, few=False):
    """The model, the example inputs and the Constructions. The seed is fixed, so that a file
    is the same each time: the scales of initial weights are read off their elements. With `few`
    only the first elements of large parameters are filled."""
    with construct.recording() as seen, torch.random.fork_rng(devices=[]), \
            FillFew() if few else contextlib.nullcontext():
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
    """[{name: parameter}] of the model with other seeds, if random parameters have few elements:
    these show their distribution by chance only. Empty if the user's function sets the seed."""
    found = []
    if all(p.numel() >= FEW or bool((p == p.reshape(-1)[:1]).all()) for p in params.values()):
        return found
    for seed in range(1, DRAWS):
        try:
            own = dict(build(function, seed, few=True)[0].named_parameters(
                remove_duplicate=False))
        except Exception:  # the user's code may raise anything
            return found
        if all(n in own and torch.equal(first_elements(p), first_elements(own[n]))
               for n, p in params.items()):
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


def traced(function, sources, like, most=math.inf, few=False):
    """(Sample, the change of the example inputs) of the model with other values of some
    numbers, [(Source, value)], or None if it cannot be so, or is more than `most` work. `few`
    as in build."""
    adapts = [lambda x: x]
    if len(sources) == 1:
        (source, value), = sources
        adapts += [fitted(source.value, value)] + [folded(value)] * isinstance(value, int)
    for adapt in adapts:
        def change(example, adapt=adapt):
            return pytree.tree_map_only(torch.Tensor, adapt, example)

        try:
            with contextlib.ExitStack() as stack:
                changed = [stack.enter_context(construct.changing(s.targets, value))
                           for s, value in sources]
                model, example, seen = build(function, few=few)
            if any(len(done) < len(s.targets) for done, (s, _) in zip(changed, sources)):
                return None
            sample = Sample(model, *inputs_of(change(example)), seen.numbers, like)
        except Exception:  # the user's code may refuse the number in any way
            continue
        if work(sample) > most:
            return None
        if is_accepted(sample):
            sample.changed = {s.formal: value for s, value in sources}
            return sample, change
    return None


def changed_sample(function, sources, like):
    """A trace of the model with other values of some numbers, or None."""
    found = traced(function, sources, like)
    return found and found[0]


def is_equal(sample, base):
    """Whether two traces compute the same, with equal parameters."""
    return form_of(sample.body) == form_of(base.body) and \
        sample.params.keys() == base.params.keys() and \
        all(torch.equal(first_elements(p), first_elements(base.params[n]))
            for n, p in sample.params.items())


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
        sample = changed_sample(function, [(source, value)], base)
        if sample and is_equal(sample, base):
            source.unused = True
            return []
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


def by_name(modules, seen, free):
    """[(name, the modules that have a number of this name for which `free` is true)]."""
    own = {id(m): [n for n in seen.paths[id(m)] if free(m, n)] for m in modules}
    return [(name, [m for m in modules if name in own[id(m)]])
            for name in dict.fromkeys(n for m in modules for n in own[id(m)])]


def targets(modules, seen, name):
    """The targets of a Source."""
    return {seen.place[id(m)]: seen.paths[id(m)][name] for m in modules}


class Search:
    """`found`: [(formal or None, Sample)]; `sources`: those that were tried; `sized`: the
    ids of modules of which a number decides the sizes of parameters. `first`: {path: {name:
    number}} of the model as it is, if `function` makes a smaller one."""

    def __init__(self, function, first=None):
        self.function = function
        self.model, self.example, self.seen = build(function)
        self.base = Sample(self.model, *inputs_of(self.example), self.seen.numbers)
        self.first = first or self.base.numbers
        self.found, self.sources, self.sized = [(None, self.base)], [], set()

    def run(self):
        """Traces the model with other sizes, and other values of all numbers."""
        for name in SIZES:
            self.found += resized_samples(self.model, self.example, name, self.seen.numbers,
                                          self.base)
        level = constructed(self.model, self.seen, [None])
        while level:
            self.add(level)
            level = constructed(self.model, self.seen,
                                [m for m in level if id(m) not in self.sized])

    def groups(self, modules):
        """[(name, the modules that have a free number of this name)]."""
        paths = {id(m): p for p, m in self.model.named_modules()}
        return by_name(modules, self.seen, lambda m, n: self.is_free(paths[id(m)], n))

    def shared(self, modules):
        """[Source] of the numbers that modules with one of this name have in common."""
        return [self.source(name, name, having) for name, having in self.groups(modules)
                if len({self.seen.numbers[id(m)][name] for m in having}) == 1]

    def add(self, modules):
        """Tries the numbers of some modules, those of one name and value together."""
        paths = {id(m): p for p, m in self.model.named_modules()}
        places = {}
        for s in self.shared(modules):
            places.setdefault(s.container(), []).append(s)
        for group in places.values():
            self.sources += self.without_effect(group)
        for name, having in self.groups(modules):
            if any(s.unused and name == s.name and having == s.modules for s in self.sources):
                continue
            values = {self.seen.numbers[id(m)][name] for m in having}
            if len(values) == 1 and (self.attempt(name, name, having) or len(having) == 1):
                continue
            for m in having:
                self.attempt(f"{paths[id(m)].replace('.', '_')}_{name}", name, [m])

    def without_effect(self, sources):
        """Those on which nothing depends, such as the numbers of classes in a dict: many numbers
        are changed at a time."""
        if len(sources) < MANY:
            return []
        sample = changed_sample(self.function, [(s, others(s.value, ())[0]) for s in sources],
                                self.base)
        if sample and is_equal(sample, self.base):
            for s in sources:
                s.unused = True
            return sources
        half = len(sources) // 2
        return self.without_effect(sources[:half]) + self.without_effect(sources[half:])

    def is_free(self, path, name):
        """Whether a number follows from none that was changed."""
        own = self.base.numbers[path][name]
        return own and all(s.numbers.get(path, {}).get(name, own) == own for _, s in self.found)

    def source(self, formal, name, modules):
        taken = {*SIZES, *(s.formal for s in self.sources)}
        value = self.seen.numbers[id(modules[0])][name]
        path = next(p for p, m in self.model.named_modules() if m is modules[0])
        return Source(unused(number_name(formal), taken), value,
                      targets(modules, self.seen, name), modules, name,
                      self.first.get(path, {}).get(name, value))

    def attempt(self, formal, name, modules):
        """Traces the model with other values of a number. Returns whether there are any, or
        nothing depends on it."""
        source = self.source(formal, name, modules)
        numbers = [self.seen.numbers[id(m)][n] for m in modules for n in self.seen.paths[id(m)]]
        made = changes(self.function, source, self.base, numbers)
        self.found += made
        if made or source.unused or len(modules) == 1:
            self.sources.append(source)
        if any(has_other_sizes(s, self.base) for _, s in made):
            self.sized.update(map(id, modules))
        return bool(made) or source.unused


def large(function):
    """(trace of a large model as it is, a function that builds it with smaller numbers), or None
    of a model that is small or that has no such numbers."""
    model, example, seen = build(function, few=True)
    if not is_large(model):
        return None
    sample = Sample(model, *inputs_of(example), seen.numbers, Nameless())
    sources = []
    for name, having in by_name(constructed(model, seen, [None]), seen,
                                lambda m, n: seen.numbers[id(m)][n]):
        values = {seen.numbers[id(m)][name] for m in having}
        if len(values) == 1:
            value, = values
            sources.append(Source(name, value, targets(having, seen, name), having, name, value))
    small = shrink(function, sources, sample, functools.partial(traced, few=True))
    return (sample, small) if small.changes else None


def samples(function):
    """The Search of a function: the model as it is, then, if it is large, with smaller numbers,
    then with other values of each number that its code accepts."""
    first = large(function)
    search = Search(first[1], first[0].numbers) if first else Search(function)
    search.run()
    if first:
        search.found.insert(0, (None, first[0].like(search.base)))
    loops.roll_like([{b.path: b for b in bodies(s.body)} for _, s in search.found])
    return search
