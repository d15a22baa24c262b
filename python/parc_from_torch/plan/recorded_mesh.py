"""A DeviceMesh without a process group.

A recorded mesh answers the questions that a parallelization function asks of a
DeviceMesh, as rank 0 would. Each of its dims stands for one axis of the root
mesh, or for several that `_flatten` joined.
"""
import re

import torch
from torch.distributed.device_mesh import DeviceMesh

# Kinds of axes, outermost first, and the words in a name that tell the kind. A
# name without any of them is a data axis.
KINDS = {
    "pipeline": {"pp", "pipe", "pipeline", "stage"},
    "replicate": {"rep", "replicate", "replica", "ddp"},
    "data": {"dp", "data", "fsdp", "shard", "batch"},
    "context": {"cp", "context"},
    "tensor": {"tp", "tensor", "mp", "model", "megatron", "intra"},
}
ORDER = list(KINDS)


def words(name):
    """The lower-case words of a name."""
    return [w for w in re.split(r"[\W_\d]+", name.lower()) if w]


def known_kind(name):
    """The kind that the words of a name tell, or None."""
    found = [kind for kind in ORDER if KINDS[kind] & set(words(name))]
    if "replicate" in found:
        return "replicate"
    if "data" in found and "tensor" not in found:
        return "data"
    return found[-1] if found else None


def kind_of(name):
    return known_kind(name) or "data"


class MissingAxis(KeyError):
    """The default mesh has no axis of this name; the recording starts again
    with a mesh that has it."""


class Axis:
    """An axis of a root mesh; `named` is false for a default name."""

    def __init__(self, name, size, named=True):
        self.name, self.size, self.named = name, size, named
        self.asked = self.used = False


class Group:
    """A process group of a recorded mesh."""

    def __init__(self, axes, size):
        self.axes, self._size = axes, size

    def size(self):
        return self._size

    def rank(self):
        return 0


class Dim:
    """A dim of a mesh: a name, and the axes that it stands for."""

    def __init__(self, name, axes):
        self.name, self.axes = name, tuple(axes)

    def size(self):
        size = 1
        for axis in self.axes:
            size *= axis.size
        return size


class RecordedMesh(DeviceMesh):
    """A mesh of a session. `session.meshes` lists the roots."""
    session = None

    def __init__(self, device_type="cuda", mesh=None, *, mesh_dim_names=None,
                 **unused):
        shape = tuple(torch.as_tensor(mesh).shape)
        self._start(device_type, shape, mesh_dim_names)

    def _start(self, device_type, shape, names, default=False):
        if names is not None and len(names) != len(shape):
            raise RuntimeError("mesh_dim_names and the shape of the mesh differ "
                               "in length")
        axes = [Axis(names[i] if names else f"dim{i}", size, bool(names))
                for i, size in enumerate(shape)]
        dims = [Dim(axis.name, [axis]) for axis in axes]
        self._place(self, device_type, dims)
        self.flat, self.default, self.settled = {}, default, False
        self.session.meshes.append(self)

    def _place(self, root, device_type, dims):
        self.root, self.kind, self.dims = root, device_type, dims

    @classmethod
    def create(cls, device_type, shape, names=None, default=False):
        """A new root mesh; `default`: the function did not make it."""
        mesh = cls.__new__(cls)
        mesh._start(device_type, tuple(shape), names, default)
        return mesh

    def _part(self, dims):
        mesh = type(self).__new__(type(self))
        mesh._place(self.root, self.kind, dims)
        return mesh

    def axes(self):
        return [axis for dim in self.dims for axis in dim.axes]

    def whole(self):
        """Whether the mesh is the default one, of which the function has not
        said what its dims are."""
        return (self.root is self and self.default and not self.settled
                and len(self.dims) > 1)

    # Slices

    def __getitem__(self, names):
        names = (names,) if isinstance(names, str) else tuple(names)
        return self._part([self._dim(name) for name in names])

    def _dim(self, name):
        found = [d for d in self.dims if d.name == name]
        if not found and name in self.root.flat:
            found = [self.root.flat[name]]
        if not found:
            found = [self._name_dim(name)]
        for axis in found[0].axes:
            axis.asked = True
        return found[0]

    def _name_dim(self, name):
        """Gives `name` to a dim without a name: the innermost one to a tensor
        axis, the outermost one to others."""
        if self.root is self and self.default:
            self.session.missing = self.session.missing or name
            raise MissingAxis(name)
        free = [d for d in self.dims if not d.axes[0].named]
        if not free:
            have = ", ".join(d.name for d in self.dims)
            raise KeyError(f"the mesh has no axis '{name}'; it has {have}")
        dim = free[-1 if kind_of(name) == "tensor" else 0]
        dim.name = dim.axes[0].name = name
        dim.axes[0].named = True
        return dim

    def _flatten(self, mesh_dim_name=None, *unused, **also_unused):
        name = mesh_dim_name or "_".join(d.name for d in self.dims)
        dim = Dim(name, self.axes())
        self.root.flat[name] = dim
        return self._part([dim])

    # Sizes and ranks

    def _index(self, dim):
        if isinstance(dim, str):
            return [d.name for d in self.dims].index(dim)
        return dim or 0

    def size(self, mesh_dim=None):
        if mesh_dim is not None:
            return self.dims[self._index(mesh_dim)].size()
        return Dim("", self.axes()).size()

    ndim = property(lambda self: len(self.dims))
    shape = property(lambda self: tuple(d.size() for d in self.dims))
    device_type = property(lambda self: self.kind)

    @property
    def mesh(self):
        return torch.arange(self.size()).reshape(self.shape)

    @property
    def mesh_dim_names(self):
        if not all(axis.named for axis in self.axes()):
            return None
        return tuple(d.name for d in self.dims)

    def numel(self):
        return self.size()

    def get_rank(self):
        return 0

    def get_local_rank(self, mesh_dim=None):
        return 0

    def get_coordinate(self):
        return [0] * self.ndim

    def get_group(self, mesh_dim=None):
        dims = self.dims if mesh_dim is None else [self.dims[self._index(mesh_dim)]]
        axes = [axis for dim in dims for axis in dim.axes]
        return Group(axes, Dim("", axes).size())

    def get_all_groups(self):
        return [self.get_group(i) for i in range(self.ndim)]

    def _get_mesh_dim_by_name(self, name):
        return self._index(name)

    def _get_root_mesh(self):
        return self.root

    def __enter__(self):
        self.session.current.append(self)
        return self

    def __exit__(self, *unused):
        self.session.current.pop()

    def __len__(self):
        return self.shape[0]

    def __eq__(self, other):
        return (isinstance(other, RecordedMesh) and self.root is other.root
                and self.axes() == other.axes())

    def __hash__(self):
        return hash((id(self.root), tuple(map(id, self.axes()))))

    def __repr__(self):
        dims = ", ".join(f"{d.name}={d.size()}" for d in self.dims)
        return f"DeviceMesh({dims})"
