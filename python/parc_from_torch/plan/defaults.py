"""Functions for `record` for models that come without one of their own."""
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed import fsdp
from torch.distributed.tensor import Replicate, parallel


class ExpertParallel(parallel.ParallelStyle):
    """Experts on different ranks. styles.py knows the name, which torchtitan has too."""

    def _apply(self, module, device_mesh):
        return module


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
    "moe_tp_experts": ExpertParallel(),
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
    plan = dict(getattr(model, "tp_plan", None) or {})
    modules = [n for n, _ in model.named_modules()]
    experts = [p for p in modules if p.endswith(".experts") and calls_experts(model, p)]
    plan |= {p: "moe_tp_experts" for p in experts}
    for path, name in plan.items():
        if not any(fnmatchcase(n, path) for n in modules) or name == "moe_tp_experts" and \
                path not in experts:
            continue
        style = STYLES[name] if name in STYLES else _unknown(name)
        if style is not None:
            parallel.parallelize_module(model, mesh["tp"], {path: style})
    plain_fsdp(model, mesh["dp"])


def calls_experts(model, path):
    """Whether a module has the matrices of all experts, as transformers' modules of experts."""
    return any(p.dim() == 3 for p in model.get_submodule(path).parameters(recurse=False))


def _unknown(name):
    return type(name, (parallel.ParallelStyle,), {"_apply": None})()
