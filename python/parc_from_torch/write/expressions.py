"""The text of one expression."""

import re

from ..ir.body import Value
from ..ir.formals import Number
from ..ir.names import FUNCTIONS
from .scope import unmarked

COMPARISON, SUM, PRODUCT, MINUS, POWER, CALL = 3, 4, 5, 6, 7, 9
INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT),
         "matmul": ("@", PRODUCT), "pow": ("**", POWER),
         **{sign: (sign, COMPARISON) for sign in ("==", "!=", "<", "<=", ">", ">=")}}


def level_of(text):
    """The precedence of the text of a number: a literal, or an expression of formals."""
    if re.fullmatch(r"[\w.]+([eE]-\d+)?|\w+\([^()]*\)", text):
        return CALL
    if re.fullmatch(r"-[\w.]+([eE]-\d+)?", text):
        return MINUS
    return SUM if re.search(r" [+-] ", text) else PRODUCT


class Expressions:
    """`module`: its scope and its names in the file; `names`: {value: name}; `inline`:
    {value: the statement that is written in its place}."""

    def __init__(self, module):
        self.module = module
        self.names = {}
        self.inline = {}
        self.elements = {}  # {array: name of its element in the loop}

    def text(self, v):
        """(text, precedence) of an operand."""
        if not isinstance(v, Value):
            text = self.module.argument(v)
            return text, level_of(unmarked(text))
        if v in self.names:
            return self.names[v], CALL
        if v.kind == "param":
            return self.module.parameter_text(v), CALL
        if v in self.inline:
            return self.apply(self.inline[v])
        if v.const is not None:
            self.module.fault(f"a table of shape {list(v.shape)} has no expression in PDL",
                              "make it a parameter, or compute it from an input")
        else:
            self.module.fault(f"the value '{v.name}' of shape {list(v.shape)} is computed "
                              "where this line cannot read it", "return it from the "
                              "forward that computes it")
        return "none", CALL

    def operand(self, v):
        return self.text(v)[0]

    def apply(self, s):
        """(text, precedence) of a statement."""
        before, self.module.line = self.module.line, s.line or self.module.line
        try:
            return self.infix(s) if s.op in INFIX else self.prefix(s)
        finally:
            self.module.line = before

    def prefix(self, s):
        if s.op == "neg":
            text, level = self.text(s.args[0])
            return f"-{text if level > MINUS else '(' + text + ')'}", MINUS
        if s.op == "call":
            name = self.elements.get(s.child) or self.module.children[s.child]
        else:
            name = s.op
            if name not in FUNCTIONS:
                self.module.fault(f"{name} has no counterpart in PDL here")
        args = [f'"{x}"' if s.op == "einsum" and x is s.args[0] else self.operand(x)
                for x in without_default(s)]
        args += [f"{k}={self.operand(x)}" for k, x in s.named.items()]
        return f"{name}({', '.join(args)})", CALL

    def infix(self, s):
        """Operators of one precedence are applied from the left; parentheses keep any
        other order, also where only rounding depends on it."""
        sign, level = INFIX[s.op]
        left, a = self.text(s.args[0])
        right, b = self.text(s.args[1])
        if a < level or (a == level and level in (POWER, COMPARISON)):
            left = f"({left})"
        if b <= level:
            right = f"({right})"
        return f"{left} {sign} {right}", level


def without_default(s):
    """The arguments of a statement without the default theta of rope."""
    theta = s.args[1] if s.op == "rope" and len(s.args) == 2 else None
    usual = isinstance(theta, Number) and not theta.varies() and theta.base == 10000.0
    return s.args[:1] if usual else s.args
