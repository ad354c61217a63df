"""The recorder's files, one per rank and start of the job, written while the job runs (``topoflow.capture.record``).

    {"format": "topoflow-recording", "version": 1, "name": "toy", "world_size": 2, "start": 5, "epoch": 17e17, ...}
    {"kind": "group", "name": "0", "ranks": [0, 1]}
    {"kind": "begin"}
    {"kind": "compute", "name": "forward", "start": 10, "end": 20, "busy": 9, "after": [], "work": []}
    {"kind": "communication", "op": "all_reduce", "group": "0", "dtype": "float32", "in": 8, "out": 8, "issue": 20, ...}
    {"kind": "later", "event": 1, "end": 30}
    {"kind": "step", "work": "counted"}
    {"kind": "state", "torch": "2.13.0", "backends": ["gloo"], "job": [0, 2], "on_device": 0, ...}
    {"kind": "ended"}

``begin`` is the first training forward pass, ``step`` the end of an iteration, ``later`` what was not known when an
event was written. ``work`` of a step says how the operators of its iteration are known: they were ``counted``,
``repeated`` from a counted iteration that did the same, or ``changed`` while they were repeated
(``topoflow.capture.record.iteration_work``). The last ``state`` counts. Compute and communications are the events,
counted from 0. Times are ns of one clock, which showed ``start`` at ``epoch``. A file without ``ended`` is that of a
job that failed or was killed: its last line may be cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from topoflow.capture import work_rows
from topoflow.capture.base import POINT_TO_POINT, ComputeSpan
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD, Fields, decode, parse_json

FORMAT = b'"format":"topoflow-recording"'
VERSION = 1
NANOSECONDS = 1e-9
UNKNOWN_PEER = -1
CUT_LINE = "lines are cut, as the job ended while they were written, and are left out"
CUT_OFF = "ranks were cut off or failed: what others did after that is left out"
AFTER_LAST_STEP = "communications after the last optimizer step belong to no iteration and are left out"
UNKNOWN_SENDER = "receives from any source were not waited for: who sent is unknown, left out"
WORK = {  # how the work of an iteration is known -> a note on iterations of this kind
    "counted": "",
    "repeated": "iterations had the module calls and communications of one whose operators were counted: theirs are "
    "taken to be the same",
    "changed": "iterations changed while operators were not counted: some of their operators are those of an earlier "
    "iteration",
}
NO_STEP = "no optimizer took a step: the script is one iteration"


def matches(source: InputFile) -> bool:
    """Return whether the first line names the format."""
    return source.looks_like_json and FORMAT in source.data[:256]


def parse(source: InputFile) -> list[RankRecord]:
    """Return one part: a file is of one rank. Raise ValueError that names file, line, field, law and value."""
    *lines, tail = decode(source.name, source.data).split("\n")
    rows = [
        Fields.of(f"{source.name}:{number}: ", parse_json(f"{source.name}:{number}", line))
        for number, line in enumerate(lines, start=1)
    ]
    if not rows:
        raise ValueError(f"{source.name}: must have a whole first line, got a cut one")
    header = rows[0]
    if header.integer("version") != VERSION:
        header.fail("version", f"must be {VERSION}")
    read = _Rows(header)
    for row in rows[1:]:
        read.add(row)
    return [read.part(source.name, bool(tail))]


@dataclass
class _Rows:
    """The rows of a file so far."""

    header: Fields
    events: list[ComputeSpan | RecordedOperation] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)  # number of events before each optimizer step
    work_known: Counter[str] = field(default_factory=Counter)  # iterations by how their work is known
    begin: int | None = None  # number of events before the first training forward pass
    state: Fields | None = None
    ended: bool = False

    def add(self, row: Fields) -> None:
        """Take one row, in the order of the file."""
        match row.text("kind"):
            case "compute":
                self.events.append(self._compute(row))
            case "communication":
                self.events.append(self._communication(row))
            case "later":
                self._complete(row)
            case "group":
                self.groups[row.text("name")] = row.integers("ranks", highest=LARGEST_RANK)
            case "begin":
                self.begin = len(self.events)
            case "step":
                self.steps.append(len(self.events))
                known = row.text("work") if row.has("work") else "counted"
                if known not in WORK:
                    row.fail("work", f"must be one of {', '.join(WORK)}")
                self.work_known[known] += 1
            case "state":
                self.state = row
            case "ended":
                self.ended = True
            case _:
                row.fail("kind", "must be a kind of row that this topoflow reads")

    def part(self, file: str, cut_line: bool) -> RankRecord:
        """Return all of it: iterations end with the optimizer steps, what follows the last one is left out."""
        counts = {CUT_LINE: int(cut_line), CUT_OFF: int(not self.ended)}
        end = self.steps[-1] if self.steps else len(self.events)
        counts |= {note: self.work_known[known] for known, note in WORK.items() if note}
        counts[AFTER_LAST_STEP] = sum(isinstance(event, RecordedOperation) for event in self.events[end:])
        events: list[ComputeSpan | RecordedOperation] = []
        numbers = iteration_numbers(end, self._begin(), self.steps)
        for event, number in zip(self.events[:end], numbers, strict=True):
            if isinstance(event, RecordedOperation) and event.peer == UNKNOWN_PEER:
                counts[UNKNOWN_SENDER] = counts.get(UNKNOWN_SENDER, 0) + 1
                event = ComputeSpan("recv from unknown", event.start, event.end, 0.0, after=event.after)
            events.append(replace(event, iteration=number))
        rank, world_size = self.header.integer("rank", highest=LARGEST_RANK), self._world_size()
        notes = [] if self.steps else [NO_STEP]
        producer = "recorder"
        if self.state is not None:
            backends = ", ".join(self.state.texts("backends")) or "no communication"
            producer = f"recorder (torch {self.state.text('torch')}, {backends})"
            unknown = Fields.of(f"{self.state.place}unknown.", self.state.require("unknown"))
            for op in sorted(unknown.values):
                counts[f"calls of {op} were seen but not understood"] = unknown.integer(op)
            counts["communications of threads that the script started are not recorded"] = self.state.integer(
                "other_threads"
            )
            if self.state.has("on_fakes") and (on_fakes := self.state.integer("on_fakes")):
                counts["communications were of FakeTensors, whose computation is not recorded"] = on_fakes
            if on_device := self.state.integer("on_device"):  # a device's backward pass runs on a thread of its own
                counts["communications were on a device: their ends and compute were not timed"] = on_device
                events = [replace(event, work=None) if isinstance(event, ComputeSpan) else event for event in events]
            job = self.state.integers("job", highest=LARGEST_WORLD) if self.state.has("job") else ()
            if len(job) == 2 and job[1] > world_size:
                notes.append(f"{world_size} of {job[1]} ranks ran, the others were fake: nothing was sent or received")
                rank, world_size = job
        return RankRecord(
            file=file,
            rank=rank,
            events=tuple(events),
            source=producer,
            world_size=world_size,
            iterations=max(len(self.steps), 1),
            steps=tuple(range(len(self.steps))),
            groups=self.groups,
            ended=self.ended,
            restart=self.header.integer("restart"),
            epoch_ns=self.header.integer("epoch"),
            host=self.header.text("host"),
            name=self.header.text("name"),
            counts=counts,
            notes=tuple(notes),
        )

    def _world_size(self) -> int:
        return self.header.integer("world_size", 1, LARGEST_WORLD)

    def _begin(self) -> int:
        """Return the position where iteration 0 begins.

        It begins with the first training forward pass and the sends and receives that led to it (a later pipeline stage
        receives before it computes), or else with the first communication.
        """
        communications = [index for index, event in enumerate(self.events) if isinstance(event, RecordedOperation)]
        if self.begin is None:
            begin = communications[0] if communications else 0
        else:
            begin = self.begin
            latest = (index for index in reversed(communications) if index < self.begin)
            leading = takewhile(lambda index: _is_message(self.events[index]), latest)
            begin = min(leading, default=begin)
        return begin if not self.steps or begin < self.steps[0] else 0

    def _seconds(self, row: Fields, name: str) -> float:
        return round((row.integer(name) - self.header.integer("start")) * NANOSECONDS, 9)

    def _after(self, row: Fields) -> tuple[int, ...]:
        return tuple(sorted(set(row.integers("after", highest=len(self.events) - 1)))) if row.items("after") else ()

    def _compute(self, row: Fields) -> ComputeSpan:
        return ComputeSpan(
            name=row.text("name"),
            start=self._seconds(row, "start"),
            end=self._seconds(row, "end"),
            seconds=row.integer("busy") * NANOSECONDS,
            after=self._after(row),
            work=tuple(work_rows.read(row, index, entry) for index, entry in enumerate(row.items("work")))
            if row.has("work")
            else (),
        )

    def _communication(self, row: Fields) -> RecordedOperation:
        name = row.text("group")
        if name not in self.groups:
            row.fail("group", "must be one that an earlier row describes")
        issue = self._seconds(row, "issue")
        return RecordedOperation(
            place=f"{row.place}{row.text('op')}",
            op=row.text("op"),
            group=self.groups[name],
            group_name=name,
            dtype=row.text("dtype"),
            bytes_in=row.integer("in"),
            bytes_out=row.integer("out"),
            splits_in=row.integers("splits_in") if row.has("splits_in") else (),
            splits_out=row.integers("splits_out") if row.has("splits_out") else (),
            peer=row.integer("peer", UNKNOWN_PEER, LARGEST_RANK) if row.has("peer") else None,
            tag=row.integer("tag", lowest=-(2**31)) if row.has("tag") else 0,
            root=row.integer("root", highest=LARGEST_RANK) if row.has("root") else None,
            issue=issue,
            start=issue,
            end=self._seconds(row, "end") if row.has("end") else None,
            after=self._after(row),
        )

    def _complete(self, row: Fields) -> None:
        index = row.integer("event", highest=len(self.events) - 1)
        event = self.events[index]
        if not isinstance(event, RecordedOperation):
            row.fail("event", "must be a communication")
        if row.has("end"):
            event = replace(event, end=self._seconds(row, "end"))
        if row.has("peer"):
            event = replace(event, peer=row.integer("peer", UNKNOWN_PEER, LARGEST_RANK))
        self.events[index] = event


def _is_message(event: ComputeSpan | RecordedOperation) -> bool:
    return isinstance(event, RecordedOperation) and event.op in POINT_TO_POINT


def iteration_numbers(events: int, begin: int, steps: Sequence[int]) -> list[int]:
    """Return the iteration of each of ``events`` events.

    Iteration 0 begins at position ``begin``. ``steps[k]`` is the first position after optimizer step k. Without steps
    everything from ``begin`` on is iteration 0.

        iteration_numbers(7, 1, [3, 6]) -> [-1, 0, 0, 1, 1, 1, -1]
    """
    numbers = [-1] * events
    ends = steps or [events]
    for iteration, (first, last) in enumerate(zip([begin, *ends], ends, strict=False)):
        numbers[first:last] = [iteration] * (last - first)
    return numbers
