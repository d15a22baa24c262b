"""Gives tokens that a mixture of experts merges both their dims.

    x [b, s, d]
    flat = reshape(x, b s, d)                 weights, ids = gate(x)
    weights, ids = gate(flat)                 return experts(x, ids, weights)
    y = experts(flat, ids, weights)
    return reshape(y, b, s, d)

The operators of experts sort tokens [b, s, d] by expert, and a mesh splits both dims. All values
between the two reshapes get these dims, those of the called modules too. An operator that works
on other dims than each token's own gets merged tokens.
"""

import dataclasses
import re

from ..ir.body import Stmt, Value, map_arguments, values_in
from .trace import bodies

ELEMENTWISE = {"add", "sub", "mul", "div", "pow", "neg", "==", "!=", "<", "<=", ">", ">=", "silu",
               "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "relu", "gelu", "softplus", "abs",
               "float", "int", "detach", "clamp", "where", "maximum", "minimum", "square"}
# Operators of a dim, `dim=` or the last one, or several.
OF_DIM = {"softmax", "log_softmax", "logsumexp", "cumsum", "sum", "mean", "max", "slice", "split",
          "select", "concat", "argmax"}
LAST_DIM = {"topk", "sort", "gather", "scatter_add", "onehot", "heads", "merge_heads"}
EXPERTS = {"group_rows", "gather_rows", "gather_pairs", "combine_rows"}


@dataclasses.dataclass
class Apart:
    """`lead`: batch and sequence; `whole`: the values that have both dims in place of one."""

    lead: tuple
    whole: set = dataclasses.field(default_factory=set)

    def mark(self, v):
        v.shape = (*self.lead, *v.shape[1:])
        self.whole.add(v)

    def is_merged(self, v):
        return isinstance(v, Value) and bool(v.shape) and v not in self.whole and \
            v.shape[0] == self.lead[0] * self.lead[1]

    def body(self, body):
        """Gives the values of a body both dims, where some of its inputs have them."""
        stmts = []
        for s in body.stmts:
            stmts += self.statement(s)
        body.stmts = stmts

    def statement(self, s):
        """The statements in place of one."""
        if s.op == "call":
            self.call(s)
            return [s]
        if s.op == "reshape" and self.reshaped(s):
            return [s]
        read = [v for x in [*s.args, *s.named.values()] for v in values_in(x)]
        if not any(v in self.whole for v in read):
            return [s]
        if self.rowwise(s):
            return [s]
        return self.merged(s, {v for v in read if v in self.whole})

    def call(self, s):
        """The same in a module that gets such values, or makes them."""
        for given, own in zip(s.args, s.callee.inputs):
            if given in self.whole:
                self.mark(own)
        self.body(s.callee)
        for result, own in zip(s.outs, s.callee.outputs):
            if own in self.whole:
                self.mark(result)

    def reshaped(self, s):
        """reshape that merges batch and sequence, keeps them merged, or takes them apart."""
        x, out = s.args[0], s.outs[0]
        merges = x not in self.whole and x.shape[:2] == self.lead and len(x.shape) > 2 and \
            x.const is None
        if not merges and x not in self.whole:
            return False
        if self.is_merged(out) and len(out.shape) > 1:
            self.mark(out)
        elif x not in self.whole or out.shape[:2] != self.lead:
            return False
        s.args = [x, *out.shape]
        return True

    def rowwise(self, s):
        """Whether a statement computes each token of its own; then its results get both dims."""
        rank = len(s.args[0].shape) - (s.args[0] in self.whole) \
            if isinstance(s.args[0], Value) else None
        if s.op in ELEMENTWISE:
            fits = self.operands_fit(s)
        elif s.op == "matmul":
            fits = s.args[0] in self.whole and len(s.args[1].shape) == 2
        elif s.op == "einsum":
            fits = s.args[1] in self.whole and re.match(r"\.\.\..*-> \.\.\.", s.args[0]) and \
                not any(v in self.whole for v in s.args[2:])
        elif s.op in LAST_DIM:
            fits = rank > 1 and all(x in self.whole for x in s.args if isinstance(x, Value)) or \
                s.op == "onehot"
        elif s.op in EXPERTS:
            fits = True
        elif s.op == "broadcast":
            fits = s.args[0] in self.whole and len(s.args) - 1 == rank
            s.args[1:] = [*self.lead, *s.args[2:]] if fits else s.args[1:]
        elif s.op in OF_DIM:
            fits = self.shift(s, rank)
        elif s.op in ("unsqueeze", "squeeze", "transpose"):
            fits = all(i > 0 for i in s.args[1:])
            s.args[1:] = [i + fits for i in s.args[1:]]
        else:
            fits = False
        if fits:
            for v in s.outs:
                if self.is_merged(v) and not (s.op in EXPERTS and len(v.shape) > 3):
                    self.mark(v)
        return fits

    def operands_fit(self, s):
        """Whether all operands are tokens, or broadcast along them."""
        rank = len(s.outs[0].shape)
        return all(v in self.whole or len(v.shape) < rank for x in s.args for v in values_in(x))

    def shift(self, s, rank):
        """Moves `dim=` behind the additional dim; False if it is that of the tokens."""
        dim = s.named.get("dim", None if s.op in ("sum", "mean", "max") else
                          0 if s.op == "select" else -1)
        dims = dim if isinstance(dim, tuple) else (dim,)
        if None in dims or any(i % rank == 0 for i in dims) or \
                not all(v in self.whole for x in s.args for v in values_in(x)):
            return False
        moved = tuple(i if i < 0 else i + 1 for i in dims)
        if "dim" in s.named:
            s.named["dim"] = moved if isinstance(dim, tuple) else moved[0]
        return True

    def merged(self, s, read):
        """A statement of merged tokens, after the reshapes that merge them."""
        flat = {}
        for v in read:
            shape = (self.lead[0] * self.lead[1], *v.shape[2:])
            flat[v] = Value(shape, v.dtype, v.name)
            flat[v].stmt = Stmt("reshape", [v, *shape], {}, [flat[v]], s.line, s.text)
        map_arguments(s, lambda v: flat.get(v, v))
        return [*(v.stmt for v in flat.values()), s]


def shorten(body):
    """Leaves out the dim of operators of the last dim of rows."""
    for s in body.stmts:
        if s.op in ("split", "slice", "concat") and len(s.outs[0].shape) == 5 and \
                s.named.get("dim") == 4:
            del s.named["dim"]
        if s.op == "unsqueeze" and s.args[1:] == [4]:
            s.args[1] = -1


def calls_experts(body):
    """Whether experts in a body, or below it, get merged tokens."""
    return any(s.op == "group_rows" and len(s.args[0].shape) == 2
               for b in bodies(body) for s in b.stmts)


def merge_of(body):
    """(batch, seq) of the first statement that merges the dims of tokens [b, s, d], or None."""
    for s in body.stmts:
        x = s.args[0] if s.op == "reshape" else None
        if x is not None and len(x.shape) == 3 and x.const is None and \
                s.outs[0].shape == (x.shape[0] * x.shape[1], x.shape[2]):
            return x.shape[:2]
    return None


def take_apart(body):
    """Gives the tokens of all experts below a body both dims."""
    for b in reversed(list(bodies(body))):
        if calls_experts(b) and merge_of(b):
            Apart(merge_of(b)).body(b)
    for b in bodies(body):
        if any(s.op == "group_rows" for s in b.stmts):
            shorten(b)


__all__ = ["take_apart"]
