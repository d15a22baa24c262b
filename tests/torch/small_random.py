"""Small models that draw random numbers: stochastic depth, noise, dropout of channels
(small.py)."""
import torch
from torch import nn

from small import case
from small_operators import net


class AddedPath(nn.Module):
    """As in ConvNeXt and Swin of transformers."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        keep = 1 - self.rate
        mask = keep + torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype)
        mask.floor_()
        return x.div(keep) * mask


class DrawnPath(nn.Module):
    """As in timm."""

    def __init__(self, rate, scale=True):
        super().__init__()
        self.rate, self.scale = rate, scale

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        keep = 1 - self.rate
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        if keep > 0.0 and self.scale:
            mask.div_(keep)
        return x * mask


class Noise(nn.Module):
    """As in the router of Mixtral."""

    def __init__(self, far):
        super().__init__()
        self.far = far

    def forward(self, x):
        if self.training and self.far > 0:
            x = x * torch.empty_like(x).uniform_(1.0 - self.far, 1.0 + self.far)
        return x


class Residual(nn.Module):
    def __init__(self, path, dim=8, rate=0.2, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(n_layers)])
        self.drop_path = path(rate)
        self.noise = Noise(0.01)

    def forward(self, x, y):
        for layer in self.layers:
            x = x + self.drop_path(layer(x))
        return (self.noise(x) - y).square().mean()


def residual(path):
    return Residual(path).train(), (torch.randn(4, 3, 8), torch.randn(4, 3, 8))


@case(lines=["DropPath(rate)", "layer in layers", "random(batch, 3, dim)"],
      absent=["floor", "drop_path(x"], defines=["rate=0.5 n_layers=5"])
def stochastic_depth():
    return residual(AddedPath)


@case(lines=["DropPath(rate)"], absent=["random(batch, 1"], defines=["rate=0.5"])
def stochastic_depth_of_timm():
    return residual(DrawnPath)


@case(lines=["random(batch, 1, 1) >= rate"], absent=["DropPath", "/ 0.8"])
def unscaled_stochastic_depth():
    return residual(lambda rate: DrawnPath(rate, scale=False))


@case(absent=["random(", "DropPath", "drop_path"])
def stochastic_depth_in_evaluation():
    model, inputs = residual(DrawnPath)
    return model.eval(), inputs


@case(lines=["dropout(", "dim=(0, 1)"])
def dropout_of_channels():
    def build(self, dim):
        self.drop = nn.Dropout1d(0.3)
    return net(lambda self, x, ids: x + self.drop(x), build)


@case(lines=["floor(", "-floor(-"])
def rounding():
    return net(lambda self, x, ids: x * torch.floor(x) + x * torch.ceil(x) +
               torch.div(x, 0.3, rounding_mode="floor") * x + torch.remainder(x, 0.7))


@case(lines=["random(batch, seq, dim)", "random("])
def drawn_numbers():
    def run(self, x, ids):
        p = torch.sigmoid(x)
        return x * torch.bernoulli(p.detach()) + (torch.rand(x.shape) < 0.5) * x + \
            torch.rand_like(x).mul(0.1)
    return net(run)


@case(lines=["-0.1 + 0.2 * random("])
def noise_around_zero():
    return net(lambda self, x, ids: x + torch.empty(x.shape).uniform_(-0.1, 0.1))
