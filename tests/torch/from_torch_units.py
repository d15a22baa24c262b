"""Units of imported models: those of parc's execution plan are those that PyTorch makes
of the same functions, in a process group without communication (for imports.py)."""
import contextlib
import inspect
import re
import warnings
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel as FSDP

SHAPES = {1: (64,), 2: (8, 8)}
WRAPPERS = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


def plain(path):
    return ".".join(s for s in path.split(".") if s not in WRAPPERS)


@contextlib.contextmanager
def process_group(function):
    """A group of 64 ranks, and CPUs in place of GPUs."""
    construct = FSDP.__init__

    def mesh_of_cpus(device, shape, **options):
        return device_mesh.init_device_mesh("cpu", shape, **options)

    def on_cpus(self, *args, **options):
        construct(self, *args, **{"device_id": torch.device("cpu"), **options})

    dist.init_process_group("fake", rank=0, world_size=64)
    names = function.__globals__
    meshes = {"init_device_mesh": mesh_of_cpus} if "init_device_mesh" in names else {}
    try:
        with mock.patch.dict(names, meshes), mock.patch.object(FSDP, "__init__", on_cpus), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        dist.destroy_process_group()


def of_fsdp2(module, names):
    group = module._get_fsdp_state()._fsdp_param_group
    return [f"{names[id(i.module)]}.{i.param_name}"
            for i in (p._module_info for p in group.fsdp_params)] if group else []


def of_fsdp1(module, names):
    handle = module._handle
    return [f"{names[id(i.module)]}.{i.param_name}"
            for i in handle.flat_param._param_infos] if handle else []


def of_torch(function, model, axes):
    """The sorted names of each unit's parameters. `axes`: of the mesh that the function
    takes, if it takes one."""
    with process_group(function):
        mesh = [device_mesh.init_device_mesh("cpu", SHAPES[len(axes)], mesh_dim_names=axes)] \
            if len(inspect.signature(function).parameters) > 1 else []
        model = function(model, *mesh) or model
        names = {id(m): plain(n) for n, m in model.named_modules()}
        found = [of_fsdp2(m, names) if isinstance(m, FSDPModule) else of_fsdp1(m, names)
                 for m in model.modules() if isinstance(m, (FSDPModule, FSDP))]
    return sorted(sorted(n.strip(".") for n in unit) for unit in found if unit)


def of_parc(plan, parameters):
    """The same of the execution plan in JSON. A unit of an array's elements is a unit for
    each of them."""
    found = {}
    for p in plan["params"]:
        pattern = re.escape(p["name"]).replace(r"\*", r"(\d+)")
        for name in parameters:
            match = re.fullmatch(pattern, name)
            if match and p["unit"]:
                key = p["unit"], match.groups()[:p["unit"].count("*")]
                found.setdefault(key, []).append(name)
    return sorted(sorted(names) for names in found.values())
