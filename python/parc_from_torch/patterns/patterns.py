"""Replaces groups of statements by statements that a person would write: pattern_*.py
and rotary.py. Tables and masks are compared by value, not by the names of the user's
code."""

from ..ir.body import Loop, arguments, drop_unused, replace, values_in
from ..ir.rewriter import Rewrite
from ..operators import random_numbers
from . import (lanes, pattern_attention, pattern_batches, pattern_losses, pattern_shapes,
               pattern_turns)
from .pattern_tables import write_tables
from .rotary import rotary

# Statements that end a rotary embedding.
ENDS = ("add", "concat", "reshape", "merge_heads", "heads", "mul", "sub")
COMPLEX = ("complex numbers have no counterpart unless they are a rotary embedding",
           "compute with cosines and sines")
# Operators that only a pattern can replace: (fault, remedy).
INTERNAL = {"pad_integers": ("pad has no counterpart unless it shifts labels that only a loss "
                             "reads", "shift the labels in the data"),
            "stack": ("stack joins more than 8 tensors, which do not follow from the elements of "
                      "a dim in equal ways", "join them in groups"),
            "view_as_complex": COMPLEX, "view_as_real": COMPLEX}


def patterns_of(op):
    for group in (lanes, pattern_batches, pattern_shapes, pattern_turns, pattern_losses,
                  pattern_attention, random_numbers):
        yield from group.PATTERNS.get(op, ())


def rewrite_once(body):
    for s in body.stmts:
        if isinstance(s, Loop):
            continue
        for pattern in patterns_of(s.op):
            if apply(body, s, pattern):
                return True
    return False


def apply(body, s, pattern):
    """Puts the result of a pattern in place of a statement's, if it fits."""
    w = Rewrite(body, s)
    new = pattern(w, s)
    if new is None:
        return False
    at = body.stmts.index(s)
    body.stmts[at:at + 1] = w.stmts
    replace(body.stmts, s.outs[0], new)
    body.outputs = [new if v is s.outs[0] else v for v in body.outputs]
    return True


def rewrite(body, numbers=()):
    """Applies the patterns until none fits. `numbers`: (name, number) of the model,
    which a table of angles may have."""
    for s in list(body.stmts):
        if s in body.stmts and s.op in ENDS:
            apply(body, s, lambda w, s: rotary(w, s, numbers))
    drop_unused(body)
    simplify(body)


def simplify(body):
    """Applies the patterns of single statements until none fits."""
    while rewrite_once(body):
        pass
    drop_unused(body)


def prune(body):
    """Drops inputs that a module does not read, with the arguments of its calls."""
    for s in body.stmts:
        if s.callee:
            given = list(s.callee.inputs)
            prune(s.callee)
            s.args = [x for v, x in zip(given, s.args) if v in s.callee.inputs]
    drop_unused(body)
    used = set(values_in(body.outputs)) | {v for s in body.stmts for v in arguments(s)}
    body.inputs = [v for v in body.inputs if v in used]
    body.params = {n: v for n, v in body.params.items() if v in used}


def leftovers(body):
    """[(line, fault, remedy)] of the statements that no pattern replaced."""
    return [(s.line, *INTERNAL[s.op]) for s in body.stmts
            if not isinstance(s, Loop) and s.op in INTERNAL]


__all__ = ["leftovers", "prune", "rewrite", "simplify", "write_tables"]
