"""ATen operators that draw random numbers, and the drops of dropout.

    dropout(x, p)                                    dropout(x, p)
    rand([4, 1, 1])                                  random(batch, 1, 1)
    rand_like(x)                                     random(x)
    uniform_(empty([4, 8]), a, b)                    a + (b - a) * random(batch, dim)
    bernoulli_(empty([4, 8]), p)                     random(batch, dim) >= 1 - p
    x / keep * floor(keep + rand([4, 1, 1]))         drop_path(x, 1 - keep)
    x * (bernoulli_(empty([4, 8, 1]), keep) / keep)  dropout(x, 1 - keep, dim=(0, 1))
"""

from ..ir.body import Value
from ..ir.builder import number
from ..ir.rewriter import made_by

DIGITS = 9  # of a probability, as 1 - (1 - 0.1) is not 0.1


def complement(p):
    return round(1.0 - p, DIGITS)


# ---- operators -------------------------------------------------------------


def dropped(m, x, p, dims=None):
    """Dropout of slices of x along dims, of elements if there are none."""
    if dims == [0]:
        return m.make("drop_path", [x, p], x.shape)
    return m.make("dropout", [x, p], x.shape, {"dim": tuple(dims)} if dims else {})


def dropout(m, args, named):
    x, p, train = args
    return dropped(m, x, p) if train and p else x


def native_dropout(m, args, named):
    """The result, and the mask, which only torch's backward pass reads."""
    return dropout(m, args, named), None


def feature_dropout(m, args, named):
    """Dropout of channels: nn.Dropout1d, nn.Dropout2d, nn.Dropout3d."""
    x, p, train = args
    return dropped(m, x, p, [0, 1]) if train and p else x


def drawn(m):
    """Numbers in the shape of the result."""
    if not m.shape():
        m.fail("draws a single number", "draw a tensor of shape [1]")
    return m.make("random", list(m.shape()), m.shape())


def random_like(m, args, named):
    return m.make("random", [args[0]], m.shape())


def uniform(m, args, named):
    low, high = (list(args[1:]) + [0.0, 1.0][len(args) - 1:])[:2]
    low, high = named.get("from", low), named.get("to", high)
    far = round(high - low, DIGITS)
    x = drawn(m) if far == 1 else m.map("mul", far, drawn(m))
    return x if low == 0 else m.map("add", low, x)


def bernoulli(m, args, named):
    """1 with a probability that a number gives, or an element of a tensor."""
    p = number(args[1] if len(args) > 1 else named.get("p", args[0]))
    rest = m.map("sub", 1.0, p) if isinstance(p, Value) else complement(p)
    return m.map(">=", drawn(m), rest)


TABLE = {
    "dropout": dropout, "native_dropout": native_dropout, "feature_dropout": feature_dropout,
    "rand": lambda m, args, named: drawn(m), "rand_like": random_like, "uniform": uniform,
    "bernoulli": bernoulli,
}

# ---- patterns --------------------------------------------------------------


def kept(x):
    """(draw, probability) of a tensor that is 1 with a probability, else 0; or None."""
    at_least = made_by(x, ">=")
    if at_least and not isinstance(at_least.args[1], Value):
        return made_by(at_least.args[0], "random"), complement(at_least.args[1])
    rounded = made_by(x, "floor")
    total = rounded and made_by(rounded.args[0], "add")
    for draw, p in (total.args, total.args[::-1]) if total else ():
        if not isinstance(p, Value):
            return made_by(draw, "random"), round(p, DIGITS)
    return None


def scaled(x):
    """(y, divisor) of y / divisor; (x, 1) of another tensor."""
    quotient = made_by(x, "div")
    if quotient and not isinstance(quotient.args[1], Value):
        return quotient.args[0], quotient.args[1]
    return x, 1


def drop(w, s):
    """x * mask / keep, in any order."""
    for x, mask in (s.args, s.args[::-1]):
        if not isinstance(x, Value) or not isinstance(mask, Value):
            return None
        (mask, a), (inner, b) = scaled(mask), scaled(x)
        draw, keep = kept(mask) or (None, 0)
        if not draw or len(mask.shape) != len(x.shape) or x.shape != s.outs[0].shape:
            continue
        x = inner if a == 1 else x
        dims = [i for i, n in enumerate(mask.shape) if n != 1]
        if abs((b if a == 1 else a) - keep) < 1e-6 and dims:
            return dropped(w, x, complement(keep), None if mask.shape == x.shape else dims)
    return None


PATTERNS = {"mul": [drop]}
MODULES = {"dropout": "Dropout", "drop_path": "DropPath"}


def prelude_of(body):
    """The prelude module of a body that only drops elements or rows, or None."""
    s = body.stmts[0] if len(body.stmts) == 1 else None
    drops = s and s.op in MODULES and not s.named and s.args[0] in body.inputs
    return (MODULES[s.op], [s.args[1]], {}) if drops else None
