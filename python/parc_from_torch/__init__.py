"""Writes PyTorch models as PDL files. `parc_from_torch.convert.convert` is the
command parc-from-torch as a function."""
