#!/usr/bin/env python3
"""Imports small models with parc-from-torch.

  small.py [--show] [NAME...]    needs torch

Each function with the decorator `case` in small_*.py returns a module and its
example inputs. The import compares the written file with the module. The compiler
must accept the file, also with the sizes of each of the case's `defines`. With
--show the files are printed. Prints `N passed, N failed`.
"""
import dataclasses
import glob
import importlib
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path[:0] = [here, os.path.join(root, "python")]
sys.modules.setdefault("small", sys.modules[__name__])  # the files import `case` from it

PARC = os.path.join(root, os.environ.get("BUILD", "build"), "parc")


@dataclasses.dataclass
class Case:
    """`lines`: texts that the file must contain; `absent`: texts that it must not
    contain; `error`: texts of the error, for a model that cannot be imported;
    `defines`: sizes, "dim=64 n_layers=4", for a compilation of their own."""

    function: object
    lines: tuple = ()
    absent: tuple = ()
    error: tuple = ()
    defines: tuple = ()


CASES = {}


def case(**expected):
    def note(function):
        assert function.__name__ not in CASES, function.__name__
        CASES[function.__name__] = Case(function, **expected)
        return function
    return note


def compiled(path, words=()):
    """What the compiler says about a file that it does not accept, or None."""
    options = [x for w in words for x in ("-D", w)]
    done = subprocess.run([PARC, path, "--mesh", "1", *options, "--emit", "plan"],
                          capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


def written(expected, text):
    """Yields what is wrong with the file of a case."""
    for line in expected.lines:
        if line not in text:
            yield f"the file lacks '{line}'"
    for line in expected.absent:
        if line in text:
            yield f"the file has '{line}'"
    with tempfile.TemporaryDirectory() as at:
        path = os.path.join(at, "model.pdl")
        with open(path, "w") as f:
            f.write(text)
        for words in ((), *(d.split() for d in expected.defines)):
            said = compiled(path, words)
            if said:
                yield f"parc {' '.join(words)}: {said}"


def faults(expected, show):
    """Yields what is wrong with a case."""
    from parc_from_torch.convert import convert
    from parc_from_torch.ir.body import ImportFault
    try:
        text = "\n".join(convert(expected.function).lines) + "\n"
    except ImportFault as e:
        if show:
            print(e)
        if not expected.error:
            yield str(e)
        for line in expected.error:
            if line not in str(e):
                yield f"the error lacks '{line}': {e}"
        return
    if show:
        print(text)
    if expected.error:
        yield "the model is imported"
    yield from (f"{x}\n{text}" for x in written(expected, text))


def main():
    import torch
    for path in sorted(glob.glob(os.path.join(here, "small_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    words = sys.argv[1:]
    show = "--show" in words
    chosen = [w for w in words if w != "--show"]
    passed = failed = 0
    for name in chosen or CASES:
        torch.manual_seed(0)
        try:
            found = list(faults(CASES[name], show))
        except Exception as e:  # a fault of the importer, or an unknown name
            found = [f"{type(e).__name__}: {e}"]
        passed += not found
        failed += bool(found)
        for text in found[:1]:
            print(f"FAILED {name}: {text}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
