"""Measurements for `make bench`: seconds per step, and the BLAS that PyTorch
uses."""
import time

import torch


def seconds(model, optimizer, vocab, batch, seq, steps, compiled):
    """Trains on noise; prints the seconds of each step, one a line."""
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
    """Prints PyTorch's version and BLAS, which decides its speed. Debian's
    build uses the system's BLAS; the reference BLAS that it is installed with
    is many times slower than OpenBLAS. LAPACK may be another library's."""
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
