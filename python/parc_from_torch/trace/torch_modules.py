"""Modules of torch.nn that compute in another order of dims than PDL.

    nn.MultiheadAttention    flattens the batch with the heads and computes the sequence
                             first. Here it is written as attention of whole heads.
"""

from torch import nn

from ..ir.body import Body, Value, values_in
from ..ir.new_statements import Statements


class Rewriter(Statements):
    """New statements for a body."""

    def __init__(self, body, line):
        super().__init__(body.outputs[0].dtype, "h", line)

    def call(self, child, x):
        """The result of a child, of x's shape."""
        y = self.make("call", [x], x.shape)
        y.stmt.child, y.stmt.callee = child.path.rpartition(".")[2], child
        return y

    def swapped(self, x, do):
        """x with its first two dims exchanged, if `do`."""
        a, b, *rest = x.shape
        return self.make("transpose", [x, 0, 1], (b, a, *rest)) if do else x

    def linear(self, x, weight, bias):
        shape = (*x.shape[:-1], weight.shape[0])
        y = self.make("einsum", ["...k, fk -> ...f", x, weight], shape)
        return y if bias is None else self.make("add", [y, bias], shape)


def source(x):
    """The input that a value is computed from."""
    while x.stmt:
        x = next(v for a in x.stmt.args for v in values_in(a) if v.kind != "param")
    return x


def heads_of(w, inputs, params, module):
    """The queries, keys and values [batch, seq, heads, d]. The rows of in_proj_weight
    are those of the three; one product computes them if they have one input."""
    weight, bias = params["in_proj_weight"], params.get("in_proj_bias")
    e, n = module.embed_dim, module.num_heads
    if inputs[0] is inputs[1] is inputs[2]:
        x = inputs[0]
        parts = w.several("split", [w.linear(x, weight, bias), 3], [(*x.shape[:-1], e)] * 3,
                          {"dim": -1}, names="qkv")
    else:
        weights = w.several("split", [weight, 3], [(e, e)] * 3, {"dim": 0},
                            names=("wq", "wk", "wv"))
        biases = [None] * 3 if bias is None else \
            w.several("split", [bias, 3], [(e,)] * 3, {"dim": 0}, names=("bq", "bk", "bv"))
        parts = [w.linear(*row) for row in zip(inputs, weights, biases)]
    return [w.make("heads", [x, n], (*x.shape[:-1], n, e // n)) for x in parts]


def projection(body, w):
    """The child out_proj, whose parameters F.multi_head_attention_forward reads."""
    own = {n.rsplit(".")[-1]: p for n, p in body.params.items() if n.startswith("out_proj.")}
    child = Body(f"{body.path}.out_proj".strip("."), "Linear", line=w.line)
    child.params = {n: Value(p.shape, p.dtype, n, kind="param") for n, p in own.items()}
    return child


def attention(body, module):
    """Rewrites the body of nn.MultiheadAttention."""
    found = [s for s in body.stmts if s.op == "attention"]
    if len(found) != 1 or len(body.outputs) != 1 or "in_proj_weight" not in body.params:
        return
    w = Rewriter(body, found[0].line)
    inputs = [source(x) for x in found[0].args]
    turned = not module.batch_first
    sides = {v: w.swapped(v, turned) for v in dict.fromkeys(inputs)}
    q, k, v = heads_of(w, [sides[x] for x in inputs], body.params, module)
    x = w.make("attention", [q, k, v], q.shape, dict(found[0].named))
    x = w.make("merge_heads", [x], (*q.shape[:2], module.embed_dim))
    child = projection(body, w)
    inner = Rewriter(body, w.line)
    given = Value(x.shape, x.dtype, "input", kind="input", caller=x)
    child.inputs = [given]
    child.outputs = [inner.linear(given, child.params["weight"], child.params.get("bias"))]
    child.stmts = inner.stmts
    x = w.swapped(w.call(child, x), turned)
    body.stmts, body.outputs = w.stmts, [x]
    body.children["out_proj"] = [child]
    body.params = {n: p for n, p in body.params.items() if not n.startswith("out_proj.")}


def rewrite(body, module):
    if type(module) is nn.MultiheadAttention:
        attention(body, module)
