"""ATen operators that round. Integers that a model computes are floats in PDL, which are
exact up to 2^24; int(x) makes indices of them.

    aten.ceil(x)                         -floor(-x)
    aten.div(a, b, rounding_mode=floor)  floor(a / b)
    aten.remainder(a, b)                 a - floor(a / b) * b
"""

from ..ir.builder import computed, is_index, number


def as_index(m, x):
    """A tensor of integers for a lookup."""
    return x if is_index(x) else m.make("int", [x], x.shape)


def truncated(m, x):
    """x rounded toward 0, as floats."""
    return m.make("float", [m.make("int", [x], x.shape)], x.shape)


def floor(m, x):
    return m.map("floor", x)


def ceil(m, x):
    return m.map("neg", floor(m, m.map("neg", x)))


ROUNDED = {"floor": floor, "ceil": ceil, "trunc": truncated}


def rounding(function):
    def convert(m, args, named):
        x = computed(m, args[0])
        return function(m, x) if args[0].dtype.is_floating_point else x
    return convert


def quotient(m, args, mode):
    """x / y, rounded in a mode of torch.div."""
    x, y = (computed(m, number(v)) for v in args[:2])
    return ROUNDED[mode](m, m.map("div", x, y))


def remainder(m, args, named):
    """x - y floor(x / y), which has the sign of y; fmod has the sign of x."""
    mode = "trunc" if m.name == "fmod" else "floor"
    whole = quotient(m, args, mode)
    x, y = (computed(m, number(v)) for v in args[:2])
    return m.map("sub", x, m.map("mul", whole, y))


def to_integers(m, x):
    """A cast of floats to integers rounds toward 0."""
    return m.make("int", [x], x.shape)


TABLE = {
    **{name: rounding(f) for name, f in ROUNDED.items()}, "fix": rounding(truncated),
    "floor_divide": lambda m, args, named: quotient(m, args, "floor"),
    "remainder": remainder, "fmod": remainder,
}
