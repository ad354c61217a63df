"""Parts: what one file says about one rank, before the ranks are merged into a Trace.

A format module yields Parts; ``topoflow.capture.merge`` joins the parts of one rank (times from one file, sizes
from another), checks that ranks agree, and builds the Trace. So a format only reads, and leaves as None what its file
does not say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from topoflow.capture.base import ComputeSpan, Event
from topoflow.capture.event_list import EventList, event_list
from topoflow.capture.iterations import by_repetition
from topoflow.capture.layout import MeshLayout
from topoflow.fields import parse_json

NO_NUMBER = re.compile(r"(?<=[:,\[\s])-?(?:nan|inf|NaN|Infinity)(?=\s*[,}\]])")  # printed by C, or by Python
MOST_NESTED = 8  # objects that a row may hold at its end


class DifferentJobs(ValueError):
    """Files that cannot be of one job: two of the same rank, or of jobs of different sizes."""


class Unrecorded(ValueError):
    """A size, group or peer that no file records; an inspection says what else is known."""


@dataclass(frozen=True)
class RecordedOperation:
    """A collective or send/recv as a file records it; fields as in ``Communication``, None: not recorded.

    ``splits`` are in elements; () means equal shares. ``sequence`` is the group's own counter, where the file has one,
    ``call`` its counter of this kind of operation, where the file may lack some of them.
    ``group`` None is a group whose ranks the file does not list. Then ``group_key`` is what the file calls the group (a
    pointer: another on each rank; or, if ``group_key_is_shared``, a name that is the same on all), ``group_size`` and
    ``group_rank`` are its number of ranks and the place of this rank among them, ``other`` is the place of the root or
    peer, and ``capture.merge.groups`` finds the ranks. ``group_of_all``: they are all ranks of the job.
    """

    place: str  # for messages: "trace.json: traceEvents[12]"
    op: str
    group: tuple[int, ...] | None = None
    group_name: str = ""
    dtype: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    splits_in: tuple[int, ...] | None = None
    splits_out: tuple[int, ...] | None = None
    peer: int | None = None
    tag: int = 0
    root: int | None = None
    group_key: str = ""
    group_key_is_shared: bool = False
    group_size: int | None = None
    group_rank: int | None = None
    group_of_all: bool = False
    group_unknown: str = ""  # the groups that it may be of, where the file does not say of which: "one of 3"
    other: int | None = None
    sequence: int | None = None
    call: int | None = None
    iteration: int = 0
    issue: float | None = None
    start: float | None = None
    end: float | None = None
    after: tuple[int, ...] | None = None
    waits: tuple[int, ...] = ()
    delay: float = 0.0
    seconds: float | None = None  # s that it took, where the file says no more of its times
    operator: str = ""  # what it is called if, without a size or group, it counts as seen but not sized
    completed: bool = True  # False: it was still under way when the file was written

    def changed(self, **fields: Any) -> RecordedOperation:
        """Return a copy with other values of ``fields``, in a tenth of the time of ``dataclasses.replace``."""
        assert fields.keys() <= self.__dict__.keys(), f"must be fields of an operation, got {list(fields)}"
        copy = object.__new__(RecordedOperation)
        copy.__dict__.update(self.__dict__, **fields)
        return copy


@dataclass(frozen=True)
class RankRecord:
    """One rank, as one file records it. ``events`` are in the order of issue."""

    file: str
    rank: int
    events: tuple[ComputeSpan | RecordedOperation, ...]
    source: str  # format and producer
    world_size: int | None = None
    iterations: int = 1
    steps: tuple[int, ...] = ()  # number that the job gave each iteration ("ProfilerStep#6"); (): not numbered
    incomplete: frozenset[int] = frozenset()  # iterations in which something took an unknown time
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rank_within: int | None = None  # ``rank`` is the place in a group of this many ranks, which must be all of the job
    timed: bool = True  # False: has no times, and may complete another part of the same rank
    lists_groups: bool = False  # True: it has no events, and completes another part of the same rank
    damaged: bool = False  # rows are left out, and may have been operations or marks of steps
    ended: bool = True  # False: it has every operation from the job's start on, and its end may be cut off
    restart: int = 0  # how often the job had been started before
    derived: bool = False  # True: made of other traces; in a folder with these it says nothing more
    epoch_ns: int | None = None  # wall clock at time 0; None: all parts count from the same instant
    host: str = ""  # whose clock that is, where the file says so
    name: str = ""
    layout: MeshLayout | None = None  # of the job
    memory: float | None = None  # B of a GPU's memory that the fullest rank needs at once
    counts: Mapping[str, int] = field(default_factory=dict)  # what was left out: sentence -> how many
    notes: tuple[str, ...] = ()


_Kind = TypeVar("_Kind", ComputeSpan | RecordedOperation, Event)


def in_repetitions(operations: Sequence[RecordedOperation]) -> tuple[tuple[RecordedOperation, ...], int]:
    """Return operations of a job without marks with the iterations that they repeat in, and how many these are."""
    keys = [(operation.op, operation.group_key, operation.dtype, operation.bytes_in) for operation in operations]
    numbers = by_repetition(keys)
    placed = tuple(operation.changed(iteration=number) for operation, number in zip(operations, numbers, strict=True))
    return placed, max(numbers, default=0) + 1


def without(events: Sequence[_Kind], left_out: Collection[int]) -> tuple[_Kind, ...]:
    """Return the events except those at ``left_out``; what came after one of these comes after its predecessors."""
    if not left_out:
        return tuple(events)
    remaining: list[_Kind] = []
    stands_for: list[tuple[int, ...]] = []  # old position -> new positions
    for index, event in enumerate(events):
        after = event.after
        if after is not None:
            positions = {new for old in after for new in stands_for[old]}
            if any(old in left_out for old in after):  # what another one follows is implied: chains stay short
                positions -= {earlier for new in positions for earlier in remaining[new].after or ()}
            after = tuple(sorted(positions))
        waits = tuple(sorted({new for old in event.waits for new in stands_for[old]}))
        if index in left_out:
            stands_for.append(after or waits)
        else:
            stands_for.append((len(remaining),))
            remaining.append(replace(event, after=after, waits=waits))
    return tuple(remaining)


@dataclass(frozen=True)
class InputFile:
    """One unpacked input file; ``document`` is its content as JSON, parsed once for all formats that ask."""

    name: str
    data: bytes
    gzip_is_cut_off: bool = False  # ``data`` is what could be unpacked

    @cached_property
    def events(self) -> EventList | None:
        """The list ``traceEvents``, not decoded yet; None if there is none."""
        return event_list(self.data) if self.looks_like_json else None

    @cached_property
    def document(self) -> Any:
        """The parsed JSON, without ``events``, or None when the file is no JSON document (``damage`` says why)."""
        return self.whole if self.events is None else self.events.document

    @property
    def whole(self) -> Any:
        """The parsed JSON with all events; None when the file is no JSON document."""
        return self._parsed[0]

    @property
    def whole_rows(self) -> Any:
        """The document with null for numbers that JSON does not have; without its end, if it was cut off within a list.

        The objects of that list which are complete are kept; what the file has after the list is lost. None for others.
        """
        return self._repaired[0]

    @property
    def is_cut_off(self) -> bool:
        """Return whether ``whole_rows`` lacks the end of the file."""
        return self._repaired[1]

    @cached_property
    def _repaired(self) -> tuple[Any, bool]:
        if not self.damage or not self.looks_like_json:
            return None, False
        text, replaced = NO_NUMBER.subn("null", self.data.decode(errors="replace"))
        if replaced:
            with suppress(ValueError):
                return parse_json(self.name, text), False
        end = len(text)
        for _ in range(MOST_NESTED):
            end = text.rfind("},", 0, end)
            if end < 0:
                return None, False
            with suppress(ValueError):
                return parse_json(self.name, text[: end + 1] + "]}"), True
        return None, False

    @property
    def damage(self) -> str:
        """Why the file is no JSON document; empty when it is one."""
        return self._parsed[1]

    @cached_property
    def looks_like_json(self) -> bool:
        """True if the first character opens a JSON object or list."""
        return self.data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    @cached_property
    def _parsed(self) -> tuple[Any, str]:
        if not self.looks_like_json:
            return None, f"{self.name}: must be JSON, got {self.data[:8]!r}..."
        try:
            return parse_json(self.name, self.data), ""
        except ValueError as error:
            return None, str(error)
