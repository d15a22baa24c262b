"""The block `names hf`: names of the state dict that PDL cannot have.

    names hf {
        embed    -> embed
        net_0    -> net.0
        layers.* -> layers.*
    }

A tied parameter has in files the first of its names. If the forward reads it by another
name only, it has a line too: `decoder.bias -> predictions.bias`.
"""

import re

from ..ir.names import WORDS
from ..operators import random_numbers


def state_names(writer, body):
    """The lines of the block; none if all names are those of the state dict."""
    ties = dict(tied_names(writer, body))
    if is_plain(writer, body) and not ties:
        return []
    found = [(shown, name) for shown, name in members(writer, body)
             if "*" in shown or not is_renamed(writer, body, shown, ties)]
    rows = [(shown, name if is_path(name) else f'"{name}"')
            for shown, name in [*map(below_model, found), *ties.items()]]
    wide = max(len(shown) for shown, _ in rows)
    return ["", "names hf {", *(f"    {a:<{wide}} -> {b}" for a, b in rows), "}"]


def below_model(row):
    """A row as PDL has it: `model` is the model itself, so a child of that name is written
    as all that is below it."""
    shown, name = row
    return ("model.*", f"{name}.*") if shown == "model" else row


def tied_names(writer, body):
    """(path in the file, first name in the state dict) of the parameters of which the file
    does not have this name."""
    for group in writer.tied_groups(body):
        first = writer.trace.first_name[id(writer.trace.params[group[0][0]])]
        if first not in dict(group):
            yield group[0][1], first


def is_renamed(writer, body, member, ties):
    """Whether all parameters of a member have lines of their own. A batch norm may have
    states only."""
    own = [path for group in writer.tied_groups(body) for _, path in group
           if f"{path}.".startswith(f"{member}.")]
    return bool(own) and all(path in ties for path in own)


def is_path(name):
    """Whether a name of the state dict needs no quotes."""
    return re.fullmatch(r"[A-Za-z_][\w.*]*", name, re.ASCII) and not WORDS & set(name.split("."))


def is_plain(writer, body):
    """Whether a module and those below it have the names of the state dict."""
    if body.prelude:
        return True
    module = writer.used[body.path][0]
    return all(n == shown for n, shown in module.params.items()) and \
        all(n == module.children[n] and is_plain(writer, calls[0])
            for n, calls in body.children.items() if has_parameters(writer, calls[0]))


def has_parameters(writer, body):
    if body.prelude:
        return body.prelude[0] not in random_numbers.MODULES.values()
    module = writer.used[body.path][0]
    return bool(module.params) or \
        any(has_parameters(writer, calls[0]) for calls in body.children.values())


def members(writer, body):
    """(path in the file, path in the state dict) of the members of a module, the
    shortest paths that tell the names of all parameters."""
    module = writer.used[body.path][0]
    yield from ((shown, n) for n, shown in module.params.items())
    for name, calls in body.children.items():
        star = ".*" if module.count(name) is not None else ""
        left, right = f"{module.children[name]}{star}", f"{name}{star}"
        if not has_parameters(writer, calls[0]):
            continue
        if is_plain(writer, calls[0]):
            yield left, right
            continue
        yield from ((f"{left}.{a}", f"{right}.{b}") for a, b in members(writer, calls[0]))
