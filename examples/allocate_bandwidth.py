"""Divides the bandwidth of each node of a network among its links so that an iteration of a job is short.

    python examples/allocate_bandwidth.py

A DLRM trains on 8 servers in a torus, whose links have 100 Gb/s each at first. The bandwidth of a node is divided by a
softmax; Adam follows the gradient of the iteration time, which ``topoflow.engine.fluid.sweep`` gives: it runs the
iteration event by event and knows which link limits which transfer when.
"""

from __future__ import annotations

import sys

import torch

import topoflow
from topoflow.engine.fluid import sweep


def main(steps: int) -> None:
    """Print the iteration time of equal links, then the best of so many steps."""
    (result,) = topoflow.compare("workload.tables=8", "workload.rows=100000", servers=8, fabric="torus")
    world = result.timeline.world
    assert world.fabric is not None
    node = torch.from_numpy(world.fabric.source).long()  # [L] where a link begins
    capacity = torch.from_numpy(world.capacity)  # [L] B/s
    latency = torch.from_numpy(world.latency)[None]
    total = torch.zeros(int(node.max()) + 1, dtype=torch.float64).index_add(0, node, capacity)  # B/s of each node

    share = torch.zeros(len(capacity), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([share], lr=0.1)
    times = []
    for _ in range(steps):
        part = share.exp()
        divided = total[node] * part / torch.zeros_like(total).index_add(0, node, part)[node]
        time = sweep(world.graph, divided[None], latency).makespan.sum()
        times.append(time.item())
        optimizer.zero_grad()
        time.backward()
        optimizer.step()
    print(f"equal links     {times[0] * 1e3:.3f} ms")
    print(f"divided links   {min(times) * 1e3:.3f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
