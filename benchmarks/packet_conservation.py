"""Conservation on many random worlds: every byte arrives once, credits are never negative, nothing is dropped.

    python benchmarks/packet_conservation.py                          100,000 worlds, 100 in a launch
    python benchmarks/packet_conservation.py worlds=2000 first=7

The worlds, settings and law are those of ``tests/engine/test_packet_random.py``. It
ends at the first world that breaks it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engine"))
from test_packet_random import conserves, some_worlds

from topoflow.engine.base import Run

TOGETHER = 100  # worlds of one launch


def main() -> None:
    asked = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    worlds, first = int(asked.pop("worlds", "100000")), int(asked.pop("first", "0"))
    if asked:
        sys.exit(f"worlds, first: must be the only keys, got {' '.join(sys.argv[1:])}")
    done = packets = hops = 0
    begin = time.process_time()
    for seed in range(first, first + -(-worlds // TOGETHER)):
        each, model = some_worlds(seed, TOGETHER)
        for world, found in zip(each, model.simulate(each, Run(threads=1)), strict=True):
            conserves(world, model, found)
            assert found.ports is not None
            packets += int(found.ports.latency.count.sum())
            hops += int(found.ports.packets.sum())
        done += len(each)
        if done % 10000 == 0:
            print(f"... {done}", file=sys.stderr, flush=True)
    print(f"worlds {done}")
    print(f"packets {packets}")
    print(f"packet_hops {hops}")
    print(f"cpu_s {time.process_time() - begin:.0f}", flush=True)


if __name__ == "__main__":
    main()
