"""Small models with convolutions, pooling and lookups in a dim, for small.py."""
import torch
import torch.nn.functional as F
from torch import nn

from small import case


class Images(nn.Module):
    """Convolutions of several kinds, and pools."""

    def __init__(self, channels=8, groups=2):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, (3, 5), stride=(1, 2), padding=(1, 2),
                              groups=groups, bias=False)
        self.depth = nn.Conv2d(2 * channels, 2 * channels, 3, padding=2, dilation=2,
                               groups=2 * channels)
        self.patch = nn.Conv2d(2 * channels, 16, 2, stride=2)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.first(images)), 3, 2, 1)
        x = self.depth(F.avg_pool2d(self.down(x), (2, 1)))
        x = F.adaptive_avg_pool2d(self.patch(x), 1).flatten(1)
        return F.cross_entropy(x, labels)


@case(lines=["Conv2d(2 * channels, 16, 2, stride=2)", "max_pool2d(", "padding=(1, 2)"],
      defines=["channels=16"])
def images():
    return Images(), (torch.randn(2, 3, 16, 16), torch.randint(0, 16, (2,)))


class Signal(nn.Module):
    """A causal convolution over the tokens, and a running sum."""

    def __init__(self, dim=8):
        super().__init__()
        self.embed = nn.Embedding(16, dim)
        self.conv = nn.Conv1d(dim, dim, 4, padding=3, groups=dim)
        self.head = nn.Linear(dim, 16)

    def forward(self, ids, labels):
        x = self.embed(ids).transpose(1, 2)
        x = self.conv(x)[..., :ids.shape[1]].cumsum(-1).transpose(1, 2)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


@case(lines=["Conv1d(dim, dim, 4, padding=3, groups=dim)", "cumsum("])
def signal():
    return Signal(), (torch.randint(0, 16, (2, 12)), torch.randint(0, 16, (2, 12)))


class Picked(nn.Module):
    """The score of each label."""

    def __init__(self, dim=8):
        super().__init__()
        self.embed = nn.Embedding(16, dim)
        self.head = nn.Linear(dim, 16)

    def forward(self, ids, labels):
        scores = F.log_softmax(self.head(self.embed(ids)), -1)
        return -scores.gather(-1, labels.unsqueeze(-1)).mean()


@case(lines=["gather("])
def picked():
    return Picked(), (torch.randint(0, 16, (2, 12)), torch.randint(0, 16, (2, 12)))


@case(error=["same", "give the padding as numbers"])
def same_padding():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding="same"), nn.Flatten(0)), \
        (torch.randn(2, 3, 8, 8),)
