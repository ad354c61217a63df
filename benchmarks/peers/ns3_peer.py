"""ns-3 as a peer: the same messages over the same links, store-and-forward and first come first served (``ns3``).

Needs a C++ compiler and ns-3 (Debian: g++, libns3-dev).
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peers.program import build, missing

from topoflow.engine.base import Floats, World
from topoflow.engine.packet import Packet

SOURCE = Path(__file__).parent / "ns3" / "ns3_world.cpp"
PACKAGE = "libns3-dev"
HEADER = "ns3/point-to-point-module.h"
LIBRARIES = ("ns3-core", "ns3-network", "ns3-point-to-point")

# What ns-3's devices do: a queue for each link without a limit, in the order in which packets come, each stored whole.
MODEL = Packet(flit=1, switching="store_and_forward", arbiter="arrival", messages="in_order", buffer=2**30)


@dataclass(frozen=True)
class Answer:
    """What the peer printed."""

    seconds: float  # CPU time of its run
    hops: int  # packets that all links sent
    finish: Floats  # [T] s


@dataclass(frozen=True)
class Ns3:
    """The built program."""

    program: Path

    @staticmethod
    def build(folder: Path) -> Ns3:
        """Compile into ``folder``. Raises ``RuntimeError`` with what the compiler said."""
        return Ns3(build(folder / "ns3_world", [SOURCE], LIBRARIES))

    @staticmethod
    def missing() -> str | None:
        """Why it cannot be built here, or None."""
        return missing([HEADER], PACKAGE)

    def run(self, world: World, size: int) -> Answer:
        """Messages of whole bytes that are ready at the beginning. Raises ``RuntimeError`` with what went wrong."""
        done = subprocess.run([self.program], input=words(world, size), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.program.name} {world.name}: {done.stderr.strip()}")
        seconds, hops, *finish = done.stdout.split()
        return Answer(float(seconds), int(hops), np.array(finish, dtype=np.float64))


def words(world: World, size: int) -> str:
    """What the program reads. A node is where paths meet: each link has two of its own, as packets name their links.

    Raises ``ValueError`` for a world that it does not run.
    """
    graph = world.graph
    if len(graph.after) or graph.delay.any() or graph.release.any() or (graph.path < 0).any():
        raise ValueError(f"{world.name}: every task must be a message that is ready at the beginning")
    if graph.path_limit is not None or graph.alternatives is not None:
        raise ValueError(f"{world.name}: every message must have one path, and the whole of its links")
    ends = [
        f"{2 * link} {2 * link + 1} {round(8 * rate)} {round(latency * 1e12)}"
        for link, (rate, latency) in enumerate(zip(world.capacity.tolist(), world.latency.tolist(), strict=True))
    ]
    paths = np.split(graph.path_links, graph.path_offsets[1:-1])
    flows = [
        f"{int(bytes)} {len(paths[path])} {' '.join(map(str, paths[path].tolist()))}"
        for path, bytes in zip(graph.path.tolist(), graph.bytes.tolist(), strict=True)
    ]
    return "\n".join([f"{2 * graph.links} {graph.links} {graph.tasks} {size}", *ends, *flows])
