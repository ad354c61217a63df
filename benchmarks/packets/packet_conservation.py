"""Conservation on many random worlds: every byte arrives once, credits are never negative, nothing is dropped.

    python benchmarks/packets/packet_conservation.py                  100,000 worlds, 100 in a launch
    python benchmarks/packets/packet_conservation.py worlds=2000 first=7
    python benchmarks/packets/packet_conservation.py losses=yes       of worlds that lose, mark or control packets
    python benchmarks/packets/packet_conservation.py progress=FILE    continues where it was stopped

With ``losses``: what was sent was delivered or lost, of each message and in total, packets and bytes. The worlds,
settings and laws are those of ``tests/engine/test_packet_random.py``; launch i has the seed i, from ``first`` on. It
ends at the first world that breaks a law. Worlds whose messages lose each other's packets for ever have no answer, and
are counted (``endless``). With ``progress``, FILE has the counts so far after every 1,000 worlds, and what it says is
not done again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for tests.engine
from tests.engine.test_packet_random import conserves, loses_nothing_silently, some_lossy_worlds, some_worlds
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.packet import Packet

WORLDS_PER_LAUNCH = 100  # worlds of one launch
FOR_EVER = "every message must arrive"


@dataclass
class Counts:
    """What was simulated, from seed ``first`` on; ``losses`` as asked."""

    first: int
    losses: bool
    worlds: int = 0
    endless: int = 0
    packets: int = 0
    lost: int = 0
    packet_hops: int = 0
    cpu_s: float = 0.0


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    worlds, first = int(options.pop("worlds", "100000")), int(options.pop("first", "0"))
    counts = Counts(first, options.pop("losses", "no") == "yes")
    file = Path(options.pop("progress")) if "progress" in options else None
    if options:
        sys.exit(f"worlds, first, losses, progress: must be the only keys, got {' '.join(sys.argv[1:])}")
    if file is not None and file.exists():
        counts = continued(file, counts)
    make, check = (some_lossy_worlds, loses_nothing_silently) if counts.losses else (some_worlds, conserves)
    while counts.worlds < worlds:
        begin = time.process_time()
        batch, model = make(first + counts.worlds // WORLDS_PER_LAUNCH, WORLDS_PER_LAUNCH)
        for world, timeline in simulated(batch, model):
            if timeline is None:
                counts.endless += 1
                continue
            check(world, model, timeline)
            assert timeline.ports is not None
            counts.packets += int(timeline.ports.latency.count.sum())
            counts.lost += int(timeline.ports.lost.sum())
            counts.packet_hops += int(timeline.ports.packets.sum())
        counts.worlds += len(batch)
        counts.cpu_s += time.process_time() - begin
        if file is not None and counts.worlds % 1000 == 0:
            keep(file, counts)
        if counts.worlds % 10000 == 0:
            print(f"... {counts.worlds}", file=sys.stderr, flush=True)
    for name in ("worlds", "endless", "packets", "lost", "packet_hops"):
        print(f"{name} {getattr(counts, name)}")
    print(f"cpu_s {counts.cpu_s:.0f}", flush=True)


def keep(file: Path, counts: Counts) -> None:
    """Never half of it: the file is the one before, or this."""
    written = file.with_name(file.name + ".new")
    written.write_text(json.dumps(asdict(counts)) + "\n", encoding="utf-8")
    written.replace(file)


def continued(file: Path, expected: Counts) -> Counts:
    counts = Counts(**json.loads(file.read_text(encoding="utf-8")))
    if (counts.first, counts.losses) != (expected.first, expected.losses):
        sys.exit(
            f"{file}: must be of first={expected.first} losses={expected.losses}, got {counts.first}, {counts.losses}"
        )
    return counts


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
