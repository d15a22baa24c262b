"""What a parallelization function asked for, with paths of modules in place of
modules.

`record.record` makes a Recording; `plan_block.plan_block` prints it as a plan of
PDL. Paths are those of `named_modules`; "" is the model itself.
"""
from dataclasses import dataclass, field


@dataclass
class Style:
    """A style of tensor parallelism on a module, or a placement of a parameter.

    kind:    name of the style; for a placement "Shard(0)" or "Replicate"
    inputs, outputs: pairs (layout that arrives, layout after the style) in PDL,
             of Colwise and Rowwise single layouts that differ from the default
    """
    path: str
    axis: str
    kind: str
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)


@dataclass
class Unit:
    """One call of fully_shard, FSDP or DDP.

    axes:    one mesh axis, or two: (replicate, shard), or two used as one
             (strategy "full_shard")
    options: options of PDL's fully_shard by name, such as {"reshard": "false"}
    policy:  an auto_wrap_policy chose the module
    """
    paths: tuple
    axes: tuple
    options: dict
    policy: bool = False


@dataclass
class Checkpoint:
    """A module whose activations are recomputed; `keep`: ("attention", "matmul")
    or a part of it."""
    path: str
    keep: tuple = ()
    policy: bool = False


def said(text, path):
    """The text of a note."""
    return text if path is None else text.replace("{}", path or "the model")


@dataclass
class Recording:
    """The result of `record`.

    axes:       (name, size) of each mesh axis, the outermost first
    placements: Styles whose paths are parameters
    frozen:     parameters that have no gradient
    offload:    "parameters" and "optimizer", if they are in host memory
    precision:  "bf16", "f16", or None if the function does not say it
    reduce:     type of gradient reductions, or None
    classes:    class name of each module by path
    parameters: names of all parameters; a tied one has one name
    aliases:    the other names of tied parameters by name
    notes:      (text, path) of what has no counterpart in PDL; `{}` in a text
                stands for the path
    """
    axes: list = field(default_factory=list)
    styles: list = field(default_factory=list)
    placements: list = field(default_factory=list)
    units: list = field(default_factory=list)
    checkpoints: list = field(default_factory=list)
    frozen: list = field(default_factory=list)
    offload: tuple = ()
    precision: str = None
    reduce: str = None
    classes: dict = field(default_factory=dict)
    parameters: list = field(default_factory=list)
    aliases: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)

    def warn(self, text, path=None):
        """Adds a warning, once."""
        if (text, path) not in self.notes:
            self.notes.append((text, path))

    @property
    def warnings(self):
        """The texts of the notes."""
        return [said(text, path) for text, path in self.notes]

    def mesh(self):
        """The value of parc's option --mesh: `dp=2,tp=2`."""
        return ",".join(f"{name}={size}" for name, size in self.axes)


class RecordError(Exception):
    """The function cannot be recorded; the text says why and what to do."""
