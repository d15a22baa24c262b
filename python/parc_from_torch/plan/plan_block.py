"""Prints a Recording as a `plan` block of PDL.

    lines, warnings = plan_block(recording, {"layers": 32})

What has no counterpart is a comment in the block, and a warning.
"""
import textwrap
from fnmatch import fnmatchcase

from .paths import Arrays, join
from .recording import said

INDENT = "    "
EXPERTS = "ExpertParallel"  # the style of modules of experts
WIDTH = 90
PREPARE = {"PrepareModuleInput", "PrepareModuleOutput", "PrepareModuleInputOutput"}
# Two styles of these kinds may be on one module.
TOGETHER = {frozenset(("PrepareModuleInput", "PrepareModuleOutput"))}


def plan_block(recording, arrays, name="recorded", inputs=None, rename=None,
               classes=None):
    """The lines of the block, without newlines, and the list of warnings.

    arrays:  number of elements by path of each ModuleList: "layers", or
             "stages.*.blocks" and "stages.0.blocks" inside other arrays
    inputs:  number of inputs by path of a module in PDL, "" for the model, if it
             is not the number of layouts (`none` at the end is left out or added);
             or for each input its place among the arguments of the forward
    rename:  function from a path of PyTorch to the path in PDL, or to None if PDL
             has no such module or parameter
    classes: names of modules in PDL by name of the class; by default the same
    """
    block = Block(recording, Arrays(arrays), inputs or {}, rename, classes)
    body = (block.parallelize() + block.experts() + block.fully_shard() + block.checkpoint()
            + block.offload() + block.freeze())
    warnings = block.warnings()
    notes = [INDENT + line for text in warnings
             for line in textwrap.wrap(text, WIDTH - len(INDENT) - 2,
                                       initial_indent="# ",
                                       subsequent_indent="#   ",
                                       break_long_words=False,
                                       break_on_hyphens=False)]
    axes = ", ".join(axis for axis, _ in recording.axes)
    return [f"plan {name}({axes}) {{", *notes, *body, "}"], warnings


def aligned(rows, end=":"):
    """Rows (name, text) with texts in one column; a row without text is a name."""
    width = max((len(n) for n, t in rows if t), default=0) + len(end)
    return [f"{n + end:<{width}} {t}" if t else n for n, t in rows]


def clause(head, rows):
    """The lines of a clause: one line if it is short and has one row, or no row
    with a text."""
    if not rows:
        return []
    line = f"{INDENT}{head} {{ {', '.join(aligned(rows))} }}"
    if (len(rows) == 1 or not any(t for _, t in rows)) and len(line) <= WIDTH:
        return [line]
    return [f"{INDENT}{head} {{", *(INDENT * 2 + r for r in aligned(rows)),
            f"{INDENT}}}"]


def within(path, module):
    """Whether a path is a module or inside it."""
    return not module or path == module or path.startswith(module + ".")


def bracketed(items):
    return items[0] if len(items) == 1 else f"[{', '.join(items)}]"


def _layout_list(pairs, wanted):
    """The text of pairs of layouts; `wanted`: their number, or None."""
    pairs = list(pairs)
    while pairs and pairs[-1] == ("none", "none") and \
            (wanted is None or len(pairs) > wanted):
        pairs.pop()
    pairs += [("none", "none")] * ((wanted or 0) - len(pairs))
    return ", ".join(a if a == b else f"{a} -> {b}" for a, b in pairs)


def _side(name, pairs, wanted):
    """The layouts of one side by name: `input=A -> B` or `input=(A, C) -> (B, D)`."""
    text = _layout_list(pairs, wanted)
    if "," not in text.replace("Shard(", ""):
        return f"{name}={text}"
    pairs = [p.split(" -> ") for p in text.split(", ")]
    left, right = ", ".join(p[0] for p in pairs), ", ".join(p[-1] for p in pairs)
    return f"{name}=({left}) -> ({right})"


def style_text(style, wanted=None):
    """A style in PDL; None if it has no layout that changes a tensor."""
    given = style.inputs
    if isinstance(wanted, list):
        if given:
            given = [given[i] if i < len(given) else ("none", "none") for i in wanted]
        wanted = len(wanted)
    if style.kind not in PREPARE:
        if style.kind == "SequenceParallel":
            arguments = style.inputs
        else:
            arguments = [f"input={x}" for x in style.inputs]
            arguments += [f"output={x}" for x in style.outputs]
        return style.kind + (f"({', '.join(arguments)})" if arguments else "")
    if style.kind == "PrepareModuleInputOutput":
        text = ", ".join(_side(side, pairs, count) for side, pairs, count in
                         (("input", given, wanted),
                          ("output", style.outputs, None)) if pairs)
    else:
        text = _layout_list(given or style.outputs,
                            wanted if given else None)
    return f"{style.kind}({text})" if text else None


class Block:
    """The clauses of a recording's plan."""

    def __init__(self, recording, arrays, inputs, rename, classes):
        self.recording, self.arrays, self.inputs = recording, arrays, inputs
        self.rename = rename or (lambda path: path)
        self.classes = classes
        self.notes = list(recording.notes)

    def warn(self, text, path=None):
        if (text, path) not in self.notes:
            self.notes.append((text, path))

    def warnings(self):
        """The texts of the notes; equal ones of the elements of an array once."""
        groups = {}
        for text, path in self.notes:
            groups.setdefault(text, []).append(path)
        return [said(text, path) for text, paths in groups.items()
                for path in ([None] if paths == [None] else
                             join(paths, self.arrays))]

    def pdl(self, path):
        """The path in PDL; None after a warning if there is none."""
        found = self.rename(path) if path else ""
        if found is None:
            self.warn("{} is not in the model in PDL", path)
        return found

    def join(self, paths):
        paths = [self.pdl(p) for p in paths]
        return [self.shown(p) for p in join([p for p in paths if p is not None],
                                            self.arrays)]

    def shown(self, pattern):
        """A pattern as PDL has it: `model` is the model itself, so a child of that name
        is written as a pattern that only it matches."""
        if pattern != "model":
            return pattern or "model"
        names = {p.split(".")[0] for p in (*self.recording.classes,
                                           *self.recording.parameters)}
        return next((p for p in ("model*", "*model", "mod*el", "m*odel", "mo*del", "mode*l")
                     if [n for n in names if fnmatchcase(n, p)] == ["model"]), "model*")

    def grouped(self, entries):
        """Joins (path, text) entries with equal text and equal templates, in the
        order in which they first appear: rows (pattern, text)."""
        groups = {}
        for path, text in entries:
            found = self.pdl(path)
            if found is not None:
                template, _ = self.arrays.split(found)
                groups.setdefault((template, text), []).append(found)
        return [(self.shown(pattern), text)
                for (_, text), paths in groups.items()
                for pattern in join(paths, self.arrays)]

    # parallelize

    def parallelize(self):
        lines = []
        styles = [s for s in self.recording.styles if s.kind != EXPERTS]
        styles += self.recording.placements
        for axis in dict.fromkeys(s.axis for s in styles):
            entries = self._one_style_each([s for s in styles if s.axis == axis])
            lines += self._styles(axis, self.grouped(entries))
        return lines

    def _styles(self, axis, rows):
        if not rows:
            return []
        return [f"{INDENT}parallelize {axis} {{",
                *(INDENT * 2 + row for row in aligned(rows)), f"{INDENT}}}"]

    def _wanted(self, path):
        found = self.rename(path) if path else ""
        template, _ = self.arrays.split(found or "")
        return self.inputs.get(found, self.inputs.get(template))

    def _one_style_each(self, styles):
        """(path, text) of styles. A module with two styles that PDL does not
        accept together keeps the last one."""
        kept = {}
        for style in styles:
            others = kept.setdefault(style.path, [])
            if others and frozenset((others[-1].kind, style.kind)) not in TOGETHER:
                if others[-1] != style:
                    self.warn(f"{{}} has several styles on '{style.axis}'; the last "
                              "one is used", style.path)
                others.clear()
            others.append(style)
        entries = [(s.path, style_text(s, self._wanted(s.path)))
                   for found in kept.values() for s in found]
        return [(path, text) for path, text in entries if text]

    def experts(self):
        found = [s for s in self.recording.styles if s.kind == EXPERTS]
        return [line for axis in dict.fromkeys(s.axis for s in found)
                for line in clause(f"expert_parallel {axis}", self.grouped(
                    [(s.path, "") for s in found if s.axis == axis]))]

    # fully_shard

    def fully_shard(self):
        units = self._with_parameters(self.recording.units)
        lines = []
        for axes in dict.fromkeys(u.axes for u in units):
            rows = self._unit_rows([u for u in units if u.axes == axes])
            head = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
            lines += clause(f"fully_shard {head}", rows)
        return lines

    def _with_parameters(self, units):
        """The units that have parameters of their own: a parameter is in the
        innermost unit that contains it. A tied one counts under another name if
        no unit contains its own."""
        owners = {}
        for unit in units:
            for path in unit.paths:
                owners[path] = unit
        owning = set()
        for name in self.recording.parameters:
            for known in (name, *self.recording.aliases.get(name, ())):
                found = [p for p in owners if within(known, p)]
                if found:
                    owning.add(id(owners[max(found, key=len)]))
                    break
        return [u for u in units if id(u) in owning and owners[u.paths[0]] is u]

    def _unit_rows(self, units):
        self._share_prefetch(units)
        rows = self._policy_rows(units)
        single = [(u.paths[0], options(u)) for u in units
                  if len(u.paths) == 1 and u.paths[0] and not u.policy]
        # Groups, and single modules in the order of the calls.
        rows += self.grouped(single)
        rows += self._group_rows([u for u in units if len(u.paths) > 1])
        rows += [("model", options(u)) for u in units if u.paths == ("",)]
        return rows

    def _share_prefetch(self, units):
        """The last layers of a loop prefetch fewer units, as none are left: all
        layers of an array have the largest number."""
        largest = {}
        for unit in units:
            key = tuple(self.arrays.split(self.rename(p) or "")[0]
                        for p in unit.paths if p)
            largest.setdefault(key, []).append(unit)
        for alike in largest.values():
            most = max(int(u.options.get("prefetch", 0)) for u in alike)
            if most:
                for unit in alike:
                    unit.options["prefetch"] = str(most)

    def _policy_rows(self, units):
        """Units of an auto_wrap_policy: `every Class` if they are all modules of
        the class, else their paths."""
        chosen = {u.paths[0]: options(u) for u in units if u.policy}
        return self._every(chosen)

    def _every(self, chosen):
        """Rows of the texts by path: `every Class` where a class has several
        modules, all with the same text."""
        rows, paths = [], []
        classes = self.recording.classes
        for kind in dict.fromkeys(classes[p] for p in chosen):
            members = [p for p, c in classes.items() if c == kind]
            texts = {chosen.get(p) for p in members}
            own = [(p, t) for p, t in chosen.items() if classes[p] == kind]
            known = kind if self.classes is None else self.classes.get(kind)
            if len(texts) == 1 and len(members) > 1 and known:
                rows.append((f"every {known}", own[0][1]))
            else:
                paths += own
        return rows + self.grouped(paths)

    def _group_rows(self, units):
        """Units of several modules. Equal groups in the elements of an array are
        one item."""
        groups = {}
        for unit in units:
            found = [self.pdl(p) for p in unit.paths]
            found = [p for p in found if p is not None]
            split = [self.arrays.split(p) for p in found]
            key = (tuple(t for t, _ in split), options(unit))
            groups.setdefault(key, []).append(found)
        rows = []
        for (_, text), members in groups.items():
            columns = [join(column, self.arrays) for column in zip(*members)]
            for patterns in zip(*columns):
                rows.append((bracketed([self.shown(p) for p in patterns]), text))
        return rows

    # The other clauses

    def checkpoint(self):
        found = {c.path: c for c in self.recording.checkpoints}
        texts = {p: keep_text(c.keep) for p, c in found.items()}
        policy = {p: t for p, t in texts.items() if found[p].policy}
        rows = self._every(policy)
        rows += self.grouped([(p, t) for p, t in texts.items() if p not in policy])
        return clause("checkpoint", [self._every_nth(*row) for row in rows])

    def _every_nth(self, pattern, text):
        """`layers.*: every=2` for `layers.0-30:2` of an array of 32 or 31."""
        segments = pattern.split(".")
        nth = [i for i, s in enumerate(segments) if ":" in s]
        if len(nth) != 1 or "*" in segments:
            return pattern, text
        at = nth[0]
        bounds, step = segments[at].split(":")
        first, last = map(int, bounds.split("-"))
        starred = [*segments[:at], "*", *segments[at + 1:]]
        size = self.arrays.size(".".join(starred), ())
        if first or size is None or last + int(step) < size:
            return pattern, text
        every = f"every={step}"
        return ".".join(starred), f"{every}, {text}" if text else every

    def offload(self):
        if not self.recording.offload:
            return []
        return clause("offload", [(o, "") for o in self.recording.offload])

    def freeze(self):
        """The frozen parameters, as modules where all parameters are frozen."""
        frozen = set(self.recording.frozen)
        if not frozen:
            return []
        paths = []
        for name in self.recording.frozen:
            path = self._frozen_module(name, frozen)
            if path not in paths:
                paths.append(path)
        return clause("freeze", [(p, "") for p in self.join(paths)])

    def _frozen_module(self, name, frozen):
        segments = name.split(".")
        for end in range(1, len(segments)):
            path = ".".join(segments[:end])
            inside = [p for p in self.recording.parameters if within(p, path)]
            array = path in self.arrays.sizes
            if not array and all(p in frozen for p in inside):
                return path
        return name


def options(unit):
    """The options of a unit in the order of docs/pdl.md."""
    order = ("strategy", "reshard", "prefetch", "gather", "reduce")
    return ", ".join(f"{k}={unit.options[k]}" for k in order if k in unit.options)


def keep_text(keep):
    if not keep:
        return ""
    return f"keep={keep[0]}" if len(keep) == 1 else f"keep=({', '.join(keep)})"
