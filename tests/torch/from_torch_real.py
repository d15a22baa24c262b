"""Units of FSDP2 as PyTorch makes them, in a process group without communication,
for from_torch_plan.py."""
import contextlib
import inspect
from unittest import mock

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, OffloadPolicy

import from_torch_functions as f

# function, model, axes of the mesh that it takes
CASES = (
    (f.typical_fsdp2, f.Llama, ("dp_replicate", "dp_shard", "tp")),
    (f.flat_mesh, f.Llama, ("dp_shard", "cp")),
    (f.frozen, f.Llama, ("dp",)),
    (f.hybrid_fsdp2, f.Toy, ()),
    (f.fsdp2_and_tp, f.Toy, ()),
    (f.parallelize_feedforward, f.FeedForward, ("data_parallel", "tensor_parallel")),
)
SHAPES = {1: (8,), 2: (2, 4), 3: (2, 2, 2)}


@contextlib.contextmanager
def process_group():
    """A group of 8 ranks. Offload needs a GPU, and is replaced."""
    dist.init_process_group("fake", rank=0, world_size=8)
    try:
        with mock.patch.object(f, "CPUOffloadPolicy", OffloadPolicy):
            yield
    finally:
        dist.destroy_process_group()


def plain(path):
    return ".".join(s for s in path.split(".") if s != "_checkpoint_wrapped_module")


def units(function, model, axes):
    """Runs the function; returns the sorted names of each unit's parameters."""
    mesh = [init_device_mesh("cpu", SHAPES[len(axes)], mesh_dim_names=axes)] \
        if len(inspect.signature(function).parameters) > 1 else []
    function(model, *mesh)
    names = {id(m): plain(n) for n, m in model.named_modules()}
    groups = {}
    for module in model.modules():
        if isinstance(module, FSDPModule):
            group = module._get_fsdp_state()._fsdp_param_group
            if group is not None:
                groups[id(group)] = sorted(
                    f"{names[id(i.module)]}.{i.param_name}"
                    for i in (p._module_info for p in group.fsdp_params))
    return sorted(groups.values())


def recorded_units(recording):
    """The same of a Recording: a parameter is in the innermost unit."""
    owners = {p: u for u in recording.units for p in u.paths}
    found = {}
    for name in recording.parameters:
        inside = [p for p in owners if not p or name.startswith(p + ".")]
        if inside:
            unit = owners[max(inside, key=len)]
            found.setdefault(id(unit), []).append(name)
    return sorted(sorted(names) for names in found.values())
