"""SimGrid's time-independent traces of MPI jobs: what each rank does, line by line, without times.

    0 init                    rank, action, arguments
    0 compute 1e9             FLOP
    0 isend 1 0 1e6 6         to rank 1, with tag 0, a million elements of type 6 (of the default type without it)
    0 wait 0 1 0              for the message from 0 to 1 with tag 0
    0 allreduce 5e4 5e8       elements, and the FLOP of the reduction on each rank
    0 finalize

One file has all ranks, or there is a file for each rank in one folder, or one that names these, a line each. All
collectives are of all ranks. As SMPI replays them: ``init`` with an argument makes doubles the default type, otherwise
bytes; a blocking send of less than 64 KiB does not wait for its end (smpi/send-is-detached-thresh); ``test`` waits for
nothing.

Compute is in FLOP of doubles, so that a GPU of any ``gpu`` computes it (``workload.compute=roofline``).
Source: SimGrid, src/smpi/internals/smpi_replay.cpp, smpi_datatype.cpp; docs/source/app_smpi.rst.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from topoflow.capture.base import ComputeSpan, OperatorWork
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.fields import LARGEST_INTEGER, LARGEST_RANK, decode, shorten
from topoflow.files import read_bytes
from topoflow.units import DTYPE_BYTES

DETACHED = 65_536  # B: a blocking send of less does not wait. Source: SMPI's default
MOST_AWAITED = 16  # events that one waits for, before they are joined
SLEEPS = "sleeps are left out"
EVEN = "collectives with a share for each rank are taken to have even ones"
# Ids of predefined types (smpi_datatype.cpp); those of the same size and kind are alike here.
TYPES = {
    "0": "float64",
    "1": "int32",
    "2": "int8",
    "3": "int16",
    "4": "int64",
    "5": "float32",
    "6": "uint8",
    "7": "int64",
    "8": "int8",
    "9": "uint8",
    "10": "int16",
    "11": "int32",
    "12": "int64",
    "13": "int64",
}
SILENT = ("init", "finalize", "comm_size", "comm_split", "comm_dup", "test", "location")
FIRST = re.compile(rb"(?:\s*#[^\n]*\n)*\s*\d{1,6}[ \t]+([A-Za-z_]{1,16})(?=\s|$)")
RANK = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(\d{1,6})")
MOST_HEAD = 4096  # B at the beginning of a file, in which its first action is
NAME = re.compile(r"[\w.+-]+(/[\w.+-]+)*")
MOST_NAMED = 2**22  # B of a file that names others


def matches(source: InputFile) -> bool:
    """The first line is an action of a rank that is known here, or names a file that begins with one."""
    return _is_trace(source.data) or bool(_files(source))


def parse(source: InputFile) -> list[RankRecord]:
    """Return a record for each rank. Raises ``ValueError`` that names file, line, law and value."""
    sources = (
        [source] if _is_trace(source.data) else [InputFile(str(path), read_bytes(path)) for path in _files(source)]
    )
    lines = [line for file in sources for line in _lines(file)]
    ranks: dict[int, Rank] = {}
    counts: Counter[str] = Counter()
    for line in lines:
        if line.rank not in ranks:
            ranks[line.rank] = Rank(line.rank, line.file)
        if ranks[line.rank].file != line.file:
            files = f"{ranks[line.rank].file} and {line.file}"
            raise ValueError(f"{files}: must be of different ranks, got rank {line.rank} twice")
    world = None if len(ranks) == 1 else len(ranks)
    for line in lines:
        counts[SLEEPS] += line.action == "sleep"
        counts[EVEN] += line.action in UNEVEN
        ranks[line.rank].do(line, world or _beside(source.name))
    return [
        RankRecord(
            file=rank.file,
            rank=rank.number,
            events=tuple(rank.events),
            source="SimGrid time-independent",
            world_size=world,
            counts=counts if rank is next(iter(ranks.values())) else {},
        )
        for rank in ranks.values()
    ]


@dataclass(frozen=True)
class Line:
    """One action."""

    file: str
    number: int
    rank: int
    action: str
    words: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"

    def fail(self, requirement: str, got: object) -> ValueError:
        return ValueError(f"{self.place}: {self.action} must {requirement}, got {shorten(got)}")

    def amount(self, at: int) -> int:
        """A count of elements or FLOP; they are written as 1e6 too."""
        if at >= len(self.words):
            raise self.fail(f"have at least {at + 1} arguments", " ".join(self.words))
        try:
            value = float(self.words[at])
        except ValueError:
            value = -1.0
        if not (isfinite(value) and 0 <= value <= LARGEST_INTEGER):
            raise self.fail(f"have a number of at least 0 as argument {at + 1}", self.words[at])
        return round(value)

    def rank_at(self, at: int) -> int:
        rank = self.amount(at)
        if rank > LARGEST_RANK:
            raise self.fail(f"name ranks within 0..{LARGEST_RANK}", self.words[at])
        return rank

    def root_at(self, at: int) -> int:
        """Rank 0 if none is named."""
        return self.rank_at(at) if at < len(self.words) else 0

    def all_ranks(self, world: int | None) -> int:
        """Return the number of ranks in the job."""
        if world is None:
            files = "a file of all ranks, one of those that a file names, or a folder with the files of all ranks"
            raise self.fail(f"be in {files}", f"rank {self.rank} alone")
        return world

    def type_at(self, at: int, default: str) -> str:
        if at >= len(self.words):
            return default
        if self.words[at] not in TYPES:
            raise self.fail(f"have a type of {', '.join(TYPES)} as argument {at + 1}", self.words[at])
        return TYPES[self.words[at]]


@dataclass
class Rank:
    """The events of a rank so far; ``last`` are those that its next one waits for."""

    number: int
    file: str
    events: list[ComputeSpan | RecordedOperation] = field(default_factory=list)
    last: tuple[int, ...] = ()
    default: str = "uint8"
    begun: bool = False
    requests: dict[tuple[int, int, int], deque[int]] = field(default_factory=lambda: defaultdict(deque))

    def do(self, line: Line, world: int | None) -> None:
        if line.action == "init":
            if self.begun:
                raise ValueError(f"{line.place}: must be of different ranks, got rank {self.number} twice")
            self.begun, self.default = True, "float64" if line.words else "uint8"
        if line.action in (*SILENT, "sleep"):
            return
        if line.action not in ACTIONS:
            raise ValueError(f"{line.place}: action must be one of {', '.join((*SILENT, *ACTIONS))}, got {line.action}")
        ACTIONS[line.action](self, line, world)

    def compute(self, flops: float) -> None:
        if flops:
            work = (OperatorWork("float64", float(flops), 0.0),)
            self._blocks(self._add(ComputeSpan("compute", None, None, 0.0, after=self.last, work=work)))

    def _add(self, event: ComputeSpan | RecordedOperation) -> int:
        self.events.append(event)
        return len(self.events) - 1

    def _blocks(self, event: int) -> None:
        """Let the next event wait for ``event``, which waited for all before."""
        self.last = (event,)

    def wait_for(self, event: int) -> None:
        """Let the next event wait for ``event`` too."""
        self.last = (*self.last, event)
        if len(self.last) > MOST_AWAITED:
            self._blocks(self._add(ComputeSpan("wait", None, None, 0.0, after=self.last, work=())))

    def message(self, line: Line) -> None:
        """Add a send, isend, recv or irecv: partner, tag, elements, type."""
        sends, waits = line.action.endswith("send"), not line.action.startswith("i")
        peer, tag, dtype = line.rank_at(0), line.amount(1), line.type_at(3, self.default)
        size = line.amount(2) * DTYPE_BYTES[dtype]
        sizes = (size, 0) if sends else (0, size)
        operation = self._operation(line, "send" if sends else "recv", dtype, *sizes)
        event = self._add(replace(operation, other=peer, tag=tag))
        if not waits:
            self.requests[(self.number, peer, tag) if sends else (peer, self.number, tag)].append(event)
        elif sends and size >= DETACHED:
            self._blocks(event)
        elif not sends:
            self.wait_for(event)

    def wait(self, line: Line) -> None:
        """One that is not known was caught by a test, as SimGrid takes it."""
        request = self.requests.get((line.rank_at(0), line.rank_at(1), line.amount(2)))
        if request:
            self.wait_for(request.popleft())

    def wait_all(self) -> None:
        for request in self.requests.values():
            while request:
                self.wait_for(request.popleft())

    def collective(
        self, line: Line, op: str, dtype: str, into: int | None = None, out: int | None = None, **more: Any
    ) -> None:
        self._blocks(self._add(replace(self._operation(line, op, dtype, into, out), **more)))

    def _operation(self, line: Line, op: str, dtype: str, into: int | None, out: int | None) -> RecordedOperation:
        return RecordedOperation(
            place=line.place,
            op=op,
            group_name="world",
            group_key="world",
            group_key_is_shared=True,
            group_of_all=True,
            group_rank=self.number,
            dtype=dtype,
            bytes_in=into,
            bytes_out=out,
            splits_in=(),
            splits_out=(),
            after=self.last,
        )


def _send_or_receive(rank: Rank, line: Line, world: int | None) -> None:
    rank.message(line)


def _wait(rank: Rank, line: Line, world: int | None) -> None:
    rank.wait(line)


def _wait_all(rank: Rank, line: Line, world: int | None) -> None:
    rank.wait_all()


def _compute(rank: Rank, line: Line, world: int | None) -> None:
    rank.compute(line.amount(0))


def _barrier(rank: Rank, line: Line, world: int | None) -> None:
    rank.collective(line, "barrier", "uint8", 0, 0)


def _broadcast(rank: Rank, line: Line, world: int | None) -> None:
    """Elements, root, type."""
    dtype = line.type_at(2, rank.default)
    size = line.amount(0) * DTYPE_BYTES[dtype]
    rank.collective(line, "broadcast", dtype, size, size, other=line.root_at(1))


def _reduce(rank: Rank, line: Line, world: int | None) -> None:
    """Elements, FLOP, root, type."""
    dtype = line.type_at(3, rank.default)
    size = line.amount(0) * DTYPE_BYTES[dtype]
    rank.collective(line, "reduce", dtype, size, size, other=line.root_at(2))
    rank.compute(line.amount(1))


def _all_reduce(rank: Rank, line: Line, world: int | None) -> None:
    """Elements, FLOP, type."""
    dtype = line.type_at(2, rank.default)
    size = line.amount(0) * DTYPE_BYTES[dtype]
    rank.collective(line, "all_reduce", dtype, size, size)
    rank.compute(line.amount(1))


def _all_to_all(rank: Rank, line: Line, world: int | None) -> None:
    """Elements to each rank, elements from each, type."""
    ranks, dtype = line.all_ranks(world), line.type_at(2, rank.default)
    sizes = (line.amount(at) * ranks * DTYPE_BYTES[dtype] for at in (0, 1))
    rank.collective(line, "all_to_all", dtype, *sizes)


def _all_to_all_v(rank: Rank, line: Line, world: int | None) -> None:
    """Elements of the buffer, those to each rank; elements of the buffer, those from each rank; types."""
    ranks = line.all_ranks(world)
    dtype = line.type_at(2 + 2 * ranks, rank.default)
    sent, received = ([line.amount(first + at) for at in range(ranks)] for first in (1, 2 + ranks))
    sizes = (sum(counts) * DTYPE_BYTES[dtype] for counts in (sent, received))
    rank.collective(line, "all_to_all", dtype, *sizes, splits_in=tuple(sent), splits_out=tuple(received))


def _gather(rank: Rank, line: Line, world: int | None) -> None:
    """Elements that each sends, elements that arrive, root, types."""
    dtype = line.type_at(3, rank.default)
    rank.collective(line, "gather", dtype, line.amount(0) * DTYPE_BYTES[dtype], other=line.root_at(2))


def _scatter(rank: Rank, line: Line, world: int | None) -> None:
    """Elements that leave, elements that each gets, root, types."""
    dtype = line.type_at(3, rank.default)
    rank.collective(line, "scatter", dtype, out=line.amount(1) * DTYPE_BYTES[dtype], other=line.root_at(2))


def _all_gather(rank: Rank, line: Line, world: int | None) -> None:
    """Elements that each sends, elements that arrive, types."""
    dtype = line.type_at(2, rank.default)
    rank.collective(line, "all_gather", dtype, line.amount(0) * DTYPE_BYTES[dtype])


def _all_gather_v(rank: Rank, line: Line, world: int | None) -> None:
    """Elements that this rank sends, elements from each, then type, displacements or both; all send the mean here."""
    ranks = line.all_ranks(world)
    more = len(line.words) - 1 - ranks
    only_displacements = 2 < more <= ranks  # as SMPI reads them; fewer are types
    dtype = rank.default if only_displacements else line.type_at(1 + ranks, rank.default)
    mean = -(-sum(line.amount(1 + at) for at in range(ranks)) // ranks)
    rank.collective(line, "all_gather", dtype, mean * DTYPE_BYTES[dtype])


def _reduce_scatter(rank: Rank, line: Line, world: int | None) -> None:
    """Elements that each rank gets, FLOP, type. Each is taken to get the mean."""
    ranks = line.all_ranks(world)
    dtype = line.type_at(ranks + 1, rank.default)
    mean = -(-sum(line.amount(at) for at in range(ranks)) // ranks)
    rank.collective(line, "reduce_scatter", dtype, out=mean * DTYPE_BYTES[dtype])
    rank.compute(line.amount(ranks))


ACTIONS: Mapping[str, Callable[[Rank, Line, int | None], None]] = {
    **dict.fromkeys(("send", "isend", "recv", "irecv"), _send_or_receive),
    "wait": _wait,
    "waitall": _wait_all,
    "compute": _compute,
    "barrier": _barrier,
    "bcast": _broadcast,
    "reduce": _reduce,
    "allreduce": _all_reduce,
    "alltoall": _all_to_all,
    "alltoallv": _all_to_all_v,
    "gather": _gather,
    "scatter": _scatter,
    "allgather": _all_gather,
    "allgatherv": _all_gather_v,
    "reducescatter": _reduce_scatter,
}
UNEVEN = ("allgatherv", "reducescatter")


def _is_trace(data: bytes) -> bool:
    match = FIRST.match(data)
    return match is not None and match[1].decode().lower() in (*SILENT, "sleep", *ACTIONS)


def _beside(file: str) -> int | None:
    """Return the number of ranks whose files are in the folder of ``file``; None unless they are ranks 0..n-1."""
    folder = Path(file).parent
    ranks = _ranks_in(folder, folder.stat().st_mtime_ns) if Path(file).is_file() else frozenset[int]()
    return len(ranks) if len(ranks) > 1 and ranks == {*range(len(ranks))} else None


@lru_cache(maxsize=4)
def _ranks_in(folder: Path, changed: int) -> frozenset[int]:
    """Return the ranks of the traces in a folder that was ``changed`` then, each by its first line."""
    ranks = set[int]()
    for file in folder.iterdir():
        if file.is_file():
            with file.open("rb") as opened:
                head = opened.read(MOST_HEAD)
            if _is_trace(head) and (first := RANK.match(head)) is not None:
                ranks.add(int(first[1]))
    return frozenset(ranks)


def _files(source: InputFile) -> list[Path]:
    """The files that ``source`` names, a line each, in its folder or one above; none unless all are traces."""
    names = source.data[:MOST_NAMED].decode(errors="replace").split()
    if not names or len(source.data) > MOST_NAMED or not all(map(_is_name, names)):
        return []
    folder = Path(source.name).absolute().parent
    for base in (folder, folder.parent):
        files = [base / name for name in names]
        with suppress(OSError, ValueError):  # one that cannot be read is no trace
            if all(file.is_file() and _is_trace(read_bytes(file)) for file in files):
                return files
    return []


def _is_name(word: str) -> bool:
    """Return whether a word is the path of a file below a folder."""
    return len(word) < 256 and NAME.fullmatch(word) is not None and ".." not in Path(word).parts


def _lines(source: InputFile) -> Iterator[Line]:
    for number, text in enumerate(decode(source.name, source.data).splitlines(), start=1):
        words = text.partition("#")[0].split()
        if words and (len(words) < 2 or not words[0].isascii() or not words[0].isdigit()):
            raise ValueError(f"{source.name}:{number}: must be a rank and an action, got {shorten(text)}")
        if words and (len(words[0]) > 6 or int(words[0]) > LARGEST_RANK):
            requirement = f"rank must be within 0..{LARGEST_RANK}"
            raise ValueError(f"{source.name}:{number}: {requirement}, got {shorten(words[0])}")
        if words:
            yield Line(source.name, number, int(words[0]), words[1].lower(), tuple(words[2:]))
