"""Conservation on many random worlds: every byte arrives once, credits are never negative, nothing is dropped.

    python benchmarks/packet_conservation.py                          100,000 worlds, 100 in a launch
    python benchmarks/packet_conservation.py worlds=2000 first=7
    python benchmarks/packet_conservation.py losses=yes               of worlds that lose, mark or control packets

With ``losses``: what was sent was delivered or lost, of each message and in total, packets and bytes. The worlds,
settings and laws are those of ``tests/engine/test_packet_random.py``; launch i has the seed i, from ``first`` on. It
ends at the first world that breaks a law. Worlds whose messages lose each other's packets for ever have no answer, and
are counted (``endless``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engine"))
from test_packet_random import conserves, loses_nothing_silently, some_lossy_worlds, some_worlds

from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.packet import Packet

TOGETHER = 100  # worlds of one launch
FOR_EVER = "every message must arrive"


def main() -> None:
    asked = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    worlds, first = int(asked.pop("worlds", "100000")), int(asked.pop("first", "0"))
    losses = asked.pop("losses", "no") == "yes"
    if asked:
        sys.exit(f"worlds, first, losses: must be the only keys, got {' '.join(sys.argv[1:])}")
    make, law = (some_lossy_worlds, loses_nothing_silently) if losses else (some_worlds, conserves)
    done = endless = packets = lost = hops = 0
    begin = time.process_time()
    for seed in range(first, first + -(-worlds // TOGETHER)):
        each, model = make(seed, TOGETHER)
        for world, found in simulated(each, model):
            if found is None:
                endless += 1
                continue
            law(world, model, found)
            assert found.ports is not None
            packets += int(found.ports.latency.count.sum())
            lost += int(found.ports.lost.sum())
            hops += int(found.ports.packets.sum())
        done += len(each)
        if done % 10000 == 0:
            print(f"... {done}", file=sys.stderr, flush=True)
    print(f"worlds {done}")
    print(f"endless {endless}")
    print(f"packets {packets}")
    print(f"lost {lost}")
    print(f"packet_hops {hops}")
    print(f"cpu_s {time.process_time() - begin:.0f}", flush=True)


def simulated(worlds: Sequence[World], model: Packet) -> Iterator[tuple[World, Timeline | None]]:
    """None: a message lost its packets for ever."""
    try:
        yield from zip(worlds, model.simulate(worlds, Run(threads=1)), strict=True)
    except ValueError as error:
        if FOR_EVER not in str(error):
            raise
        if len(worlds) == 1:
            yield worlds[0], None
        else:
            for world in worlds:
                yield from simulated([world], model)


if __name__ == "__main__":
    main()
