"""Takes products of heads that were merged into the batch apart.

    q [b, h, s, d], k [b, h, t, d]
    reshape(q, b h, s, d) @ transpose(reshape(k, b h, t, d), 1, 2)     reshape(q @ transpose(k), b h, s, t)

The reshape moves behind the product, and behind sums and scales of it, until another reshape
undoes it. The scores of attention have four dims then.
"""

from ..ir.body import Value
from ..ir.rewriter import made_by

SCORES = ("matmul", "add", "sub", "mul", "div")


def merged(x):
    """The value of which x has the first two of four or more dims merged, or None."""
    s = made_by(x, "reshape")
    whole = s.args[0] if s else None
    if whole is None or len(whole.shape) < 4 or whole.shape[2:] != x.shape[1:] or \
            whole.shape[0] * whole.shape[1] != x.shape[0]:
        return None
    return whole


def merge(w, x):
    shape = (x.shape[0] * x.shape[1], *x.shape[2:])
    return w.make("reshape", [x, *shape], shape)


def turned(w, s):
    """transpose of two inner dims."""
    x, (i, j) = merged(s.args[0]), s.args[1:]
    if x is None or not i or not j:
        return None
    shape = list(x.shape)
    shape[i + 1], shape[j + 1] = shape[j + 1], shape[i + 1]
    return merge(w, w.make("transpose", [x, i + 1, j + 1], shape))


def product(w, s):
    x, y = (merged(v) for v in s.args)
    if x is None or y is None or x.shape[:2] != y.shape[:2]:
        return None
    return merge(w, w.make("matmul", [x, y], (*x.shape[:-1], y.shape[-1])))


def apart(w, v, lead):
    """An operand of merged scores with their first two dims, or None."""
    if not isinstance(v, Value):
        return v
    whole = merged(v)
    if whole is not None and whole.shape[:2] == lead:
        return whole
    if len(v.shape) < 3:
        return v
    if v.shape[0] != lead[0] * lead[1]:
        return None
    shape = (*lead, *v.shape[1:])
    return w.make("reshape", [v, *shape], shape)


def scores(w, s):
    """A sum or product of scores, from a product of heads, and another operand."""
    wholes = [merged(v) if isinstance(v, Value) else None for v in s.args]
    whole = next((x for x in wholes if x is not None and made_by(x, *SCORES)), None)
    if whole is None or s.outs[0].shape != (whole.shape[0] * whole.shape[1], *whole.shape[2:]):
        return None
    operands = [apart(w, v, whole.shape[:2]) for v in s.args]
    return None if None in operands else merge(w, w.make(s.op, operands, whole.shape))


PATTERNS = {"transpose": [turned], "matmul": [product],
            **{op: [scores] for op in SCORES if op != "matmul"}}
