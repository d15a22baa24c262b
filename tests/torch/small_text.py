"""Small language models: labels without a loss, tied biases, computed rows, positions
and biases of attention (small.py)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case
from small_operators import net


class TiedBias(nn.Module):
    """A bias with two names, of which the forward reads the second. Half of the tokens
    have no loss."""

    def __init__(self, vocab=16, dim=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.decoder = nn.Linear(dim, vocab)
        self.decoder.bias = self.bias

    def forward(self, ids, labels):
        return F.cross_entropy(self.decoder(self.embed(ids)).flatten(0, 1), labels.flatten())


@case(lines=["decoder.bias -> bias", "labels: int(vocab, ignore=-100)", "ids: int(vocab)["])
def tied_bias():
    labels = torch.randint(0, 16, (2, 6))
    labels[:, ::2] = -100
    return TiedBias(), (torch.randint(0, 16, (2, 6)), labels)


@case(lines=["model.*            -> model.*", "model.decoder.bias -> model.bias"])
def tied_below_model():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = TiedBias()

        def forward(self, ids, labels):
            return self.model(ids, labels)
    ids = torch.randint(0, 16, (2, 6))
    return Outer(), (ids, ids.clone())


# ---- integers that are computed ---------------------------------------------


@case(lines=["float(int("])
def rounded():
    def run(self, x, ids):
        y = 10 * x
        y = y.floor() + y.ceil() * 0.5 + y.trunc() * 0.25 + torch.div(
            y, 3, rounding_mode="floor") + torch.div(y, 3, rounding_mode="trunc")
        return x + y + torch.remainder(10 * x, 3) + torch.fmod(10 * x, 3)
    return net(run)


@case(lines=["embed(int("])
def divided_integers():
    def run(self, x, ids):
        return x + self.embed(ids // 3) + self.embed((ids * 5 + 2) % 16)
    return net(run)


@case(lines=["cumsum(", "table(int("])
def counted_positions():
    """Positions of the tokens that are not padding, as RoBERTa's."""
    def build(self, dim):
        self.table = nn.Embedding(64, dim)

    def run(self, x, ids):
        mask = ids.ne(1).int()
        return x + self.table((mask.cumsum(1) * mask).long() + 1)
    return net(run, build)


@case(lines=["pad(float(slice(labels, 0, seq - 1, dim=1)), 1, 0, dim=-1,", "value=3)"],
      absent=["zeros", "concat"])
def shifted_right():
    """The tokens of a decoder: a start token, and the labels but the last."""
    def forward(self, ids, labels):
        shifted = labels.new_zeros(labels.shape)
        shifted[:, 1:] = labels[:, :-1].clone()
        shifted[:, 0] = 3
        shifted = shifted.masked_fill(shifted == -100, 0)
        logits = self.head(self.embed(shifted) + self.embed(ids))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    model, (ids, labels) = net(None)
    labels[:, 3] = -100
    type(model).forward = forward
    return model, (ids, labels)


@case(lines=["cross_entropy(", "labels: int(vocab)"], absent=["pad("])
def labels_that_follow():
    def forward(self, ids, labels):
        labels = torch.cat([labels[:, 1:], labels.new_full((labels.shape[0], 1), -100)], 1)
        return F.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), labels.flatten())
    model, inputs = net(None)
    type(model).forward = forward
    return model, inputs


# ---- padding -----------------------------------------------------------------


@case(lines=["pad("], absent=["concat"])
def padded_floats():
    def run(self, x, ids):
        y = F.pad(x, (1, 2, 3, 0), value=0.5)[:, 1:-2, 2:-1]
        z = F.pad(x, (-1, 1, 0, -1))
        zeros = x.new_zeros(x.shape[0], 2, x.shape[2])
        ones = x.new_ones(x.shape[0], 1, x.shape[2])
        return x + y + torch.cat([zeros, z, ones[:, :1] * 0], 1)[:, 1:-1] + \
            torch.cat([ones, x[:, :-1]], 1)
    return net(run)


@case(error=["pad with mode=reflect has no counterpart"])
def reflected():
    return net(lambda self, x, ids: F.pad(x, (1, 1), mode="reflect")[..., 1:-1])


@case(lines=["gather("])
def gathered_in_another_dim():
    def run(self, x, ids):
        order = (ids * 7 + 3) % 6
        return x + x.gather(1, order.unsqueeze(-1).expand_as(x))
    return net(run)


# ---- tables that the model computes -------------------------------------------


class Heads(nn.Module):
    """Attention that is written out. `build` makes more parameters; `bias` gives what is
    added to the scores [b, h, s, s]."""

    def __init__(self, dim=16, n_heads=4, vocab=16):
        super().__init__()
        self.n_heads = n_heads
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.head = nn.Linear(dim, vocab)
        self.build(n_heads)

    def build(self, n_heads):
        pass

    def forward(self, ids, labels):
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + self.bias(ids)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def with_bias(bias, build=None, **sizes):
    """Heads with this bias, and its inputs of 12 tokens."""
    ids = torch.randint(0, 16, (2, 12))
    members = {"bias": bias, **({"build": build} if build else {})}
    return type("Model", (Heads,), members)(**sizes), (ids, ids.clone())


@case(lines=["2.0 ** (-8.0 / n_heads)", "arange(n_heads)"],
      defines=["n_heads=8 dim=32", "seq=40"])
def linear_biases():
    def bias(self, ids):
        slopes = torch.tensor(2 ** (-8 / self.n_heads)) ** torch.arange(1, self.n_heads + 1)
        return slopes[:, None, None] * torch.arange(ids.shape[1])
    return with_bias(bias)


def buckets(far, count, farthest):
    """T5's buckets of relative positions."""
    found = (far > 0).long() * (count // 2)
    far, count = far.abs(), count // 2
    exact = count // 2
    large = exact + (torch.log(far.float() / exact) / math.log(farthest / exact)
                     * (count - exact)).long()
    large = torch.min(large, torch.full_like(large, count - 1))
    return found + torch.where(far < exact, far, large)


class Buckets(nn.Module):
    """T5's biases of relative positions."""

    def __init__(self, n_buckets, farthest, n_heads):
        super().__init__()
        self.n_buckets, self.farthest = n_buckets, farthest
        self.table = nn.Embedding(n_buckets, n_heads)

    def forward(self, at):
        return self.table(buckets(at - at[:, None], self.n_buckets, self.farthest))


class Bucketed(Heads):
    def __init__(self, dim=16, n_heads=4, vocab=16, n_buckets=16, farthest=40):
        super().__init__(dim, n_heads, vocab)
        self.buckets = Buckets(n_buckets, farthest, n_heads)

    def bias(self, ids):
        return self.buckets(torch.arange(ids.shape[1])).permute(2, 0, 1)


@case(lines=["embedding(weight,", "int(log(", "arange(seq)", "log(4.0 * farthest / n_buckets)",
             "farthest=40) {"],
      defines=["seq=48", "n_heads=8 dim=32", "n_buckets=32 farthest=64"])
def bucketed_biases():
    ids = torch.randint(0, 16, (2, 12))
    return Bucketed(), (ids, ids.clone())


@case(error=["small_text.py", "cumprod has no counterpart in PDL"])
def table_without_counterpart():
    def bias(self, ids):
        return (torch.arange(ids.shape[1]) * 7 % 5 / 4 + 1).cumprod(0)
    return with_bias(bias)


@case(error=["a table of shape [12] has no expression in PDL"])
def table_of_a_buffer():
    def build(self, n_heads):
        self.register_buffer("table", torch.tensor([float(i * i % 7) for i in range(12)]))
    return with_bias(lambda self, ids: self.table, build)


# ---- scores of attention -------------------------------------------------------


class Masked(Heads):
    """Heads with a mask of padding, [b, s] of 0 and 1."""

    def forward(self, ids, labels, mask):
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        x = x + self.attend(q, k, v, mask).transpose(1, 2).flatten(2)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def with_padding(attend):
    ids = torch.randint(0, 16, (2, 12))
    mask = torch.ones(2, 12)
    mask[1, 9:] = 0
    return type("Model", (Masked,), {"attend": attend})(), (ids, ids.clone(), mask)


@case(lines=["attention(", "padding=int("], absent=["softmax"], defines=["seq=24"])
def padding_of_keys():
    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask[:, None, None, :] != 0)
    return with_padding(attend)


@case(lines=["attention(", "causal=true", "padding=int("], absent=["softmax"])
def causal_padding():
    def attend(self, q, k, v, mask):
        pairs = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, pairs & (mask[:, None, None, :] != 0))
    return with_padding(attend)


@case(lines=["attention(", "causal=true", "padding=int("], absent=["softmax", "bias="],
      defines=["seq=24"])
def padding_of_transformers():
    """masking_utils.py looks each pair of a query and a key up in the mask."""
    def attend(self, q, k, v, mask):
        b, s = torch.arange(len(mask))[:, None, None, None], torch.arange(mask.shape[1])
        row, column, mask = s[None, None, :, None], s[None, None, None], mask.bool()
        return F.scaled_dot_product_attention(q, k, v, (column <= row) & mask[b, column])
    return with_padding(attend)


@case(lines=["attention(", "bias="], absent=["softmax"])
def added_padding():
    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, (1 - mask[:, None, None]) * -1e9)
    return with_padding(attend)


@case(lines=["softcap=30", "scale=0.25", "bias=", "causal=true"], absent=["softmax"])
def capped_and_biased_scores():
    def attend(self, q, k, v, mask):
        scores = torch.tanh(q @ k.transpose(2, 3) * 0.25 / 30) * 30
        scores = scores - 0.5 * mask[:, None, :, None]
        pairs = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return scores.masked_fill(~pairs, -math.inf).softmax(-1) @ v
    return with_padding(attend)


@case(lines=["attention(", "bias=where("], absent=["softmax"])
def mask_without_a_form():
    def attend(self, q, k, v, mask):
        at = torch.arange(q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, at[:, None] // 4 == at // 4)
    return with_padding(attend)


@case(lines=["attention(", "causal=true", "bias="], absent=["softmax"], defines=["n_heads=8 dim=32"])
def merged_heads():
    """Heads and sequences in one dim, as in BLOOM."""
    def attend(self, q, k, v, mask):
        q, k, v = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
        slopes = (torch.arange(self.n_heads) + 1) / 16
        bias = (slopes[:, None] * torch.arange(q.shape[1])).repeat(mask.shape[0], 1)
        scores = bias[:, None].baddbmm(q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        scores = scores.view(-1, self.n_heads, *scores.shape[1:])
        pairs = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
        weights = scores.masked_fill(~pairs, -math.inf).softmax(-1)
        y = weights.view(-1, *weights.shape[2:]) @ v
        return y.view(-1, self.n_heads, *y.shape[1:]) * mask.mean()
    return with_padding(attend)
