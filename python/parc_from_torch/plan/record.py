"""Runs a parallelization function of PyTorch and records what it asks for.

    recording = record(parallelize, model)

The function is the user's own, as written for torchrun or for Lightning's
ModelParallelStrategy. While it runs, parallelize_module, fully_shard, FSDP, DDP,
checkpoint_wrapper, DeviceMesh and the calls of torch.distributed are replaced.
No process group and no GPU are needed, and the model is the same afterwards.
"""
import contextlib
import inspect
import os
import traceback

import torch
import torch.distributed as dist
import torch.distributed._composable as composable
from torch import nn
from torch.distributed import device_mesh, fsdp, tensor
from torch.distributed._composable.replicate import replicate as replicate_ddp
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from torch.distributed.tensor.parallel import parallelize_module
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from .finish import finish
from .lightning import from_strategy
from .recorded_mesh import ORDER, Group, known_kind, kind_of, words
from .recorders import DTYPES, RestartWithMesh, Session, silent
from .recording import RecordError
from .restore import ModelState, replaced

ATTEMPTS = 16           # runs, each with one more name of an axis
DEFAULT_AXES = ("dp", "tp")
DEFAULT_SIZE = 2
# The default name of the other axis, if one of these names is asked for.
PARTNERS = {"tensor_parallel": ("dp", "data_parallel"),
            "data_parallel": ("tp", "tensor_parallel")}


def record(function, model, world=8, arguments=None):
    """Runs `function(model, mesh)` or `function(model)`; returns the Recording.
    In place of a function it takes a ModelParallelStrategy or FSDPStrategy of
    Lightning.

    world:     the number of ranks that torch.distributed reports
    arguments: values by name for further parameters of the function

    A mesh parameter gets a mesh with the axes that the function asks for, of 2
    ranks each; a parameter such as `tp_mesh` gets the mesh of that axis. Raises
    RecordError if the function raises an error or needs other arguments.
    """
    if not callable(function):
        function = _strategy(function)
    parameters = _parameters(function, arguments or {})
    names = _first_names(parameters)
    settled = False
    for _ in range(ATTEMPTS):
        session = Session(model, world)
        try:
            more = _attempt(session, function, parameters, names, settled,
                            arguments or {})
        except RestartWithMesh as restart:
            names, settled = restart.names, True
            continue
        if more is None:
            return session.recording
        names = more
    raise RecordError(f"{_name(function)} asks for more names of mesh axes than "
                      f"{ATTEMPTS}")


def _attempt(session, function, parameters, names, settled, arguments):
    """One run with axes of these names; `settled`: the function uses them as one
    mesh. Returns the names of the next run's axes, or None if the session is
    complete."""
    state = ModelState(session.model)
    problem = None
    try:
        with replaced(function, _pairs(session), _members(session),
                      _environment(session.world)), \
                torch.random.fork_rng(devices=[]):
            mesh = session.Mesh.create("cuda", [DEFAULT_SIZE] * len(names), names,
                                       default=True)
            mesh.settled = settled
            try:
                function(session.model,
                         **_values(parameters, mesh, arguments))
            except Exception as error:      # of the user's code: reported below
                problem = error
        if session.missing is not None:
            asked = {a.name for a in mesh.axes() if a.asked}
            return _with_name(names, asked, session.missing)
        if problem is None:
            finish(session)
    finally:
        overwritten = state.restore()
    if problem is not None:
        raise RecordError(_failure(function, problem)) from problem
    if overwritten:
        session.warn("the function overwrites values of " + ", ".join(overwritten))
    return None


# Parameters of the function

def _strategy(thing):
    function = from_strategy(thing)
    if function is None:
        raise RecordError(f"an object of type {type(thing).__name__} is neither "
                          "a function nor a strategy of Lightning")
    return function


def _name(function):
    return getattr(function, "__name__", None) or \
        getattr(getattr(function, "func", None), "__name__", "the function")


def _is_mesh(parameter, position):
    if parameter.default is None:
        return False
    return ("mesh" in parameter.name.lower()
            or "DeviceMesh" in str(parameter.annotation)
            or position == 0 and parameter.default is parameter.empty)


def _parameters(function, arguments):
    """The parameters of the function after the model that get a mesh."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise RecordError(f"{_name(function)} has no signature: {error}") from error
    found = [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not found:
        raise RecordError(f"{_name(function)} takes no model")
    meshes = []
    for position, parameter in enumerate(found[1:]):
        if parameter.name in arguments:
            continue
        if _is_mesh(parameter, position):
            meshes.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise RecordError(
                f"{_name(function)} needs a value of '{parameter.name}': give it "
                "in `arguments`, or wrap the function with functools.partial")
    return meshes


def _axis_of(parameter):
    """The axis that the name of a parameter says: tp of tp_mesh. None for the
    whole mesh."""
    left = [w for w in words(parameter) if w not in ("mesh", "device", "d")]
    name = "_".join(left)
    return name if left and known_kind(name) else None


def _first_names(parameters):
    said = [name for name in map(_axis_of, parameters) if name]
    return tuple(sorted(said, key=lambda n: ORDER.index(kind_of(n)))) or DEFAULT_AXES


def _values(parameters, mesh, arguments):
    values = dict(arguments)
    for parameter in parameters:
        name = _axis_of(parameter)
        known = name in [d.name for d in mesh.dims]
        values[parameter] = mesh[name] if known else mesh
    return values


def _with_name(names, asked, name):
    """The axes with one of this name. It takes the place of the axis of its kind
    that the function has not asked for, if there is one."""
    names = list(names)
    old, new = PARTNERS.get(name, (None, None))
    if old in names and old not in asked:
        names[names.index(old)] = new
    same = [n for n in names if kind_of(n) == kind_of(name) and n not in asked]
    if same:
        names[names.index(same[0])] = name
    else:
        names.append(name)
    return tuple(sorted(names, key=lambda n: ORDER.index(kind_of(n))))


def _failure(function, error):
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(
        (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(torch.__file__)))]
    where = ""
    if own:
        where = f" at {os.path.basename(own[-1].filename)}:{own[-1].lineno}"
    return (f"{_name(function)} failed while it was recorded: "
            f"{type(error).__name__}: {error}{where}")


# Replacements

def recorded_class(name, call, session):
    """A class whose call records, and of which each recorded module is an
    instance. Its other attributes accept calls and do nothing."""
    def attribute(cls, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return silent(contextlib.nullcontext())

    kind = type("Recorded", (type,), {
        "__call__": lambda cls, *args, **kwargs: call(*args, **kwargs),
        "__instancecheck__": lambda cls, x: id(x) in session.wrapped,
        "__getattr__": attribute})
    return kind(name, (), {})


def _pairs(session):
    """(original, replacement) of functions and classes."""
    def compile_nothing(model=None, **options):
        return model if model is not None else lambda function: function

    def composable_checkpoint(module, **options):
        return session.checkpoint_wrapper(module,
                                          context_fn=options.get("context_fn"))

    return [
        (parallelize_module, session.parallelize_module),
        (tensor.distribute_tensor, session.distribute_tensor),
        (tensor.distribute_module, session.distribute_module),
        (device_mesh.init_device_mesh, session.init_device_mesh),
        (device_mesh.DeviceMesh, session.Mesh),
        (fsdp.fully_shard, session.fully_shard),
        (fsdp.FSDPModule, recorded_class("FSDPModule", None, session)),
        (fsdp.register_fsdp_forward_method, silent()),
        (fsdp.FullyShardedDataParallel,
         recorded_class("FullyShardedDataParallel", session.fsdp1, session)),
        (nn.parallel.DistributedDataParallel,
         recorded_class("DistributedDataParallel", session.ddp, session)),
        (replicate_ddp, session.replicate),
        (composable.checkpoint, composable_checkpoint),
        (wrappers.checkpoint_wrapper, session.checkpoint_wrapper),
        (wrappers.apply_activation_checkpointing,
         session.apply_activation_checkpointing),
        (create_selective_checkpoint_contexts, session.selective_contexts),
        (torch.compile, compile_nothing),
        *_process_pairs(session.world),
    ]


def _process_pairs(world):
    """Questions about devices, ranks and groups, as rank 0 would answer them."""
    return [
        (torch.cuda.set_device, silent()),
        (torch.cuda.current_device, silent(0)),
        (torch.cuda.device_count, silent(world)),
        (dist.init_process_group, silent()),
        (dist.destroy_process_group, silent()),
        (dist.is_initialized, silent(True)),
        (dist.barrier, silent()),
        (dist.get_rank, silent(0)),
        (dist.get_world_size,
         lambda group=None: group.size() if isinstance(group, Group) else world),
        (dist.new_group, lambda *args, **kwargs: Group([], world)),
        (dist.get_backend, silent("nccl")),
    ]


def _members(session):
    """Methods of modules that would move or compile the model."""
    def cast(dtype):
        if dtype in (torch.bfloat16, torch.float16):
            session.casts.add(DTYPES[dtype])

    def to(module, *args, **kwargs):
        for value in (*args, *kwargs.values()):
            cast(value)
        return module

    def fixed(dtype):
        def method(module, *args, **kwargs):
            cast(dtype)
            return module
        return method

    return [(nn.Module, "to", to), (nn.Module, "cuda", fixed(None)),
            (nn.Module, "compile", fixed(None)),
            (nn.Module, "bfloat16", fixed(torch.bfloat16)),
            (nn.Module, "half", fixed(torch.float16))]


def _environment(world):
    return [("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", str(world)),
            ("LOCAL_WORLD_SIZE", str(world))]
