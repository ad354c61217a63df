"""Time what the live recorder adds to a job of PyTorch over gloo: to steps of DDP, and to collectives of one element.

    python benchmarks/captures/capture_overhead.py [ranks=2] [rounds=3]

The same job runs with and without ``topoflow.capture run``, by turns; each line is the median of the rounds. A job that
shares its processors with others is slowed by these, so that a quiet machine is needed: the 10th percentile is that of
undisturbed calls. With one rank, a collective of one element is the call alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, CALLS, WARM_UP = 20, 20_000, 5
PERCENTILES = {"p10": 0.1, "median": 0.5}


def job() -> None:
    """Print the times of both parts, us; this is the script that is recorded."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    width = 768
    blocks = [nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True) for _ in range(4)]
    model = DistributedDataParallel(nn.Sequential(*blocks))
    optimizer = torch.optim.AdamW(model.parameters())
    steps = []
    for _ in range(STEPS):
        began = time.perf_counter()
        model(torch.randn(2, 128, width)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.append(time.perf_counter() - began)
    one, calls = torch.ones(1), []
    for _ in range(CALLS):
        began = time.perf_counter()
        dist.all_reduce(one)
        calls.append(time.perf_counter() - began)
    if dist.get_rank() == 0:
        for name, times in (("step", steps[WARM_UP:]), ("all_reduce", calls[CALLS // 10 :])):
            times.sort()
            for percentile, part in PERCENTILES.items():
                print(f"{name}.{percentile}_us {1e6 * times[int(part * len(times))]:.1f}")
            print(f"{name}.mean_us {1e6 * statistics.fmean(times):.1f}")
    dist.destroy_process_group()


def run(ranks: int, folder: str | None) -> dict[str, float]:
    """Return the printed times of a job, recorded in ``folder`` or not at all."""
    recorder = [] if folder is None else ["-m", "topoflow.capture", "run", "--out", folder]
    command = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", *recorder, __file__]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return {line[0]: float(line[1]) for line in lines if len(line) == 2 and line[0].endswith("_us")}


def main() -> None:
    """Print ``step.median_us.plain``, ``.recorded`` and ``.ratio`` or ``.added``, and so on."""
    options = dict(argument.split("=") for argument in sys.argv[1:])
    ranks, rounds = int(options.get("ranks", 2)), int(options.get("rounds", 3))
    plain, recorded = [], []
    for _ in range(rounds):
        plain.append(run(ranks, None))
        with tempfile.TemporaryDirectory() as folder:
            recorded.append(run(ranks, str(Path(folder) / "capture")))
    for name in plain[0]:
        before, after = (statistics.median(times[name] for times in runs) for runs in (plain, recorded))
        print(f"{name}.plain {before:.1f}")
        print(f"{name}.recorded {after:.1f}")
        print(f"{name}.added {after - before:.1f}")
        print(f"{name}.ratio {after / before:.3f}", flush=True)


if __name__ == "__main__":
    job() if "RANK" in os.environ else main()
