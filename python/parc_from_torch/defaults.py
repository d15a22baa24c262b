"""Functions for `record` for models that come without one of their own."""
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed import fsdp
from torch.distributed.tensor import Replicate, parallel

# Styles of transformers' tp_plan. None: parc does the same without a style.
STYLES = {
    "colwise": parallel.ColwiseParallel(),
    "colwise_gather_output": parallel.ColwiseParallel(output_layouts=Replicate()),
    "colwise_rep": parallel.ColwiseParallel(output_layouts=Replicate()),
    "rowwise": parallel.RowwiseParallel(),
    "rowwise_rep": parallel.RowwiseParallel(input_layouts=Replicate()),
    "rowwise_split_input": parallel.RowwiseParallel(input_layouts=Replicate()),
    "embedding_rowwise": parallel.RowwiseParallel(input_layouts=Replicate()),
    "embedding_colwise": parallel.ColwiseParallel(output_layouts=Replicate()),
    "sequence_parallel": parallel.SequenceParallel(),
    "replicated_with_grad_allreduce": None,
    "replicate": None,
}


def plain_fsdp(model, dp_mesh):
    """FSDP: a unit for each element of a ModuleList, and one for the rest."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            for element in module:
                fsdp.fully_shard(element, mesh=dp_mesh)
    fsdp.fully_shard(model, mesh=dp_mesh)


def transformers_plan(model, mesh):
    """The tensor parallelism that a model of the package transformers suggests in
    its tp_plan, and FSDP. Styles without a counterpart become warnings. A tp_plan
    also names modules that only other sizes of the model have."""
    names = [n for n, _ in (*model.named_modules(), *model.named_parameters())]
    for path, name in (getattr(model, "tp_plan", None) or {}).items():
        if not any(fnmatchcase(n, path) for n in names):
            continue
        style = STYLES[name] if name in STYLES else _unknown(name)
        if style is not None:
            parallel.parallelize_module(model, mesh["tp"], {path: style})
    plain_fsdp(model, mesh["dp"])


def _unknown(name):
    return type(name, (parallel.ParallelStyle,), {"_apply": None})()
