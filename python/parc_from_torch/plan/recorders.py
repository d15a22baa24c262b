"""The functions that replace PyTorch's while a function is recorded.

A Session collects what they are called with. Modules are kept as objects until
the function returns: then their paths are known.
"""
import contextlib
import functools
from fnmatch import fnmatch

import torch
from torch import nn
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import (
    ModuleWrapPolicy, _recursive_wrap, lambda_auto_wrap_policy)
from torch.distributed.tensor.parallel import ParallelStyle

from .keep import kept_results
from .recorded_mesh import RecordedMesh, kind_of
from .recording import Recording
from .styles import layout

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

# Strategies of FSDP: the options of a unit, and whether the mesh has two axes.
STRATEGIES = {
    "FULL_SHARD": ({}, False),
    "SHARD_GRAD_OP": ({"strategy": "shard_grad_op"}, False),
    "NO_SHARD": ({"strategy": "no_shard"}, False),
    "HYBRID_SHARD": ({}, True),
    "_HYBRID_SHARD_ZERO2": ({"strategy": "hybrid_shard", "reshard": "false"}, True),
}

# Methods that fully_shard adds to a module, without an effect on a plan.
SILENT_METHODS = (
    "set_modules_to_backward_prefetch", "set_is_last_backward",
    "set_requires_gradient_sync", "set_requires_all_reduce",
    "set_reshard_after_backward", "set_unshard_in_backward", "unshard", "reshard",
    "set_reduce_scatter_divide_factor", "set_gradient_divide_factor",
    "set_post_optim_event", "set_force_sum_reduction_for_comms",
    "set_all_reduce_hook", "set_custom_all_gather", "set_custom_reduce_scatter",
    "register_comm_hook", "no_sync")


def silent(result=None):
    """A function that accepts everything and returns `result`."""
    return lambda *args, **kwargs: result


class RestartWithMesh(BaseException):
    """The default mesh must have these axes: (name, …). It is no Exception, as the
    function may catch those."""

    def __init__(self, names):
        super().__init__(names)
        self.names = names


class UnitCall:
    """A unit with modules in place of paths."""

    def __init__(self, modules, axes, options, policy=False, root=False):
        self.modules, self.axes, self.options = list(modules), axes, dict(options)
        self.policy, self.root = policy, root


class Session:
    """One run of the function."""

    def __init__(self, model, world):
        self.model, self.world = model, world
        self.recording = Recording()
        self.paths = {id(m): p for p, m in model.named_modules()}
        self.parameters = {id(p): name for name, p in model.named_parameters()}
        self.meshes, self.current, self.missing = [], [], None
        self.styles, self.units, self.checkpoints = [], [], []
        self.wrapped = set()
        self.offloaded, self.policies = [], []
        self.precisions, self.casts = [], set()
        self.Mesh = type("DeviceMesh", (RecordedMesh,), {"session": self})

    def warn(self, text, path=None):
        self.recording.warn(text, path)

    def path(self, module):
        """The path of a module; None after a warning if it is not in the model."""
        path = self.paths.get(id(module))
        if path is None:
            path = next((p for p, m in self.model.named_modules() if m is module),
                        None)
        if path is None:
            self.warn(f"a {type(module).__name__} that is not in the model was "
                      "parallelized")
            return None
        return ".".join(s for s in path.split(".")
                        if s != "_checkpoint_wrapped_module")

    # Meshes

    def init_device_mesh(self, device_type, mesh_shape, *, mesh_dim_names=None,
                         **unused):
        return self.Mesh.create(device_type, mesh_shape, mesh_dim_names)

    def default_axis(self, tensor=False):
        """The mesh of a call without one: that of the enclosing `with`, the first
        mesh of one axis of the right kind, or a new one of all ranks."""
        if self.current:
            return self.current[-1]
        for mesh in self.meshes:
            if mesh.ndim == 1 and tensor is (kind_of(mesh.dims[0].name) == "tensor"):
                return mesh
        return self.Mesh.create("cuda", (self.world,), ("tp" if tensor else "dp",))

    def data_axes(self, mesh, hybrid=False):
        """The axes and strategy options of a unit on a mesh."""
        if mesh is None and hybrid:
            mesh = self.Mesh.create("cuda", (2, max(self.world // 2, 1)),
                                    ("rep", "dp"))
        mesh = mesh if mesh is not None else self.default_axis()
        if mesh.whole():
            raise RestartWithMesh(("rep", "dp") if hybrid else ("dp",))
        axes = mesh.axes()
        for axis in axes:
            axis.used = True
        if len(axes) > 2:
            self.warn("fully_shard over " + ", ".join(a.name for a in axes)
                      + ": PDL's fully_shard names at most two axes")
            axes = axes[-2:]
        options = {"strategy": "full_shard"} \
            if len(axes) == 2 and mesh.ndim == 1 else {}
        return tuple(axes), options

    # Tensor parallelism

    def parallelize_module(self, module, device_mesh=None, parallelize_plan=None, *,
                           src_data_rank=0):
        if parallelize_plan is None:
            return module
        mesh = device_mesh if device_mesh is not None \
            else self.default_axis(tensor=True)
        if mesh.whole():
            raise RestartWithMesh(("tp",))
        if mesh.ndim != 1 or len(mesh.axes()) != 1:
            self.warn("parallelize_module on a mesh of several axes: the last one "
                      "is used")
        axis = mesh.axes()[-1]
        axis.used = True
        if not isinstance(parallelize_plan, (dict, ParallelStyle)):
            raise TypeError("parallelize_plan must be a ParallelStyle or a dict")
        self._apply(module, axis, parallelize_plan)
        return module

    def _apply(self, module, axis, plan):
        if isinstance(plan, ParallelStyle):
            self.styles.append((module, axis, plan))
            return
        for key, style in plan.items():
            found = self._match(module, key)
            if not found:
                self.warn(f"no module matches '{key}' in {{}}", self.path(module))
            for child in found:
                self._apply(child, axis, style)

    def _match(self, module, key):
        found = [module]
        for token in key.split(".") if key else ():
            found = [child for m in found for name, child in m.named_children()
                     if fnmatch(name, token)]
        return found

    def distribute_tensor(self, tensor, device_mesh=None, placements=None, **unused):
        """Records placements of a parameter."""
        mesh = device_mesh if device_mesh is not None \
            else self.default_axis(tensor=True)
        name = self.parameters.get(id(tensor))
        if name is None:
            self.warn("distribute_tensor on a tensor that is no parameter")
            return tensor
        for axis, placement in zip(mesh.axes(), placements or ()):
            axis.used = True
            text = layout(placement)
            if text is None or text == "Partial":
                self.warn(f"{{}}: placement {placement} has no counterpart", name)
            else:
                self.styles.append((name, axis, text))
        return tensor

    def distribute_module(self, module, device_mesh=None, partition_fn=None,
                          input_fn=None, output_fn=None):
        if partition_fn is not None:
            for name, child in module.named_modules():
                partition_fn(name, child, device_mesh)
        if input_fn or output_fn:
            self.warn("distribute_module: input_fn and output_fn are not recorded")
        return module

    # Data parallelism

    def fully_shard(self, module, *, mesh=None, reshard_after_forward=None,
                    shard_placement_fn=None, mp_policy=None, offload_policy=None,
                    ignored_params=None, dp_mesh_dims=None, **unused):
        modules = module if isinstance(module, (list, tuple)) else [module]
        if dp_mesh_dims is not None:
            mesh = self._data_dims(mesh, dp_mesh_dims)
        axes, options = self.data_axes(mesh)
        if dp_mesh_dims is not None and not dp_mesh_dims.shard:
            options = {"strategy": "no_shard"}
        root = self.model in modules
        options.update(self._reshard(reshard_after_forward, root))
        call = UnitCall(modules, axes, options, root=root)
        self.units.append(call)
        if shard_placement_fn is not None:
            self.warn("shard_placement_fn has no counterpart: parc shards the "
                      "first dim")
        self._ignored(ignored_params, axes)
        if offload_policy is not None and "CPU" in type(offload_policy).__name__:
            self.offloaded.append(call)
        if mp_policy is not None:
            self._precision(mp_policy.param_dtype, mp_policy.reduce_dtype)
        for m in modules:
            self._fsdp_methods(m, call)
        return module

    def _data_dims(self, mesh, dims):
        """The part of a mesh of all axes that a DataParallelMeshDims names."""
        chosen = []
        for names in (dims.replicate, dims.shard):
            if names:
                part = mesh[names]
                chosen += (part if part.ndim == 1 else part._flatten()).dims
        return mesh._part(chosen)

    def _reshard(self, value, root):
        """FSDP2 re-gathers units in the backward pass, except the root. PDL has
        the same defaults, for the last unit in place of the root."""
        if value is None or value is (not root):
            return {}
        if isinstance(value, bool):
            return {"reshard": "true" if value else "false"}
        self.warn(f"reshard_after_forward={value}: PDL has no partial reshard; the "
                  "backward pass gathers from all shards")
        return {}

    def _fsdp_methods(self, module, call):
        self.wrapped.add(id(module))
        for name in SILENT_METHODS:
            vars(module)[name] = silent()
        vars(module)["no_sync"] = silent(contextlib.nullcontext())

        def forward_prefetch(modules):
            call.options["prefetch"] = str(len(modules))

        def reshard_after_forward(value, recurse=True):
            inside = {id(m) for m in module.modules()} if recurse else {id(module)}
            for other in self.units:
                if id(other.modules[0]) in inside:
                    other.options.pop("reshard", None)
                    other.options.update(self._reshard(value, other.root))

        vars(module)["set_modules_to_forward_prefetch"] = forward_prefetch
        vars(module)["set_reshard_after_forward"] = reshard_after_forward

    def _ignored(self, parameters, axes):
        for p in parameters or ():
            name = self.parameters.get(id(p))
            owner = name.rpartition(".")[0] if name else ""
            if not owner:
                self.warn("{} is ignored by FSDP, but is part of the model's unit",
                          name or "a tensor")
                continue
            module = self.model.get_submodule(owner)
            if not any(c.modules == [module] for c in self.units):
                self.units.append(UnitCall([module], axes, {"strategy": "no_shard"}))
                self.warn("{} is ignored by FSDP: parc replicates it, and sums its "
                          "gradients", owner)

    def _precision(self, compute, reduce):
        if compute is None and reduce is None:
            return
        self.precisions.append((DTYPES.get(compute, "f32"),
                                DTYPES.get(reduce if reduce is not None else compute)))

    def fsdp1(self, module, process_group=None, sharding_strategy=None,
              cpu_offload=None, auto_wrap_policy=None, backward_prefetch=None,
              mixed_precision=None, ignored_modules=None, param_init_fn=None,
              device_id=None, sync_module_states=False, forward_prefetch=False,
              limit_all_gathers=True, use_orig_params=False, ignored_states=None,
              device_mesh=None):
        """FullyShardedDataParallel."""
        settings = dict(sharding_strategy=sharding_strategy, cpu_offload=cpu_offload,
                        mixed_precision=mixed_precision)
        ignored = self._ignored_sets(ignored_modules, ignored_states)
        mesh = device_mesh
        if mesh is None and getattr(process_group, "axes", None):
            mesh = self._mesh_of(process_group)
        for child, own in self._targets(module, auto_wrap_policy, ignored, settings):
            self._fsdp1_unit(child, mesh, True, **{**settings, **own})
        axes = self._fsdp1_unit(module, mesh, False, **settings)
        self._ignored(ignored[1], axes)
        return module

    def _mesh_of(self, group):
        root = next(m for m in self.meshes if group.axes[0] in m.axes())
        return root._part([d for d in root.dims
                           if set(d.axes) & set(group.axes)])

    def _ignored_sets(self, modules, states):
        states = list(states or ())
        modules = set(modules or ()) | {s for s in states
                                        if isinstance(s, nn.Module)}
        modules |= {child for m in modules for child in m.modules()}
        parameters = {p for m in modules for p in m.parameters()}
        return modules, parameters | {s for s in states
                                      if isinstance(s, nn.Parameter)}

    def _targets(self, module, policy, ignored, settings):
        """The modules that an auto_wrap_policy chooses, with their settings."""
        if policy is None:
            return []
        if isinstance(policy, (set, frozenset, list, tuple)):
            policy = ModuleWrapPolicy(policy)
        if hasattr(policy, "_run_policy"):
            chosen = policy._run_policy(module, ignored[0], dict(settings))
            return [(m, own) for m, own in chosen.items() if m is not module]
        found = []

        def collect(child, **own):
            found.append((child, own))
            return child

        _recursive_wrap(module, policy, collect, *ignored, only_wrap_children=True)
        return found

    def _fsdp1_unit(self, module, mesh, policy, sharding_strategy=None,
                    cpu_offload=None, mixed_precision=None, **unused):
        name = getattr(sharding_strategy or ShardingStrategy.FULL_SHARD, "name",
                       sharding_strategy)
        options, hybrid = STRATEGIES[str(name)]
        axes, more = self.data_axes(mesh, hybrid)
        if name == "NO_SHARD":
            axes, more = axes[-1:], {}
        call = UnitCall([module], axes, {**more, **options}, policy,
                        module is self.model)
        self.units.append(call)
        self.wrapped.add(id(module))
        vars(module).setdefault("no_sync", silent(contextlib.nullcontext()))
        if getattr(cpu_offload, "offload_params", cpu_offload is True):
            self.offloaded.append(call)
        if mixed_precision is not None:
            self._precision(mixed_precision.param_dtype,
                            mixed_precision.reduce_dtype)
        return axes

    def ddp(self, module, device_ids=None, output_device=None, dim=0,
            broadcast_buffers=True, init_sync=True, process_group=None,
            bucket_cap_mb=None, *, device_mesh=None, **unused):
        """DistributedDataParallel and replicate."""
        mesh = device_mesh
        if mesh is None and getattr(process_group, "axes", None):
            mesh = self._mesh_of(process_group)
        axes, _ = self.data_axes(mesh)
        options = {"strategy": "no_shard"}
        self.units.append(UnitCall([module], axes[-1:], options))
        self.wrapped.add(id(module))
        vars(module)["no_sync"] = silent(contextlib.nullcontext())
        return module

    def replicate(self, module, *args, device_mesh=None, mesh=None, **options):
        return self.ddp(module, device_mesh=device_mesh or mesh)

    # Activations

    def selective_contexts(self, policy, *args, **kwargs):
        """create_selective_checkpoint_contexts."""
        self.policies.append(policy)
        return None, None

    def checkpoint_wrapper(self, module, checkpoint_impl=None, checkpoint_fn=None,
                           context_fn=None, **unused):
        keep, exact = kept_results(context_fn, self.policies)
        if not exact:
            self.warn("{}: the policy of selective checkpointing saves some results "
                      "of a kind: PDL saves all of a kind or none", self.path(module))
        self.checkpoints.append((module, keep, False))
        return module

    def apply_activation_checkpointing(self, model, checkpoint_wrapper_fn=None,
                                       check_fn=lambda module: True,
                                       auto_wrap_policy=None):
        wrapper = checkpoint_wrapper_fn or self.checkpoint_wrapper
        policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy,
                                                       lambda_fn=check_fn)
        options = {}
        while isinstance(wrapper, functools.partial):
            options = {**wrapper.keywords, **options}
            wrapper = wrapper.func

        def collect(module, **unused):
            self.checkpoint_wrapper(module,
                                    context_fn=options.get("context_fn"))
            self.checkpoints[-1] = (*self.checkpoints[-1][:2], True)
            return module

        _recursive_wrap(model, policy, collect, set(), set(),
                        only_wrap_children=True)
