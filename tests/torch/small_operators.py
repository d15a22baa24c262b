"""Small models with operators, tables, masks, casts and initial values (small.py)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


class Net(nn.Module):
    """An embedding and a head around what the forward of a subclass computes."""

    def __init__(self, dim=8, vocab=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.build(dim)

    def build(self, dim):
        pass

    def forward(self, ids, labels):
        logits = self.head(self.run(self.proj(self.embed(ids)), ids))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def tokens(batch=2, seq=6, vocab=16):
    ids = torch.randint(0, vocab, (batch, seq))
    return ids, ids.clone()


def net(run, build=None, **sizes):
    """A Net with this function of (self, x, ids), and its inputs."""
    members = {"run": run, **({"build": build} if build else {})}
    return type("Model", (Net,), members)(**sizes), tokens()


# ---- elementwise -----------------------------------------------------------


@case()
def activations():
    def run(self, x, ids):
        a = F.leaky_relu(x) + F.elu(x) + F.selu(x) + F.celu(x, 2.0) + F.mish(x)
        b = F.hardswish(x) + F.relu6(x) + F.hardtanh(x) + F.hardsigmoid(x) + F.logsigmoid(x)
        a = a + F.glu(torch.cat([x, x], -1)) + torch.erfc(x) + torch.expm1(x)
        return a + b + F.threshold(x, 0.1, 0.2) + torch.sign(x) * x
    return net(run)


@case()
def arithmetic():
    def run(self, x, ids):
        y = torch.lerp(x, x * x, 0.3) + torch.addcmul(x, x, x, value=0.5)
        y = y + torch.sub(x, y, alpha=2) + torch.rsub(x, y, alpha=3) + x.exp2()
        return y + torch.log2(x.abs() + 1) + x.clamp(-0.5, 0.5) + x.clamp_max(0.1) + \
            x.clamp(min=0.1) + torch.maximum(x, y)
    return net(run)


@case()
def truth_values():
    def run(self, x, ids):
        inner = (ids > 2) & (ids < 9) | ~(ids != 4)
        hit = (x > 0).float() + (ids == 3).long().unsqueeze(-1) + ids.bool().unsqueeze(-1)
        return x * hit + torch.where(inner.unsqueeze(-1), x, -x) + \
            (ids == 0).sum() / 7.0 + ids.float().unsqueeze(-1) / 16
    return net(run)


@case()
def chained_comparison():
    return net(lambda self, x, ids: x * ((x > 0) == (x < 1)))


@case(lines=["int("])
def float_to_int():
    return net(lambda self, x, ids: x * x.long())


@case(lines=["embed(int("])
def looked_up_truth():
    return net(lambda self, x, ids: x + self.embed((ids == 0).long()))


@case(lines=["broadcast("])
def constant_that_widens():
    def run(self, x, ids):
        y = x.sum(-1, keepdim=True) * torch.full((8,), 0.5)
        return y * x
    return net(run)


@case(lines=["-1e30"])
def minus_infinity():
    def run(self, x, ids):
        return x * torch.softmax(x.masked_fill(x > 0.4, -math.inf), -1)
    return net(run)


@case(error=["-inf"])
def infinity_that_stays():
    return net(lambda self, x, ids: x * (x.masked_fill(x > 0.4, -math.inf) > -5))


@case(error=["randn_like"])
def random_numbers():
    return net(lambda self, x, ids: x + torch.randn_like(x))


@case(error=["randn"])
def random_constant():
    return net(lambda self, x, ids: x + torch.randn(8))


# ---- changes in place, gradients -------------------------------------------


@case()
def changes_in_place():
    def run(self, x, ids):
        mask = torch.zeros(6, 8)
        mask[:, :] = 0.5
        mask = mask.clone()
        mask.mul_(2)
        y = x * mask
        y.mul_(2)
        y += x
        return y
    return net(run)


@case(lines=["flip(", "step=-1"], defines=["seq=11"])
def opposite_order():
    def run(self, x, ids):
        back = x[:, [4, 3, 2, 1]].sum(1, keepdim=True)
        return x.cumsum(1).flip(1) * x + torch.flip(x, [1, 2]) * x + back
    return net(run)


@case(lines=["concat("])
def assigned_part():
    def run(self, x, ids):
        y = x * 2
        y[..., 0] = x[..., 1]
        return y
    return net(run)


@case(error=["changes the buffer", "steps"])
def changed_buffer():
    def build(self, dim):
        self.register_buffer("steps", torch.zeros(dim))

    def run(self, x, ids):
        self.steps.add_(1)
        return x + self.steps
    return net(run, build)


@case(lines=["detach("])
def without_gradient():
    def run(self, x, ids):
        with torch.no_grad():
            y = self.fixed(x) * 2
        return x + y

    def build(self, dim):
        self.fixed = nn.Linear(dim, dim)
    return net(run, build)


@case(lines=["detach("])
def detached_in_place():
    def run(self, x, ids):
        y = (x * 2).detach_()
        z = x * 3
        z += y
        return z
    return net(run)


class DetachedLinear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim))

    def forward(self, x):
        return F.linear(x.detach(), self.weight)


@case(lines=["module DetachedLinear", "detach("])
def detached_linear():
    def build(self, dim):
        self.inner = DetachedLinear(dim)
    return net(lambda self, x, ids: x + self.inner(x), build)


class OuterEps(nn.Module):
    def __init__(self, dim, eps=1e-3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps) * self.weight


@case(lines=["module OuterEps"], absent=["RMSNorm("])
def eps_outside_of_the_root():
    def build(self, dim):
        self.norm = OuterEps(dim)
    return net(lambda self, x, ids: self.norm(x), build)


class ClampedReLU(nn.Module):
    def forward(self, x):
        return F.relu(x).clamp(max=50.0)


@case(lines=["50.0"])
def clamp_beyond_random_numbers():
    def build(self, dim):
        self.act = ClampedReLU()
    return net(lambda self, x, ids: self.act(x), build)


@case(lines=["detach("])
def padding_row():
    def build(self, dim):
        self.more = nn.Embedding(16, dim, padding_idx=3)
    return net(lambda self, x, ids: x + self.more(ids), build)


# ---- shapes ----------------------------------------------------------------


@case()
def moves():
    def run(self, x, ids):
        a, b = x.unflatten(-1, (2, 4)).unbind(2)
        y = torch.cat([a, b], -1) + x.roll(1, -1) + x.movedim(2, 1).transpose(1, 2)
        y = y + x[..., ::2].repeat_interleave(2, -1) + x.chunk(2, -1)[0].repeat(1, 1, 2)
        last = x[:, -1].unsqueeze(1) + x[:, :1] + x.narrow(1, 2, 1)
        return y + last + x[:, :, [0, 1, 2, 3, 6, 7, 4, 5]] + x.select(1, -2)[:, None]
    return net(run)


@case()
def reductions():
    def run(self, x, ids):
        y = F.normalize(x, dim=-1) + x.var(-1, keepdim=True) + x.std(1, keepdim=True)
        y = y + x.amax(-1, keepdim=True) + x.amin(1, keepdim=True)
        y = y + x.logsumexp(-1, keepdim=True) + torch.linalg.vector_norm(x, 1, -1, True)
        mask = (ids != 0).unsqueeze(-1)
        mean = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
        return y + mean.unsqueeze(1) + x.max(-1, keepdim=True)[0].detach()
    return net(run, dim=12)


@case()
def products():
    def run(self, x, ids):
        y = torch.einsum("BSD,BTD->BST", x, x).matmul(x)
        y = y + torch.einsum("bsd,de", x, self.mix[0]).transpose(1, 2)
        y = y + torch.baddbmm(x, torch.bmm(x, x.transpose(1, 2)), x, beta=0.5,
                              alpha=2)
        return y + (x @ self.mix[0, 0]).unsqueeze(-1) + x.unsqueeze(1).matmul(
            self.mix.unsqueeze(0)).sum(1)

    def build(self, dim):
        self.mix = nn.Parameter(torch.randn(3, dim, dim))
    return net(run, build)


@case(lines=["embed.weight"])
def weight_of_another_module():
    class Tied(Net):
        def forward(self, ids, labels):
            logits = F.linear(self.proj(self.embed(ids)), self.embed.weight)
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return Tied(), tokens()


class Patches(nn.Module):
    def __init__(self, channels=3, dim=8, size=4):
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, size, stride=size)
        self.head = nn.Linear(dim, 10)

    def forward(self, images, labels):
        x = self.conv(images).flatten(2).transpose(1, 2)
        return F.cross_entropy(self.head(x.mean(1)), labels)


@case(lines=["Conv2d(", "stride="])
def patches():
    return Patches(), (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,)))


# ---- attention -------------------------------------------------------------


def angles(seq, dim, theta=10000.0, factor=1.0):
    rates = theta ** (-torch.arange(0, dim, 2).float() / dim) / factor
    return torch.outer(torch.arange(seq).float(), rates)


class Attention(Net):
    """Two heads; `turn` rotates queries and keys, `attend` computes the attention."""

    def run(self, x, ids):
        q = k = v = x.unflatten(-1, (2, -1)).transpose(1, 2)
        q, k = self.turn(q), self.turn(k)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)

    def turn(self, x):
        return x

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention(turn=None, attend=None, dim=16):
    members = {**({"turn": turn} if turn else {}), **({"attend": attend} if attend else {})}
    return type("Model", (Attention,), members)(dim), tokens()


@case(lines=["attention(", "causal=true", "scale=0.5"], absent=["softmax("])
def eager_attention():
    def attend(self, q, k, v):
        scores = q @ k.transpose(2, 3) * 0.5
        mask = torch.full((6, 6), float("-inf")).triu(1)
        return torch.softmax(scores + mask, -1) @ v
    return attention(attend=attend)


@case(lines=["attention("], absent=["softmax(", "scale="])
def eager_attention_divides():
    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(8)
        mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v
    return attention(attend=attend)


@case(lines=["attention("])
def attention_of_three_dims():
    return net(lambda self, x, ids: F.scaled_dot_product_attention(x, x, x))


@case(lines=["rope(", "style=half"], absent=["concat("])
def rope_of_halves():
    def turn(self, x):
        angle = angles(x.shape[2], x.shape[3], 500.0)
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(),
                          b * angle.cos() + a * angle.sin()), -1)
    return attention(turn)


@case(lines=["rope("], absent=["style=half"])
def rope_of_pairs():
    def turn(self, x):
        angle = angles(x.shape[2], x.shape[3]).repeat_interleave(2, -1)
        other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return x * angle.cos() + other * angle.sin()
    return attention(turn)


@case(lines=["rope(", "concat("])
def rope_of_a_part():
    def turn(self, x):
        angle = angles(x.shape[2], 4).repeat(1, 2)
        part, rest = x[..., :4], x[..., 4:]
        other = torch.cat((-part[..., 2:], part[..., :2]), -1)
        return torch.cat((part * angle.cos() + other * angle.sin(), rest), -1)
    return attention(turn)


@case(lines=['scaling=("linear",', "1.2"])
def scaled_rope():
    def turn(self, x):
        angle = angles(x.shape[2], x.shape[3], factor=4.0).repeat(1, 2)
        half = x.shape[3] // 2
        other = torch.cat((-x[..., half:], x[..., :half]), -1)
        return 1.2 * (x * angle.cos() + other * angle.sin())
    return attention(turn)


@case(lines=["cos(", "+ 0.01", "attention("], absent=["rope("])
def rotation_that_is_no_rope():
    def turn(self, x):
        angle = angles(x.shape[2], x.shape[3]).repeat(1, 2)
        angle[3] += 0.01
        half = x.shape[3] // 2
        other = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * angle.cos() + other * angle.sin()
    return attention(turn)


# ---- losses ----------------------------------------------------------------


class Shifted(Net):
    def forward(self, ids, labels):
        logits = self.head(self.embed(ids))
        return self.loss(logits, labels)


def shifted(loss):
    return type("Model", (Shifted,), {"loss": loss})(), tokens()


@case(lines=["cross_entropy(logits, labels)"])
def labels_without_the_first():
    return shifted(lambda self, x, labels: F.cross_entropy(
        x[:, :-1].reshape(-1, 16), labels[:, 1:].reshape(-1)))


@case(lines=["cross_entropy("])
def padded_labels():
    def loss(self, x, labels):
        labels = F.pad(labels, (0, 1), value=-100)[..., 1:]
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())
    return shifted(loss)


@case(error=["pad has no counterpart"])
def labels_padded_with_a_class():
    def loss(self, x, labels):
        labels = F.pad(labels, (0, 1), value=2)[..., 1:]
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())
    return shifted(loss)


@case(error=["pad has no counterpart"])
def labels_padded_on_the_left():
    def loss(self, x, labels):
        labels = F.pad(labels, (1, 0), value=-100)[..., :-1]
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())
    return shifted(loss)


@case(error=["pad has no counterpart"])
def shifted_labels_that_are_read():
    def loss(self, x, labels):
        x = x + self.head(self.embed(labels))
        labels = F.pad(labels, (0, 1), value=-100)[..., 1:]
        return F.cross_entropy(x.flatten(0, 1), labels.flatten())
    return shifted(loss)


@case(lines=["reduction=none"])
def loss_of_each_token():
    def loss(self, x, labels):
        each = F.cross_entropy(x.flatten(0, 1), labels.flatten(), reduction="none")
        return (each * each).mean()
    return shifted(loss)


@case()
def other_losses():
    class Model(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.fc = nn.Linear(dim, dim)

        def forward(self, x, y):
            z = self.fc(x)
            return F.l1_loss(z, y) + F.smooth_l1_loss(z, y, beta=0.5) + F.huber_loss(z, y) + \
                F.binary_cross_entropy_with_logits(z, y.sigmoid()) + F.mse_loss(
                    z, y, reduction="sum") + F.mse_loss(z, y, reduction="none").mean()
    return Model(), (torch.randn(4, 8), torch.randn(4, 8))


@case(lines=["cross_entropy("])
def negative_log_likelihood():
    return shifted(lambda self, x, labels: F.nll_loss(
        F.log_softmax(x, -1).flatten(0, 1), labels.flatten()))


# ---- initial values --------------------------------------------------------


@case(lines=["uniform(0.1, 0.1)", "truncated_normal(std)", "bias_init=zeros",
             "init=normal(0.05)", "uniform(0.0, 1.0)"], absent=["drop"])
def initial_values():
    def build(self, dim):
        self.drop = 0.05
        self.scale = nn.Parameter(torch.full((dim,), 0.1))
        self.cut = nn.Parameter(nn.init.trunc_normal_(torch.empty(48, dim), 0, 0.02, -0.04, 0.04))
        self.even = nn.Parameter(torch.rand(64, dim))
        nn.init.zeros_(self.proj.bias)
        nn.init.normal_(self.head.weight, std=0.05)
    return net(lambda self, x, ids: x * self.scale + self.cut.sum(0) + self.even.sum(0), build,
               dim=32)


class Deep(nn.Module):
    def __init__(self, dim, n_layers, std, drop):
        super().__init__()
        self.fc = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.fc.weight, std=std / math.sqrt(2 * n_layers))

    def forward(self, x):
        return x + self.fc(x)


class Scaled(nn.Module):
    def __init__(self, dim=48, n_layers=3, std=0.1, drop=0.1):
        super().__init__()
        self.embed = nn.Embedding(16, dim)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.layers = nn.ModuleList(Deep(dim, n_layers, std, drop) for _ in range(n_layers))
        self.head = nn.Linear(dim, 16)
        nn.init.normal_(self.head.weight, std=dim ** -0.5)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


@case(lines=["normal(std / sqrt(2 * n_layers))", "init=normal(0.1)",
             "init=normal(1.0 / sqrt(dim))"], defines=["dim=64 n_layers=5"])
def initial_values_of_layers():
    return Scaled(), tokens()


class ByDepth(Scaled):
    def __init__(self, dim=48, n_layers=3, std=0.1, drop=0.1):
        super().__init__(dim, n_layers, std, drop)
        for i, layer in enumerate(self.layers):
            nn.init.normal_(layer.fc.weight, std=std / math.sqrt(i + 1))


@case(lines=["normal(std, depth=-0.5)"], defines=["n_layers=5"])
def initial_values_by_depth():
    return ByDepth(), tokens()


# ---- windows and tables ----------------------------------------------------


class Window(Attention):
    def __init__(self, dim=16, window=3):
        super().__init__(dim)
        self.window = window

    def attend(self, q, k, v):
        far = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
        mask = (far >= 0) & (far < self.window)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@case(lines=["window=window"], defines=["window=5"])
def short_window():
    return Window(), tokens(seq=8)


@case(error=["window=64 is a window of attention"])
def window_of_a_longer_sequence():
    return Window(window=64), tokens()


@case(lines=["softcap=50.0", "causal=true"], absent=["softmax("])
def capped_scores():
    def attend(self, q, k, v):
        scores = torch.tanh(q @ k.transpose(2, 3) / 50.0) * 50.0
        mask = torch.full((q.shape[2], q.shape[2]), float("-inf")).triu(1)
        return torch.softmax(scores + mask, -1) @ v
    return attention(attend=attend)


@case(lines=["arange(seq)"])
def positions():
    return net(lambda self, x, ids: x + 0.5 * torch.arange(x.shape[1]).float()[:, None])


class EinsumAttention(Attention):
    def build(self, dim):
        self.drop = nn.Dropout(0.1)

    def attend(self, q, k, v):
        scores = torch.einsum("b h i d, b h j d -> b h i j", q, k) * 0.25
        mask = torch.ones(q.shape[2], q.shape[2]).tril()
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", self.drop(weights), v)


@case(lines=["attention(", "dropout=0.1", "scale=0.25"], absent=["softmax(", "Dropout("])
def eager_attention_with_dropout():
    return EinsumAttention(16), tokens()


# ---- faults ----------------------------------------------------------------


class Branch(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


@case(error=["small_operators.py", "torch.export cannot trace", "in branch, class Branch"])
def branch_on_elements():
    def build(self, dim):
        self.branch = Branch()
    return net(lambda self, x, ids: self.branch(x), build)


@case(error=["logcumsumexp has no counterpart", "cumprod has no counterpart", "class Model"])
def several_faults():
    return net(lambda self, x, ids: x.logcumsumexp(-1) + x.cumprod(-1))


class PartialRope(Attention):
    def __init__(self, dim=16, part=0.5):
        super().__init__(dim)
        self.width = int(part * dim / 2)

    def turn(self, x):
        part, rest = x[..., :self.width], x[..., self.width:]
        angle = angles(x.shape[2], self.width).repeat(1, 2)
        half = self.width // 2
        other = torch.cat((-part[..., half:], part[..., :half]), -1)
        return torch.cat((part * angle.cos() + other * angle.sin(), rest), -1)


@case(lines=["rope(", "concat("])
def rope_of_a_fraction():
    return PartialRope(), tokens()
