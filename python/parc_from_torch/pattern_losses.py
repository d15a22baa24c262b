"""Replaces flattened and shifted operands of losses.

    cross_entropy(reshape(x, ..), reshape(labels, ..))    cross_entropy(x, labels)
    cross_entropy(x[:, :-1], labels[:, 1:])               the same: parc's labels are
                                                          the next tokens already
"""

from .body import Value
from .rewriter import made_by, readers

IGNORED = -100


def flat_loss(w, s):
    """Logits and labels that were flattened for torch. The loss of each token has
    torch's shape then."""
    logits, labels = s.args
    a, b = made_by(logits, "reshape", "merge_heads"), made_by(labels, "reshape", "merge_heads")
    if not a or not b or a.args[0].shape[:-1] != b.args[0].shape or \
            a.args[0].shape[-1] != logits.shape[-1]:
        return None
    shape = s.outs[0].shape
    if s.named.get("reduction") != "none":
        return w.make(s.op, [a.args[0], b.args[0]], shape, dict(s.named))
    y = w.make(s.op, [a.args[0], b.args[0]], b.args[0].shape, dict(s.named))
    return w.make("reshape", [y, *shape], shape)


def only_loss(body, x):
    """Whether moves of a value lead to one label of a loss, and nowhere else."""
    found = readers(body, x)
    if len(found) != 1 or found[0] == "output":
        return False
    s = found[0]
    if s.op == "cross_entropy":
        return s.args[1] is x and s.named.get("ignore_index", IGNORED) == IGNORED
    return s.op in ("reshape", "slice", "pad", "float") and s.op != "float" and \
        only_loss(body, s.outs[0])


def is_labels(w, x):
    """Whether a value is an input of the model that the loss alone reads."""
    return not w.body.path and isinstance(x, Value) and x in w.body.inputs and \
        only_loss(w.body, x)


def padded_labels(w, s):
    """pad(labels, (0, 1), -100)[1:]: labels that the model shifts by one."""
    padded = made_by(s.args[0], "pad")
    if not padded:
        return None
    x, widths, value, mode = padded.args
    dim, rank = s.named.get("dim", -1), len(x.shape)
    if widths != (0, 1) or mode != "constant" or value != IGNORED or rank != 2 or \
            dim % rank != rank - 1 or s.args[1] != 1 or s.args[2] != x.shape[-1] or \
            not is_labels(w, x):
        return None
    x.shifted = True
    return x


def shifted_loss(w, s):
    """The logits without the last token, and the labels without the first."""
    logits, labels = (made_by(x, "slice") for x in s.args)
    if not logits or not labels or s.named.get("reduction", "mean") == "none":
        return None
    x, y = logits.args[0], labels.args[0]
    if len(x.shape) != 3 or len(y.shape) != 2 or x.shape[:2] != y.shape:
        return None
    size = y.shape[1] - 1
    if logits.args[1:] != [0, size] or labels.args[1:] != [1, size] or \
            logits.named.get("dim") != 1 or labels.named.get("dim") != 1 or \
            not is_labels(w, y):
        return None
    y.shifted = True
    return w.make(s.op, [x, y], s.outs[0].shape, dict(s.named))


PATTERNS = {"cross_entropy": [flat_loss, shifted_loss], "slice": [padded_labels]}
