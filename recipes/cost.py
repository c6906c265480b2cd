"""What recording costs a training on this card: `python cost.py`. Twelve layers, bfloat16."""

import os
import tempfile
import time

import torch

from tidemark_capture import Capture

memory = torch.cuda.memory


def timed(function, times=1):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times * 1e3


def record(on):
    memory._record_memory_history(**({"max_entries": 1_000_000} if on else {"enabled": None}))


def events():
    return sum(len(trace) for trace in memory._snapshot()["device_traces"])


def dumped():
    path = os.path.join(tempfile.mkdtemp(), "snapshot.pickle")
    took = timed(lambda: memory._dump_snapshot(path)) / 1e3
    return f"{events():,} events: {took:.2f} s, {os.path.getsize(path) / 1e6:.0f} MB"


def layer():
    return torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)


net = torch.nn.Sequential(*[layer() for _ in range(12)]).cuda().bfloat16()
optimizer = torch.optim.AdamW(net.parameters())
batch = torch.randn(16, 512, 1024, device="cuda", dtype=torch.bfloat16)


def step():
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()


timed(step, 10)
with Capture("http://127.0.0.1:9", live=True, record=False) as capture:  # Nobody answers there.
    each = [timed(capture.step, 1000) * 1e3 for _ in range(5)]
    print("capture.step(), live:", f"{min(each):.1f} to {max(each):.1f} µs")
steps = {False: [], True: []}
for on in [False, True] * 6:
    record(on)
    steps[on].append(timed(step, 40))
print(torch.__version__, torch.cuda.get_device_name())
for on, times in steps.items():
    print("recorded" if on else "plain", f"{min(times):.1f} to {max(times):.1f} ms a step")
record(False)
record(True)
for n in (10, 50, 400):
    timed(step, n)
    print(dumped())
