"""Replaces groups of statements by what a person would write.

    transpose(transpose(x, 1, 2), 1, 2)      x
    reshape(x, b, s, n, d), x [b, s, n d]    heads(x, n)
    x * cos + rotate_half(x) * sin           rope(x, theta, style=half)
    cross_entropy(reshape(x, ..), ..)        cross_entropy(x, labels)

Tables of angles are compared by value, not by the names of the user's code.
"""


import torch

from .body import Stmt, Value, drop_unused, replace, values_in
from .operators import Word


def made_by(x, *ops):
    """The statement that computes a value, if it is one of these."""
    stmt = x.stmt if isinstance(x, Value) else None
    return stmt if stmt and getattr(stmt, "op", "") in ops else None


class Rewrite:
    """New statements in place of one."""

    def __init__(self, old):
        self.old = old
        self.stmts = []

    def make(self, op, args, shape, named=None):
        out = Value(tuple(shape), self.old.outs[0].dtype, self.old.outs[0].name)
        stmt = Stmt(op, list(args), named or {}, [out], self.old.line)
        stmt.text = getattr(self.old, "text", "")
        out.stmt = stmt
        self.stmts.append(stmt)
        return out


# ---- shapes ----------------------------------------------------------------


def double_transpose(w, s):
    inner = made_by(s.args[0], "transpose")
    return inner.args[0] if inner and inner.args[1:] == s.args[1:] else None


def nested_reshape(w, s):
    """reshape(reshape(x)), or one that changes nothing."""
    x, shape = s.args[0], s.outs[0].shape
    if x.shape == shape:
        return x
    inner = made_by(x, "reshape", "heads", "merge_heads")
    if not inner:
        return None
    x = inner.args[0]
    return x if x.shape == shape else w.make("reshape", [x, *shape], shape)


def split_heads(w, s):
    """[..., n d] to [..., n, d]."""
    x, shape = s.args[0], s.outs[0].shape
    if len(x.shape) >= 2 and len(shape) == len(x.shape) + 1 and shape[:-2] == x.shape[:-1]:
        return w.make("heads", [x, shape[-2]], shape)
    if len(shape) >= 2 and len(shape) == len(x.shape) - 1 and shape[:-1] == x.shape[:-2]:
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


# ---- rotary embeddings -----------------------------------------------------


def theta_of(angle):
    """The base of a table of angles [positions, pairs], or None."""
    if angle.shape[0] < 2 or not bool((angle[0].abs() < 1e-6).all()):
        return None
    pairs = angle.shape[1]
    if pairs == 1:
        return 10000.0 if abs(angle[1, 0] - 1) < 1e-6 else None
    rate = float(angle[1, 1])
    if not 0 < rate < 1:
        return None
    theta = float(f"{rate ** -pairs:.4g}")
    at = torch.arange(angle.shape[0], dtype=torch.float64)[:, None]
    want = at * theta ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    same = (torch.cos(want) - torch.cos(angle)).abs().max() < 1e-4
    return theta if same and (torch.sin(want) - torch.sin(angle)).abs().max() < 1e-4 else None


def rate_table(cos, sin):
    """Angles below half a turn from their cosines and sines; the rates of the pairs
    follow from position 1."""
    rates = torch.atan2(sin[1].double(), cos[1].double())
    return torch.arange(cos.shape[0], dtype=torch.float64)[:, None] * rates


def known_table(x):
    """The rows [positions, columns] of a table that repeats over other dims."""
    t = x.const
    if t is None or t.numel() != t.shape[-1] * max(t.shape[:-1]):
        return None
    return t.reshape(-1, t.shape[-1])


def rotate(w, x, theta, half, like_heads_first):
    """rope of x, whose dims are [b, h, s, d] if heads come first."""
    named = {"style": Word("half")} if half else {}
    if not like_heads_first:
        return w.make("rope", [x, theta], x.shape, named)
    b, h, s, d = x.shape
    y = w.make("transpose", [x, 1, 2], (b, s, h, d))
    y = w.make("rope", [y, theta], (b, s, h, d), named)
    return w.make("transpose", [y, 1, 2], x.shape)


def heads_first(table, rank):
    """Whether the positions of a table are the dim before the last."""
    shape = (1,) * (rank - table.dim()) + tuple(table.shape)
    return shape[-2] != 1


def half_rope(w, s):
    """x * cos + concat(-x2, x1) * sin."""
    left, right = (made_by(x, "mul") for x in s.args[:2])
    if not left or not right:
        return None
    x, cos = left.args
    turned, sin = right.args
    if not isinstance(cos, Value) or not isinstance(sin, Value) or len(x.shape) != 4:
        return None
    cat = made_by(turned, "concat")
    if not cat or len(cat.args) != 2 or cos.const is None or sin.const is None:
        return None
    minus, first = made_by(cat.args[0], "neg"), made_by(cat.args[1], "slice")
    second = minus and made_by(minus.args[0], "slice")
    d = x.shape[-1]
    if not first or not second or first.args != [x, 0, d // 2] or \
            second.args != [x, d // 2, d // 2]:
        return None
    c, n = known_table(cos), known_table(sin)
    if c is None or n is None or not bool((c[:, :d // 2] == c[:, d // 2:]).all()):
        return None
    theta = theta_of(rate_table(c[:, :d // 2], n[:, :d // 2]))
    return theta and rotate(w, x, theta, True, heads_first(cos.const, 4))


def complex_rope(w, s):
    """view_as_real(view_as_complex(reshape(x, .., d/2, 2)) * table), flattened."""
    product = made_by(s.args[0], "view_as_real")
    product = product and made_by(product.args[0], "mul")
    pairs = product and made_by(product.args[0], "view_as_complex")
    table = product and product.args[1]
    if not pairs or not isinstance(table, Value) or table.const is None:
        return None
    source = made_by(pairs.args[0], "reshape", "heads")
    x, shape = source.args[0] if source else None, s.outs[0].shape
    if x is None or len(shape) != 4:
        return None
    if x.shape != shape:
        x = w.make("reshape", [x, *shape], shape)
    t = known_table(table)
    theta = t is not None and theta_of(rate_table(t.real, t.imag))
    return rotate(w, x, theta, False, heads_first(table.const, 4)) if theta else None


# ---- attention and losses --------------------------------------------------


def grouped_heads(w, s):
    """Keys and values that were repeated for the heads of a group."""
    args = list(s.args)
    for i in (1, 2):
        turn = made_by(args[i], "transpose")
        merge = turn and made_by(turn.args[0], "reshape")
        wide = merge and made_by(merge.args[0], "broadcast")
        more = wide and made_by(wide.args[0], "unsqueeze", "reshape")
        x = more.args[0] if more else None
        if x is None or len(x.shape) != 4 or more.outs[0].shape != \
                x.shape[:2] + (1,) + x.shape[2:]:
            continue
        b, h, t, d = x.shape
        args[i] = w.make("transpose", [x, 1, 2], (b, t, h, d))
    if args == s.args or args[1].shape[2] != args[2].shape[2]:
        return None
    return w.make("attention", args, s.outs[0].shape, dict(s.named))


def flat_loss(w, s):
    """Logits and labels that were flattened for torch."""
    logits, labels = s.args
    a, b = made_by(logits, "reshape"), made_by(labels, "reshape")
    if not a or not b or a.args[0].shape[:-1] != b.args[0].shape or \
            a.args[0].shape[-1] != logits.shape[-1]:
        return None
    return w.make(s.op, [a.args[0], b.args[0]], s.outs[0].shape, dict(s.named))


def shifted_labels(w, s):
    """Labels that the model shifts by one: parc's labels are shifted already."""
    padded = made_by(s.args[0], "pad")
    if not padded or s.args[1] != 1 or s.args[2] != padded.args[0].shape[-1]:
        return None
    x = padded.args[0]
    x.shifted = True
    return x


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


PATTERNS = {
    "transpose": [double_transpose],
    "reshape": [complex_rope, flat_product, nested_reshape, split_heads, add_one],
    "merge_heads": [complex_rope], "heads": [flat_product],
    "add": [half_rope, no_neutral], "sub": [no_neutral], "mul": [no_neutral],
    "div": [no_neutral], "attention": [grouped_heads],
    "cross_entropy": [flat_loss], "slice": [shifted_labels],
}


def rewrite_once(body):
    for at, s in enumerate(body.stmts):
        for pattern in PATTERNS.get(s.op, ()):
            w = Rewrite(s)
            new = pattern(w, s)
            if new is None or new is False:
                continue
            body.stmts[at:at + 1] = w.stmts
            replace(body.stmts, s.outs[0], new)
            body.outputs = [new if v is s.outs[0] else v for v in body.outputs]
            return True
    return False


def rewrite(body):
    """Applies the patterns until none fits."""
    while rewrite_once(body):
        pass
    drop_unused(body)
    used = set(values_in(body.outputs))
    for s in body.stmts:
        for x in [*s.args, *s.named.values()]:
            used.update(values_in(x))
    body.inputs = [v for v in body.inputs if v in used]
    body.params = {n: v for n, v in body.params.items() if v in used}


def rewrite_loops(body):
    """Drops what the loops no longer read."""
    drop_unused(body)


__all__ = ["rewrite", "rewrite_loops"]
