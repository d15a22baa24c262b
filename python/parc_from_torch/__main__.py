"""parc-from-torch: the command. See `parc-from-torch --help`."""

import argparse
import importlib.util
import json
import os
import struct
import sys

DESCRIPTION = """\
Writes a PyTorch model as a PDL file for parc.

MODEL is FILE.py:NAME. NAME is a function without arguments that returns the
module and example inputs, a tuple of arguments or a dict of keyword arguments.
The module returns its loss, alone or first:

    def model():
        tokens = torch.randint(0, 1000, (2, 64))
        return Llama(ModelArgs(dim=256)), (tokens, tokens.clone())

The numbers of the module's constructor, or of its config object, become the
parameters of the PDL model: `parc model.pdl -D n_layers=32 -D dim=4096`. To
find where each belongs the model is traced again with each number changed.

The plan is that of the function that parallelizes the model for PyTorch, as
written for torchrun or Lightning, f(model) or f(model, mesh). It is run on
recorders: no process group is started and no GPU is needed.
"""


def arguments():
    parser = argparse.ArgumentParser(
        prog="parc-from-torch", description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="FILE.py:NAME")
    parser.add_argument("--parallelize", metavar="FILE.py:NAME",
                        help="the function that parallelizes the model, or a strategy of "
                             "Lightning (default: FSDP, and the tensor parallelism that "
                             "a model of transformers suggests)")
    parser.add_argument("--optimizer", metavar="FILE.py:NAME",
                        help="a function of the model that returns an optimizer, or an "
                             "optimizer and a scheduler (default: AdamW)")
    parser.add_argument("-o", metavar="FILE", help="the PDL file (default: standard output)")
    parser.add_argument("--weights", metavar="FILE.safetensors",
                        help="write the module's weights, for `train --init`")
    parser.add_argument("-v", action="store_true", help="say what is traced")
    return parser.parse_args()


def run_file(path):
    """The module of a file. A file is run once: policies name the model's classes."""
    name = os.path.basename(path)[:-3]
    known = sys.modules.get(name)
    if known is not None and os.path.abspath(getattr(known, "__file__", None) or "") == path:
        return known
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(word, strategy=False):
    """The function of FILE.py:NAME, or a strategy object of Lightning."""
    from .ir.body import ImportFault
    from .plan.lightning import from_strategy
    path, _, name = word.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        raise ImportFault([f"'{word}' is not FILE.py:NAME"])
    if not os.path.isfile(path):
        raise ImportFault([f"there is no file '{path}'"])
    function = getattr(run_file(os.path.abspath(path)), name, None)
    if not (callable(function) or strategy and from_strategy(function)):
        raise ImportFault([f"'{path}' has no function '{name}'"])
    return function


def write_whole(path, data):
    """Writes a file, or nothing."""
    part = f"{path}.part"
    with open(part, "wb") as f:
        f.write(data)
    os.replace(part, path)


def safetensors(model):
    """The bytes of a file with the parameters of a module, each once, the running statistics of
    its batch norms, and what corrects the scores of its routers."""
    from .operators import batch_norms, experts
    header, parts, at = {}, [], 0
    for name, p in [*model.named_parameters(), *batch_norms.states(model), *experts.states(model)]:
        data = p.detach().float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(p.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def main():
    options = arguments()
    try:
        from .ir.body import ImportFault
        from .convert import convert
    except ModuleNotFoundError as e:
        sys.exit(f"parc-from-torch: error: {e.name} is not installed: pip install torch")

    def say(text):
        if options.v:
            print(f"parc-from-torch: {text}", file=sys.stderr)

    try:
        made = convert(load(options.model), os.path.basename(options.model),
                       options.parallelize and load(options.parallelize, True),
                       options.optimizer and load(options.optimizer), say)
    except ImportFault as e:
        for fault in e.faults:
            print(f"parc-from-torch: error: {fault}", file=sys.stderr)
        sys.exit(1)
    except Exception as e:  # a fault of this program, or of the user's code
        sys.exit(f"parc-from-torch: error: cannot import the model: {type(e).__name__}: {e}")
    for warning in made.warnings:
        print(f"parc-from-torch: warning: {warning}", file=sys.stderr)
    text = "\n".join(made.lines) + "\n"
    try:
        if options.weights:
            write_whole(options.weights, safetensors(made.build()))
        if options.o:
            write_whole(options.o, text.encode())
        else:
            sys.stdout.write(text)
    except OSError as e:
        sys.exit(f"parc-from-torch: error: cannot write '{e.filename}': {e.strerror}")


if __name__ == "__main__":
    main()
