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


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor. `const`: its elements if they are known; `name`: the name in the
    file, or the one that the user's source suggests; `stmt`: what computes it,
    None for an input, a parameter or a constant."""

    shape: tuple
    dtype: Any = None
    name: str = ""
    stmt: Any = None
    const: Any = None
    kind: str = "value"  # or "input", "param", "const"


@dataclasses.dataclass(eq=False)
class Stmt:
    """One operation. `args`: values, numbers, words and tuples of these; `named`:
    arguments by name; `line`: the line of the user's file, or ''."""

    op: str
    args: list
    named: dict
    outs: list
    line: str = ""
    child: str = ""  # the name of the child that a call applies


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


@dataclasses.dataclass(eq=False)
class Body:
    """A module. `children`: bodies by attribute name, those of an array under the
    name of its ModuleList as a list; `params`: tensors by name."""

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


def replace(stmts, old, new):
    """Replaces a value by another in all statements."""
    def swap(x):
        if x is old:
            return new
        if isinstance(x, (tuple, list)):
            return type(x)(swap(y) for y in x)
        return x

    for s in stmts:
        if isinstance(s, Loop):
            replace(s.body, old, new)
            for c in s.carries:
                c[0] = swap(c[0])
                c[2] = swap(c[2])
        else:
            s.args = [swap(x) for x in s.args]
            s.named = {k: swap(x) for k, x in s.named.items()}


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
