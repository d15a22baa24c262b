"""Writes bodies as the text of a PDL file.

Each class becomes a module. A value that one statement reads is written in place;
others get the name that the user's source gives them. Bodies of a class with equal
text share one module.
"""

import re

from .body import ImportFault, Loop, Value, arguments, values_in
from .formals import Number, expression
from .prelude import DEFAULTS

INFIX = {"add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5),
         "matmul": ("@", 5), "pow": ("**", 7), "==": ("==", 3), "!=": ("!=", 3),
         "<": ("<", 3), "<=": ("<=", 3), ">": (">", 3), ">=": (">=", 3)}
CALL = 9
MARK = "\x01"  # around numbers, until the lines of a module are whole
WIDTH = 88
WORDS = {"if", "else", "for", "in", "return", "and", "or", "not", "true", "false", "none",
         "module", "model", "function", "plan", "train", "names", "param", "buffer", "tie",
         "forward", "batch", "seq", "training"}


def number_text(x):
    """A literal: integers as they are, floats with the digits that give them back."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, int):
        return str(x)
    text = repr(float(x))
    if "e" in text and "." not in text.split("e")[0]:
        return re.sub(r"e([+-])0*", lambda m: "e-" if m[1] == "-" else "e", text)
    return text


def assigned_name(text):
    """'h' of the source line 'h = x + f(x)', or of its first line."""
    match = re.match(r"\s*([A-Za-z_]\w*)\s*(:[^=]+)?=(?!=)", text)
    return match[1] if match else ""


def assigned_names(text):
    """['q', 'k'] of the source line 'q, k = f(x)'."""
    match = re.match(r"\s*\(?((?:\w+\s*,\s*)+\w+)\)?\s*=(?!=)", text)
    return re.findall(r"\w+", match[1]) if match else []


def plain_name(text):
    """A name of the traced graph without its number: 'add' of 'add_3'."""
    return re.sub(r"(_\d+)+$", "", text) or "x"


class Module:
    """The text of one module. `formals`: {name: Number}, in the order of use."""

    def __init__(self, writer, body):
        self.writer = writer
        self.body = body
        self.formals = {}
        self.numbers = []  # (Number, text) in the order of the lines
        self.names = {}
        self.taken = set(WORDS) | set(body.children) | set(body.params) | {"batch", "seq"}
        self.scope = {**body.formals, **writer.shared}
        members, lines = self.member_lines(), self.forward_lines()
        self.form = [re.sub(f"{MARK}[^{MARK}]*{MARK}", MARK, x) for x in members + lines]
        self.members = wrapped([x.replace(MARK, "") for x in members])
        self.lines = wrapped([x.replace(MARK, "") for x in lines])
        order = list(body.formals)
        self.formals = dict(sorted(self.formals.items(), key=lambda f: order.index(f[0])
                                   if f[0] in order else len(order)))

    # numbers and formals

    def number(self, x, hint="size"):
        """The text of a number. A size that follows from no formal becomes one with
        the name `hint`."""
        if not isinstance(x, Number):
            return number_text(x)
        text = self.formal_text(x, hint) if x.varies() else number_text(x.base)
        self.numbers.append((x, text))
        return f"{MARK}{text}{MARK}"

    def formal_text(self, x, hint):
        text = expression(x, self.scope)
        if text is None:
            if any(v != x.base for formal, v in x.other if formal in self.writer.shared):
                self.writer.faults.append(
                    f"{self.body.path or 'the model'} (class {self.body.cls}): the size "
                    f"{x.base} depends on the batch or the sequence in a way that has no "
                    "expression yet")
            name = hint
            while name in self.scope:
                name += "_"
            self.scope[name] = x
            text = name
        for name in re.findall(r"[A-Za-z_]\w*", text):
            if name not in self.writer.shared:
                self.formals.setdefault(name, self.scope[name])
        return text

    def argument(self, x):
        if isinstance(x, tuple):
            inner = ", ".join(self.argument(y) for y in x)
            return f"({inner},)" if len(x) == 1 else f"({inner})"
        if isinstance(x, bool):
            return "true" if x else "false"
        return str(x) if isinstance(x, str) else self.number(x)

    def fits(self, other):
        """The formals of this text that give another body of the class, or None."""
        if self.form != other.form or len(self.numbers) != len(other.numbers):
            return None
        values = {n: other.scope.get(n, other.formals.get(n)) for n in self.formals}
        if None in values.values():
            return None
        known = {**other.scope, **values}
        for (_, text), (number, _) in zip(self.numbers, other.numbers):
            if not same_number(text, number, known):
                return None
        return values

    # members

    def member_lines(self):
        rows = []
        for name, children in self.body.children.items():
            rows.append((f"{name}:", self.child(name, children)))
        wide = max((len(a) for a, _ in rows), default=0)
        lines = [f"{a:<{wide}} {b}" for a, b in rows]
        for name, v in self.body.params.items():
            shape = ", ".join(self.number(d) for d in v.dims)
            lines.append(f"param {name}[{shape}] = {self.writer.initial(self, self.writer.parameter(self.body, name), True)}")
        return lines + self.writer.ties(self.body)

    def child(self, name, children):
        if len(children) > 1 and not self.is_array(name):
            self.writer.faults.append(f"{self.body.path or 'the model'}.{name} is called "
                                      f"{len(children)} times, which is not supported yet")
            return ""
        made = [self.writer.call_text(self, c) for c in children]
        if len(set(made)) > 1:
            self.writer.faults.append(
                f"{self.body.path or 'the model'}.{name}: its elements differ: "
                + "; ".join(sorted(set(made))))
        if len(children) == 1 and not self.is_array(name):
            return made[0]
        return f"[{self.number(self.count(name))}] {made[0]}"

    def is_array(self, name):
        return any(isinstance(s, Loop) and s.array == name for s in self.body.stmts)

    def count(self, name):
        return next(s.count for s in self.body.stmts if isinstance(s, Loop) and s.array == name)

    # the forward

    def forward_lines(self):
        names = self.writer.input_names(self.body)
        for v, name in zip(self.body.inputs, names):
            self.names[v] = self.unique(name)
        inputs = ", ".join(self.writer.declaration(self, v) for v in self.body.inputs)
        lines = [f"forward({inputs}) {{"]
        lines += ["    " + x for x in self.statements(self.body.stmts, self.body.outputs)]
        results = ", ".join(self.text(v)[0] for v in self.body.outputs)
        return lines + [f"    return {results}", "}"]

    def unique(self, name):
        name = re.sub(r"\W", "_", name)
        base, n = name, 2
        while name in self.taken:
            name, n = f"{base}{n}", n + 1
        self.taken.add(name)
        return name

    def statements(self, stmts, outputs, fixed=()):
        """The lines of statements. `fixed`: values that already have a name, which
        is assigned."""
        order = Order(stmts, outputs, fixed)
        lines = []
        for at, s in enumerate(stmts):
            if isinstance(s, Loop):
                lines += self.loop(s, order, at)
            elif s in order.kept:
                lines.append(self.assign(s, order, at))
            else:
                s.outs[0].inline = s
        return lines

    def assign(self, s, order, at):
        text = self.apply(s)[0]
        several = assigned_names(getattr(s, "text", ""))
        for i, v in enumerate(s.outs):
            if v not in self.names:
                hint = several[i] if len(several) == len(s.outs) > 1 else self.suggest(s, v)
                self.names[v] = self.free_name(hint, order, at)
        return ", ".join(self.names[v] for v in s.outs) + f" = {text}"

    def free_name(self, name, order, at):
        """The name itself if nobody reads its value from here on, else a new one."""
        holders = [v for v, n in self.names.items() if n == name]
        if holders and name not in self.body.children and name not in self.body.params and \
                all(v in order.last and order.last[v] <= at for v in holders):
            return name
        return self.unique(name)

    def suggest(self, s, v):
        if len(s.outs) == 1:
            name = assigned_name(getattr(s, "text", ""))
            if name:
                return name
        return plain_name(v.name) if s.op != "call" else s.child.split(".")[-1] + "_out"

    def loop(self, s, order, at):
        lines = []
        for (start, inside, last), out in zip(s.carries, s.outs):
            hint = assigned_name(getattr(last.stmt, "text", "")) or \
                (self.suggest(start.stmt, start) if start.stmt else "h")
            name = self.names.get(start)
            if not name or order.last.get(start, at) > at:
                text = self.text(start)[0]
                name = self.free_name(hint, order, at)
                if text != name:
                    lines.append(f"{name} = {text}")
            for v in (inside, last, out):
                self.names[v] = name
        element = self.unique(element_name(s.array))
        self.element = (s.array, element)
        inner = self.statements(s.body, [c[2] for c in s.carries],
                                fixed=[c[2] for c in s.carries])
        head = f"for {element} in {s.array} {{"
        if len(inner) == 1 and len(inner[0]) < 60:
            return lines + [f"{head} {inner[0]} }}"]
        return lines + [head] + ["    " + x for x in inner] + ["}"]

    def text(self, v):
        """(text, precedence) of an operand."""
        if not isinstance(v, Value):
            text = self.argument(v)
            return text, CALL if re.fullmatch(r"[\w.]+", text) else 5
        if v in self.names:
            return self.names[v], CALL
        if v.kind == "param":
            return v.name, CALL
        if getattr(v, "inline", None):
            return self.apply(v.inline)
        if v.const is not None:
            self.writer.faults.append(
                f"{self.body.path or 'the model'} (class {self.body.cls}): a table of shape "
                f"{list(v.shape)} has no expression in PDL")
        return "unknown", CALL

    def apply(self, s):
        if s.op in INFIX:
            return self.infix(s)
        if s.op == "neg":
            text, level = self.text(s.args[0])
            return f"-{text if level >= 6 else '(' + text + ')'}", 6
        if s.op == "einsum":
            form, *rest = s.args
            return f'einsum("{form}", {", ".join(self.text(x)[0] for x in rest)})', CALL
        if s.op == "rope" and s.args[1:] and not s.args[1].varies() and \
                s.args[1].base == 10000.0:
            s.args = s.args[:1]
        name = s.op
        if s.op == "call":
            array, element = getattr(self, "element", (None, None))
            name = element if s.child == array else s.child
        args = [self.text(x)[0] if isinstance(x, Value) else self.argument(x) for x in s.args]
        args += [f"{k}={self.argument(x)}" for k, x in s.named.items()]
        return f"{name}({', '.join(args)})", CALL

    def infix(self, s):
        sign, level = INFIX[s.op]
        left, a = self.text(s.args[0])
        right, b = self.text(s.args[1])
        if a < level or (s.op == "pow" and a == level):
            left = f"({left})"
        if b < level or (b == level and s.op not in ("add", "mul")):
            right = f"({right})"
        return f"{left} {sign} {right}", level


def same_number(text, number, scope):
    """Whether a text has a number's value in every trace."""
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\d[\d.]*e", "", text))
    for i, want in enumerate(number.values()):
        at = {n: scope[n].values()[i] if i < len(scope[n].values()) else scope[n].base
              for n in names if n in scope}
        try:
            if abs(eval(text, {"__builtins__": {}}, at) - want) > 1e-9 * abs(want):
                return False
        except (NameError, SyntaxError, ZeroDivisionError):
            return False
    return True


class Order:
    """Which statements get a line of their own, and when values are read last.

    `kept`: those whose result several read, or whose name in the user's source
    belongs to a long expression. All others are written where their only reader
    is. `last`: {value: index of the line that reads it last}."""

    def __init__(self, stmts, outputs, fixed):
        self.kept = set()
        self.last = {}
        end, readers = len(stmts), {}
        for at, s in enumerate(stmts):
            for v in arguments(s):
                readers.setdefault(v, []).append(at)
        for v in values_in(outputs):
            readers.setdefault(v, []).append(end)
        weight = {}
        for at, s in enumerate(stmts):
            if isinstance(s, Loop):
                continue
            single = len(s.outs) == 1 and len(readers.get(s.outs[0], [])) == 1
            weight[at] = 1 + sum(weight.get(index_of(v, stmts, at), 0) for x in s.args
                                 for v in values_in(x))
            if not single or s.outs[0] in fixed or self.is_long(stmts, at, weight, readers):
                self.kept.add(s)
                weight[at] = 0
            elif readers[s.outs[0]][0] < end and isinstance(stmts[readers[s.outs[0]][0]], Loop) \
                    and s.outs[0] not in [c[0] for c in stmts[readers[s.outs[0]][0]].carries]:
                self.kept.add(s)
        line = {}
        for at in range(end - 1, -1, -1):
            s = stmts[at]
            written = isinstance(s, Loop) or s in self.kept
            line[at] = at if written else line.get(readers[s.outs[0]][0], end)
            for v in arguments(s):
                self.last[v] = max(self.last.get(v, -1), line[at])
        for v in values_in(outputs):
            self.last[v] = end

    @staticmethod
    def is_long(stmts, at, weight, readers):
        s = stmts[at]
        text = getattr(s, "text", "")
        following = stmts[at + 1] if at + 1 < len(stmts) else None
        ends = following is None or getattr(following, "text", "") != text
        returned = readers[s.outs[0]][0] == len(stmts)
        return bool(assigned_name(text)) and ends and weight[at] > 1 and not returned


def index_of(v, stmts, before):
    for i in range(before - 1, -1, -1):
        if v in stmts[i].outs:
            return i
    return -1


def wrapped(lines):
    """Breaks long lines after commas, under the parenthesis that is open there."""
    out = []
    for line in lines:
        start = len(line) - len(line.lstrip())
        out += [" " * start + x for x in fill(line[start:], start)]
    return out


def fill(text, column):
    """The lines of a text that begins at a column of the page."""
    limit = WIDTH - 4 - column
    group = widest_group(text) if len(text) > limit else None
    if not group:
        return [text]
    begin, end, cuts = group
    parts = [text[a:b].strip() for a, b in zip([begin] + cuts, cuts + [end])]
    parts[-1] += text[end:]
    lines, line = [], text[:begin]
    for i, part in enumerate(parts):
        space = " " if i and len(line) > begin else ""
        if len(line) + len(space) + len(part) > limit and len(line) > begin:
            lines.append(line)
            line, space = " " * begin, ""
        first, *more = fill(part, column + begin) if len(line) == begin else [part]
        rows = [line + space + first] + [" " * begin + x for x in more]
        lines += rows[:-1]
        line = rows[-1]
    return lines + [line]


def widest_group(text):
    """(begin, end, commas) of the largest group in parentheses."""
    found, depth, begin, cuts = [], 0, 0, []
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
            if depth == 1:
                begin, cuts = i + 1, []
        elif c in ")]":
            depth -= 1
            if depth == 0:
                found.append((i - begin, begin, i, cuts))
        elif c == "," and depth == 1:
            cuts.append(i + 1)
    best = max(found, default=None)
    return best and (best[1], best[2], best[3])


def element_name(array):
    name = array.split(".")[-1]
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and len(name) > 2 else "block"


def is_default(module, name, x):
    """Whether an argument of a prelude module may be left out."""
    return isinstance(x, Number) and not x.varies() and x.base == DEFAULTS.get((module, name))


class Writer:
    """The file. `shared`: names that every module sees (batch and seq)."""

    def __init__(self, trace, shared):
        self.trace = trace
        self.shared = shared
        self.faults = []
        self.modules = {}  # class: [(Module, name)]
        self.used = {}  # path of a body: its Module, and the values of the formals
        self.order = []

    def parameter(self, body, name):
        full = f"{body.path}.{name}" if body.path else name
        return self.trace.params[full].detach()

    def ties(self, body):
        if body.path:
            return []
        lines = []
        for name, p in self.trace.params.items():
            first = self.trace.first_name[id(p)]
            if name != first:
                lines.append(f"tie {name} = {first}")
        return lines

    def call_text(self, parent, child):
        """'Block(dim, hidden)'."""
        if child.prelude:
            name, args, named = child.prelude
            words = [parent.number(x) for x in args]
            words += [f"{k}={parent.argument(x)}" for k, x in named.items()
                      if not is_default(name, k, x)]
            words += self.prelude_init(parent, child)
            return f"{name}({', '.join(words)})"
        formals, name = self.module(child)
        return f"{name}({', '.join(parent.number(x, n) for n, x in formals.items())})"

    def initial(self, module, tensor, own=False):
        """An initializer, of a formal if there is one."""
        floats = [(n, x.base) for n, x in module.scope.items() if isinstance(x.base, float)]
        text = initializer(tensor, floats)
        if own and re.fullmatch(r"normal\([\d.e-]+\)", text):
            name = "std" if "std" not in module.formals else f"std{len(module.formals)}"
            module.formals[name] = module.scope[name] = Number(float(text[7:-1]))
            module.numbers.append((module.formals[name], name))
            return f"normal({MARK}{name}{MARK})"
        for name, _ in floats:
            if text == f"normal({name})":
                module.formals.setdefault(name, module.scope[name])
        return text

    def prelude_init(self, parent, child):
        """init= where the weights are not drawn as the prelude does."""
        name, _, named = child.prelude
        if name not in ("Linear", "Embedding"):
            return []
        w = self.parameter(child, "weight")
        usual = (3 * w.shape[1]) ** -0.5 if name == "Linear" else 1.0
        spread = float(w.double().std())
        words = [] if abs(spread / usual - 1) < 0.1 else [f"init={self.initial(parent, w)}"]
        if name == "Linear" and named.get("bias") is None:
            bias = self.parameter(child, "bias")
            if not bool(bias.any()):
                words.append("bias_init=zeros")
        return words

    def module(self, body):
        """(formals, name) of the module of a body; written at the first of its kind."""
        m = Module(self, body)
        known = self.modules.setdefault(body.cls, [])
        for other, name in known:
            values = other.fits(m)
            if values is not None:
                self.used[body.path] = other, values
                return values, name
        name = body.cls if not known and body.cls not in ("Linear", "Embedding") else \
            f"{body.cls}{len(known) + 1}"
        known.append((m, name))
        self.order.append((name, m))
        self.used[body.path] = m, m.formals
        return m.formals, name

    def input_names(self, body):
        return [plain_name(v.name) for v in body.inputs] if not body.path else \
            self.trace.argument_names(body)

    def declaration(self, module, v):
        name = module.names[v]
        if module.body.path:
            return name
        shape = ", ".join(module.number(d) for d in v.dims)
        if v.dtype is not None and not v.dtype.is_floating_point:
            return f"{name}: int({module.number(self.trace.bound(v))})[{shape}]"
        return f"{name}: [{shape}]"

    def file(self, body, name, head):
        m = Module(self, body)
        self.used[body.path] = m, m.formals
        if self.faults:
            raise ImportFault(sorted(set(self.faults)))
        lines = [f"# {x}" for x in head]
        for cls, module in self.order:
            lines += ["", *wrapped([f"module {cls}({', '.join(module.formals)}) {{"])]
            lines += inside(module) + ["}"]
        defaults = ", ".join(f"{k}={number_text(v.base)}" for k, v in m.formals.items())
        start = f"model {name}({defaults}) {{" if defaults else f"model {name} {{"
        return lines + ["", *wrapped([start])] + \
            inside(m) + ["}"]


def inside(module):
    lines = module.members + ([""] if module.members else []) + module.lines
    return ["    " + x if x else "" for x in lines]


def initializer(w, floats=()):
    """'normal(0.02)': the initializer that fits the elements. `floats`: (name,
    value) of the numbers that a standard deviation may be."""
    if not bool(w.any()):
        return "zeros"
    if bool((w == 1).all()):
        return "ones"
    std = float(w.double().std())
    near = 4 * std / (2 * w.numel()) ** 0.5
    for name, value in floats:
        if abs(value - std) <= near:
            return f"normal({name})"
    digits = next((n for n in range(1, 6) if abs(float(f"{std:.{n}g}") - std) <= near), 6)
    return f"normal({std:.{digits}g})"
