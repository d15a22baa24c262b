"""ATen operators of attention and losses."""

import torch

from ..ir.builder import is_index
from ..ir.literals import Word
from . import masks
from .elementwise import LOWEST
from .reference import IGNORED
from .shapes import copied, exchange


def attention(m, args, named):
    q, k, v = args[:3]
    mask, drop, causal = (list(args[3:6]) + [None, 0.0, False][len(args) - 3:])[:3]
    mask = named.get("attn_mask", mask)
    how = masks.describe(mask, q.shape[-2], k.shape[-2], named.get("is_causal", causal))
    drop = named.get("dropout_p", drop)
    scale = named.get("scale")
    if how is None:
        return written_out(m, (q, k, v), mask, drop, scale)
    if scale is not None and abs(scale * q.shape[-1] ** 0.5 - 1) > 1e-6:
        how["scale"] = scale
    if drop:
        how["dropout"] = drop
    rank = len(q.shape)
    if rank not in (3, 4) or any(len(x.shape) != rank or x.shape[:-3] != q.shape[:-3]
                                 for x in (k, v)):
        m.fail(f"of {list(q.shape)} and {list(k.shape)} has no counterpart",
               "use [batch, heads, sequence, dim]")
    if rank == 3:  # one head of the sequences
        q, k, v = (m.make("unsqueeze", [x, 2], x.shape[:2] + (1,) + x.shape[2:])
                   for x in (q, k, v))
        y = m.make("attention", [q, k, v], q.shape[:3] + v.shape[3:], how)
        return m.make("squeeze", [y, 2], m.shape())
    q, k, v = (exchange(m, x, 1, 2) for x in (q, k, v))
    shape = list(q.shape[:3]) + [v.shape[3]]
    return exchange(m, m.make("attention", [q, k, v], shape, how), 1, 2)


def written_out(m, operands, mask, drop, scale):
    """Attention with a mask that depends on an input or a parameter, or that PDL's attention
    does not have. pattern_attention.py finds out what it is."""
    q, k, v = operands
    group = q.shape[-3] // k.shape[-3] if len(q.shape) == 4 else 0
    if not group or q.shape[:-3] != k.shape[:-3]:
        m.fail("with this mask has a counterpart for [batch, heads, sequence, dim] only")
    k, v = (copied(m, x, 1, group, True) for x in (k, v))
    turned = exchange(m, k, 2, 3)
    shape = q.shape[:3] + k.shape[2:3]
    scores = m.make("matmul", [q, turned], shape)
    scores = m.make("mul", [scores, q.shape[-1] ** -0.5 if scale is None else scale], shape)
    if mask.dtype is torch.bool:
        scores = m.make("where", [mask, scores, LOWEST], shape)
    else:
        scores = m.make("add", [scores, mask], shape)
    weights = m.make("softmax", [scores], shape)
    weights = m.make("dropout", [weights, drop], shape) if drop else weights
    return m.make("matmul", [weights, v], m.shape())


REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def cross_entropy(m, args, named):
    logits, labels = args[:2]
    weight, how, ignored, smooth = (list(args[2:]) + [None, 1, IGNORED, 0.0][len(args) - 2:])[:4]
    if weight is not None:
        m.fail("with weights of classes has no counterpart")
    if len(labels.shape) + 1 != len(logits.shape) or len(logits.shape) != 2:
        m.fail("of other shapes than [n, classes] and [n] has no counterpart",
               "flatten the logits and the labels")
    if not is_index(labels) and not was_padded(labels):
        m.fail("of labels that are computed has no counterpart",
               f"compute the labels in the data, with {IGNORED} for tokens without a loss")
    extra = {}
    if ignored != IGNORED:
        extra["ignore_index"] = ignored
    if REDUCTIONS[how] != "mean":
        extra["reduction"] = Word(REDUCTIONS[how])
    if smooth:
        extra["label_smoothing"] = smooth
    return m.make("cross_entropy", [logits, labels], m.shape(), extra)


def was_padded(labels):
    """Whether labels are moved parts of padded ones; pattern_losses.py judges these."""
    stmt = labels.stmt
    while stmt and stmt.op in ("reshape", "slice", "squeeze", "unsqueeze"):
        stmt = stmt.args[0].stmt
    return bool(stmt) and stmt.op == "pad_integers"


def nll_loss(m, args, named):
    """The loss of log_softmax is the cross entropy."""
    made, moved = args[0].stmt, None
    if made and made.op == "reshape":
        made, moved = made.args[0].stmt, made
    if made and made.op == "call":  # the log_softmax of a log_softmax is itself; verify.py
        return cross_entropy(m, args, named)  # finds out if the module computes no such
    if not made or made.op != "log_softmax" or made.named:
        m.fail("has no counterpart unless its input is a log_softmax",
               "use torch.nn.functional.cross_entropy")
    logits = made.args[0]
    if moved:
        if logits.shape[-1] != args[0].shape[-1]:
            m.fail("of classes that are flattened has no counterpart")
        logits = m.make("reshape", [logits, *args[0].shape], args[0].shape)
    return cross_entropy(m, [logits, *args[1:]], named)


def reduced(m, losses, how):
    """A loss of each element, its mean or its sum."""
    return losses if how == 0 else m.make(REDUCTIONS[how], [losses], m.shape())


def reduction_of(args, named, at=2):
    return args[at] if len(args) > at else named.get("reduction", 1)


def mse_loss(m, args, named):
    how = reduction_of(args, named)
    if how == 1 and args[0].shape == args[1].shape:
        return m.make("mse_loss", args[:2], m.shape())
    return reduced(m, m.map("square", m.map("sub", *args[:2])), how)


def l1_loss(m, args, named):
    return reduced(m, m.map("abs", m.map("sub", *args[:2])), reduction_of(args, named))


def huber(smooth):
    """Quadratic below `edge`, linear above; smooth_l1_loss divides by the edge."""
    def convert(m, args, named):
        edge = args[3] if len(args) > 3 else named.get("beta" if smooth else "delta", 1.0)
        far = m.map("abs", m.map("sub", *args[:2]))
        near = m.map("mul", m.map("square", far), 0.5 / edge if smooth else 0.5)
        line = m.map("sub", far, 0.5 * edge)
        line = line if smooth else m.map("mul", line, edge)
        losses = m.map("where", m.map("<", far, edge), near, line)
        return reduced(m, losses, reduction_of(args, named))
    return convert


def binary_cross_entropy(m, args, named):
    """softplus(x) - x target."""
    x, target = args[:2]
    if any(a is not None for a in args[2:4]):
        m.fail("with weights has no counterpart")
    losses = m.map("sub", m.map("softplus", x), m.map("mul", x, target))
    return reduced(m, losses, reduction_of(args, named, 4))


TABLE = {
    "scaled_dot_product_attention": attention, "cross_entropy_loss": cross_entropy,
    "nll_loss": nll_loss, "nll_loss_nd": nll_loss, "mse_loss": mse_loss, "l1_loss": l1_loss,
    "smooth_l1_loss": huber(True), "huber_loss": huber(False),
    "binary_cross_entropy_with_logits": binary_cross_entropy,
}
