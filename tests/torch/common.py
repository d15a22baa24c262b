"""Shared by the parity scripts: reads a binary's weights and batches, and
trains a model, printing a loss per line."""
import json
import struct

import torch


def read_safetensors(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        a, b = (8 + size + x for x in t["data_offsets"])
        flat = torch.frombuffer(bytearray(data[a:b]), dtype=torch.float32)
        tensors[name] = flat.reshape(t["shape"])
    return tensors


def batches(text, batch, seq, steps):
    """Yields a binary's batches in its order: sequences of bytes, and the same
    shifted by one."""
    tokens = torch.tensor(list(open(text, "rb").read()))
    sequences = (len(tokens) - 1) // seq
    for step in range(steps):
        first = [(step * batch + i) % sequences * seq for i in range(batch)]
        yield (torch.stack([tokens[f:f + seq] for f in first]),
               torch.stack([tokens[f + 1:f + 1 + seq] for f in first]))


def train(model, optimizer, data, clip=None, schedule=None):
    for x, y in data:
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        print(f"{loss.item():.9g}", flush=True)


def record(model, text, batch, seq, prompt, tokens):
    """Prints a JSON object: val_loss, the mean loss over the whole batches of
    the text, and a greedy continuation of the prompt's bytes, with the least
    difference between the two largest logits of a token."""
    count = (len(open(text, "rb").read()) - 1) // seq // batch
    with torch.no_grad():
        losses = [model(x, y).item() for x, y in batches(text, batch, seq, count)]
        ids, margin = list(prompt.encode()), float("inf")
        for _ in range(tokens):
            row = model.logits(torch.tensor([ids[-seq:]]))[0, -1]
            top = row.topk(2)
            margin = min(margin, (top.values[0] - top.values[1]).item())
            ids.append(top.indices[0].item())
    print(json.dumps({"val_loss": sum(losses) / count, "batches": count,
                      "ids": ids, "margin": margin}))
