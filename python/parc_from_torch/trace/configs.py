"""The numbers among the arguments of a constructor, and in its config objects.

A number has a path, such as ("config", "rope", "theta"): an argument, then attributes of an
object, keys of a dict or positions in a list. Its name is the last part, with those before it
where several numbers would have the name: encoder_dim and decoder_dim.
"""

import copy
import dataclasses

import torch

DEPTH = 4  # parts of a path
SIZE = 200  # parts of an object; the words of a tokenizer are no formals
MOST = 8  # elements of a list of which each is a number with a name


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def is_config(x):
    return (hasattr(x, "__dict__") or dataclasses.is_dataclass(x)) and not callable(x) and \
        not isinstance(x, (torch.nn.Module, torch.Tensor, type))


def parts(x):
    """(key, value) of the parts of a config object, of a dict, or of a list of numbers."""
    if isinstance(x, dict):
        return [(k, y) for k, y in x.items() if isinstance(k, str) and k.isidentifier()]
    if hasattr(x, "_fields"):
        return list(x._asdict().items())
    if isinstance(x, (list, tuple)):
        return list(enumerate(x)) if len(x) <= MOST and all(map(is_number, x)) else []
    return attributes(x) if is_config(x) else []


def attributes(x):
    """(name, value) of a config object, without those that its constructor computes. Configs of
    transformers have other names of an attribute; the constructor's counts."""
    fields = dataclasses.fields(x) if dataclasses.is_dataclass(x) else ()
    found = {f.name: getattr(x, f.name) for f in fields} | getattr(x, "__dict__", {})
    given = {f.name for f in fields}
    derived = {f.name for f in fields if not f.init} | \
        {own for name, own in (getattr(x, "attribute_map", None) or {}).items()
         if name in given and own not in given}
    return [(k, y) for k, y in found.items() if not k.startswith("_") and k not in derived]


def paths_of(arguments):
    """{path: number} of a dict of arguments."""
    found, seen = {}, set()

    def visit(path, x):
        if is_number(x):
            found[path] = x
        elif len(path) < DEPTH and id(x) not in seen:
            seen.add(id(x))
            inner = parts(x)
            for key, y in inner if len(inner) <= SIZE else ():
                visit((*path, key), y)

    for name, x in arguments.items():
        visit((name,), x)
    return found


def named(paths):
    """{name: path}. Of equal names the shortest path alone has it."""
    def name(path, count):
        count += sum(isinstance(p, int) for p in path[-count:])
        return "_".join(map(str, path[-count:]))

    found = {}
    left = sorted(paths, key=len)
    for count in range(1, DEPTH + 1):
        names = {}
        for path in left:
            names.setdefault(name(path, count), []).append(path)
        for word, same in names.items():
            shortest = [p for p in same if len(p) == len(same[0])]
            if word not in found and (len(shortest) == 1 or count == DEPTH):
                found[word] = shortest[0]
        left = [p for p in left if p not in found.values()]
    return {n: p for p in paths for n, q in found.items() if q is p}


def number_at(arguments, path):
    """The number at a path, or None."""
    x = arguments
    for key in path:
        x = dict(parts(x)).get(key) if x is not arguments else x.get(key)
    return x if is_number(x) else None


def with_attributes(new, old):
    """A config object with the attributes of another one that are no fields of its class."""
    for name, x in getattr(old, "__dict__", {}).items():
        if name not in new.__dict__:
            object.__setattr__(new, name, x)
    return new


def with_part(x, path, value):
    """A copy of a config object with another number at a path."""
    if not path:
        return value
    key, *rest = path
    new = with_part(dict(parts(x))[key], rest, value)
    if hasattr(x, "_replace"):
        return x._replace(**{key: new})
    if isinstance(x, (list, tuple)):
        return type(x)(new if i == key else y for i, y in enumerate(x))
    if dataclasses.is_dataclass(x) and key in [f.name for f in dataclasses.fields(x)]:
        return with_attributes(dataclasses.replace(x, **{key: new}), x)
    own = copy.copy(x)
    if isinstance(x, dict):
        own[key] = new
    else:
        object.__setattr__(own, key, new)
    return own


def change(arguments, path, value):
    """Changes the number at a path in a dict of arguments. A config object is replaced by a
    copy in all arguments that are this object. Returns whether there is such a number."""
    if number_at(arguments, path) is None:
        return False
    old = arguments[path[0]]
    new = with_part(old, path[1:], value)
    for name, x in arguments.items():
        if name == path[0] or x is old and not is_number(x):
            arguments[name] = new
    return True
