"""Records the numbers that modules are constructed with, and changes them.

While the user's function builds the model, each module's constructor arguments
are noted: numbers, numbers in a config object (configs.py), and the
numbers that the constructor computes (`hidden = 4 * dim`). They become the
formals of PDL's modules. To learn which size of a tensor follows from which
number, the function runs again with one number changed.
"""

import contextlib
import functools
import inspect
import sys
from collections import Counter

import torch

from .configs import change, is_number, named, paths_of

MARK = "_parc_numbers"  # an attribute of modules while the user's function runs


def constructor(frame, module):
    """The frame of the module's own constructor, from the base class's caller."""
    code = frame.f_code if frame else None
    if not code or code.co_name != "__init__" or not code.co_argcount:
        return None
    return frame if frame.f_locals.get(code.co_varnames[0]) is module else None


def under_construction(frame):
    """The module of the innermost constructor among a frame and its callers, or None."""
    while frame:
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            first = frame.f_locals.get(code.co_varnames[0])
            if isinstance(first, torch.nn.Module):
                return first
        frame = frame.f_back
    return None


def arguments_of(frame):
    """{name: value} of the arguments of a function in its frame; those of **kwargs too."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    found = {n: frame.f_locals[n] for n in code.co_varnames[1:count] if n in frame.f_locals}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        at = count + bool(code.co_flags & inspect.CO_VARARGS)
        found.update(frame.f_locals.get(code.co_varnames[at]) or {})
    return found


class Constructions:
    """The modules built meanwhile, by id. `numbers`: {name: number}; `paths`: {name: path}
    of the numbers that the constructor takes; `place`: (key of the class, how many of its
    modules were made before); `parent`: the id of the module whose constructor built it."""

    def __init__(self):
        self.numbers, self.paths, self.place, self.parent = {}, {}, {}, {}
        self.alive = []  # keeps the ids unique
        self.made = Counter()

    def note_new(self, module):
        own = key(type(module))
        self.alive.append(module)
        self.place[id(module)] = own, self.made[own]
        self.made[own] += 1

    def note(self, module, frame):
        own = None
        while constructor(frame, module):
            own, frame = frame, frame.f_back
        if own is None:
            return
        at = paths_of(arguments_of(own))
        paths = named(at)
        self.paths[id(module)] = paths
        self.numbers[id(module)] = module.__dict__[MARK] = {n: at[p] for n, p in paths.items()}
        parent = under_construction(frame)
        self.parent[id(module)] = None if parent is None else id(parent)
        self.note_parent(frame)

    def note_copies(self, model):
        """A deep copy of a module, as nn.TransformerEncoder makes them, has the numbers
        of its original."""
        for module in model.modules():
            own = module.__dict__.pop(MARK, None)
            if own is not None:
                self.numbers.setdefault(id(module), own)

    def note_parent(self, frame):
        """The numbers that the parent's constructor has computed by now."""
        while frame and frame.f_code.co_name in ("__init__", "<listcomp>", "<genexpr>"):
            first = frame.f_code.co_varnames[:1]
            parent = frame.f_locals.get(first[0]) if first else None
            if id(parent) in self.numbers:
                own = {k: v for k, v in frame.f_locals.items() if is_number(v)}
                self.numbers[id(parent)].update(own)
                return
            frame = frame.f_back


PENDING = []  # functions of a module that is about to be constructed


def new_module(cls, *args, **kwargs):
    module = object.__new__(cls)
    for function in PENDING:
        function(module)
    return module


@contextlib.contextmanager
def before_constructors(function):
    """Calls a function of each module before its constructor."""
    # It stays: after it is deleted, Python refuses the arguments of constructors.
    torch.nn.Module.__new__ = new_module
    PENDING.append(function)
    try:
        yield
    finally:
        PENDING.remove(function)


@contextlib.contextmanager
def recording():
    """Yields the Constructions of the block."""
    seen, init = Constructions(), torch.nn.Module.__init__

    def noted(self, *args, **kwargs):
        seen.note(self, sys._getframe(1))
        init(self, *args, **kwargs)

    torch.nn.Module.__init__ = noted
    try:
        with before_constructors(seen.note_new):
            yield seen
    finally:
        torch.nn.Module.__init__ = init


def key(cls):
    """What a class is known by. A class that a function defines is another one each
    time that the function runs."""
    return cls.__module__, cls.__qualname__


@contextlib.contextmanager
def changing(targets, value):
    """Replaces one number of some modules. `targets`: {place of a module (Constructions):
    path of the number}. Yields the set of the places where it was changed."""
    done, made, waiting = set(), Counter(), []

    def change_next(module):
        own = key(type(module))
        place = own, made[own]
        made[own] += 1
        if place in targets:
            change_init(type(module), targets[place], value, waiting)
            done.add(place)

    with before_constructors(change_next):
        try:
            yield done
        finally:
            for restore in reversed(waiting):  # a constructor that was not called
                restore()


def change_init(cls, path, value, waiting):
    """Makes the next call of a class's constructor one with the changed number. `waiting` has
    the function that undoes it, until that call."""
    own, init = "__init__" in vars(cls), cls.__init__

    def restore():
        if own:
            cls.__init__ = init
        else:
            del cls.__init__

    waiting.append(restore)

    @functools.wraps(init)
    def changed(self, *args, **kwargs):
        restore()
        waiting.remove(restore)
        bound = inspect.signature(init).bind(self, *args, **kwargs)
        bound.apply_defaults()
        if not change_bound(bound, path, value):
            raise ValueError(f"the constructor has no number {path}")
        return init(*bound.args, **bound.kwargs)

    cls.__init__ = changed


def change_bound(bound, path, value):
    """Changes a number among bound arguments, those of **kwargs included."""
    rest = next((p.name for p in bound.signature.parameters.values()
                 if p.kind is p.VAR_KEYWORD), None)
    if path[0] not in bound.arguments and rest:
        return change(bound.arguments[rest], path, value)
    return change(bound.arguments, path, value)
