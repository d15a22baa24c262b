#!/usr/bin/env python3
"""microbenchmarks.py MACHINE OUT: times matmuls, attention and copies with PyTorch on
this GPU, and writes them as rows of the tables in tests/forecast/microbenchmarks
(OUT/matmuls.csv, OUT/attention.csv, OUT/streaming.csv).

Each problem is repeated for half a second on random numbers after a warm-up, so that
the clocks are those of a long run; its time is the mean of these calls. All are large
enough that the launch takes no part of it.
"""
import csv
import datetime
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SECONDS = 0.5
# Rows and columns of the result, length of the sums: as in Llama 1B, 8B and 70B with 8
# ranks of tensor parallelism, GPT-2, and square ones.
MATMULS = [
    *((n, n, n) for n in (2048, 4096, 8192, 16384)),
    *((tokens, n, k) for tokens in (4096, 16384)
      for n, k in ((4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336))),
    (16384, 2048, 2048), (16384, 512, 2048), (16384, 3072, 2048),
    (16384, 8192, 2048), (16384, 16384, 2048), (16384, 2048, 8192),
    (16384, 2048, 512), (16384, 2048, 3072),
    (2048, 2048, 16384), (512, 2048, 16384), (3072, 2048, 16384),
    (8192, 2048, 16384), (16384, 128256, 2048), (16384, 2048, 128256),
    (32768, 768, 768), (32768, 3072, 768), (32768, 768, 3072),
    (768, 768, 32768), (3072, 768, 32768),
    (8192, 1024, 8192), (65536, 128, 8192), (65536, 3584, 8192),
    (65536, 8192, 3584), (65536, 1024, 8192),
]
# Batch, heads, sequence, size of a head; causal.
ATTENTION = [(16384 // seq, 2048 // head, seq, head)
             for head in (64, 128)
             for seq in (512, 1024, 2048, 4096, 8192, 16384)]
STREAMS = [1 << power for power in (26, 28, 30)]  # bytes that are read


def mean_seconds(call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    count = max(3, int(SECONDS / max(begin.elapsed_time(end) / 1e3, 2e-6)))
    for repeat in range(2):  # the first one warms up
        n = count // 2 + 1 if repeat == 0 else count
        begin.record()
        for _ in range(n):
            call()
        end.record()
        end.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def matmuls(write):
    for m, n, k in MATMULS:
        a, b = (torch.randn(shape, dtype=torch.bfloat16)
                for shape in ((m, k), (n, k)))
        to = torch.empty(m, n, dtype=torch.bfloat16)
        write(m=m, n=n, k=k, operand_bytes=2, result_bytes=2,
              seconds=mean_seconds(lambda: torch.mm(a, b.t(), out=to)))
        del a, b, to


def attention(write):
    for batch, heads, seq, head in ATTENTION:
        q, k, v = (torch.randn(batch, seq, heads, head, dtype=torch.bfloat16)
                   .transpose(1, 2).requires_grad_() for _ in range(3))

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        about = dict(batch=batch, heads=heads, kv_heads=heads, seq=seq,
                     head=head, causal=1)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            with torch.no_grad():
                write(**{"pass": "forward"}, **about, seconds=mean_seconds(forward))
            y = forward()
            dy = torch.randn_like(y)
            write(**{"pass": "backward"}, **about,
                  seconds=mean_seconds(lambda: torch.autograd.grad(
                      y, (q, k, v), dy, retain_graph=True)))
        del q, k, v, y, dy


def streaming(write):
    for size in STREAMS:
        a, b, c = (torch.randn(size // 4) for _ in range(3))
        write(kind="copy", bytes=2 * size, seconds=mean_seconds(lambda: b.copy_(a)))
        write(kind="add", bytes=3 * size,
              seconds=mean_seconds(lambda: torch.add(a, b, out=c)))
        write(kind="mul", bytes=2 * size,
              seconds=mean_seconds(lambda: torch.mul(a, 3.0, out=c)))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    machine, out = sys.argv[1], pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_default_device("cuda")
    date = datetime.date.today().isoformat()[:7]
    about = (f"tests/gpu/microbenchmarks.py on {torch.cuda.get_device_name()}: "
             f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for table in (streaming, matmuls, attention):
        with open(out / f"{table.__name__}.csv", "w", newline="") as file:
            writer = None

            def write(**row):
                nonlocal writer
                row = dict(machine=machine, **row)
                row["seconds"] = "%.5g" % row["seconds"]
                row.update(date=date, **{"from": about})
                if not writer:
                    writer = csv.DictWriter(file, list(row), lineterminator="\n")
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
            table(write)
        print(f"{table.__name__}.csv is written", flush=True)


if __name__ == "__main__":
    main()
