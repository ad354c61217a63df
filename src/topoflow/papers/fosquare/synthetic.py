"""Messages of scientific applications of 16 processes, and of the other cores of the same machine.

The messages of the four applications are synthetic, because their traces were not published. Neighbours and sizes are
those of the codes for the problem sizes of the paper's Table 2:

    cg        NAS CG of n = 14,000 on 4 x 4 processes: 14,000 / 4 doubles (28,000 B, as in the paper) to the other
              processes of the row, by recursive doubling, and to the transposed process
    milc      a lattice of 8^4 on 2^4 processes: half of a face of 4^3 sites, with a 3 x 3 complex matrix each
              (32 * 144 B = 4,608 B, as in the paper), forth and back in four dimensions
    mg        NAS MG of 256^3 on 4 x 2 x 2 processes: faces of each level of a V-cycle, forth and back, in doubles
    mini_md   32^3 cells of 4 atoms on 4 x 2 x 2 processes: positions of the atoms within 2.8 sigma of each face, with
              those from previous dimensions; the number of atoms is drawn (Poisson)

Processes send evenly and without waiting for each other, because the paper replays the times of a trace.

Shapes: n messages, S servers.
Source: FOSquare (Yan et al., Photonics 2021), 2, Table 2; Bailey et al., The NAS Parallel Benchmarks, 1991; miniMD of
Mantevo (density 0.8442, cutoff 2.5 and skin 0.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats
from topoflow.traffic.base import Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.tasks import Label
from topoflow.units import check_positive

PROCESSES = 16
Index = NDArray[np.int64]
Step = tuple[Index, Floats]  # [16] target and bytes of each process
EVERY = np.arange(PROCESSES)


@dataclass(frozen=True)
class SyntheticMessages:
    """Messages between ends, with release times. n messages."""

    source: Index  # [n]
    target: Index  # [n]
    bytes: Floats  # [n]
    release: Floats  # [n] s

    def traffic(self, servers: int) -> Traffic:
        """Return the messages as a traffic in which no message waits for another."""
        columns = Columns()
        columns.transfer(Label("message"), self.source, self.target, self.bytes)
        return replace(columns.traffic("messages", servers, np.inf), release=self.release)

    def counts(self, ends: int) -> Index:
        """Count the messages [ends, ends] of each pair."""
        counts = np.zeros((ends, ends), np.int64)
        np.add.at(counts, (self.source, self.target), 1)
        return counts

    def joined(self, other: SyntheticMessages) -> SyntheticMessages:
        """Append the messages of ``other``."""
        fields = ("source", "target", "bytes", "release")
        return SyntheticMessages(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in fields))


def cg(random: np.random.Generator) -> Iterator[Step]:
    row, column = np.divmod(EVERY, 4)
    for target in (EVERY ^ 1, EVERY ^ 2, column * 4 + row):
        yield target, np.full(PROCESSES, 14_000 / 4 * 8)


def milc(random: np.random.Generator) -> Iterator[Step]:
    for dimension in range(4):
        for _ in ("forth", "back"):  # of two processes in a row, both neighbours are the other one
            yield EVERY ^ (1 << dimension), np.full(PROCESSES, 4**3 / 2 * 9 * 16)


def mg(random: np.random.Generator) -> Iterator[Step]:
    down = range(8, 2, -1)
    for level in chain(down, reversed(down)):
        sides = np.array([2**level / size for size in GRID])
        for axis in range(3):
            for way in (1, -1):
                yield neighbour(axis, way), np.full(PROCESSES, np.delete(sides, axis).prod() * 8)


def mini_md(random: np.random.Generator) -> Iterator[Step]:
    density, shell, cells = 0.8442, 2.5 + 0.3, 32
    sides = np.array([(4 / density) ** (1 / 3) * cells / size for size in GRID])
    for axis in range(3):
        around = np.where(np.arange(3) < axis, sides + 2 * shell, sides)
        atoms = np.delete(around, axis).prod() * shell * density
        for way in (1, -1):
            yield neighbour(axis, way), 3 * 8.0 * random.poisson(atoms, PROCESSES).astype(np.float64)


GRID = (4, 2, 2)
APPLICATIONS: Mapping[str, Callable[[np.random.Generator], Iterator[Step]]] = {
    "cg": cg,
    "milc": milc,
    "mg": mg,
    "mini_md": mini_md,
}


def neighbour(axis: int, way: int) -> Index:
    """Return the neighbour [16] of each process in a periodic grid of 4 x 2 x 2."""
    place = list(np.unravel_index(EVERY, GRID))
    place[axis] = (place[axis] + way) % GRID[axis]
    return np.ravel_multi_index(tuple(place), GRID)


def application(name: str, volume: float, rate: float, seed: int = 0) -> SyntheticMessages:
    """Return the messages of 16 processes of an application, ``volume`` bytes in all, with ``rate`` (B/s) per process.

    Steps follow each other, and start over, until each process has sent its part. No process sends to itself.
    """
    if name not in APPLICATIONS:
        raise ValueError(f"application: must be one of {', '.join(APPLICATIONS)}, got {name!r}")
    check_positive("application.volume", volume)
    check_positive("application.rate", rate)
    random = np.random.Generator(np.random.Philox(key=[seed, 1]))
    sent, parts = np.zeros(PROCESSES), []
    while (sent < volume / PROCESSES).any():
        for target, bytes in APPLICATIONS[name](random):
            sends = (target != EVERY) & (sent < volume / PROCESSES)
            parts.append(SyntheticMessages(EVERY[sends], target[sends], bytes[sends], sent[sends] / rate))
            sent += np.where(sends, bytes, 0.0)
    fields = ("source", "target", "bytes", "release")
    return SyntheticMessages(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))


@dataclass(frozen=True)
class Background:
    """Cores that send messages of one size to other cores, with Poisson arrivals.

    Messages within a server cross no network and are omitted.
    """

    message: float  # B
    load: float  # of the bandwidth of a core
    bandwidth: float  # B/s of a core
    within_server: float  # shares of the messages
    within_rack: float

    def __post_init__(self) -> None:
        check_positive("background.message", self.message)
        check_positive("background.bandwidth", self.bandwidth)
        if not 0 <= self.load <= 1:
            raise ValueError(f"background.load: must be within 0..1, got {self.load}")
        if not (min(self.within_server, self.within_rack) >= 0 and self.within_server + self.within_rack <= 1):
            got = f"{self.within_server} and {self.within_rack}"
            raise ValueError(f"background: within_server and within_rack must be shares of at most 1 in all, got {got}")

    def draw(self, busy: Index, servers_per_rack: int, seconds: float, seed: int) -> SyntheticMessages:
        """Draw the messages of servers with ``busy`` [S] cores; at least two racks of at least two servers each."""
        random = np.random.Generator(np.random.Philox(key=[seed, 2]))
        servers, size = len(busy), servers_per_rack
        mean = busy * self.load * self.bandwidth * (1 - self.within_server) / self.message * seconds
        source = np.repeat(np.arange(servers), random.poisson(mean))
        count = len(source)
        near = random.random(count) * (1 - self.within_server) < self.within_rack
        rack = source // size * size
        same = rack + (source - rack + random.integers(1, size, count)) % size
        away = (rack + size + random.integers(0, servers - size, count)) % servers
        when = random.uniform(0.0, seconds, count)  # the distribution of Poisson arrivals, given their number
        return SyntheticMessages(source, np.where(near, same, away), np.full(count, self.message), when)
