"""The results of the model's forward, of which PDL takes at most 8."""

import contextlib
import functools
from unittest import mock

import torch
from torch.utils import _pytree as pytree

MOST = 8


def is_plain(x):
    return x is None or isinstance(x, (torch.Tensor, int, float, str, torch.dtype, torch.device))


@contextlib.contextmanager
def without_objects(model):
    """Leaves objects that torch.export does not know, such as a cache of keys and values, out
    of the results of the model."""
    forward = model.forward

    @functools.wraps(forward)
    def plain(*args, **kwargs):
        return pytree.tree_map(lambda x: x if is_plain(x) else None, forward(*args, **kwargs))

    with mock.patch.object(model, "forward", plain):
        yield


def limit(body):
    """Leaves out the results after the eighth. Returns warnings."""
    count = len(body.outputs)
    body.outputs = body.outputs[:MOST]
    return [f"the model returns {count} values: the file has the loss and the {MOST - 1} "
            "values after it"] if count > MOST else []
