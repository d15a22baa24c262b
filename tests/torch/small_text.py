"""Small language models: labels without a loss, tied biases, computed rows, positions
and biases of attention (small.py)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from small import case


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

