"""ATen operators and what PDL has for them.

    aten.silu(x)                          silu(x)
    aten.view(x, [2, 16, 4, 8])           reshape(x, 2, 16, 4, 8)
    aten.scaled_dot_product_attention     attention, between transposes of the
                                          heads and the sequence
"""

from . import masks
from .body import Stmt, Value


class Unknown(Exception):
    """An operator, or one of its arguments, that PDL does not have."""


class Maker:
    """Makes the statements of one operator. `node` gives the result's type."""

    def __init__(self, name, node):
        self.name = name
        self.node = node
        self.stmts = []

    def make(self, op, args, shape, named=None, count=0):
        """A statement with one result, or with `count` of the given shapes."""
        dtype = getattr(self.first_fake(), "dtype", None)
        shapes = shape if count else [shape]
        outs = [Value(tuple(s), dtype, self.node.name) for s in shapes]
        stmt = Stmt(op, list(args), named or {}, outs)
        for v in outs:
            v.stmt = stmt
        self.stmts.append(stmt)
        return tuple(outs) if count else outs[0]

    def first_fake(self):
        fake = self.node.meta["val"]
        return fake[0] if isinstance(fake, (tuple, list)) else fake

    def shape(self):
        return tuple(self.first_fake().shape)

    def shapes(self):
        return [tuple(f.shape) for f in self.node.meta["val"]]

    def fail(self, why):
        raise Unknown(f"{self.name} {why}")


def unknown(node):
    """A stand-in for a result, so that all faults are found in one run."""
    fake = node.meta.get("val")
    if isinstance(fake, (tuple, list)):
        return tuple(Value(tuple(f.shape), f.dtype, node.name) for f in fake
                     if hasattr(f, "shape"))
    return Value(tuple(getattr(fake, "shape", ())), getattr(fake, "dtype", None), node.name)


def operand(x):
    """A value, or the number that a known tensor of equal elements holds. Tables
    stay: patterns.py knows some, write.py refuses the others."""
    if not isinstance(x, Value) or x.const is None:
        return x
    t = x.const
    if t.numel() and bool((t == t.reshape(-1)[0]).all()):
        return t.reshape(-1)[0].item()
    return x


def axis(i, rank):
    return i if i >= 0 else i + rank


# ---- elementwise -----------------------------------------------------------

PLAIN = {name: name for name in (
    "silu", "relu", "tanh", "exp", "log", "sqrt", "rsqrt", "sigmoid", "sin", "cos",
    "abs", "neg", "erf", "mul", "div", "pow", "maximum", "minimum", "square")}
PLAIN.update(reciprocal="recip", true_divide="div", eq="==", ne="!=", lt="<", le="<=",
             gt=">", ge=">=")


def plain(m, op, args, named):
    if named.get("rounding_mode"):
        m.fail("with rounding has no counterpart")
    return m.make(op, [operand(x) for x in args], m.shape())


def added(op):
    def convert(m, args, named):
        x, y = (operand(a) for a in args[:2])
        by = named.get("alpha", args[2] if len(args) > 2 else 1)
        if by != 1:
            y = m.make("mul", [y, by], getattr(y, "shape", ())) if isinstance(y, Value) else y * by
        return m.make(op, [x, y], m.shape())
    return convert


def reversed_sub(m, args, named):
    return m.make("sub", [operand(args[1]), args[0]], m.shape())


def gelu(m, args, named):
    how = {} if named.get("approximate", "none") == "none" else {"approximate": "tanh"}
    return m.make("gelu", args[:1], m.shape(), how)


def softplus(m, args, named):
    if tuple(args[1:]) not in ((), (1,), (1, 20), (1.0, 20.0)):
        m.fail("with another beta or threshold has no counterpart")
    return m.make("softplus", args[:1], m.shape())


def where(m, args, named):
    return m.make("where", [operand(x) for x in args], m.shape())


def masked_fill(m, args, named):
    x, mask, value = args
    return m.make("where", [operand(mask), operand(value), x], m.shape())


def clamp(m, args, named):
    low, high = (list(args[1:]) + [None, None])[:2]
    low, high = named.get("min", low), named.get("max", high)
    bounds = {k: operand(v) for k, v in (("min", low), ("max", high)) if v is not None}
    return m.make("clamp", args[:1], m.shape(), bounds)


def dropout(m, args, named):
    x, p, train = args
    return m.make("dropout", [x, p], m.shape()) if train and p else x


def same(m, args, named):
    return args[0]


def detach(m, args, named):
    return m.make("detach", args[:1], m.shape())


# ---- shapes ----------------------------------------------------------------


def reshape(m, args, named):
    return m.make("reshape", [args[0], *m.shape()], m.shape())


def exchange(m, x, i, j):
    shape = list(x.shape)
    shape[i], shape[j] = shape[j], shape[i]
    return m.make("transpose", [x, min(i, j), max(i, j)], shape) if i != j else x


def transpose(m, args, named):
    x, rank = args[0], len(args[0].shape)
    i, j = args[1:] if len(args) > 1 else (-2, -1)
    return exchange(m, x, axis(i, rank), axis(j, rank))


def permute(m, args, named):
    x, want = args[0], [axis(i, len(args[0].shape)) for i in args[1]]
    order = list(range(len(want)))
    for i, dim in enumerate(want):
        j = order.index(dim)
        x = exchange(m, x, i, j)
        order[i], order[j] = order[j], order[i]
    return x


def unsqueeze(m, args, named):
    return m.make("unsqueeze", [args[0], axis(args[1], len(m.shape()))], m.shape())


def squeeze(m, args, named):
    if len(args) != 2 or not isinstance(args[1], int):
        return reshape(m, args, named)
    return m.make("squeeze", args, m.shape())


def expand(m, args, named):
    x = args[0]
    return x if x.shape == m.shape() else m.make("broadcast", [x, *m.shape()], m.shape())


def slice_(m, args, named):
    x, dim, start, end, step = (list(args) + [0, None, None, 1][len(args) - 1:])[:5]
    if step != 1:
        m.fail(f"with step {step} has no counterpart")
    size = m.shape()[axis(dim, len(x.shape))]
    if size == x.shape[dim]:
        return x
    start = start or 0
    start = max(0, start + x.shape[dim]) if start < 0 else start
    return m.make("slice", [x, start, size], m.shape(), {"dim": axis(dim, len(x.shape))})


def select(m, args, named):
    x, dim, i = args
    dim = axis(dim, len(x.shape))
    return m.make("select", [x, i if i >= 0 else i + x.shape[dim], dim], m.shape())


def concat(m, args, named):
    parts = [x for x in args[0] if 0 not in x.shape]
    if len(parts) == 1:
        return parts[0]
    dim = axis(args[1] if len(args) > 1 else 0, len(m.shape()))
    return m.make("concat", parts, m.shape(), {"dim": dim})


def stack(m, args, named):
    dim = axis(args[1] if len(args) > 1 else 0, len(m.shape()))
    parts = []
    for x in args[0]:
        shape = list(x.shape)
        shape.insert(dim, 1)
        parts.append(m.make("unsqueeze", [x, dim], shape))
    return m.make("concat", parts, m.shape(), {"dim": dim})


def split(m, args, named):
    x = args[0]
    dim = axis(args[2] if len(args) > 2 else named.get("dim", 0), len(x.shape))
    shapes = m.shapes()
    sizes = [s[dim] for s in shapes]
    parts = len(sizes) if len(set(sizes)) == 1 else tuple(sizes)
    if len(shapes) == 1:
        return (x,)
    return m.make("split", [x, parts], shapes, {"dim": dim}, count=len(shapes))


# ---- sums and products -----------------------------------------------------


def reduction(op):
    def convert(m, args, named):
        dims = args[1] if len(args) > 1 else named.get("dim")
        keep = args[2] if len(args) > 2 else named.get("keepdim", False)
        rank = len(args[0].shape)
        how = {}
        if dims not in (None, []):
            dims = [dims] if isinstance(dims, int) else dims
            dims = tuple(axis(d, rank) - rank for d in dims)
            how["dim"] = dims[0] if len(dims) == 1 else dims
        if keep:
            how["keep"] = True
        return m.make(op, args[:1], m.shape(), how)
    return convert


def softmax(op):
    def convert(m, args, named):
        x, rank = args[0], len(args[0].shape)
        dim = axis(args[1], rank) - rank
        return m.make(op, [x], m.shape(), {} if dim == -1 else {"dim": dim})
    return convert


def linear(m, args, named):
    x, w = args[:2]
    bias = args[2] if len(args) > 2 else None
    y = m.make("einsum", ["...k, fk -> ...f", x, w], m.shape())
    return y if bias is None else m.make("add", [y, bias], m.shape())


def addmm(m, args, named):
    """GPT-2's Conv1D: the weight is [in, out]."""
    bias, x, w = args
    return m.make("add", [m.make("matmul", [x, w], m.shape()), bias], m.shape())


def matmul(m, args, named):
    x, y = args
    if len(y.shape) != 2 and x.shape[:-2] != y.shape[:-2]:
        m.fail(f"of {list(x.shape)} and {list(y.shape)} has no counterpart")
    return m.make("matmul", [x, y], m.shape())


def embedding(m, args, named):
    table, ids = args[:2]
    if ids.const is not None:
        return rows(m, table, ids)
    return m.make("embedding", args[:2], m.shape())


def rows(m, table, ids):
    """Rows of known numbers, such as positions: consecutive ones are a slice."""
    flat = ids.const.reshape(-1)
    first, count = int(flat[0]), flat.numel()
    if bool((flat == first).all()):
        y = m.make("slice", [table, first, 1], (1, table.shape[1]), {"dim": 0})
        return m.make("reshape", [y] + [1] * (len(m.shape()) - 1) + [table.shape[1]],
                      (1,) * (len(m.shape()) - 1) + (table.shape[1],))
    if flat.tolist() != list(range(first, first + count)):
        m.fail("looks up known rows that are not consecutive")
    y = m.make("slice", [table, first, count], (count, table.shape[1]), {"dim": 0})
    return y if y.shape == m.shape() else m.make("reshape", [y, *m.shape()], m.shape())


def normalized(m, x, shape):
    if len(shape) != 1:
        m.fail(f"over {len(shape)} dims has no counterpart")


def layer_norm(m, args, named):
    x, shape, weight, bias, eps = (list(args) + [None, None, 1e-5][len(args) - 2:])[:5]
    normalized(m, x, shape)
    rows = x.shape[:-1] + (1,)
    mean = m.make("mean", [x], rows, {"dim": -1, "keep": True})
    part = m.make("sub", [x, mean], x.shape)
    spread = m.make("mean", [m.make("square", [part], x.shape)], rows,
                    {"dim": -1, "keep": True})
    y = m.make("mul", [part, m.make("rsqrt", [m.make("add", [spread, eps], rows)], rows)],
               x.shape)
    y = y if weight is None else m.make("mul", [y, weight], x.shape)
    return y if bias is None else m.make("add", [y, bias], x.shape)


def rms_norm(m, args, named):
    x, shape, weight, eps = (list(args) + [None, None][len(args) - 2:])[:4]
    normalized(m, x, shape)
    rows = x.shape[:-1] + (1,)
    spread = m.make("mean", [m.make("square", [x], x.shape)], rows, {"dim": -1, "keep": True})
    eps = 1.1920928955078125e-7 if eps is None else eps
    y = m.make("mul", [x, m.make("rsqrt", [m.make("add", [spread, eps], rows)], rows)], x.shape)
    return y if weight is None else m.make("mul", [y, weight], x.shape)


# ---- attention and losses --------------------------------------------------


def attention(m, args, named):
    q, k, v = args[:3]
    mask, drop, causal = (list(args[3:6]) + [None, 0.0, False][len(args) - 3:])[:3]
    mask = named.get("attn_mask", mask)
    how = masks.describe(m, mask, q.shape[-2], k.shape[-2], named.get("is_causal", causal))
    drop = named.get("dropout_p", drop)
    scale = named.get("scale")
    if scale is not None and abs(scale * q.shape[-1] ** 0.5 - 1) > 1e-6:
        how["scale"] = scale
    if drop:
        how["dropout"] = drop
    if len(q.shape) != 4:
        m.fail(f"of {len(q.shape)} dims has no counterpart")
    q, k, v = (exchange(m, x, 1, 2) for x in (q, k, v))
    shape = list(q.shape[:3]) + [v.shape[3]]
    return exchange(m, m.make("attention", [q, k, v], shape, how), 1, 2)


REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def cross_entropy(m, args, named):
    logits, labels = args[:2]
    weight, how, ignored, smooth = (list(args[2:]) + [None, 1, -100, 0.0][len(args) - 2:])[:4]
    if weight is not None:
        m.fail("with weights of classes has no counterpart")
    if len(labels.shape) + 1 != len(logits.shape) or len(logits.shape) != 2:
        m.fail("of other shapes than [n, classes] and [n] has no counterpart")
    extra = {}
    if ignored != -100:
        extra["ignore_index"] = ignored
    if REDUCTIONS[how] != "mean":
        extra["reduction"] = Word(REDUCTIONS[how])
    if smooth:
        extra["label_smoothing"] = smooth
    return m.make("cross_entropy", [logits, labels], m.shape(), extra)


def mse_loss(m, args, named):
    how = args[2] if len(args) > 2 else 1
    if how == 1:
        return m.make("mse_loss", args[:2], m.shape())
    part = m.make("sub", args[:2], args[0].shape)
    part = m.make("square", [part], part.shape)
    return part if how == 0 else m.make("sum", [part], m.shape())


def pad(m, args, named):
    """Only the shift of labels uses it (patterns.py)."""
    return m.make("pad", [args[0], tuple(args[1]), *args[3:4]], m.shape())


def complex_(op):
    return lambda m, args, named: m.make(op, args[:1], m.shape())


class Word(str):
    """A word of PDL, such as the value of reduction=sum."""


TABLE = {
    "add": added("add"), "sub": added("sub"), "rsub": reversed_sub,
    "gelu": gelu, "softplus": softplus, "where": where, "masked_fill": masked_fill,
    "clamp": clamp, "clamp_min": clamp, "dropout": dropout, "detach": detach,
    "contiguous": same, "clone": same, "alias": same, "to": same, "type_as": same,
    "_to_copy": same, "float": same, "identity": same,
    "view": reshape, "reshape": reshape, "flatten": reshape, "unflatten": reshape,
    "_unsafe_view": reshape, "transpose": transpose, "t": transpose, "permute": permute,
    "numpy_T": transpose, "unsqueeze": unsqueeze, "squeeze": squeeze, "expand": expand,
    "slice": slice_, "select": select, "cat": concat, "concat": concat, "stack": stack,
    "split": split, "chunk": split, "split_with_sizes": split, "unbind": None,
    "sum": reduction("sum"), "mean": reduction("mean"), "amax": reduction("max"),
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "_softmax": softmax("softmax"), "linear": linear, "addmm": addmm, "matmul": matmul,
    "bmm": matmul, "mm": matmul, "embedding": embedding, "layer_norm": layer_norm,
    "rms_norm": rms_norm, "scaled_dot_product_attention": attention,
    "cross_entropy_loss": cross_entropy, "mse_loss": mse_loss, "constant_pad_nd": pad,
    "pad": pad, "view_as_complex": complex_("view_as_complex"),
    "view_as_real": complex_("view_as_real"),
}


def convert(name, node, args, named):
    """(result, statements) of an operator; Unknown if PDL has none for it."""
    m = Maker(name, node)
    if name.endswith("_") and not name.startswith("_"):
        m.fail("changes a tensor in place")
    if name in PLAIN:
        out = plain(m, PLAIN[name], args, named)
    elif TABLE.get(name):
        out = TABLE[name](m, args, named)
    else:
        m.fail("has no counterpart in PDL")
    return out, m.stmts
