"""Joins paths of equal treatment into PDL's patterns.

    layers.0.wq, …, layers.3.wq   ->  layers.*.wq, if `layers` has 4 elements
    layers.0, layers.2, layers.4  ->  layers.0-4:2, if it has more
"""


class Arrays:
    """The arrays of a model by path, `layers` or `stages.*.blocks`."""

    def __init__(self, sizes):
        self.sizes = dict(sizes)

    def split(self, path):
        """A path as a template, with `*` for each element of an array, and the
        indices."""
        shown, indices, starred, real = [], [], [], []
        for segment in path.split(".") if path else ():
            inside = ".".join(starred) in self.sizes or ".".join(real) in self.sizes
            if segment.isdigit() and inside:
                indices.append(int(segment))
                starred.append("*")
            else:
                starred.append(segment)
            real.append(segment)
            shown = starred
        return ".".join(shown), tuple(indices)

    def size(self, template, before):
        """The number of elements at the `*` after the indices `before`."""
        starred = template.split(".")
        stars = [i for i, s in enumerate(starred) if s == "*"]
        prefix = starred[:stars[len(before)]]
        real = list(prefix)
        for at, index in zip(stars, before):
            real[at] = str(index)
        return self.sizes.get(".".join(real), self.sizes.get(".".join(prefix)))


def ranges(indices, size):
    """The patterns of PDL for a set of indices of an array of `size` elements."""
    left = sorted(indices)
    if left == list(range(size or 0)):
        return ["*"]
    if len(left) > 1 and left[0] < left[1] - left[0] and \
            left == list(range(left[0], size or 0, left[1] - left[0])):
        return [_range(left)]       # every second element, or every third, …
    patterns = []
    while left:
        run = _longest_run(left)
        patterns.append(_range(run))
        left = [i for i in left if i not in run]
    return sorted(patterns, key=lambda p: int(p.split("-")[0]))


def _longest_run(left):
    """The longest run with a constant step that begins at the first index."""
    best = left[:1]
    for second in left[1:]:
        step = second - left[0]
        run = [left[0]]
        while run[-1] + step in left:
            run.append(run[-1] + step)
        if len(run) > max(len(best), 2 if step > 1 else 1):
            best = run
    return best


def _range(run):
    if len(run) == 1:
        return str(run[0])
    step = run[1] - run[0]
    return f"{run[0]}-{run[-1]}" + (f":{step}" if step > 1 else "")


def _patterns(found, depth, template, arrays, before=()):
    """Patterns of the index tuples `found`: equal rests share a pattern."""
    if depth == 0:
        return [()]
    rests = {}
    for index in sorted({t[0] for t in found}):
        rest = frozenset(t[1:] for t in found if t[0] == index)
        inner = _patterns(rest, depth - 1, template, arrays, (*before, index))
        rests.setdefault(tuple(inner), []).append(index)
    size = arrays.size(template, before)
    return [(own, *inner) for inners, indices in rests.items()
            for own in ranges(indices, size) for inner in inners]


def join(paths, arrays):
    """The patterns of a set of paths, in the order of their first paths."""
    templates = {}
    for path in paths:
        template, indices = arrays.split(path)
        templates.setdefault(template, set()).add(indices)
    joined = []
    for template, found in templates.items():
        depth = len(next(iter(found)))
        for pattern in _patterns(found, depth, template, arrays):
            segments, values = template.split("."), iter(pattern)
            joined.append(".".join(next(values) if s == "*" else s
                                   for s in segments))
    return joined
