"""What the scripts measure for `make bench`: seconds a step, and what PyTorch
is made of."""
import time

import torch


def seconds(model, optimizer, vocab, batch, seq, steps, compiled):
    """A line a step; what they learn from is noise."""
    step_model = torch.compile(model) if compiled else model
    for _ in range(steps):
        x = torch.randint(0, vocab, (batch, seq))
        y = torch.randint(0, vocab, (batch, seq))
        start = time.perf_counter()
        loss = step_model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        print(f"{time.perf_counter() - start:.6f}", flush=True)


def about():
    """The BLAS decides PyTorch's speed: Debian's build takes whichever the
    system has, and the reference one, which it comes with, is many times slower
    than OpenBLAS. LAPACK may be another library's."""
    torch.ones(64, 64) @ torch.ones(64, 64)
    maps = open("/proc/self/maps").read().split()
    blas = [path for path in maps if "/libblas.so" in path]
    if torch.backends.mkl.is_available():
        library = "MKL"
    elif any("openblas" in path for path in blas):
        library = "OpenBLAS"
    elif blas:
        library = "reference BLAS"
    else:
        library = "BLAS of its own"
    print(f"PyTorch {torch.__version__} ({library})")
