"""Records the numbers that modules are constructed with, and changes them.

While the user's function builds the model, each module's constructor arguments
are noted: numbers, numbers among the attributes of a config object, and the
numbers that the constructor computes (`hidden = 4 * dim`). They become the
formals of PDL's modules. To learn which size of a tensor follows from which
number, the function runs again with one number changed.
"""

import contextlib
import copy
import inspect
import sys

import torch

MARK = "_parc_numbers"  # an attribute of modules while the user's function runs


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def numbers_of(values):
    """{name: number} of a dict of arguments, and of the config objects in it."""
    found = {}
    for name, x in values.items():
        if is_number(x):
            found[name] = x
        elif is_config(x):
            inner = {k: v for k, v in vars(x).items() if not k.startswith("_")}
            found.update({k: v for k, v in inner.items() if is_number(v)})
            for part in inner.values():
                if isinstance(part, dict):
                    found.update({k: v for k, v in part.items()
                                  if isinstance(k, str) and k.isidentifier() and is_number(v)})
    return found


def is_config(x):
    return hasattr(x, "__dict__") and not callable(x) and \
        not isinstance(x, (torch.nn.Module, type))


def constructor(frame, module):
    """The frame of the module's own constructor, from the base class's caller."""
    code = frame.f_code if frame else None
    if not code or code.co_name != "__init__" or not code.co_argcount:
        return None
    return frame if frame.f_locals.get(code.co_varnames[0]) is module else None


class Constructions:
    """{id of a module: {name: number}} of the modules built meanwhile."""

    def __init__(self):
        self.numbers = {}
        self.alive = []  # keeps the ids unique

    def note(self, module, frame):
        own = None
        while constructor(frame, module):
            own, frame = frame, frame.f_back
        if own is None:
            return
        self.alive.append(module)
        code = own.f_code
        names = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]
        args = {n: own.f_locals[n] for n in names if n in own.f_locals}
        self.numbers[id(module)] = module.__dict__[MARK] = numbers_of(args)
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


@contextlib.contextmanager
def recording():
    """Yields the Constructions of the block."""
    seen, init = Constructions(), torch.nn.Module.__init__

    def noted(self, *args, **kwargs):
        seen.note(self, sys._getframe(1))
        init(self, *args, **kwargs)

    torch.nn.Module.__init__ = noted
    try:
        yield seen
    finally:
        torch.nn.Module.__init__ = init


def key(cls):
    """What a class is known by. A class that a function defines is another one each
    time that the function runs."""
    return cls.__module__, cls.__qualname__


PENDING = []  # functions of the class of a module that is about to be constructed


def new_module(cls, *args, **kwargs):
    for function in PENDING:
        function(cls)
    return object.__new__(cls)


@contextlib.contextmanager
def changing(cls, name, value):
    """Replaces one number of the first module of a class that is constructed. Yields a
    list that is not empty after the change."""
    done = []

    def change_first(own):
        if key(own) == key(cls) and not done:
            done.append(changed_init(own, name, value))

    # It stays: after it is deleted, Python refuses the arguments of constructors.
    torch.nn.Module.__new__ = new_module
    PENDING.append(change_first)
    try:
        yield done
    finally:
        PENDING.remove(change_first)


def changed_init(cls, name, value):
    """Makes the next call of a class's constructor one with the changed number."""
    own, init = "__init__" in vars(cls), cls.__init__

    def changed(self, *args, **kwargs):
        if own:
            cls.__init__ = init
        else:
            del cls.__init__
        bound = inspect.signature(init).bind(self, *args, **kwargs)
        bound.apply_defaults()
        if not change(bound.arguments, name, value):
            raise ValueError(f"the constructor has no number {name}")
        return init(*bound.args, **bound.kwargs)

    cls.__init__ = changed
    return changed


def change(arguments, name, value):
    """Changes a number among the arguments of a constructor, or in a config object.
    Returns whether there is one."""
    if is_number(arguments.get(name)):
        arguments[name] = value
        return True
    for part, x in arguments.items():
        if part == "self" or not is_config(x):
            continue
        own = copy.deepcopy(x)
        if is_number(vars(own).get(name)):
            setattr(own, name, value)
        elif not change_part(own, name, value):
            continue
        arguments[part] = own
        return True
    return False


def change_part(config, name, value):
    """Changes a number in a dict of a config object, such as rope_parameters."""
    for part in vars(config).values():
        if isinstance(part, dict) and is_number(part.get(name)):
            part[name] = value
            return True
    return False
