"""How long a DLRM on 128 servers takes to become a world: lowered to tasks, and placed on a network.

    python benchmarks/lowering.py [runs=9]

Prints ``path.metric value`` lines: CPU milliseconds, the median and the least of ``runs``. Every run places with a new
``Placer``; the network is the same, and so the paths that it has listed. ``first_ms`` is the first run, which lists
them. ``kept_ms`` is placing with one ``Placer`` again and again, as a search does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from worlds.placements import Job, on_each

from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.traffic.lower import lower

LOWERING = Lowering(all_reduce="hierarchical", rings="flows")


def milliseconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1e3 * (time.process_time() - began)


def measure(name: str, job: Job, *, runs: int) -> None:
    def new_placer() -> object:
        return Placer(job.fabric, LOWERING).place(traffic, "world")

    traffic = lower(job.workload, job.strategy)
    placer = Placer(job.fabric, LOWERING)
    first = milliseconds(new_placer)
    timings = {
        "lower_ms": [milliseconds(lambda: lower(job.workload, job.strategy)) for _ in range(runs)],
        "place_ms": [milliseconds(new_placer) for _ in range(runs)],
        "kept_ms": [milliseconds(lambda: placer.place(traffic, "world")) for _ in range(runs + 1)][1:],
    }
    print(f"lowering.{name}.tasks {placer.place(traffic, 'world').graph.tasks}")
    print(f"lowering.{name}.first_ms {first:.1f}")
    for stage, samples in timings.items():
        print(f"lowering.{name}.{stage} {statistics.median(samples):.1f}")
        print(f"lowering.{name}.{stage}.least {min(samples):.1f}")


if __name__ == "__main__":
    on_each(measure, {"runs": 9})
