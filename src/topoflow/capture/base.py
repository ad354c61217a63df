"""Trace: what a job did. Per rank, in order: compute spans, collectives, point-to-point sends.

A trace is built by an importer (one module per format in ``formats/``) or by the
recorder (``record/``), and is valid once built. Times are seconds since the start of the trace, bytes
are bytes, ranks are global ranks of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topoflow import operations
from topoflow.capture.layout import MeshLayout
from topoflow.printable import html_table
from topoflow.units import DTYPE_BYTES, check_not_negative, check_positive, counted, human

COLLECTIVES = (*operations.COLLECTIVES, "barrier")
POINT_TO_POINT = ("send", "recv")


KERNELS = {"matmul": 3, "attention": 3, "attention_backward": 3}  # with measured rates -> number of their sizes


def brief(ranks: Sequence[int]) -> str:
    """Ranks for a message: the first eight, and how many there are."""
    return str(list(ranks)) if len(ranks) <= 8 else f"{str(list(ranks[:8]))[:-1]}, ...] ({len(ranks)} ranks)"


class OperatorWork(NamedTuple):
    """The work of operators, which is the same on every device: arithmetic, and bytes to and from memory."""

    dtype: str  # of the arithmetic; "": there is none
    flops: float
    moved: float  # B
    kernel: str = ""  # of ``KERNELS``; "": of no measured kind
    shape: tuple[int, ...] = ()  # rows, inputs, outputs of a product; size of a head, positions, heads of attention


@dataclass(frozen=True)
class ComputeSpan:
    """A span in which a rank computed. ``after`` names events of the same rank by position, where known.

    With ``communicates`` it is a kernel that communicated an unknown number of bytes: it takes as long as it was
    recorded, on any network.
    """

    name: str
    start: float | None  # s
    end: float | None  # s
    seconds: float  # s, the time the device was busy; end - start where both are known
    iteration: int = 0  # -1: before the first iteration (set-up)
    after: tuple[int, ...] | None = None  # None: not recorded, only the order is known
    waits: tuple[int, ...] = ()  # communications of the rank, by position, that it is recorded to wait for
    communicates: bool = False
    work: tuple[OperatorWork, ...] | None = (
        None  # of its operators, those of one arithmetic intensity together; None: unknown
    )


@dataclass(frozen=True)
class Communication:
    """One collective or one send/recv as one rank saw it.

    ``bytes_in`` is the rank's input tensor, ``bytes_out`` its output tensor: an all-gather of n ranks has
    ``bytes_out = n * bytes_in``, an all-reduce ``bytes_in == bytes_out``. ``peer`` is the global rank at the
    other end of a send/recv and ``root`` the global root of a rooted collective. A receive takes what was sent
    with its ``tag``, where the backend has tags (NCCL has none). Splits are elements per member of the group, as
    all-to-all-v passes them; empty means equal.
    """

    op: str
    group: tuple[int, ...]  # global ranks in group order
    dtype: str  # "": the file records no size; only an inspection takes such a job
    bytes_in: int
    bytes_out: int
    iteration: int = 0
    splits_in: tuple[int, ...] = ()
    splits_out: tuple[int, ...] = ()
    peer: int | None = None
    tag: int = 0
    root: int | None = None
    issue: float | None = None  # s, when the host asked for it
    start: float | None = None  # s, when the transfer began (includes waiting for the others)
    end: float | None = None  # s
    group_name: str = ""
    after: tuple[int, ...] | None = None
    waits: tuple[int, ...] = ()
    delay: float = 0.0  # s from the end of what it follows until the rank takes part, when no one computes for it

    def __post_init__(self) -> None:
        if self.op not in COLLECTIVES + POINT_TO_POINT:
            raise ValueError(f"op: must be one of {', '.join(COLLECTIVES + POINT_TO_POINT)}, got {self.op!r}")
        if self.sized and self.dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype: must be one of {', '.join(DTYPE_BYTES)}, got {self.dtype!r}")
        if not self.sized and (self.bytes_in or self.bytes_out or self.splits_in or self.splits_out):
            raise ValueError(f"dtype: must be given with a size, got in={self.bytes_in} out={self.bytes_out}")
        if self.bytes_in < 0 or self.bytes_out < 0:
            raise ValueError(f"bytes: must not be negative, got in={self.bytes_in} out={self.bytes_out}")
        if len(set(self.group)) != len(self.group) or not self.group:
            raise ValueError(f"group: must name each rank once, got {brief(self.group)}")
        if self.op in POINT_TO_POINT and self.peer is None:
            raise ValueError(f"peer: a {self.op} must name its peer")
        check_not_negative("delay", self.delay)

    @property
    def sized(self) -> bool:
        """Return whether the size is known; otherwise ``bytes_in`` and ``bytes_out`` are 0."""
        return self.dtype != ""

    @property
    def bytes(self) -> int:
        """The size of the collective as Traffic counts it: the larger of the two tensors of this rank.

        That is the buffer of an all-reduce, the gathered output of an all-gather, the full input of a
        reduce-scatter. Of an all-to-all it is what the rank sends, so that the mean over ranks is that of all bytes.
        """
        return self.bytes_in if self.op == "all_to_all" else max(self.bytes_in, self.bytes_out)


Event = ComputeSpan | Communication


@dataclass(frozen=True)
class Trace:
    """A whole job, as far as it was recorded. ``ranks[r]`` are the events of rank r in the order of issue.

    Laws: every group is within ``world_size``; iterations are 0..iterations-1 (-1 is set-up); members of a
    group that were recorded agree on what they did together (checked by ``capture.merge``).
    """

    name: str
    world_size: int
    iterations: int
    ranks: Mapping[int, tuple[Event, ...]]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # name -> ranks in group order
    source: str = ""  # format and producer, e.g. "kineto (torch 2.4+)"
    notes: tuple[str, ...] = ()  # what the importer left out, counted: "13 'wait' rows are no collectives"
    incomplete: tuple[int, ...] = ()  # iterations in which something took an unknown time on some rank
    layout: MeshLayout | None = None  # by which ranks that were not recorded do what others did (``capture.mirrors``)
    memory: float | None = None  # B of a GPU's memory that the fullest rank needs at once
    replayable: bool = True  # False: no file records some sizes, groups or peers; only an inspection takes such a job
    chosen: int | None = None  # the iteration that stands for the job, where the times that decide it were taken away

    @property
    def size(self) -> str:
        """Return the size of the job, e.g. "4 of 8 ranks, 1 iteration, 1,200 events"."""
        events = sum(map(len, self.ranks.values()))
        ranks = f"{len(self.ranks):,} of {counted(self.world_size, 'rank')}"
        return f"{ranks}, {counted(self.iterations, 'iteration')}, {counted(events, 'event')}"

    def __repr__(self) -> str:
        return f"<trace {self.name}: {self.size}>"

    def _repr_html_(self) -> str:
        first = min(self.ranks)
        sent: dict[str, list[int]] = {}
        for event in self.communications(first):
            if event.iteration >= 0:
                sent.setdefault(event.op, []).append(event.bytes)
        share = 1 / self.iterations
        rows = [
            (op, f"{len(sizes) * share:g} of {human(sum(sizes) * share, 'B')} in an iteration of rank {first}")
            for op, sizes in sent.items()
        ]
        notes = (("note", note) for note in self.notes)
        return html_table(self.name, [("size", self.size), ("source", self.source), *rows, *notes])

    def __post_init__(self) -> None:
        if self.world_size < 1:
            raise ValueError(f"world_size: must be positive, got {self.world_size}")
        if self.iterations < 1:
            raise ValueError(f"iterations: must be positive, got {self.iterations}")
        if self.chosen is not None and not 0 <= self.chosen < self.iterations:
            raise ValueError(f"chosen: must be within 0..{self.iterations - 1}, got {self.chosen}")
        if not all(0 <= number < self.iterations for number in self.incomplete):
            raise ValueError(f"incomplete: must be within 0..{self.iterations - 1}, got {list(self.incomplete)[:8]}")
        if self.memory is not None:
            check_positive("memory", self.memory)
        if self.layout is not None and self.layout.world_size != self.world_size:
            raise ValueError(f"layout: must have the {self.world_size} ranks of the job, got {self.layout}")
        if not self.ranks:
            raise ValueError("ranks: must have at least one, got none")
        for rank, events in self.ranks.items():
            if not 0 <= rank < self.world_size:
                raise ValueError(f"ranks: must be within world_size {self.world_size}, got {rank}")
            for position, event in enumerate(events):
                self._check_event(rank, position, event)

    def _check_event(self, rank: int, position: int, event: Event) -> None:
        where = f"rank {rank} event {position}"
        if not -1 <= event.iteration < self.iterations:
            raise ValueError(f"{where}: iteration must be within -1..{self.iterations - 1}, got {event.iteration}")
        if event.after and not all(0 <= earlier < position for earlier in event.after):
            raise ValueError(f"{where}: after must name earlier events, got {list(event.after)}")
        if not all(0 <= earlier < position for earlier in event.waits):
            raise ValueError(f"{where}: waits must name earlier events, got {list(event.waits)}")
        if isinstance(event, Communication):
            if self.replayable and not event.sized:
                raise ValueError(f"{where}: dtype must be one of {', '.join(DTYPE_BYTES)}, got {event.dtype!r}")
            if min(event.group) < 0 or max(event.group) >= self.world_size:
                raise ValueError(
                    f"{where}: group must be within world_size {self.world_size}, got {brief(event.group)}"
                )
            if rank not in event.group:
                raise ValueError(f"{where}: rank must be in its group, got {brief(event.group)}")

    def communications(self, rank: int) -> Iterator[Communication]:
        """The collectives, sends and receives of one rank, in the order of issue."""
        return (event for event in self.ranks[rank] if isinstance(event, Communication))
