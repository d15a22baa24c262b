"""The bodies of modules, as lists of statements in single-assignment form.

A Body is what one module of the user's model does: its inputs, its children,
its parameters and the statements of its forward. A statement applies an
operator of PDL to values, numbers and words, and gives one value or several:

    w1(x) and silu: Stmt("call", [w1, x]), Stmt("silu", [%0])

Numbers stay numbers until formals.py replaces those that depend on the model's
sizes. A value that depends on neither a parameter nor an input is a constant:
its tensor is known.
"""

import dataclasses
from typing import Any


class ImportFault(Exception):
    """A model that cannot be imported. `faults`: one line for each reason."""

    def __init__(self, faults):
        super().__init__("\n".join(faults))
        self.faults = list(faults)


class Different(Exception):
    """Bodies that differ in more than they may: their numbers, or their inputs."""


def fault(line, what, body, remedy=""):
    """The text of one reason: the line of the user's file, what is wrong there, the
    module and its class, and what to do."""
    where = f"{body.path or 'the model'}, class {body.cls}"
    return f"{line or body.line or '?'}: {what} (in {where})" + (f": {remedy}" if remedy else "")


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor. `const`: its elements if they are known; `name`: the name in the
    file, or the one that the user's source suggests; `stmt`: the statement that
    computes it, None for an input, a parameter or a constant; `dims`: its shape as
    Numbers (formals.py); `caller`: of an input the value that the caller passes;
    `shifted`: whether the data must shift these labels; `indexed`: whether an input of a
    module is integers that it looks up, which the caller must not pass as floats;
    `source`: of a known tensor the operator that computed it (computed_tables.py)."""

    shape: tuple
    dtype: Any = None
    name: str = ""
    stmt: Any = None
    const: Any = None
    kind: str = "value"  # or "input", "param", "const"
    dims: tuple = ()
    caller: Any = None
    shifted: bool = False
    indexed: bool = False
    source: Any = None


@dataclasses.dataclass(eq=False)
class Stmt:
    """One operation. `args`: values, numbers, words and tuples of these; `named`:
    arguments by name; `line`, `text`: the place and the text of the line of the
    user's file, or ''; `child`, `callee`: the name of the child that a call applies,
    and its Body of this call."""

    op: str
    args: list
    named: dict
    outs: list
    line: str = ""
    text: str = ""
    child: str = ""
    callee: Any = None


@dataclasses.dataclass(eq=False)
class Loop:
    """A loop over the elements of an array. `carries`: for each value that an
    iteration hands to the next, [first, inside, last]: the value before the loop,
    its name in the body, and the value that the body gives."""

    array: str
    count: int
    body: list
    carries: list
    outs: list
    line: str = ""


@dataclasses.dataclass(eq=False)
class Body:
    """A module. `children`: by attribute name the bodies of all its calls, or those
    of the elements of an array under the name of its ModuleList; `params`: tensors by
    name; `line`: the line of the class."""

    path: str
    cls: str
    inputs: list = dataclasses.field(default_factory=list)
    stmts: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    children: dict = dataclasses.field(default_factory=dict)
    params: dict = dataclasses.field(default_factory=dict)
    formals: dict = dataclasses.field(default_factory=dict)
    prelude: Any = None  # (name, args, named) of a prelude module that equals it
    line: str = ""


def values_in(x):
    """The values among an argument."""
    if isinstance(x, Value):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from values_in(y)


def arguments(stmt):
    """The values that a statement reads, in order; those of a loop are the ones
    from outside."""
    if isinstance(stmt, Loop):
        inside = {v for s in stmt.body for v in results(s)}
        inside |= {c[1] for c in stmt.carries}
        for c in stmt.carries:
            yield c[0]
        for s in stmt.body:
            yield from (v for v in arguments(s) if v not in inside)
        return
    for x in stmt.args:
        yield from values_in(x)
    for x in stmt.named.values():
        yield from values_in(x)


def results(stmt):
    return stmt.outs


def map_values(x, function):
    """An argument with function(v) in place of each of its values, in order."""
    if isinstance(x, Value):
        return function(x)
    if isinstance(x, (tuple, list)):
        return type(x)(map_values(y, function) for y in x)
    return x


def map_arguments(stmt, function):
    """Replaces each value that a statement reads by function(v), in order."""
    stmt.args = [map_values(x, function) for x in stmt.args]
    stmt.named = {k: map_values(x, function) for k, x in stmt.named.items()}


def replace(stmts, old, new):
    """Replaces a value by another in all statements."""
    def other(v):
        return new if v is old else v

    for s in stmts:
        if isinstance(s, Loop):
            replace(s.body, old, new)
            for c in s.carries:
                c[0] = other(c[0])
                c[2] = other(c[2])
        else:
            map_arguments(s, other)


def statements(stmts):
    """All statements, those of loops included, without the loops."""
    for s in stmts:
        if isinstance(s, Loop):
            yield from statements(s.body)
        else:
            yield s


def drop_unused(body):
    """Removes statements whose results nobody reads."""
    changed = True
    while changed:
        used = set(values_in(body.outputs))
        for s in body.stmts:
            used.update(arguments(s))
        kept = [s for s in body.stmts if any(v in used for v in results(s))]
        changed = len(kept) != len(body.stmts)
        body.stmts = kept
