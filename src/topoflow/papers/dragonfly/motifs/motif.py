"""Motifs of applications by name, with the parameters of the tapered dragonfly and of SST's Ember.

    topoflow compare workload=motif workload.name=halo3d servers=64 fabric=dragonfly fidelity=packet routing=minimal

A motif is a script of each rank: it computes, sends, and waits for what is sent to it. Messages up to ``eager`` bytes
do not block their sender; the sender of a longer message waits until it has arrived (rendezvous).

Source: the tapered dragonfly, III-C (parameters); SST's Ember and Firefly, from which the paper took its motifs: each
rank does what Ember's generator of that name has it do (sstsimulator/sst-elements, ember/mpi/motifs), with its default
where the paper names no value; collectives are along a binary heap, an all-to-all is in lock steps, messages are eager
up to 12,000 B. Our assumptions, where both leave a choice open, are marked.

Shapes: n ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from topoflow.arrays import Offsets
from topoflow.memory import check_memory
from topoflow.papers.dragonfly.motifs.block_file import read_blocks
from topoflow.papers.dragonfly.motifs.mesh import Mesh, refined
from topoflow.papers.dragonfly.motifs.rounds import WRITTEN, folded
from topoflow.papers.dragonfly.motifs.scripts import Writer, box, shuffled, sides
from topoflow.units import check_not_negative, check_positive, check_seed
from topoflow.workload import base
from topoflow.workload.base import BYTES_PER_MESSAGE, Messages
from topoflow.workload.gpu import Gpu

DOUBLE, COMPLEX = 8, 16  # B of a number

LIBRARIES = ("none", "firefly")

MAX_TASKS = 2**24  # of all rounds, written one by one: 7 GB

Rule = Callable[["Motif", Writer], None]


@dataclass(frozen=True)
class Motif(base.MessagePattern):
    """A job that is one of ``MOTIFS``; a parameter of None has the motif's default (``DEFAULTS``).

    A parameter that the motif does not have has no effect, so that one sweep can have several motifs.
    """

    gpu: Gpu
    name: str = "halo3d"
    iterations: int | None = None
    bytes: float | None = None  # B of a message; halo3d, sweep3d, fft3d and amr3d derive it from the cells
    cells: int | None = None  # in each direction, of a rank (of amr3d: of a block)
    variables: int | None = None  # of a cell
    flops: float | None = None  # FLOP of a variable of a cell (of fft3d: of an element)
    elements: int | None = None  # complex numbers of a rank, of fft3d
    blocking: int | None = None  # planes of cells that sweep3d computes before it sends
    level: int | None = None  # amr3d: how often the blocks at the surface of a sphere are cut in eight
    blocks: str | None = None  # amr3d: a file of the blocks of each rank (``block_file``), in place of the sphere
    speed: float = 5e12  # FLOP/s of a node
    eager: float = 12_000.0  # B
    request: float | None = None  # B of the request before a longer message, and of its answer; None: no request
    library: str = "none"  # times of MPI calls and both protocols: none, or those of ``firefly``
    operation: float | None = None  # s that a rank computes before a broadcast or a reduction
    seed: int = 0
    mesh: Mesh | None = None  # read from ``blocks``

    def __post_init__(self) -> None:
        if self.name not in MOTIFS:
            raise ValueError(f"workload.name: must be one of {', '.join(MOTIFS)}, got {self.name!r}")
        if self.library not in LIBRARIES:
            raise ValueError(f"workload.library: must be one of {', '.join(LIBRARIES)}, got {self.library!r}")
        if self.library != LIBRARIES[0] and self.request is not None:
            raise ValueError(f"workload.request: must be null with workload.library={self.library}, got {self.request}")
        for field in ("iterations", "bytes", "cells", "variables", "flops", "elements", "blocking", "request"):
            if getattr(self, field) is not None:
                check_positive(f"workload.{field}", getattr(self, field))
        check_positive("workload.speed", self.speed)
        check_not_negative("workload.eager", self.eager)
        if self.operation is not None:
            check_not_negative("workload.operation", self.operation)
        check_seed("workload.seed", self.seed)
        if self.level is not None and (type(self.level) is not int or self.level < 0):
            raise ValueError(f"workload.level: must be a whole number of at least 0, got {self.level!r}")
        if self.blocks is not None and self.level is not None:
            raise ValueError(f"workload.level: must be null with workload.blocks={self.blocks}, got {self.level}")
        if self.blocks is not None and self.name not in MESHES:
            raise ValueError(f"workload.blocks: must be null with workload.name={self.name}, got {self.blocks!r}")
        if self.name == "sweep3d" and self.value("cells") % self.value("blocking"):
            requirement = f"must divide the {self.value('cells'):g} cells"
            raise ValueError(f"workload.blocking: {requirement}, got {self.value('blocking'):g}")

    def build(self) -> Motif:
        """Read the file of blocks. Raises ``ValueError`` if it is invalid, ``OSError`` if it cannot be read."""
        return self if self.blocks is None else replace(self, mesh=read_blocks(Path(self.blocks)).mesh())

    def check(self, ranks: int) -> None:
        if ranks < 2:
            raise ValueError(f"servers: must be at least 2 for {self.name}, got {ranks}")
        if self.name == "allpingpong" and ranks % 2:
            raise ValueError(f"servers: must be even for {self.name}, whose ranks are pairs, got {ranks}")
        if self.mesh is not None and ranks != len(self.mesh.blocks):
            raise ValueError(f"servers: must be the {len(self.mesh.blocks)} ranks of {self.blocks}, got {ranks}")

    def messages(self, ranks: int) -> Messages:
        """Return the messages of every rank.

        They are those of one round if all rounds have more than ``MAX_TASKS`` tasks and are equal. Raises
        ``ValueError`` if they do not fit in memory.
        """
        self.check(ranks)
        if self.rounds > WRITTEN:
            tasks = self.rounds * len(self._written(ranks, 1).source)
            if tasks > MAX_TASKS and self.name not in REDRAWN:
                one_round = folded(self._written(ranks, WRITTEN), self.rounds)
                if one_round is not None:
                    return one_round
            check_memory("workload.iterations", f"{tasks} tasks of {self.rounds} rounds", tasks * BYTES_PER_MESSAGE)
        return self._written(ranks, self.rounds)

    def _written(self, ranks: int, rounds: int) -> Messages:
        writer = Writer(ranks, self.eager, self.request, library=self.library != LIBRARIES[0])
        MOTIFS[self.name](replace(self, iterations=rounds), writer)
        return writer.messages()

    @property
    def rounds(self) -> int:
        """The number of iterations."""
        return int(self.value("iterations"))

    def value(self, field: str) -> float:
        """Return a parameter, or the motif's default for it."""
        value = getattr(self, field)
        return float(DEFAULTS[self.name][field] if value is None else value)

    def seconds(self, cells: float) -> float:
        """Return the seconds to compute this number of cells."""
        return cells * self.value("variables") * self.value("flops") / self.speed


def allpingpong(motif: Motif, writer: Writer) -> None:
    """Send from each rank of the first half to its partner in the second, which answers."""
    half = np.arange(writer.ranks // 2)
    for _ in range(motif.rounds):
        for source, target in ((half, half + len(half)), (half + len(half), half)):
            writer.send(source, target, motif.value("bytes"), blocking=True)
            writer.step()


def bcast(motif: Motif, writer: Writer) -> None:
    """Send from rank 0 down a heap."""
    _collective(motif, writer, _down)


def reduce(motif: Motif, writer: Writer) -> None:
    """Send up a heap to rank 0."""
    _collective(motif, writer, _up)


def allreduce(motif: Motif, writer: Writer) -> None:
    """Send up a heap to rank 0, and down again."""
    _collective(motif, writer, _up, _down)


def barrier(motif: Motif, writer: Writer) -> None:
    """Tell rank 0 and then all ranks that all are there."""
    for _ in range(motif.rounds):
        _barrier(writer)


def _collective(motif: Motif, writer: Writer, *parts: Callable[[Writer, float], None]) -> None:
    """Compute on all ranks, then make one call of ``parts``, in each round."""
    for _ in range(motif.rounds):
        writer.compute(np.arange(writer.ranks), motif.value("operation"))
        with writer.one_call():
            for part in parts:
                part(writer, motif.value("bytes"))


def _barrier(writer: Writer) -> None:
    with writer.one_call():
        for part in (_up, _down):
            part(writer, 1.0)  # B: no message is empty here


def _levels(ranks: int) -> list[Offsets]:
    """Group ranks by their depth in a heap, where 2 i + 1 and 2 i + 2 are below i; the first is rank 0."""
    depth = np.frexp(np.arange(ranks) + 1.0)[1]  # 2^(depth - 1) <= rank + 1 < 2^depth
    return [np.flatnonzero(depth == level) for level in range(1, int(depth.max()) + 1)]


def _up(writer: Writer, bytes: float) -> None:
    for level in _levels(writer.ranks)[:0:-1]:
        writer.send(level, (level - 1) // 2, bytes, blocking=True)
        writer.step()


def _down(writer: Writer, bytes: float) -> None:
    for level in _levels(writer.ranks)[1:]:
        writer.send((level - 1) // 2, level, bytes)
        writer.step()


def alltoall(motif: Motif, writer: Writer) -> None:
    """Exchange among all ranks in lock steps, in one call."""
    for _ in range(motif.rounds):
        with writer.one_call():
            _lock_steps(writer, writer.ranks, 1, motif.value("bytes"))


def incast(motif: Motif, writer: Writer) -> None:
    """Send from all other ranks to rank 0 at once."""
    others = np.arange(1, writer.ranks)
    for _ in range(motif.rounds):
        writer.send(others, np.zeros_like(others), motif.value("bytes"))
        writer.step()


def random(motif: Motif, writer: Writer) -> None:
    """Send from each rank to another by a permutation that is drawn in each round; one that draws itself rests."""
    rank = np.arange(writer.ranks)
    for number in range(motif.rounds):
        target = shuffled(writer.ranks, writer.ranks + motif.seed * motif.rounds + number)
        away = target != rank
        writer.send(rank[away], target[away], motif.value("bytes"))
        writer.step()


def halo3d(motif: Motif, writer: Writer) -> None:
    """Compute all cells, exchange faces along x, then y, then z, and reduce a number to all ranks."""
    rank, shape, cells = np.arange(writer.ranks), box(writer.ranks), motif.value("cells")
    bytes = cells**2 * DOUBLE * motif.value("variables")
    for _ in range(motif.rounds):
        writer.compute(rank, motif.seconds(cells**3))
        for axis in np.eye(3, dtype=np.int64):
            for shift in (-axis, axis):
                writer.send(*_neighbours(shape, shift), bytes, blocking=True)
            writer.step()
        with writer.one_call():
            for part in (_up, _down):
                part(writer, DOUBLE)


def halo3d26(motif: Motif, writer: Writer) -> None:
    """Compute all cells, then exchange faces, edges and corners with 26 neighbours at once."""
    rank, shape, cells = np.arange(writer.ranks), box(writer.ranks), motif.value("cells")
    shifts = [shift for shift in np.indices((3, 3, 3)).reshape(3, -1).T - 1 if shift.any()]
    for _ in range(motif.rounds):
        writer.compute(rank, motif.seconds(cells**3))
        for shift in sorted(shifts, key=lambda shift: np.abs(shift).sum()):
            bytes = cells ** int((shift == 0).sum()) * DOUBLE * motif.value("variables")
            writer.send(*_neighbours(shape, shift), bytes)
        writer.step()


def _neighbours(shape: tuple[int, int, int], shift: Offsets) -> tuple[Offsets, Offsets]:
    """Return ranks [k] of a box and their neighbours [k] that are ``shift`` [x, y, z] away; x counts first."""
    z, y, x = np.unravel_index(np.arange(np.prod(shape)), shape[::-1])
    there = np.stack([x, y, z], axis=1) + shift
    inside = np.all((there >= 0) & (there < shape), axis=1)  # there are no ranks beyond the box
    return np.flatnonzero(inside), np.ravel_multi_index(tuple(there[inside, ::-1].T), shape[::-1])


def sweep3d(motif: Motif, writer: Writer) -> None:
    """Sweep from each corner of a rectangle of ranks in turn, twice, ``blocking`` planes of cells at a time.

    A rank receives from one side, then from the other, computes, sends to one side, then to the other.
    """
    wide, high = sides(writer.ranks)
    y, x = np.divmod(np.arange(writer.ranks), wide)
    cells, planes = motif.value("cells"), motif.value("blocking")
    bytes = cells * planes * DOUBLE * motif.value("variables")
    for right, up in ((1, 1), (-1, 1), (-1, -1), (1, -1)) * (2 * motif.rounds):
        across, along = (x if right > 0 else wide - 1 - x), (y if up > 0 else high - 1 - y)
        order = np.argsort(across + along, kind="stable")
        fronts = np.split(order, np.cumsum(np.bincount(across + along))[:-1])
        for _ in range(int(cells / planes)):
            for front in fronts:
                writer.compute(front, motif.seconds(cells**2 * planes))
                for source, step in (
                    (front[across[front] < wide - 1], right),
                    (front[along[front] < high - 1], up * wide),
                ):
                    writer.send(source, source + step, bytes, blocking=True)
                    writer.step(np.concatenate([source, source + step]))


def fft3d(motif: Motif, writer: Writer) -> None:
    """Compute three passes, with an all-to-all in the rows and one in the columns between them; the same back.

    Numbers are real, so half of the complex ones are sent. The last pass back takes twice as long.
    """
    long, short = sides(writer.ranks)
    rank, seconds = np.arange(writer.ranks), motif.value("elements") * motif.value("flops") / motif.speed
    rows, columns = (short, 1), (long, short)  # ranks, and how far apart they are
    for _ in range(motif.rounds):
        for groups, last in (((rows, columns), 1), ((columns, rows), 2)):
            writer.compute(rank, seconds)
            for number, (size, stride) in enumerate(groups):
                with writer.one_call():
                    _lock_steps(writer, size, stride, motif.value("elements") * COMPLEX / 2 / size)
                writer.compute(rank, seconds * (last if number else 1))
            _barrier(writer)


def _lock_steps(writer: Writer, size: int, stride: int, bytes: float) -> None:
    """Exchange among ``size`` ranks that are ``stride`` apart, step by step: each sends to the k-th after it."""
    rank = np.arange(writer.ranks)
    place = rank // stride % size
    for step in range(1, size):
        writer.send(rank, rank + ((place + step) % size - place) * stride, bytes, blocking=True)
        writer.step()


def amr3d(motif: Motif, writer: Writer) -> None:
    """Compute blocks, then exchange their faces; the mesh is that of a file, or finer at a sphere."""
    assert motif.blocks is None or motif.mesh is not None, "build() reads the file"
    mesh, cells = motif.mesh or refined(writer.ranks, int(motif.value("level"))), motif.value("cells")
    for _ in range(motif.rounds):
        writer.compute(np.arange(writer.ranks), mesh.blocks * motif.seconds(cells**3))
        writer.send(mesh.source, mesh.target, mesh.faces * cells**2 * DOUBLE * motif.value("variables"))
        writer.step()


def amr3d_heavy(motif: Motif, writer: Writer) -> None:
    """Do the same with blocks that are cut once more, which we assume for midway through the paper's run."""
    amr3d(motif, writer)


RULES: tuple[Rule, ...] = (
    allpingpong,
    allreduce,
    alltoall,
    amr3d,
    amr3d_heavy,
    barrier,
    bcast,
    fft3d,
    halo3d,
    halo3d26,
    incast,
    random,
    reduce,
    sweep3d,
)
MOTIFS: Mapping[str, Rule] = {rule.__name__: rule for rule in RULES}
MESHES = (amr3d.__name__, amr3d_heavy.__name__)
REDRAWN = (random.__name__,)  # draw in each round: rounds differ, though the first three may be equal by chance
DEFAULTS: Mapping[str, Mapping[str, float]] = {  # the parameters that each motif has
    "allpingpong": {"iterations": 1000, "bytes": 1024},
    "allreduce": {"iterations": 1, "bytes": 4, "operation": 1e-9},
    "alltoall": {"iterations": 1, "bytes": 1024},
    "barrier": {"iterations": 1},
    "bcast": {"iterations": 1, "bytes": 4, "operation": 1e-9},
    "incast": {"iterations": 1, "bytes": 1024},
    "reduce": {"iterations": 1, "bytes": 4, "operation": 1e-9},
    "random": {"iterations": 10, "bytes": 1024},
    "halo3d": {"iterations": 1, "cells": 100, "variables": 16, "flops": 26},
    "halo3d26": {"iterations": 1, "cells": 100, "variables": 16, "flops": 26},
    "sweep3d": {"iterations": 1, "cells": 100, "variables": 6, "flops": 26, "blocking": 10},
    "fft3d": {"iterations": 1, "flops": 125, "elements": 71_470},
    "amr3d": {"iterations": 1, "cells": 10, "variables": 40, "flops": 26, "level": 1},
    "amr3d_heavy": {"iterations": 1, "cells": 10, "variables": 40, "flops": 26, "level": 2},
}
