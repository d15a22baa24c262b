"""Turns what a Session collected into a Recording, when the function has
returned and before the model is restored."""
import functools
import types
from collections import Counter

from torch.distributed._composable import checkpoint as composable_checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper)
from torch.utils.checkpoint import checkpoint

from ..ir.names import identifier
from .recorded_mesh import ORDER, kind_of
from .recording import Checkpoint, Style, Unit
from .styles import read_style

WRAPPED = "_checkpoint_wrapped_module"


def plain(path):
    """A path without the names that wrappers insert."""
    return ".".join(s for s in path.split(".") if s != WRAPPED)


def pdl_name(name):
    """A name of an axis that PDL accepts."""
    return identifier(name, "axis")


def finish(session):
    """Fills the session's Recording."""
    recording = session.recording
    recording.classes = {p: type(m).__name__
                         for p, m in session.model.named_modules()
                         if not p.endswith(WRAPPED)}
    _styles(session, recording)
    _units(session, recording)
    _checkpoints(session, recording)
    _parameters(session, recording)
    _precision(session, recording)
    recording.axes = _axes(session)
    if session.offloaded:
        recording.offload = ("parameters", "optimizer")
        if len(session.offloaded) < len(session.units):
            session.warn("only some units are offloaded: PDL offloads all or none")


# Axes

def _axes(session):
    """(name, size) of the axes of all meshes that the function used."""
    found = {}
    meshes = [m for m in session.meshes
              if any(a.used or a.asked for a in m.axes())]
    for axis in (a for mesh in meshes for a in mesh.axes() if _kept(session, a)):
        name = pdl_name(axis.name)
        if found.setdefault(name, axis.size) != axis.size:
            session.warn(f"two meshes have an axis '{name}' of different sizes")
    order = list(found)
    if len(meshes) > 1:
        order.sort(key=lambda name: ORDER.index(kind_of(name)))
    return [(name, found[name]) for name in order] or [("dp", session.world)]


def _kept(session, axis):
    """Whether the plan has an axis. One that no call uses splits the batch in
    PDL, which is right for data axes only."""
    if axis.used or kind_of(axis.name) in ("data", "replicate"):
        return True
    if axis.asked:
        session.warn(f"no recorded call uses axis '{axis.name}': the plan does not "
                     "have it")
    return False


# Styles and units

def _styles(session, recording):
    for thing, axis, style in session.styles:
        name = pdl_name(axis.name)
        if isinstance(thing, str):
            recording.placements.append(Style(thing, name, style))
            continue
        path = session.path(thing)
        if path is not None:
            found = read_style(style, thing, path, name, session.warn)
            if found is not None:
                recording.styles.append(found)


def _units(session, recording):
    for call in session.units:
        paths = [session.path(m) for m in call.modules]
        paths = tuple(p for p in paths if p is not None)
        if paths:
            recording.units.append(Unit(
                paths, tuple(pdl_name(a.name) for a in call.axes), call.options,
                call.policy))


# Checkpoints

def _uses_checkpoint(function, depth=0):
    """Whether a function that replaced a forward calls torch's checkpoint."""
    if function in (checkpoint, composable_checkpoint):
        return True
    if depth > 3:
        return False
    inner = []
    if isinstance(function, functools.partial):
        inner = [function.func, *function.args]
    elif isinstance(function, types.FunctionType):
        names = function.__globals__
        inner = [names[n] for n in function.__code__.co_names if n in names]
        inner += [c.cell_contents for c in function.__closure__ or ()]
        if any(getattr(x, "checkpoint", None) is checkpoint for x in inner):
            return True
    return any(_uses_checkpoint(x, depth + 1) for x in inner if callable(x))


def _found_checkpoints(session):
    """Modules that are checkpointed without a recorded call."""
    for module in session.model.modules():
        forward = vars(module).get("forward")
        if isinstance(module, CheckpointWrapper):
            yield getattr(module, WRAPPED)
        elif forward is not None and _uses_checkpoint(forward):
            yield module
        elif getattr(module, "gradient_checkpointing", None) is True and any(
                c.__name__ == "GradientCheckpointingLayer"
                for c in type(module).__mro__):
            yield module


def _checkpoints(session, recording):
    calls = session.checkpoints + [(m, (), False)
                                   for m in _found_checkpoints(session)]
    seen = set()
    for module, keep, policy in calls:
        path = session.path(module)
        if path is not None and path not in seen:
            seen.add(path)
            recording.checkpoints.append(Checkpoint(path, keep, policy))


# Parameters and types

def _parameters(session, recording):
    for name, parameter in session.model.named_parameters():
        recording.parameters.append(plain(name))
        if not parameter.requires_grad:
            recording.frozen.append(plain(name))
    names = {id(p): plain(n) for n, p in session.model.named_parameters()}
    for name, parameter in session.model.named_parameters(remove_duplicate=False):
        own = names[id(parameter)]
        if plain(name) != own:
            recording.aliases.setdefault(own, []).append(plain(name))
    if recording.frozen and len(recording.frozen) == len(recording.parameters):
        session.warn("all parameters are frozen: parc refuses such a plan")


def _precision(session, recording):
    counts = Counter(session.precisions)
    if counts:
        recording.precision, recording.reduce = counts.most_common(1)[0][0]
    if len(counts) > 1:
        session.warn("units have different mixed precision: parc has one precision "
                     f"for all, {recording.precision} with {recording.reduce}")
    if recording.reduce == "f16":
        session.warn("gradients cannot be reduced in f16: they are reduced in f32")
        recording.reduce = "f32"
    if session.casts:
        cast = sorted(session.casts)[0]
        recording.precision = recording.precision or cast
        session.warn(f"the function casts the model to {cast}: parc stores "
                     "parameters in f32 and computes in the type of `precision`")
