"""From a function that builds a PyTorch model to a PDL file."""

import contextlib
import dataclasses
import logging

from .blocks import blocks_of
from .ir import formals
from .ir.body import ImportFault, Value, statements
from .trace.samples import SIZES, build, changed_sample, redrawn, samples
from .trace.trace import bodies
from .verify import verify
from .write.state_names import state_names
from .write.write import Writer


@contextlib.contextmanager
def silent():
    """Without torch's messages about models that do not trace."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def find_windows(found, base, seq, kept):
    """Faults of numbers that would be windows of attention in a longer sequence. Such a
    number is at least the sequence, and nothing depends on it; attention gets a window
    where it is smaller."""
    names = [n for n, _ in kept]
    large = [s for s in found.sources if isinstance(s.value, int) and s.first >= seq and
             (s.unused or s.formal in names and
              not any(depends(b, s.formal) for b in bodies(base.body)))]
    if has_window(base.body) or not large:
        return
    value = max(seq // 4, 1)
    for few in [large] + [[s] for s in large] * (len(large) > 1):
        more = changed_sample(found.function, [(s, value) for s in few], base)
        if len(few) == 1 and more and has_window(more.body):
            name, x = few[0].formal, few[0].first
            yield (f"{name}={x} is a window of attention, and the example has only {seq} "
                   f"tokens: give an example with more tokens than {name}, or a smaller {name}")
        elif more and not has_window(more.body):
            return


def has_window(body):
    return any("window" in s.named for b in bodies(body) for s in statements(b.stmts))


def depends(body, name):
    """Whether a number in the statements of a body depends on a formal."""
    def found(x):
        if isinstance(x, formals.Number):
            return any(f == name and v != x.reference for f, v in x.other)
        return isinstance(x, (tuple, list)) and any(map(found, x))

    return any(found([*s.args, *s.named.values(), *(v.dims for v in s.outs)])
               for s in statements(body.stmts))


@dataclasses.dataclass
class Converted:
    """`lines`: the PDL file; `build`: a function that makes the user's module; `warnings`: what
    of the plan and of the training has no counterpart."""

    lines: list
    build: object
    warnings: list


def merged(found):
    """The traces of equal structure. Their sizes become Numbers in the bodies of the
    first one."""
    base = found[0][1]
    kept = [found[0]] + [(n, s) for n, s in found[1:] if formals.same_structure(base.body, s.body)]
    formals.merge_bodies([s.body for _, s in kept], [formal for formal, _ in kept[1:]])
    return kept


@dataclasses.dataclass
class Imported:
    """A model in PDL, to which `file` adds the blocks plan and train. `names`: the lines of
    the block names."""

    writer: Writer
    lines: list
    names: list
    size: dict
    build: object

    def file(self, parallelize=None, optimizer=None):
        """The file with the plan of a function.

        parallelize: the user's function that parallelizes the model, or None: what
                     the model suggests, or FSDP
        optimizer:   a function of the model that returns an optimizer, or an optimizer
                     and a scheduler"""
        blocks, warnings = blocks_of(self.writer, self.size, parallelize, optimizer)
        return Converted(self.lines + blocks + self.names, self.build,
                         self.writer.trace.warnings + self.writer.initializers.warnings +
                         warnings)


def import_model(function, source="", say=lambda text: None):
    """A model that `function` returns, with example inputs, in PDL.

    An ImportFault lists everything that PDL cannot express."""
    with silent():
        search = samples(function)
    found, sources = search.found, search.sources
    base = found[0][1]
    kept, size = merged(found), sizes(base)
    report(sources, found, kept, say)
    names = [formal for formal, _ in kept[1:]]
    shared = {n: formals.Number(size[n], tuple((o, sizes(s).get(n)) for o, s in kept[1:]))
              for n in SIZES if n in names and n in size}
    computed = base.body.formals
    base.body.formals = root_formals(kept, sources)
    head = [f"{base.body.cls}, imported by parc-from-torch" +
            (f" from {source}" if source else "") + "."]
    faults = list(find_windows(search, base, size["seq"], kept)) if "seq" in size else []
    if faults:
        raise ImportFault(faults)
    writer = Writer(base, shared, kept, computed, redrawn(function, base.params))
    lines = writer.file(base.body, head)
    verify(writer, kept, base.body)
    return Imported(writer, lines, state_names(writer, base.body), size,
                    lambda: build(function)[0])


def report(sources, found, kept, say):
    """Says what was traced with other values, and which numbers stay as they are."""
    def values(formal, some):
        return ", ".join(f"{s.changed[formal]:g}" for n, s in some if n == formal)

    for name in SIZES:
        say(f"another {name}: " + ("traced" if name in [n for n, _ in kept] else
                                   "the model refuses it, or computes another thing"))
    for x in sources:
        if values(x.formal, kept):
            said = "traced with " + values(x.formal, kept)
        elif x.unused:
            said = "nothing depends on it"
        elif values(x.formal, found):
            said = f"the model has other operators with {values(x.formal, found)}; it stays"
        else:
            said = "the model refuses it"
        small = "" if x.value == x.first else f" (traced as {x.value:g})"
        say(f"another {x.formal} than {x.first:g}{small}: {said}")


def convert(function, source="", parallelize=None, optimizer=None, say=lambda text: None):
    """A model as a PDL file with the plan of a function (Imported.file)."""
    return import_model(function, source, say).file(parallelize, optimizer)


def root_formals(kept, sources):
    """The formals of the model: the numbers that constructors take and that can be changed."""
    names = [n for n, _ in kept]
    return {x.formal: formals.Number(x.first, tuple((n, s.changed.get(x.formal, x.value))
                                                    for n, s in kept[1:]))
            for x in sources if x.formal in names}


def sizes(base):
    """The sizes of the batch and the sequence in the example inputs."""
    first = next((v for v in base.inputs if isinstance(v, Value) and v.shape), None)
    found = {"batch": first.shape[0]} if first else {}
    ids = next((v for v in base.inputs if isinstance(v, Value) and len(v.shape) == 2 and
                not v.dtype.is_floating_point), None)
    if ids:
        found["seq"] = ids.shape[1]
    return found
