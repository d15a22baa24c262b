"""Gives the calls of equal modules equal inputs.

torch.export passes a tensor to a module once, also where the module's forward takes
it as two arguments. The first of these calls then has fewer inputs:

    h = x
    for layer in layers:
        h = layer(h, x)     # layer(x), then layer(h, x)

The call with fewer inputs gets those of the other one, with one value for several.
"""

from .body import Different, Stmt, Value, map_arguments, values_in


class Match:
    """What corresponds to each value of a body `general` in a body `special`."""

    def __init__(self, general, special):
        self.general, self.special = general, special
        self.of = {}
        if len(general.stmts) != len(special.stmts) or \
                general.params.keys() != special.params.keys():
            raise Different
        for name, p in general.params.items():
            self.of[p] = special.params[name]
        self.inner = [self.statement(s, t) for s, t in zip(general.stmts, special.stmts)]
        self.values(general.outputs, special.outputs)
        if any(v not in self.of for v in general.inputs):
            raise Different

    def statement(self, s, t):
        """Matches a statement. Returns the Match of the modules that it calls, if they
        have different numbers of inputs."""
        if not isinstance(s, Stmt) or not isinstance(t, Stmt) or s.op != t.op or \
                s.child != t.child or s.named.keys() != t.named.keys():
            raise Different
        inner = None
        if s.callee and len(s.callee.inputs) != len(t.callee.inputs):
            inner = Match(s.callee, t.callee)
        self.values([s.args, s.named], [inner.wider(t) if inner else t.args, t.named])
        for v, w in zip(s.outs, t.outs):
            self.of[v] = w
        return inner

    def wider(self, call):
        """The arguments of the call of the special body, one for each input of the
        general one."""
        at = {v: x for v, x in zip(self.special.inputs, call.args)}
        return [at[self.of[v]] for v in self.general.inputs]

    def values(self, x, y):
        """Matches the values of two arguments."""
        mine, theirs = list(flat(x)), list(flat(y))
        if len(mine) != len(theirs):
            raise Different
        for v, w in zip(mine, theirs):
            if v.const is None and self.of.setdefault(v, w) is not w:
                raise Different

    def widen(self, call):
        """Gives the special body the general one's inputs, and its call arguments."""
        call.args = self.wider(call)
        own = {v: Value(v.shape, v.dtype, v.name, kind="input", caller=x)
               for v, x in zip(self.general.inputs, call.args)}
        for s, t, inner in zip(self.general.stmts, self.special.stmts, self.inner):
            if inner:
                inner.widen(t)
            general = iter(list(flat([s.args, s.named])))
            map_arguments(t, lambda w, of=general: own.get(next(of), w))
        self.special.outputs = [own.get(v, w) for v, w in
                                zip(self.general.outputs, self.special.outputs)]
        self.special.inputs = list(own.values())


def flat(x):
    if isinstance(x, dict):
        x = list(x.values())
    return values_in(x)


def align(calls):
    """Gives the callees of calls equal inputs, where they differ in nothing else."""
    general = max((s.callee for s in calls), key=lambda b: len(b.inputs))
    for call in calls:
        if len(call.callee.inputs) < len(general.inputs):
            try:
                Match(general, call.callee).widen(call)
            except Different:
                continue
