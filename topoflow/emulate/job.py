"""The job that ``topoflow emulate`` runs by itself: transfers between servers, then the all-reduce of a DDP step.

Under torchrun, with one rank a server. What it does is in ``job.json`` of the folder of the emulation: bytes of the
gradients, (source, target, bytes) of the transfers, iterations, and ring orders or none, which is DDP's own order.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from topoflow.apply.torch import PermutedRings
from topoflow.emulate.marks import FOLDER, Marks


class Weights(torch.nn.Module):
    """Parameters of equal size, each a bucket of its own.

    gloo's ring waits for whole segments, of which it has two under way: with one bucket its links are idle for a fifth
    of the time. It reduces two buckets at a time, so that with several one fills the gaps of the other.
    """

    def __init__(self, count: int, buckets: int) -> None:
        super().__init__()
        cuts = [count * number // buckets for number in range(buckets + 1)]
        sizes = [end - first for first, end in pairwise(cuts)]
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(size)) for size in sizes])

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack([weight.sum() for weight in self.weights]).sum() * value


def exchange(transfers: list[list[int]], marks: Marks, iteration: int) -> None:
    """Send and receive what this rank has to; a transfer is noted when it has arrived."""
    rank, works, arriving = dist.get_rank(), [], []
    for number, (source, target, size) in enumerate(transfers):
        if source == rank:
            works.append(dist.isend(torch.ones(size, dtype=torch.uint8), target, tag=number))
        elif target == rank:
            arriving.append((number, dist.irecv(torch.empty(size, dtype=torch.uint8), source, tag=number)))
    for number, work in arriving:
        work.wait()
        marks.note("arrived", transfer=number, iteration=iteration)
    for work in works:
        work.wait()


def main() -> None:
    """Iterations, the first of which connects everybody and is not measured."""
    job: dict[str, Any] = json.loads((Path(os.environ[FOLDER]) / "job.json").read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    marks = Marks.of_environment()
    weights = Weights(job["gradient_bytes"] // 4, job["buckets"])
    cap = job["gradient_bytes"] / job["buckets"] / 2**20
    # A bucket is closed where it has reached the cap.
    model = DistributedDataParallel(weights, bucket_cap_mb=0.99 * cap, gradient_as_bucket_view=True)
    if job["orders"] is not None:
        PermutedRings(orders=job["orders"]).register(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for iteration in range(job["iterations"] + 1):
        loss = model(torch.ones(()))
        dist.barrier()
        marks.note("begin", iteration=iteration)
        exchange(job["transfers"], marks, iteration)
        marks.note("exchanged", iteration=iteration)
        loss.backward()
        marks.note("reduced", iteration=iteration)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        dist.barrier()
        marks.note("end", iteration=iteration)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
