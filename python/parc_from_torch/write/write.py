"""Writes bodies as the text of a PDL file.

Each class becomes a module (module.py). Bodies of a class with equal text share one.
"""

import re

from ..ir.body import ImportFault, Loop
from ..ir.formals import Number
from ..ir.literals import literal
from ..ir.names import MODULES, ascii_name, unused
from ..patterns.prelude import DEFAULTS
from ..trace.trace import bodies
from .initial import Initializers, prelude_initial, scale_in, scale_text
from .layout import wrapped
from .module import Module


def is_default(module, name, x):
    """Whether an argument of a prelude module may be left out."""
    return isinstance(x, Number) and not x.varies() and x.base == DEFAULTS.get((module, name))


def formal_text(parent, name, x):
    """The text of a number for a formal. Scales of initial values may be roots."""
    root = re.match("std|bound", name) and scale_text(x, parent.scope)
    return scale_in(parent, x) if root else parent.number(x, name)


class Writer:
    """The file. `shared`: names that every module sees (batch and seq); `computed`: numbers
    of the model's constructor, whose names sizes without an expression get; `used`: {path
    of a body: its Module, and the values of the formals}."""

    def __init__(self, trace, shared, samples, computed, redrawn=()):
        self.trace = trace
        self.shared = shared
        self.computed = computed
        self.faults = []
        self.modules = {}  # {class: [(Module, name)]}
        self.used = {}
        self.functions = {}  # {name: the lines of a function that the text calls}
        self.class_of = {}  # {path of a body: the name of its module}
        self.order = []
        self.arrays = {f"{b.path}.{s.array}".strip(".")
                       for b in bodies(trace.body) for s in b.stmts if isinstance(s, Loop)}
        self.initializers = Initializers(samples, self.arrays, redrawn)
        self.name = ascii_name(trace.body.cls, "Model")
        self.taken = MODULES | {self.name}

    def path_in(self, body, name):
        """The path in the file of a module or parameter below a body, or None."""
        shown = []
        while name and not body.prelude:
            module = self.used[body.path][0]
            key = next((k for k in body.children if f"{name}.".startswith(f"{k}.")), None)
            if key is None:
                shown.append(module.params.get(name))
                break
            shown.append(module.children[key])
            body, name = body.children[key][0], name[len(key) + 1:]
            if module.count(key) is not None and name:
                index, _, name = name.partition(".")
                inside = index.isdigit() and int(index) < module.count(key).base
                shown.append(index if inside else None)
        else:
            shown += [name] if name else []
        return None if None in shown else ".".join(shown)

    def tree(self, body, path=""):
        """(path in the file, body, {path of an array: number of elements}) of a body and
        those below it; `*` stands for the elements of an array, which are equal."""
        module = None if body.prelude else self.used[body.path][0]
        arrays = {}
        for name, calls in body.children.items() if module else ():
            inner, count = f"{path}.{module.children[name]}".strip("."), module.count(name)
            if count is not None:
                arrays[inner] = count.base
                inner += ".*"
            yield from self.tree(calls[0], inner)
        yield path, body, arrays

    def tied_groups(self, body):
        """For each parameter that the file has [(name in the state dict, path in the file)]
        of its names in the file."""
        groups = {}
        for name, p in self.trace.params.items():
            path = self.path_in(body, name)
            if path is not None:
                groups.setdefault(id(p), []).append((name, path))
        return groups.values()

    def add_ties(self, module):
        """Ties the parameters of a module that have several names in it, and none outside of
        it. Those of one child are its own."""
        body, lines = module.body, []
        for names in self.trace.tied.values():
            paths = {n: self.path_in(body, below(body, n)) for n in names if below(body, n)}
            paths = {n: p for n, p in paths.items() if p}
            if len(paths) < 2 or body.path and len(names) > len(paths) or \
                    len({member(module, below(body, n)) for n in paths}) == 1:
                continue
            first = next(iter(paths.values()))
            lines += [f"tie {path} = {first}" for path in paths.values() if path != first]
        module.form += lines
        module.member_text += lines

    def call_text(self, parent, child):
        """'Block(dim, hidden)'."""
        if child.prelude:
            name, args, named = child.prelude
            words = [parent.argument(x) for x in args]
            words += [f"{k}={parent.argument(x)}" for k, x in named.items()
                      if not is_default(name, k, x)]
            words += prelude_initial(self.initializers, parent, child)
            return f"{name}({', '.join(words)})"
        formals, name = self.module(child)
        return f"{name}({', '.join(formal_text(parent, n, x) for n, x in formals.items())})"

    def module(self, body):
        """(formals, name) of the module of a body; written at the first of its kind."""
        m = Module(self, body)
        self.used[body.path] = m, m.formals
        self.add_ties(m)
        known = self.modules.setdefault(body.cls, [])
        for other, name in known:
            values = other.fits(m)
            if values is not None:
                self.used[body.path], self.class_of[body.path] = (other, values), name
                return values, name
        name = unused(ascii_name(body.cls, "Module"), self.taken)
        self.taken.add(name)
        known.append((m, name))
        self.order.append((name, m))
        self.used[body.path], self.class_of[body.path] = (m, m.formals), name
        return m.formals, name

    def declaration(self, module, v, name):
        if module.body.path:
            return name
        shape = ", ".join(module.number(d) for d in v.dims)
        if v.dtype is not None and not v.dtype.is_floating_point:
            bound = module.number(self.trace.bound(v))
            ignored = self.trace.ignored(v)
            bound += "" if ignored is None else f", ignore={ignored}"
            return f"{name}: int({bound})[{shape}]"
        return f"{name}: [{shape}]"

    def file(self, body, head):
        m = Module(self, body)
        self.used[body.path] = m, m.formals
        if self.faults:
            raise ImportFault(sorted(set(self.faults)))
        self.add_ties(m)
        lines = [f"# {x}" for x in head]
        for function in self.functions.values():
            lines += ["", *function]
        for cls, module in self.order:
            lines += ["", *source(module)]
            lines += wrapped([f"module {cls}({', '.join(module.formals)}) {{"])
            lines += inside(module) + ["}"]
        defaults = ", ".join(f"{k}={literal(v.base)}" for k, v in m.formals.items())
        start = f"model {self.name}" + (f"({defaults})" if defaults else "") + " {"
        return [*lines, "", *source(m), *wrapped([start]), *inside(m), "}"]


def below(body, name):
    """The name in a body of a parameter of the model, or None."""
    prefix = f"{body.path}." if body.path else ""
    return name[len(prefix):] if name.startswith(prefix) else None


def member(module, name):
    """The child, or the element of an array, that a parameter is in."""
    child = next((k for k in module.body.children if name.startswith(f"{k}.")), name)
    index = name[len(child) + 1:].split(".")[0] if module.count(child) is not None else ""
    return child, index


def source(module):
    """A comment with the line of the user's class."""
    return [f"# {module.body.line}"] if module.body.line else []


def inside(module):
    lines = module.member_text + ([""] if module.member_text else []) + module.lines
    return ["    " + x if x else "" for x in lines]
