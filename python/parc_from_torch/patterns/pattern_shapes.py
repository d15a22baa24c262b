"""Replaces moves of elements by shorter ones.

    transpose(transpose(x, 1, 2), 1, 2)      x
    reshape(x, b, s, n, d), x [b, s, n d]    heads(x, n)
"""

from ..ir.body import Value
from ..ir.builder import broadcast_shape
from ..ir.rewriter import made_by


def double_transpose(w, s):
    inner = made_by(s.args[0], "transpose")
    return inner.args[0] if inner and inner.args[1:] == s.args[1:] else None


def nested_reshape(w, s):
    """reshape(reshape(x)), or one that changes nothing."""
    x, shape = s.args[0], s.outs[0].shape
    if x.shape == shape:
        return x
    inner = made_by(x, "reshape", "heads", "merge_heads", "unsqueeze", "squeeze")
    if not inner:
        return None
    x = inner.args[0]
    return x if x.shape == shape else w.make("reshape", [x, *shape], shape)


def split_heads(w, s):
    """[..., n d] to [..., n, d]."""
    x, shape = s.args[0], s.outs[0].shape
    if len(x.shape) >= 2 and len(shape) == len(x.shape) + 1 and shape[:-2] == x.shape[:-1] and \
            1 not in shape[-2:]:
        return w.make("heads", [x, shape[-2]], shape)
    if len(shape) >= 2 and len(shape) == len(x.shape) - 1 and shape[:-1] == x.shape[:-2] and \
            1 not in x.shape[-2:]:
        return w.make("merge_heads", [x], shape)
    return None


def flat_product(w, s):
    """x @ w + b of rows that were flattened."""
    shape, sum_ = s.outs[0].shape, made_by(s.args[0], "add")
    product = sum_ and made_by(sum_.args[0], "matmul")
    flat = product and made_by(product.args[0], "reshape", "merge_heads")
    x = flat.args[0] if flat else None
    if x is None or x.shape[:-1] != shape[:-1] or len(product.args[1].shape) != 2 or \
            len(getattr(sum_.args[1], "shape", (1, 1))) != 1 or \
            x.shape[-1] != flat.outs[0].shape[-1]:
        return None
    y = w.make("matmul", [x, product.args[1]], shape)
    return w.make("add", [y, sum_.args[1]], shape)


def add_one(w, s):
    """A reshape that only adds or removes a dim of size 1."""
    x, shape = s.args[0], s.outs[0].shape
    for i in range(len(shape)):
        if shape[i] == 1 and shape[:i] + shape[i + 1:] == x.shape:
            return w.make("unsqueeze", [x, i], shape)
    for i in range(len(x.shape)):
        if x.shape[i] == 1 and x.shape[:i] + x.shape[i + 1:] == shape:
            return w.make("squeeze", [x, i], shape)
    return None


def no_neutral(w, s):
    """x * 1, x + 0, x / 1."""
    if len(s.args) != 2:
        return None
    x, y = s.args
    zero = 0 if s.op in ("add", "sub") else 1
    if isinstance(x, Value) and not isinstance(y, Value) and y == zero and \
            x.shape == s.outs[0].shape:
        return x
    return None


def needless_broadcast(w, s):
    """An operand that the operator would broadcast itself."""
    for i, x in enumerate(s.args):
        inner = made_by(x, "broadcast")
        args = [inner.args[0] if j == i and inner else y for j, y in enumerate(s.args)]
        if inner and broadcast_shape(args) == s.outs[0].shape:
            return w.make(s.op, args, s.outs[0].shape, dict(s.named))
    return None


PATTERNS = {
    "transpose": [double_transpose],
    "reshape": [flat_product, nested_reshape, split_heads, add_one],
    "heads": [flat_product],
    **{op: [needless_broadcast] for op in ("where", "maximum", "minimum", "pow", "==", "!=", "<",
                                           "<=", ">", ">=")},
    **{op: [no_neutral, needless_broadcast] for op in ("add", "sub", "mul", "div")},
}
