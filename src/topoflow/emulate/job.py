"""The built-in job of ``topoflow emulate``: transfers between servers, then the all-reduce of a DDP step.

torchrun starts one rank per server. ``job.json`` in the folder of the emulation has the bytes of the gradients, the
transfers (source, target, bytes), the iterations, and the ring orders (null: DDP's own order).
"""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from topoflow.apply.torch import PermutedRings
from topoflow.emulate.marks import FOLDER, Marks

LEAD = 0.5  # s from the last rank's readiness to the start, so that all ranks have read the start time


class Weights(torch.nn.Module):
    """Parameters of equal size, each in its own bucket.

    gloo's ring forwards a segment once all of it has arrived, with at most two segments in flight: with one bucket its
    links are idle for a fifth of the time. Two buckets are reduced concurrently: one sends while the other waits.
    """

    def __init__(self, count: int, buckets: int) -> None:
        super().__init__()
        cuts = [count * number // buckets for number in range(buckets + 1)]
        sizes = [end - first for first, end in pairwise(cuts)]
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(size)) for size in sizes])

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack([weight.sum() for weight in self.weights]).sum() * value


def exchange(transfers: list[list[int]], marks: Marks, iteration: int) -> None:
    """Send and receive the transfers of this rank; note the arrival of each."""
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


def start_together(store: dist.Store, ranks: int, iteration: int) -> None:
    """Wait until a start time on the shared clock, which the last ready rank sets.

    A barrier of gloo is not exact enough: its messages to some ranks queue behind the data of ranks that it has already
    released. The store of torchrun is on the control network.
    """
    if store.add(f"topoflow/ready{iteration}", 1) == ranks:
        store.set(f"topoflow/start{iteration}", str(time.monotonic() + LEAD))
    time.sleep(max(0.0, float(store.get(f"topoflow/start{iteration}")) - time.monotonic()))


def main() -> None:
    """Run a warm-up iteration, which opens the connections, then the measured iterations."""
    job: dict[str, Any] = json.loads((Path(os.environ[FOLDER]) / "job.json").read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    marks = Marks.of_environment()
    weights = Weights(job["gradient_bytes"] // 4, job["buckets"])
    cap = job["gradient_bytes"] / job["buckets"] / 2**20
    # DDP closes a bucket when it reaches the cap.
    model = DistributedDataParallel(weights, bucket_cap_mb=0.99 * cap, gradient_as_bucket_view=True)
    if job["orders"] is not None:
        PermutedRings(orders=job["orders"]).register(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for iteration in range(job["iterations"] + 1):
        loss = model(torch.ones(()))
        start_together(store, dist.get_world_size(), iteration)
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
