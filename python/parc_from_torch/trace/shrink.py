"""Makes the numbers of a large model small, so that its traces take little time and memory.

    LlamaForCausalLM(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, …)
    LlamaForCausalLM(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, …)

A number is changed if the model accepts it, its bodies stay the same apart from their sizes,
and less work follows. The model as it is remains the first trace: a size of the file has
its value in all of them.
"""

import contextlib
import math
from collections import Counter

from ..ir.body import ImportFault, Loop
from ..ir.formals import same_structure
from . import construct
from .trace import bodies

FEW = 20  # numbers of a dict that may be sizes


def smaller(value, layers):
    """Smaller values of a number. Numbers of heads stay large enough to be halved, and numbers
    of features to show how initial weights depend on them."""
    if not isinstance(value, int) or value < 16 and not layers:
        return []
    tries = (2,) if layers else (4, 8) if value <= 32 else (32, 64, 128, value // 8)
    return sorted({n for n in tries if n <= value // 2})


def sizes(sources):
    """Those that may be sizes: a config has few, and many numbers of classes, in a dict."""
    count = Counter(s.container() for s in sources)
    return [s for s in sources if len(s.container()) < 2 or count[s.container()] < FEW]


def work(sample):
    """The elements of all results and parameters of a trace."""
    results = (math.prod(v.shape) for b in bodies(sample.body) for s in b.stmts for v in s.outs)
    return sum(results) + sum(p.numel() for p in sample.params.values())


class Smaller:
    """A function that builds a model with other numbers, like the user's function."""

    def __init__(self, function, changes=()):
        self.function, self.changes = function, list(changes)  # [(targets, value, adapt)]

    def __call__(self):
        with contextlib.ExitStack() as stack:
            done = [stack.enter_context(construct.changing(targets, value))
                    for targets, value, _ in self.changes]
            model, example = self.function()
        for changed, (targets, value, _) in zip(done, self.changes):
            if len(changed) < len(targets):
                raise ImportFault([f"a number of the model cannot be {value}"])
        for _, _, adapt in self.changes:
            example = adapt(example)
        return model, example


def shrink(function, sources, base, trace):
    """A function that builds the model with smaller numbers. `sources`: [Source] of its
    numbers; `base`: its trace; `trace(function, [(source, value)], like, most)`: a trace with
    other values of numbers and at most some work, and the change of the example inputs, or
    None."""
    made, at = Smaller(function), base
    counts = {s.count for b in bodies(base.body) for s in b.stmts if isinstance(s, Loop)}
    # A trace of few layers takes little time, and small numbers may divide large ones.
    for source in sorted(sizes(sources), key=lambda s: (s.value not in counts, s.value)):
        for value in smaller(source.value, source.value in counts):
            found = trace(made, [(source, value)], base, work(at))
            if found and work(found[0]) == work(at):
                break  # it is no size
            if found and same_structure(base.body, found[0].body):
                made = Smaller(function, [*made.changes, (source.targets, value, found[1])])
                at = found[0]
                break
    return made
