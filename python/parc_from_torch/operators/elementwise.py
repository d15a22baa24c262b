"""Elementwise operators of ATen: arithmetic, comparisons, activations, casts."""

import math

import torch

from ..ir.body import Value
from ..ir.builder import axis, broadcast_shape, computed, constant, is_index, number
from . import integers

PLAIN = {name: name for name in (
    "silu", "relu", "tanh", "exp", "log", "sqrt", "rsqrt", "sigmoid", "sin", "cos",
    "abs", "neg", "erf", "log1p", "expm1", "maximum", "minimum", "square", "mul")}
PLAIN.update(reciprocal="recip", multiply="mul", negative="neg", absolute="abs",
             special_expit="sigmoid")
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
            "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
            "greater_equal": ">="}


def operands(m, args):
    """The operands of an elementwise operator. A known tensor of equal elements is a
    number; the others are broadcast if its shape was larger than theirs."""
    found = [computed(m, number(x)) for x in args]
    tensors = [i for i, x in enumerate(found) if isinstance(x, Value)]
    if tensors and broadcast_shape(found) != m.shape():
        found[tensors[0]] = m.spread(found[tensors[0]], m.shape())
    for x in found:
        if isinstance(x, float) and not math.isfinite(x):
            m.fail("has a number that is not finite", "use a large number, such as 1e30")
    return found


def plain(op):
    return lambda m, args, named: m.make(op, operands(m, args), m.shape())


def compare(op):
    def convert(m, args, named):
        both = args
        if is_index(args[0]) and not isinstance(number(args[1]), (Value, float)):
            both = [args[0], number(args[1])]
            return m.make(op, both, m.shape())
        return m.make(op, operands(m, both), m.shape())
    return convert


def divide(m, args, named):
    if named.get("rounding_mode"):
        return integers.quotient(m, args, named["rounding_mode"])
    return m.make("div", operands(m, args), m.shape())


def power(m, args, named):
    x, y = operands(m, args)
    if isinstance(x, Value) and isinstance(y, Value):
        m.fail("of two tensors has no counterpart", "write exp(y * log(x))")
    return m.make("pow", [x, y], m.shape())


def added(op, swapped=False):
    """x + alpha y, x - alpha y, or with `swapped` y - alpha x."""
    def convert(m, args, named):
        by = named.get("alpha", args[2] if len(args) > 2 else 1)
        x, y = operands(m, args[1::-1] if swapped else args[:2])
        if by != 1:
            y = m.map("mul", y, by) if isinstance(y, Value) else y * by
        if m.first_fake().dtype is torch.bool:  # a sum of truth values is one
            return m.make("maximum", [x, y], m.shape())
        return m.make(op, [x, y], m.shape())
    return convert


def addcmul(op):
    """x + value a b, or x + value a / b."""
    def convert(m, args, named):
        x, a, b = args[:3]
        by = named.get("value", 1)
        product = m.map(op, *[computed(m, v) for v in (a, b)])
        product = product if by == 1 else m.map("mul", product, by)
        return m.make("add", operands(m, [x, product]), m.shape())
    return convert


def lerp(m, args, named):
    x, y, weight = args
    part = m.map("mul", m.map("sub", y, x), number(weight))
    return m.make("add", [x, part], m.shape())


# ---- truth values: 1 and 0 -------------------------------------------------


def truth(m, x):
    """1 where x is not 0."""
    if not isinstance(x, Value):
        return int(bool(x))
    return x if x.dtype is torch.bool else m.make("!=", [x, 0], x.shape)


def refuse_integers(m):
    """Operators of bits, &, | and ~, work on truth values only."""
    if m.name.startswith(("bitwise", "__")) and m.first_fake().dtype is not torch.bool:
        m.fail("of integers has no counterpart")


def logical(op):
    def convert(m, args, named):
        refuse_integers(m)
        return m.make(op, operands(m, [truth(m, x) for x in args]), m.shape())
    return convert


def negated(m, args, named):
    refuse_integers(m)
    return m.make("==", [args[0], 0], m.shape())


def where(m, args, named):
    """A known condition of equal elements selects one of the two."""
    condition = number(args[0])
    if not isinstance(condition, Value):
        x = number(args[1] if condition else args[2])
        if isinstance(x, Value):
            return m.spread(x, m.shape())
        return constant(m.shape(), x, m.first_fake().dtype)
    x, y = (computed(m, masked_number(m, number(v))) for v in args[1:])
    if broadcast_shape([condition, x, y]) != m.shape():
        condition = m.spread(condition, m.shape())
    return m.make("where", [condition, x, y], m.shape())


LOWEST = -1e30


def masked_number(m, x):
    """-inf, or the smallest float, hides elements from a softmax, as any very small number
    does."""
    if isinstance(x, Value) or x >= LOWEST:
        return x
    if not only_normalized(m.node):
        if math.isfinite(x):
            return x
        m.fail("writes -inf", "use a large negative number, such as -1e30")
    return LOWEST


def only_positions(node):
    """Whether a node is topk or a sort of which only the positions are read."""
    return str(node.target).split(".")[1:2] in (["topk"], ["sort"]) and \
        all(user.args[1:] == (1,) for user in node.users)


def only_normalized(node):
    """Whether all readers of a node are softmaxes or exp, after sums and moves, or choose the
    largest elements."""
    through = ("add", "masked_fill", "where", "view", "reshape", "transpose", "expand", "to",
               "float", "contiguous")
    ends = ("softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp",
            "cross_entropy_loss", "max", "amax", "exp", "scaled_dot_product_attention")
    for user in node.users:
        name = str(user.target).split(".")[1] if "." in str(user.target) else ""
        if name not in ends and not only_positions(user) and \
                not (name in through and only_normalized(user)):
            return False
    return bool(node.users)


def masked_fill(m, args, named):
    x, mask, value = args
    return where(m, [mask, value, x], named)


def clamp(m, args, named):
    low, high = (list(args[1:]) + [None, None])[:2]
    low, high = number(named.get("min", low)), number(named.get("max", high))
    if m.name in ("clamp_max",):
        low, high = None, low
    x = computed(m, args[0])
    if isinstance(low, Value):
        x, low = m.make("maximum", [x, low], m.shape()), None
    bounds = {k: v for k, v in (("min", low), ("max", high))
              if not isinstance(v, Value) and v is not None and math.isfinite(v)}
    x = m.make("clamp", [x], m.shape(), bounds) if bounds else x
    return m.make("minimum", [x, high], m.shape()) if isinstance(high, Value) else x


# ---- activations -----------------------------------------------------------


def gelu(m, args, named):
    how = {} if named.get("approximate", "none") == "none" else {"approximate": "tanh"}
    return m.make("gelu", args[:1], m.shape(), how)


def softplus(m, args, named):
    if tuple(args[1:]) not in ((), (1,), (1, 20), (1.0, 20.0)):
        m.fail("with another beta or threshold has no counterpart")
    return m.make("softplus", args[:1], m.shape())


def log_sigmoid(m, args, named):
    return m.map("neg", m.map("softplus", m.map("neg", args[0])))


def leaky_relu(m, args, named):
    x, slope = args[0], args[1] if len(args) > 1 else 0.01
    return m.map("where", m.map(">", x, 0), x, m.map("mul", x, slope))


def elu(m, args, named):
    """alpha (exp(x) - 1) below 0. The exponent is at most 0, else where's gradient
    would multiply an infinite number by 0."""
    x, alpha, scale, rate = (list(args) + [1, 1, 1][len(args) - 1:])[:4]
    below = m.map("minimum", x, 0)
    below = below if rate == 1 else m.map("mul", below, rate)
    below = m.map("expm1", below)
    below = below if alpha == 1 else m.map("mul", below, alpha)
    y = m.map("where", m.map(">", x, 0), x, below)
    return y if scale == 1 else m.map("mul", y, scale)


def selu(m, args, named):
    return elu(m, [args[0], 1.6732632423543772, 1.0507009873554805], named)


def celu(m, args, named):
    alpha = args[1] if len(args) > 1 else 1.0
    return elu(m, [args[0], alpha, 1, 1 / alpha], named)


def mish(m, args, named):
    return m.map("mul", args[0], m.map("tanh", m.map("softplus", args[0])))


def relu6(m, args, named):
    return m.map("minimum", m.map("relu", args[0]), 6)


def hardtanh(m, args, named):
    x, low, high = (list(args) + [-1.0, 1.0][len(args) - 1:])[:3]
    if low == 0:
        return m.map("minimum", m.map("relu", x), high)
    return m.make("clamp", [x], m.shape(), {"min": low, "max": high})


def hardsigmoid(m, args, named):
    return m.map("div", m.map("minimum", m.map("relu", m.map("add", args[0], 3)), 6), 6)


def hardswish(m, args, named):
    return m.map("mul", args[0], hardsigmoid(m, args, named))


def threshold(m, args, named):
    x, least, value = args
    return m.map("where", m.map(">", x, least), x, value)


def sign(m, args, named):
    x = computed(m, args[0])
    return m.map("where", m.map(">", x, 0), 1.0, m.map("where", m.map("<", x, 0), -1.0, 0.0))


def scaled_log(base):
    return lambda m, args, named: m.map("mul", m.map("log", args[0]), 1 / math.log(base))


def erfc(m, args, named):
    return m.map("sub", 1.0, m.map("erf", args[0]))


def glu(m, args, named):
    """The first half of a dim times the sigmoid of the second."""
    x, dim = args[0], args[1] if len(args) > 1 else -1
    dim = axis(dim, len(x.shape))
    a, b = m.make("split", [x, 2], [m.shape()] * 2, {"dim": dim}, count=2)
    return m.map("mul", a, m.map("sigmoid", b))


def weight_norm(m, args, named):
    """v times g over its norm; the norm is that of all dims but one, or of all."""
    v, g = args[:2]
    dim = args[2] if len(args) > 2 else named.get("dim", 0)
    dims = [i for i in range(len(v.shape)) if dim == -1 or i != axis(dim, len(v.shape))]
    shape = tuple(1 if i in dims else n for i, n in enumerate(v.shape))
    total = m.make("sum", [m.map("square", v)], shape, {"dim": tuple(dims), "keep": True})
    return m.make("mul", [v, m.map("div", g, m.map("sqrt", total))], m.shape())


def exp2(m, args, named):
    return m.make("pow", [2.0, args[0]], m.shape())


# ---- casts -----------------------------------------------------------------


def same(m, args, named):
    return args[0]


def cast(m, args, named):
    """A change of the element type. Truth values are the numbers 1 and 0 in PDL; the
    width of floats follows from the file's precision."""
    x, after = args[0], m.first_fake().dtype
    before = x.dtype
    if before is after or before is None:
        return x
    if before.is_complex or after.is_complex:
        m.fail(f"from {before} to {after} has no counterpart")
    if after is torch.bool:
        return m.make("!=", [x, 0], x.shape)
    if before is torch.bool:
        return m.make("float", [x], x.shape)
    if before.is_floating_point and after.is_floating_point:
        return x
    if after.is_floating_point:
        if not is_index(x):
            x.dtype = after  # PDL computes it in floats already
        return computed(m, x)
    if after.itemsize < 4:
        m.fail(f"from {before} to {after} has no counterpart")
    return integers.to_integers(m, x) if before.is_floating_point else x


def detach(m, args, named):
    return m.make("detach", args[:1], m.shape()) if args[0].dtype.is_floating_point else args[0]


TABLE = {
    **{name: plain(op) for name, op in PLAIN.items()},
    **{name: compare(op) for name, op in COMPARED.items()},
    "div": divide, "true_divide": divide, "divide": divide, "pow": power,
    "add": added("add"), "sub": added("sub"), "subtract": added("sub"),
    "rsub": added("sub", swapped=True), "addcmul": addcmul("mul"), "addcdiv": addcmul("div"),
    "lerp": lerp, "gelu": gelu, "softplus": softplus, "where": where,
    "masked_fill": masked_fill, "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp,
    "clip": clamp, "detach": detach,
    "_weight_norm": weight_norm, "leaky_relu": leaky_relu, "elu": elu,
    "selu": selu, "celu": celu, "mish": mish, "relu6": relu6, "hardtanh": hardtanh,
    "hardsigmoid": hardsigmoid, "hardswish": hardswish, "threshold": threshold, "sign": sign,
    "log2": scaled_log(2), "log10": scaled_log(10), "exp2": exp2, "erfc": erfc,
    "glu": glu, "log_sigmoid": log_sigmoid,
    "logical_and": logical("mul"), "bitwise_and": logical("mul"),
    "logical_or": logical("maximum"), "bitwise_or": logical("maximum"),
    "logical_xor": logical("!="), "bitwise_xor": logical("!="),
    "__and__": logical("mul"), "__or__": logical("maximum"), "__xor__": logical("!="),
    "logical_not": negated, "bitwise_not": negated,
    "to": cast, "type_as": cast, "_to_copy": cast, "contiguous": same, "clone": same,
    "alias": same, "identity": same, "lift_fresh_copy": same, "lift_fresh": same,
}
