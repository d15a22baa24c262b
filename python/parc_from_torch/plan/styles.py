"""Reads the attributes of PyTorch's styles of tensor parallelism."""
import inspect

from torch import nn
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, PrepareModuleInputOutput,
    PrepareModuleOutput, RowwiseParallel, SequenceParallel)

from .recording import Style


def layout(placement):
    """The layout in PDL of a placement or of None; None if PDL has none."""
    if placement is None:
        return "none"
    if type(placement) is Replicate:
        return "Replicate"
    if type(placement) is Shard:
        return f"Shard({placement.dim})"
    if type(placement) is Partial and placement.reduce_op == "sum":
        return "Partial"
    return None


def layouts(placements):
    """Layouts of one placement or of a sequence of them."""
    if placements is None:
        return []
    if not isinstance(placements, (tuple, list)):
        placements = (placements,)
    return [layout(p) for p in placements]


def _unlike(found, default):
    return [] if found == [default] else found


def _colwise(style, module):
    return (_unlike(layouts(style.input_layouts), "Replicate"),
            _unlike(layouts(style.output_layouts), "Shard(-1)"))


def _rowwise(style, module):
    # The default Shard(-1) is meant for Linear. An Embedding's ids are
    # replicated, which is the default of PDL.
    return (_unlike(layouts(style.input_layouts), "Shard(-1)"),
            _unlike(layouts(style.output_layouts), "Replicate"))


def _sequence(style, module):
    return _unlike(layouts(style.sequence_sharding), "Shard(1)"), []


def _positional_inputs(style, module):
    pairs = list(zip(layouts(style.input_layouts),
                     layouts(style.desired_input_layouts)))
    if not style.input_kwarg_layouts:
        return pairs
    names = [p.name for p in inspect.signature(module.forward).parameters.values()
             if p.kind is not p.VAR_KEYWORD]
    for name, arrives in style.input_kwarg_layouts.items():
        desired = style.desired_input_kwarg_layouts.get(name)
        at = names.index(name) if name in names else len(pairs)
        pairs += [("none", "none")] * (at + 1 - len(pairs))
        pairs[at] = (layout(arrives), layout(desired))
    return pairs


def _output_pairs(style):
    return list(zip(layouts(style.output_layouts),
                    layouts(style.desired_output_layouts)))


def _prepare_both(style, module):
    return (_positional_inputs(style.prepare_module_input, module),
            _output_pairs(style.prepare_module_output))


READERS = {
    ColwiseParallel: _colwise,
    RowwiseParallel: _rowwise,
    SequenceParallel: _sequence,
    PrepareModuleInput: lambda style, module: (
        _positional_inputs(style, module), []),
    PrepareModuleOutput: lambda style, module: ([], _output_pairs(style)),
    PrepareModuleInputOutput: _prepare_both,
}


def read_style(style, module, path, axis, warn):
    """The Style of a ParallelStyle on a module, or None after a warning."""
    if type(style).__name__ == "ExpertParallel":
        return Style(path, axis, "ExpertParallel")
    kind = next((c for c in type(style).__mro__ if c in READERS), None)
    if kind is None:
        warn(f"{{}}: PDL has no style {type(style).__name__}", path)
        return None
    if kind is not type(style):
        warn(f"{{}}: {type(style).__name__} is recorded as {kind.__name__}, without "
             "what the subclass changes", path)
    if kind is ColwiseParallel and not isinstance(module, (nn.Linear, nn.Embedding)):
        warn(f"{{}}: ColwiseParallel on a {type(module).__name__}", path)
    inputs, outputs = READERS[kind](style, module)
    if _has_none(inputs) or _has_none(outputs):
        warn(f"{{}}: {kind.__name__} has a placement other than Replicate, Shard and "
             "Partial", path)
        return None
    return Style(path, axis, kind.__name__, inputs, outputs)


def _has_none(found):
    return any(x is None or (isinstance(x, tuple) and None in x) for x in found)
