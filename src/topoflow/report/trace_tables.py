"""Tables of ``topoflow inspect`` as text, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topoflow.capture.periods import StepRepetition
from topoflow.capture.summary import Number, Summary
from topoflow.units import counted, human

MAX_ROWS = 16  # groups or ranks in a table
MAX_STRAGGLERS = 3
SHARES = {  # shares of a step in the order of the tables -> title
    "compute": "compute",
    "hidden": "hidden communication",
    "exposed": "exposed communication",
    "waiting": "waiting for ranks",
    "transfer": "transfer",
    "host_idle": "host idle",
}


QUANTITIES: dict[str, Callable[[Number], str]] = {  # fields of a line of collectives -> text
    "count": lambda count: _number(count),
    "bytes_per_iteration": lambda size: human(size, "B"),
    "bus_bandwidth": lambda rate: human(rate, "B/s"),
}


@dataclass(frozen=True)
class TraceTable:
    """A table of texts with a title; numbers are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1  # columns of names, which are aligned to the left


def repetition(steps: StepRepetition) -> str:
    """Return a line that says whether the steps of a job repeat each other."""
    line = f"Steps: {steps.alike} of {counted(steps.whole, 'whole iteration')} communicate alike"
    if steps.shortest is None or steps.longest is None:
        return line
    return f"{line}, in {human(steps.shortest, 's')} to {human(steps.longest, 's')}"


def stragglers(summary: Summary) -> list[str]:
    """Return a line for each rank that kept the others waiting."""
    lines = []
    for share in summary.shares:
        if share.rank in summary.stragglers[:MAX_STRAGGLERS] and share.delay is not None and share.iteration_time:
            part = share.delay / share.iteration_time
            lines.append(
                f"Straggler: rank {share.rank} began {counted(share.last or 0, 'collective')} last, for which the "
                f"others waited {human(share.delay, 's')} ({part:.1%} of the step)"
            )
    return lines


def collectives_table(summary: Summary) -> TraceTable:
    """Return the operations of an iteration, with the bus bandwidth that they reached."""
    columns = ["operation", "group size", "dtype", "count", "bytes per iteration", "bus bandwidth"]
    with_link = any(line.link_share is not None for line in summary.collectives)
    rows = [
        [
            line.op,
            str(line.group_size),
            line.dtype or "-",
            _number(line.count) + (f" (+{_number(line.setup_count)} in set-up)" if line.setup_count else ""),
            _known(line.bytes_per_iteration, _amount),
            _known(line.bus_bandwidth, lambda rate: human(rate, "B/s")),
            *([_known(line.link_share, "{:.1%}".format)] if with_link else []),
        ]
        for line in summary.collectives
    ]
    return TraceTable("Collectives, per rank", columns + ["of the link"] * with_link, rows)


def groups_table(summary: Summary) -> TraceTable:
    """Return the groups of an iteration."""
    rows = [
        [
            _ranks(group.ranks),
            group.name,
            str(group.size),
            _number(group.count),
            _known(group.bytes_per_iteration, _amount),
        ]
        for group in summary.groups[:MAX_ROWS]
    ]
    columns = ("ranks", "name", "size", "count", "bytes per iteration")
    return TraceTable("Groups of the collectives, per member", columns, rows, left=2)


def shares_table(summary: Summary) -> TraceTable:
    """Return the shares of time of each rank."""
    rows = [
        [
            str(share.rank),
            _known(share.iteration_time, lambda time: human(time, "s")),
            *(_known(getattr(share, name), "{:.1%}".format) for name in SHARES),
            _known(share.last, str),
        ]
        for share in summary.shares[:MAX_ROWS]
    ]
    return TraceTable("Shares of the step", ("rank", "step time", *SHARES.values(), "began last"), rows)


def side_by_side(first: Summary, second: Summary) -> TraceTable:
    """Return a table of each quantity in two traces, and the ratio of the second to the first."""
    pair = (first, second)
    rows = [
        ["ranks recorded", *(f"{summary.ranks} of {summary.world_size}" for summary in pair), ""],
        [
            "whole iterations that communicate alike",
            *(f"{summary.steps.alike} of {summary.steps.whole}" for summary in pair),
            "",
        ],
        _row("step time", [summary.iteration_time for summary in pair], lambda time: human(time, "s")),
    ]
    for name, title in SHARES.items():
        parts = [getattr(summary, f"{name}_share") for summary in pair]
        seconds = [
            None if part is None or summary.iteration_time is None else part * summary.iteration_time
            for part, summary in zip(parts, pair, strict=True)
        ]
        rows.append(_row(title, seconds, lambda time: human(time, "s")))
    rows.append(
        ["stragglers", *(", ".join(map(str, summary.stragglers[:MAX_STRAGGLERS])) or "-" for summary in pair), ""]
    )
    lines = [{(line.op, line.group_size, line.dtype): line for line in summary.collectives} for summary in pair]
    for key in dict.fromkeys([*lines[0], *lines[1]]):
        pair_lines = [of_trace.get(key) for of_trace in lines]
        if not any(line is not None and line.count for line in pair_lines):
            continue  # before the first iteration alone
        for quantity, text in QUANTITIES.items():
            values = [None if line is None else getattr(line, quantity) for line in pair_lines]
            rows.append(
                _row(f"{key[0]} of {key[1]}, {key[2] or 'unknown size'}: {quantity.replace('_', ' ')}", values, text)
            )
    return TraceTable("", ("of one iteration, mean over ranks", "A", "B", "B / A"), rows)


def _row(title: str, values: Sequence[Number | None], text: Callable[[Number], str]) -> list[str]:
    return [title, *(_known(value, text) for value in values), _ratio(values)]


def _ratio(values: Sequence[Number | None]) -> str:
    first, second = values
    return "" if not first or second is None else f"{second / first:.2f}"


def _known(value: Number | None, text: Callable[[Number], str]) -> str:
    return "-" if value is None else text(value)


def _number(value: Number) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _amount(value: Number) -> str:
    return f"{_number(value)} B ({human(value, 'B')})" if value >= 1000 else f"{_number(value)} B"


def _ranks(group: tuple[int, ...]) -> str:
    """Return the ranks in group order, with runs shortened: ``0-7``."""
    if len(group) > 2 and list(group) == list(range(group[0], group[0] + len(group))):
        return f"{group[0]}-{group[-1]}"
    shown = ", ".join(map(str, group[:12]))
    return shown if len(group) <= 12 else f"{shown}, ... ({len(group)})"
