"""Replaces flattened and shifted operands of losses.

    cross_entropy(reshape(x, ..), reshape(labels, ..))    cross_entropy(x, labels)
    cross_entropy(x[:, :-1], labels[:, 1:])               the same: parc's labels are
                                                          the next tokens already
"""

from ..ir.body import Value
from ..ir.rewriter import made_by, readers
from ..operators.reference import IGNORED

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
    return s.op in ("reshape", "slice", "pad_integers") and only_loss(body, s.outs[0])


def is_label(body, x):
    """Whether moves of a value lead to a label of a loss."""
    return any(s != "output" and (
        s.op == "cross_entropy" and s.args[1] is x or
        s.op in ("reshape", "slice", "pad_integers") and is_label(body, s.outs[0]))
        for s in readers(body, x))


def is_labels(w, x):
    """Whether a value is an input of the model that the loss alone reads."""
    return not w.body.path and isinstance(x, Value) and x in w.body.inputs and \
        only_loss(w.body, x)


def pads_ignored(s):
    """Whether a statement adds one label without a loss after those of [b, s]."""
    return s.op == "pad_integers" and s.args[1:] == [0, 1] and \
        s.named == {"dim": -1, "value": IGNORED} and len(s.args[0].shape) == 2


def takes_rest(s, size):
    """Whether a statement takes `size` elements of the last of two dims, without the first
    one."""
    return s.op == "slice" and s.args[1:] == [1, size] and s.named.get("dim", -1) in (1, -1)


def padded_labels(w, s):
    """pad(labels, 0, 1)[:, 1:] or pad(labels[:, 1:], 0, 1): labels that the model shifts by
    one."""
    inner = made_by(s.args[0], "pad_integers", "slice")
    x = inner.args[0] if inner else None
    if not inner or not is_labels(w, x) or not (
            pads_ignored(inner) and takes_rest(s, x.shape[-1]) or
            pads_ignored(s) and takes_rest(inner, x.shape[-1] - 1)):
        return None
    x.shifted = True
    return x


def padded_numbers(w, s):
    """Integers that are padded for another use than as labels are computed numbers."""
    if is_label(w.body, s.outs[0]):
        return None
    x = w.make("float", s.args[:1], s.args[0].shape)
    return w.make("pad", [x, *s.args[1:]], s.outs[0].shape, dict(s.named))


def part_of_padded(w, s):
    """A slice of what was padded, without the padding."""
    inner = made_by(s.args[0], "pad", "pad_integers")
    if not inner or "step" in s.named:
        return None
    (x, before, _), rank = inner.args, len(s.outs[0].shape)
    dim = s.named.get("dim", -1) % rank
    start, size = s.args[1] - before, s.args[2]
    if dim != inner.named["dim"] % rank or start < 0 or start + size > x.shape[dim]:
        return None
    if not start and size == x.shape[dim]:
        return x
    return w.make("slice", [x, start, size], s.outs[0].shape, {"dim": dim})


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


PATTERNS = {"cross_entropy": [flat_loss, shifted_loss],
            "slice": [padded_labels, part_of_padded],
            "pad_integers": [padded_labels, padded_numbers]}
