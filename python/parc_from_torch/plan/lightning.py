"""Strategies of Lightning as functions that `record` can run.

Lightning itself is not imported: a strategy is known by its attributes.
"""
from torch.distributed import device_mesh as meshes
from torch.distributed import fsdp
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


def fsdp_strategy(auto_wrap_policy=None, activation_checkpointing_policy=None,
                  sharding_strategy="FULL_SHARD", cpu_offload=None,
                  mixed_precision=None, device_mesh=None, **options):
    """The function of FSDPStrategy with these arguments. Policies may be sets of
    classes. Arguments that are not of FullyShardedDataParallel, such as
    state_dict_type, have no effect."""
    def shard(model):
        mesh = device_mesh
        if isinstance(mesh, tuple):
            mesh = meshes.init_device_mesh("cuda", mesh)
        policy = auto_wrap_policy
        if any(isinstance(m, fsdp.FullyShardedDataParallel) for m in model.modules()):
            policy = None
        fsdp.FullyShardedDataParallel(
            model, auto_wrap_policy=_policy(policy), device_mesh=mesh,
            sharding_strategy=sharding_strategy, cpu_offload=cpu_offload,
            mixed_precision=mixed_precision,
            ignored_modules=options.get("ignored_modules"),
            ignored_states=options.get("ignored_states"))
        if activation_checkpointing_policy is not None:
            _checkpoint(model, activation_checkpointing_policy)
        return model

    return shard


def configure_model(model, device_mesh):
    """Runs configure_model of a LightningModule, which finds the mesh in
    `self.device_mesh`, as with the Trainer's ModelParallelStrategy."""
    model._device_mesh = device_mesh
    model.configure_model()
    return model


def _policy(policy):
    return ModuleWrapPolicy(policy) if isinstance(policy, (set, list, tuple)) \
        else policy


def _checkpoint(model, policy):
    wrappers.apply_activation_checkpointing(model, auto_wrap_policy=_policy(policy))


def from_strategy(strategy):
    """The function of a strategy of Lightning: of ModelParallelStrategy the
    parallelize_fn, of FSDPStrategy one that applies FSDP as Lightning does. None
    if the object is neither."""
    function = getattr(strategy, "_parallelize_fn", None)
    if function is not None:
        return function
    options = getattr(strategy, "_fsdp_kwargs", None)
    if options is None and "FSDP" in type(strategy).__name__:
        options = getattr(strategy, "kwargs", None)
    if options is None:
        return None
    options = dict(options)
    for name in ("sharding_strategy", "cpu_offload", "mixed_precision"):
        if getattr(strategy, name, None) is not None:
            options[name] = getattr(strategy, name)
    checkpointing = getattr(strategy, "_activation_checkpointing_kwargs", None) or {}
    policy = checkpointing.get("auto_wrap_policy")
    if policy is None and "check_fn" in checkpointing:
        check = checkpointing["check_fn"]

        def policy(module, recurse, nonwrapped_numel):
            return recurse or check(module)
    options["activation_checkpointing_policy"] = policy
    return fsdp_strategy(**options)
