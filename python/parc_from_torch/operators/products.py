"""ATen operators that sum: reductions, matrix products, norms."""

from ..ir.body import Value
from ..ir.builder import axis, broadcast_shape, computed, number
from . import orders
from .shapes import exchange

# ---- reductions ------------------------------------------------------------


def dims_of(m, args, named, at=1):
    """(dims from the end or None for all, keep) of a reduction."""
    dims = args[at] if len(args) > at else named.get("dim")
    keep = args[at + 1] if len(args) > at + 1 else named.get("keepdim", False)
    if dims in (None, []) or not args[0].shape:
        return None, keep
    rank = len(args[0].shape)
    dims = [dims] if isinstance(dims, int) else dims
    return tuple(axis(d, rank) - rank for d in dims), keep


def reduce(m, op, x, dims, keep):
    """A reduction over dims, or over all of them."""
    rank = len(x.shape)
    left = range(-rank, 0) if dims is None else dims
    shape = [1 if i - rank in left else n for i, n in enumerate(x.shape)
             if keep or i - rank not in left]
    how = {} if dims is None else {"dim": dims[0] if len(dims) == 1 else dims}
    return m.make(op, [x], shape, {**how, "keep": True} if keep else how)


def reduction(op):
    def convert(m, args, named):
        return reduce(m, op, computed(m, args[0]), *dims_of(m, args, named))
    return convert


def is_detached(node):
    """Whether all readers of a node detach it."""
    def detaches(user):
        name = str(user.target)
        return "detach" in name or "getitem" in name and is_detached(user)
    return bool(node.users) and all(detaches(u) for u in node.users)


def largest(m, x, dims, keep):
    """The maximum. PDL's has no gradient, so the elements that equal it are summed;
    several share the gradient, as in torch."""
    if is_detached(m.node) or not x.dtype.is_floating_point:
        top = reduce(m, "max", x, dims, keep)
        return m.make("detach", [top], top.shape)
    top = reduce(m, "max", x, dims, True)
    hit = m.map("==", x, m.make("detach", [top], top.shape))
    total = reduce(m, "sum", m.map("where", hit, x, 0), dims, keep)
    return m.map("div", total, reduce(m, "sum", hit, dims, keep))


def extreme(smallest):
    def convert(m, args, named):
        x = computed(m, args[0])
        if len(args) > 1 and isinstance(args[1], Value):  # of two tensors
            return m.map("minimum" if smallest else "maximum", x, computed(m, number(args[1])))
        if any("getitem" in str(u.target) and u.args[1] == 1 and u.users for u in m.node.users):
            return orders.extreme_at(m, args, named, smallest)
        dims, keep = dims_of(m, args, named)
        x = m.map("neg", x) if smallest else x
        y = largest(m, x, dims, keep)
        y = m.map("neg", y) if smallest else y
        return (y, None) if isinstance(m.node.meta["val"], (tuple, list)) else y
    return convert


def spread_of(m, args, named):
    """The variance: PDL counts the elements, so that the number follows the sizes."""
    x = args[0]
    dims, keep = dims_of(m, args[:2] + args[3:4], named)
    less = named.get("correction", 1)
    if len(args) > 2 and isinstance(args[2], bool):
        less = int(args[2])
    if len(args) > 1 and isinstance(args[1], bool):
        dims, less = None, int(args[1])
    middle = reduce(m, "mean", x, dims, True)
    square = m.map("square", m.map("sub", x, middle))
    if not less:
        return reduce(m, "mean", square, dims, keep)
    how = {} if dims is None else {"dim": dims[0] if len(dims) == 1 else dims}
    count = m.make("sub", [m.make("count", [x], (), how), less], ())
    return m.make("div", [reduce(m, "sum", square, dims, keep), count], m.shape())


def deviation(m, args, named):
    return m.map("sqrt", spread_of(m, args, named))


def vector_norm(m, args, named):
    x, order = args[0], args[1] if len(args) > 1 else named.get("ord", named.get("p", 2))
    dims, keep = dims_of(m, args, named, 2)
    if order in (2, None):
        return m.map("sqrt", reduce(m, "sum", m.map("square", x), dims, keep))
    if order != 1:
        m.fail(f"of order {order} has no counterpart")
    return reduce(m, "sum", m.map("abs", x), dims, keep)


def counted(test):
    """Whether any or all elements are not 0."""
    def convert(m, args, named):
        x = computed(m, args[0])
        hits = m.map(test, x, 0)
        total = reduce(m, "sum", hits, *dims_of(m, args, named))
        return m.map(">" if test == "!=" else "==", total, 0)
    return convert


def nonzero(m, args, named):
    hits = m.map("!=", computed(m, args[0]), 0)
    return reduce(m, "sum", hits, *dims_of(m, args, named))


def softmax(op):
    def convert(m, args, named):
        x, rank = computed(m, args[0]), len(args[0].shape)
        dim = axis(args[1], rank) - rank
        return m.make(op, [x], m.shape(), {} if dim == -1 else {"dim": dim})
    return convert


def logsumexp(m, args, named):
    dims, keep = dims_of(m, args, named)
    if dims is None or len(dims) != 1:
        m.fail("over several dims has no counterpart", "flatten the dims")
    return reduce(m, "logsumexp", args[0], dims, keep)


# ---- products --------------------------------------------------------------


def linear(m, args, named):
    x, w = args[:2]
    bias = args[2] if len(args) > 2 else None
    if len(w.shape) != 2:
        m.fail(f"with a weight of {len(w.shape)} dims has no counterpart")
    y = m.make("einsum", ["...k, fk -> ...f", x, w], m.shape())
    return y if bias is None else m.make("add", [y, bias], m.shape())


def scaled_sum(m, x, product, named):
    """beta x + alpha product."""
    beta, alpha = named.get("beta", 1), named.get("alpha", 1)
    if alpha != 1:
        product = m.map("mul", product, alpha)
    if beta == 0:
        return product
    return m.make("add", [product, x if beta == 1 else m.map("mul", x, beta)], m.shape())


def addmm(m, args, named):
    """GPT-2's Conv1D: the weight is [in, out]."""
    x, a, b = args
    return scaled_sum(m, x, matmul(m, [a, b], {}), named)


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def without_ones(m, x):
    """The dims of a batch that have one element are left out: (x, kept dims)."""
    kept = [i for i, n in enumerate(x.shape) if n != 1 or i >= len(x.shape) - 2]
    if len(kept) == len(x.shape):
        return x, kept
    shape = [x.shape[i] for i in kept]
    return m.make("reshape", [x, *shape], shape), kept


def matmul(m, args, named):
    x, y = args
    if len(x.shape) >= 2 and (len(y.shape) == 2 or
                              len(y.shape) > 2 and x.shape[:-2] == y.shape[:-2]):
        return m.make("matmul", [x, y], m.shape())
    if len(x.shape) == 1 or len(y.shape) == 1:
        left = "k" if len(x.shape) == 1 else "...k"
        right = "k" if len(y.shape) == 1 else "...kn" if len(x.shape) == 1 else "kn"
        tail = "" if len(y.shape) == 1 else "n"
        lead = "..." if "..." in left + right else ""
        if lead and "..." not in left:  # each operand needs the dots
            letters = LETTERS[:len(y.shape) - 2]
            right, lead = letters + "kn", letters
        elif lead and "..." not in right:
            letters = LETTERS[:len(x.shape) - 1]
            left, lead = letters + "k", letters
        return m.make("einsum", [f"{left}, {right} -> {lead}{tail}", x, y], m.shape())
    rank = max(len(x.shape), len(y.shape)) - 2
    lead = broadcast_shape([Value(x.shape[:-2]), Value(y.shape[:-2])])
    forms, parts = [], []
    for v, ends in ((x, "xy"), (y, "yz")):
        first = rank - (len(v.shape) - 2)
        small, kept = without_ones(m, v)
        forms.append("".join(LETTERS[first + i] for i in kept if i < len(v.shape) - 2) + ends)
        parts.append(small)
    if any(c not in forms[0] + forms[1] for c in LETTERS[:rank]) or 1 in lead:
        m.fail(f"of {list(x.shape)} and {list(y.shape)} has no counterpart",
               "write it as torch.einsum")
    return m.make("einsum", [f"{forms[0]}, {forms[1]} -> {LETTERS[:rank]}xz", *parts],
                  m.shape())


def outer(m, args, named):
    """The products of all pairs of elements of two vectors."""
    x, y = (computed(m, v) for v in args)
    column = m.make("unsqueeze", [x, 1], x.shape + (1,))
    return m.make("mul", [column, y], m.shape())


def einsum(m, args, named):
    """The letters of PDL are a to z, and each occurs once in an operand."""
    text, parts = args[0].replace(" ", ""), list(args[1])
    left, _, right = text.partition("->")
    if "->" not in text:
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    free = iter(c for c in LETTERS if c not in text)
    for c in sorted({c for c in text if c.isupper()}):
        other = next(free, None) or m.fail("has more than 26 letters")
        left, right = left.replace(c, other), right.replace(c, other)
    forms = left.split(",")
    for form, x in zip(forms, parts):
        if any(form.count(c) > 1 for c in form if c.isalpha()):
            m.fail("repeats a letter, which has no counterpart")
    return batched(m, forms, right, parts) or m.make(
        "einsum", [", ".join(forms) + " -> " + right, *parts], m.shape())


def batched(m, forms, right, parts):
    """The matmul that an einsum is, such as bhid,bhjd->bhij, or None."""
    if len(forms) != 2 or len(forms[0]) < 3 or "." in right:
        return None
    x, y = forms
    lead, i, k = x[:-2], x[-2], x[-1]
    if len(y) != len(x) or y[:-2] != lead or right[:-1] != lead + i or right[-1] in x:
        return None
    if y[-2:] == k + right[-1]:
        return m.make("matmul", parts, m.shape())
    if y[-2:] != right[-1] + k:
        return None
    rank = len(x)
    turned = exchange(m, parts[1], rank - 2, rank - 1)
    return m.make("matmul", [parts[0], turned], m.shape())


# ---- norms -----------------------------------------------------------------


def normalized(m, shape):
    if len(shape) != 1:
        m.fail(f"over {len(shape)} dims has no counterpart", "normalize one dim")


def layer_norm(m, args, named):
    x, shape, weight, bias, eps = (list(args) + [None, None, 1e-5][len(args) - 2:])[:5]
    normalized(m, shape)
    part = m.map("sub", x, reduce(m, "mean", x, (-1,), True))
    power = reduce(m, "mean", m.map("square", part), (-1,), True)
    y = m.map("mul", part, m.map("rsqrt", m.map("add", power, eps)))
    y = y if weight is None else m.map("mul", y, weight)
    return y if bias is None else m.map("add", y, bias)


def rms_norm(m, args, named):
    x, shape, weight, eps = (list(args) + [None, None][len(args) - 2:])[:4]
    normalized(m, shape)
    power = reduce(m, "mean", m.map("square", x), (-1,), True)
    eps = 1.1920928955078125e-7 if eps is None else eps
    y = m.map("mul", x, m.map("rsqrt", m.map("add", power, eps)))
    return y if weight is None else m.map("mul", y, weight)


TABLE = {
    "sum": reduction("sum"), "mean": reduction("mean"), "amax": extreme(False),
    "amin": extreme(True), "max": extreme(False), "min": extreme(True), "var": spread_of,
    "std": deviation, "linalg_vector_norm": vector_norm, "norm": vector_norm,
    "any": counted("!="), "all": counted("=="), "count_nonzero": nonzero,
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "_softmax": softmax("softmax"), "_log_softmax": softmax("log_softmax"),
    "logsumexp": logsumexp, "linear": linear, "addmm": addmm, "baddbmm": addmm,
    "matmul": matmul, "bmm": matmul, "mm": matmul, "mv": matmul, "dot": matmul,
    "einsum": einsum, "outer": outer, "ger": outer, "layer_norm": layer_norm, "rms_norm": rms_norm,
}
