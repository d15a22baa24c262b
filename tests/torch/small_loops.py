"""Small models with loops, shared modules and names (small.py)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return F.silu(self.fc(x))


class Layers(nn.Module):
    """Layers for the forward of a subclass, and the loss of its result."""

    def __init__(self, dim=8, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(n_layers))
        self.head = nn.Linear(dim, dim)

    def loss(self, x, y):
        return (self.head(x) - y).square().mean()


def inputs(dim=8, seq=4):
    return torch.randn(2, seq, dim), torch.randn(2, seq, dim)


@case(lines=["for layer in layers { x = layer(x) }"], defines=["n_layers=5 dim=16"])
def plain_loop():
    class Plain(Layers):
        def forward(self, x, y):
            for layer in self.layers:
                x = layer(x)
            return self.loss(x, y)
    return Plain(), inputs()


@case(lines=["for layer in layers { h = layer(h) + x }"], defines=["n_layers=5"])
def start_is_read_in_the_loop():
    class Residual(Layers):
        def forward(self, x, y):
            h = x
            for layer in self.layers:
                h = layer(h) + x
            return self.loss(h, y)
    return Residual(), inputs()


@case(lines=["for layer in layers"], defines=["n_layers=5"])
def equal_starts():
    class Two(Layers):
        def forward(self, x, y):
            a, b = x, x
            for layer in self.layers:
                a, b = layer(a) + b, a * 2
            return self.loss(a + b, y)
    return Two(), inputs()


@case(lines=["for layer in layers"], defines=["n_layers=4"])
def swapped_carries():
    class Swap(Layers):
        def forward(self, x, y):
            a, b = x, x * 2
            for layer in self.layers:
                a, b = layer(b), a
            return self.loss(a - b, y)
    return Swap(), inputs()


@case(lines=["for layer in layers"])
def old_value_read_late():
    class Late(Layers):
        def forward(self, x, y):
            h = x + 1
            for layer in self.layers:
                old = h
                h = layer(h)
                h = h * torch.sigmoid(h)
                h = h + old
            return self.loss(h, y)
    return Late(), inputs()


@case(lines=["for layer in layers"])
def outer_value_read_later():
    class Outer(Layers):
        def forward(self, x, y):
            z = x * 2
            t = torch.tanh(z) + z
            for layer in self.layers:
                z2 = t * x
                t2 = layer(x) + z2
                x = torch.tanh(t2) * t2
            return self.loss(x + z, y)
    return Outer(), inputs()


@case(lines=["for layer in layers"], defines=["n_layers=4"])
def value_of_the_last_iteration():
    class Last(Layers):
        def forward(self, x, y):
            for layer in self.layers:
                z = torch.tanh(layer(x))
                x = x + z
            return self.loss(x * z, y)
    return Last(), inputs()


@case(lines=["for layer in layers"], defines=["n_layers=4"])
def value_before_the_last():
    class Before(Layers):
        def forward(self, x, y):
            for layer in self.layers:
                before = x
                x = layer(x)
            return self.loss(x - before, y)
    return Before(), inputs()


@case(lines=["layers_0: Layer", "layers_2 -> layers.2"])
def all_hidden_states():
    class All(Layers):
        def forward(self, x, y):
            states = []
            for layer in self.layers:
                x = layer(x)
                states.append(x)
            return self.loss(sum(states), y)
    return All(), inputs()


@case(lines=["for layer in layers"], defines=["n_layers=4"])
def several_passes():
    class Passes(Layers):
        def forward(self, x, y):
            for _ in range(2):
                for layer in self.layers:
                    z = torch.tanh(layer(x)) + x
                    x = z * torch.sigmoid(z)
            x = torch.tanh(x) * x
            return self.loss(x, y)
    return Passes(), inputs()


@case(lines=["layers_1(layers_2(x))"])
def reversed_order():
    class Reversed(Layers):
        def forward(self, x, y):
            for layer in reversed(self.layers):
                x = layer(x)
            return self.loss(x, y)
    return Reversed(), inputs()


@case(lines=["[2] Layer"])
def first_of_an_array():
    class First(Layers):
        def forward(self, x, y):
            for layer in self.layers[:2]:
                x = layer(x)
            return self.loss(x, y)
    return First(), inputs()


@case(lines=["layers_1(x)"])
def rest_of_an_array():
    class Rest(Layers):
        def forward(self, x, y):
            for layer in self.layers[1:]:
                x = layer(x)
            return self.loss(x, y)
    return Rest(), inputs()


@case(lines=["[n_layers] Layer"], defines=["n_layers=4"])
def one_layer():
    class One(Layers):
        def forward(self, x, y):
            for layer in self.layers:
                x = x + layer(x)
            return self.loss(x, y)
    return One(n_layers=1), inputs()


@case(lines=["x * (a @ x)", "b + (x - b) - (b - x) / (x * b + 3)", "(c < d) == (x > 0)"])
def parentheses():
    class Parentheses(Layers):
        def forward(self, x, y):
            a = x @ x.transpose(1, 2)
            b = x * (a @ x)
            c = b + (x - b) - (b - x) / (x * b + 3)
            d = -(c + x) * 2 - (-1.5) * c
            e = ((c < d) == (x > 0)).to(x.dtype)
            f = (2 + c ** 2) ** 2 + e * (e * c)
            for layer in self.layers:
                f = layer(f)
            return self.loss(d + (e - f) / 1000, y)
    return Parentheses(), inputs()


class TwoNorms(nn.Module):
    """A number, children and local values with names of PDL's functions."""

    def __init__(self, dim=8, heads=2, split=3):
        super().__init__()
        self.heads = heads
        self.mean = nn.Linear(dim, dim)
        self.softmax = nn.Linear(dim, split * dim)
        self.norm = nn.Softmax(-1)
        self.none = nn.Linear(dim, dim)

    def forward(self, x, y):
        b, s, d = x.shape
        mean = self.mean(x)
        dim = torch.tanh(mean) + mean
        q, k, v = self.softmax(dim).chunk(3, -1)
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        relu = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, d)
        sigmoid = torch.sigmoid(relu) * torch.relu(relu)
        soft = self.norm(sigmoid) + sigmoid
        return ((self.none(soft) - y) ** 2).mean(dim=(1, 2)).mean() + mean.mean()


@case(lines=["mean_layer", "-> mean"], defines=["dim=16 heads=4"])
def names_of_functions():
    return TwoNorms(), inputs()


class Derived(nn.Module):
    def __init__(self, dim=8, ratio=4):
        super().__init__()
        hidden = ratio * dim
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.extra = nn.Embedding(dim + 2, dim)
        self.scale = dim ** 0.5

    def forward(self, x, y, ids):
        x = self.down(F.silu(self.up(x))) * self.scale
        return (x + self.extra(ids) - y).square().mean()


@case(lines=["model Derived(dim=8, ratio=4)", "dim + 2", "sqrt(dim)"],
      defines=["dim=16", "ratio=2"])
def derived_numbers():
    return Derived(), (*inputs(), torch.randint(0, 10, (2, 4)))


class Last(nn.Module):
    def __init__(self, dim=8, n_classes=5):
        super().__init__()
        self.embed = nn.Embedding(12, dim)
        self.norm = RMSNorm(dim)
        self.other = nn.RMSNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, ids, labels):
        h = self.embed(ids)
        h = self.norm(h) + self.other(h)
        return F.cross_entropy(self.head(h[:, -1]), labels)


class RMSNorm(nn.Module):
    """Not the prelude's."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x / (1 + x.abs().mean(-1, keepdim=True)) * self.weight


@case(lines=["seq - 1", "norm:  RMSNorm2", "other: RMSNorm("], defines=["seq=8"])
def last_token_and_own_norm():
    return Last(), (torch.randint(0, 12, (2, 6)), torch.randint(0, 5, (2,)))


class Shared(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.act = nn.GELU()
        self.fc = Layer(dim)
        self.lin = nn.Linear(dim, dim)

    def forward(self, x, y):
        x = self.act(self.lin(x)) + self.act(x)
        x = self.fc(self.fc(x)) + self.lin(self.act(x))
        return (x - y).square().mean()


@case(lines=["fc(fc(", "lin(gelu("], defines=["dim=16"])
def shared_children():
    return Shared(), inputs()


class Nets(nn.Module):
    def __init__(self, dim=8, hidden=24, depth=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.blocks = nn.Sequential(*(Layer(dim) for _ in range(depth)))
        self.parts = nn.ModuleDict({"a": Layer(dim), "b-c": Layer(dim)})
        self.gains = nn.ParameterList([nn.Parameter(torch.randn(dim)) for _ in range(2)])
        self.emb = nn.Linear(dim, dim, bias=False)

    def forward(self, x, y):
        x = self.blocks(self.net(x))
        x = self.parts["a"](x) + self.parts["b-c"](x) * self.gains[0] + self.gains[1]
        x = F.linear(self.emb(x), self.emb.weight)
        return (x - y).square().mean()


@case(lines=["blocks:    [depth] Layer(dim)", "net.layer_2 -> net.2", "emb.weight",
             "gains_0"], defines=["dim=16 hidden=12", "depth=5"])
def containers():
    return Nets(), inputs()


class Differ(nn.Module):
    """Elements that differ by a number, by size and by class."""

    def __init__(self, dim=8):
        super().__init__()
        self.steps = nn.ModuleList(Scaled(dim, 1 + i % 2) for i in range(4))
        self.sizes = nn.ModuleList(nn.Linear(dim * 2 ** i, dim * 2 ** (i + 1))
                                   for i in range(2))
        self.kinds = nn.ModuleList([Layer(4 * dim), nn.Linear(4 * dim, dim)])

    def forward(self, x, y):
        for m in (*self.steps, *self.sizes, *self.kinds):
            x = m(x)
        return (x - y).square().mean()


class Scaled(Layer):
    def __init__(self, dim, by):
        super().__init__(dim)
        self.by = by

    def forward(self, x):
        return super().forward(x) * (self.by + 0.5)


@case(lines=["steps_3", "sizes_1: Linear(2 * dim, 4 * dim)", "steps_3 -> steps.3"], defines=["dim=16"])
def elements_that_differ():
    return Differ(), inputs()


class Nested(nn.Module):
    def __init__(self, dim=8, n_stages=2, n_blocks=3):
        super().__init__()
        self.stages = nn.ModuleList(Stage(dim, n_blocks) for _ in range(n_stages))
        self.grid = nn.ModuleList(nn.ModuleList(Layer(dim) for _ in range(2))
                                  for _ in range(2))

    def forward(self, x, y):
        for stage in self.stages:
            x = stage(x)
        for row in self.grid:
            for layer in row:
                x = layer(x)
        return (x - y).square().mean()


class Stage(nn.Module):
    def __init__(self, dim, n_blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Layer(dim) for _ in range(n_blocks))

    def forward(self, x):
        start = x
        for block in self.blocks:
            x = block(x)
        return x + start


@case(lines=["[n_stages] Stage(dim, n_blocks)", "[n_blocks] Layer(dim)",
             "grid.*.layer_0 -> grid.*.0"], defines=["n_stages=3 n_blocks=2"])
def nested_arrays():
    return Nested(), inputs()


class Tied(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        layer = Layer(dim)
        self.layers = nn.ModuleList([layer, layer, Layer(dim)])
        self.a = nn.Linear(dim, dim)
        self.b = nn.Linear(dim, dim)
        self.unused = nn.Linear(dim, dim)
        self.b.weight = self.unused.weight = self.a.weight

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return (self.a(x) + self.b(x) - y).square().mean()


@case(lines=["tie b.weight = a.weight"], absent=["unused"])
def ties():
    return Tied(), inputs()


class Windows(nn.Module):
    """A shared child whose calls differ."""

    def __init__(self, dim=8):
        super().__init__()
        self.block = Choice(dim)

    def forward(self, x, y):
        return (self.block(x, True) + self.block(x, False) - y).square().mean()


class Choice(Layer):
    def forward(self, x, more):
        return super().forward(x) * (3.0 if more else 4.0)


@case(error=["small_loops.py:", "class Windows", "call modules of their own"])
def calls_that_differ():
    return Windows(), inputs()


class Pair(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a = nn.Linear(dim, dim)
        self.b = nn.Linear(dim, dim)

    def forward(self, key, query, scale=2.0, *, extra=None):
        return self.a(query) * scale + extra, self.b(key) + query


class TwoStreams(nn.Module):
    """Layers with two results, and layers in lockstep with norms."""

    def __init__(self, dim=8, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Pair(dim) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.blocks = nn.ModuleList(Layer(dim) for _ in range(2))
        self.start = nn.Parameter(torch.randn(dim))

    def forward(self, x, y):
        q, k = x, y * 0 + self.start
        for layer in self.layers:
            q, k = layer(q, k, extra=x)
        for norm, block in zip(self.norms, self.blocks):
            q = block(norm(q)) + k
        return (q - y).square().mean()


@case(lines=["for layer in layers { q, k = layer(q, k, x) }", "forward(key, query, extra)",
             "blocks_1(norms_1("],
      defines=["n_layers=4 dim=16"])
def two_streams():
    return TwoStreams(), inputs()


class Parent(nn.Module):
    """A number of the child's constructor that the parent's constructor computes."""

    def __init__(self, dim=8, n_heads=2, batch=3):
        super().__init__()
        self.inner = Child(dim, dim // n_heads, n=batch)
        for i in range(2):
            setattr(self, f"fc{i}", nn.Linear(dim, dim - 1))
        self.head = nn.Linear(dim - 1, dim)

    def forward(self, x, y):
        return (self.head(self.fc0(self.inner(x)) + self.fc1(x)) - y).square().mean()


class Child(nn.Module):
    def __init__(self, dim, head_dim, n):
        super().__init__()
        self.head_dim = head_dim
        self.seq = nn.Linear(dim, n)
        self.back = nn.Linear(n, dim)

    def forward(self, x):
        b, s, d = x.shape
        return self.back(self.seq(x)).view(b, s, -1, self.head_dim).square().flatten(2)


@case(lines=["n_batch=3", "dim - 1"], defines=["dim=16 n_heads=4 n_batch=5"])
def numbers_of_a_child():
    return Parent(), inputs()


class Depth(nn.Module):
    """The range's variable of the constructor is not a size."""

    def __init__(self, dim=8, n_layers=2):
        super().__init__()
        self.blocks = nn.Sequential()
        for i in range(n_layers):
            self.blocks.append(Layer(dim))
        self.scale = n_layers ** -0.5
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim, bias=False))

    def forward(self, x, y):
        return (self.head(self.blocks(x) * self.scale) - y).square().mean()


@case(lines=["[n_layers] Layer(dim)", "1 / sqrt(n_layers)", "head.layer_1 -> head.1"],
      defines=["n_layers=7 dim=16"])
def depth_of_a_sequential():
    return Depth(), inputs()


class Residual(nn.Module):
    """An embedding that is read as the head's weight, twice in one module."""

    def __init__(self, vocab=12, dim=8, n_layers=1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(6, dim))
        self.layers = nn.ModuleList([Layer(dim) for _ in range(n_layers)])

    def forward(self, ids, labels):
        first = self.tok(ids) + self.pos
        x = first
        for i, layer in enumerate(self.layers):
            x = layer(x) + first
        logits = F.linear(x, self.tok.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@case(lines=["[n_layers] Layer(dim)", "tok.weight",
             "for layer in layers { x = layer(x) + first }"], defines=["n_layers=3"])
def weight_of_an_embedding():
    return Residual(), (torch.randint(0, 12, (2, 6)), torch.randint(0, 12, (2, 6)))


class Head(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.register_buffer("table", torch.randn(dim))

    def forward(self, x, y):
        return (self.fc(x) * self.table - y).square().mean()


@case(error=["small_loops.py:", "a table of shape [8]", "the model, class Head", "make it a"])
def table():
    return Head(), inputs()


class Bad(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, y):
        return (self.fc(x)[:, :x.shape[1] * x.shape[1] // 3] - y[:, :1]).square().mean()


@case(defines=["dim=16"])
def number_of_the_sequence():
    return Bad(), inputs()


class Scale(nn.Module):
    """A number with the name of a child, a list of modules that runs no loop, and a
    number for each element."""

    def __init__(self, dim=8, norm=3, gain=0.5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, norm * dim)
        self.down = nn.Linear(norm * dim, dim)
        self.gain = gain

    def forward(self, x, y):
        gain = self.norm(x) * self.gain
        return (self.down(self.up(gain)) + gain - y).square().mean()


@case(lines=["n_norm=3", "* gain"], defines=["n_norm=2 dim=16 gain=0.25"])
def number_named_like_a_child():
    return Scale(), inputs()


class Branches(nn.Module):
    """Two arrays of one count, one of them nested in blocks that are called twice."""

    def __init__(self, dim=8, depth=2):
        super().__init__()
        self.down = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.up = nn.ModuleList(Join(dim) for _ in range(depth))
        self.tail = nn.ModuleList(Layer(dim) for _ in range(depth - 1))

    def forward(self, x, y):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        for layer, skip in zip(self.up, reversed(skips)):
            x = layer(x, skip)
        for layer in self.tail:
            x = layer(x)
        return (x - y).square().mean()


class Join(Layer):
    def forward(self, x, skip):
        return super().forward(x + skip)


@case(lines=["down_0", "up_1("])
def skip_connections():
    return Branches(), inputs()


@case(error=["small_loops.py:", "the input 'ids'", "class Ints", "embedding"])
def integers_of_no_size():
    class Ints(Layers):
        def forward(self, x, ids):
            for layer in self.layers:
                x = layer(x)
            return self.loss(x * ids, x)
    return Ints(), (torch.randn(2, 4, 8), torch.randint(0, 3, (2, 4, 1)))


class Noise(nn.Module):
    def __init__(self, dim=8, n_layers=2, p=0.25):
        super().__init__()
        self.layers = nn.ModuleList(Drop(dim, p) for _ in range(n_layers))
        self.dropout = nn.Dropout(p)

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(self.dropout(x))
        return (F.dropout(x, 0.1, self.training) - y).square().mean()


class Drop(Layer):
    def __init__(self, dim, p):
        super().__init__(dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return x + self.drop(super().forward(x))


@case(lines=["for layer in layers { x = layer(", "[n_layers] Drop(dim, p)", "dropout_layer"],
      absent=["names hf"], defines=["p=0.5 n_layers=3"])
def dropout_in_loops():
    return Noise(), inputs()


class Positions(nn.Module):
    """Twice the sequence has more tokens than there are positions."""

    def __init__(self, vocab=12, n_positions=6, dim=8):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(n_positions, dim))
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids, labels):
        x = self.tok(ids) + self.pos[:ids.shape[1]]
        return F.cross_entropy(self.out(x).flatten(0, 1), labels.flatten())


@case(lines=["ids: int(vocab)[batch, seq]", "[n_positions, dim]"], defines=["n_positions=9"])
def few_positions():
    return Positions(), (torch.randint(0, 12, (2, 4)), torch.randint(0, 12, (2, 4)))


class Tables(nn.Module):
    """Layers with the same table of numbers, and a number in each layer's name."""

    def __init__(self, dim=8, n_layers=2):
        super().__init__()
        self.layers = nn.ModuleList(TableLayer(dim) for _ in range(n_layers))

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return (x - y).square().mean()


class TableLayer(Layer):
    def forward(self, x):
        return super().forward(x) * torch.arange(8, device=x.device)


@case(lines=["arange(8)"])
def table_of_each_layer():
    return Tables(), inputs()
