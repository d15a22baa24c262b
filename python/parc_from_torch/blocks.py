"""The blocks plan and train of an imported model."""

import torch

from .ir.body import ImportFault
from .plan.defaults import plain_fsdp, transformers_plan
from .plan.plan_block import plan_block
from .plan.record import record
from .plan.recording import RecordError
from .plan.train_block import train_block
from .trace.argument_names import forward_names
from .trace.trace import bodies


def places(model, body):
    """Of each input of a module in PDL its place among the arguments of the forward."""
    names = forward_names(model.get_submodule(body.path))
    return [names.index(v.name) if v.name in names else i for i, v in enumerate(body.inputs)]


def class_names(writer, model, body):
    """{class: the name of its module in PDL} of the classes for which `every` means the
    same modules in PDL: a class whose bodies differ has several modules there, and the
    prelude's Linear may be several classes."""
    mine = {}
    for b in bodies(body):
        mine[b.path] = b.prelude[0] if b.prelude else writer.class_of.get(b.path, b.cls)
    kinds = {p: type(m).__name__
             for p, m in model.named_modules(remove_duplicate=False)}
    found = {}
    for path, kind in kinds.items():
        found.setdefault(kind, set()).add(mine.get(path))
    sources = {}
    for path, name in mine.items():
        sources.setdefault(name, set()).add(kinds[path])
    return {kind: name for kind, (name, *more) in ((k, tuple(v)) for k, v in found.items())
            if name and not more and len(sources[name]) == 1}


def blocks_of(writer, size, parallelize, optimizer):
    """The lines of the blocks, and the warnings."""
    base = writer.trace
    model, tree = base.model, list(writer.tree(base.body))
    arrays = {path: count for _, _, own in tree for path, count in own.items()}
    default = transformers_plan if getattr(model, "tp_plan", None) else plain_fsdp
    try:
        recording = record(parallelize or default, model)
    except RecordError as e:
        raise ImportFault([str(e)])
    inputs = {path: places(model, b) for path, b, _ in tree}
    plan, warnings = plan_block(recording, arrays, inputs=inputs,
                                rename=lambda path: writer.path_in(base.body, path),
                                classes=class_names(writer, model, base.body))
    made = optimizer(model) if optimizer else None
    several = isinstance(made, tuple) and all(
        isinstance(x, torch.optim.Optimizer) for x in made)
    made, scheduler = made if isinstance(made, tuple) and not several else (made, None)
    train, more = train_block(made or torch.optim.AdamW(model.parameters(), lr=3e-4),
                              scheduler, size.get("batch", 1), size.get("seq"),
                              recording.precision or "f32", None, recording.reduce,
                              model=model, arrays=arrays)
    return ["", *plan, "", *train], warnings + more
