"""Device rows with impossible times, and kernels that a profile has lost.

CUPTI drops rows when its buffers overflow or when it starts late, and some drivers write rows without times. Such a
kernel took an unknown time, not none: its row is left out and counted, and the step that launched it is not whole. A
row is impossible if one of these laws is broken:

- a kernel takes time, and begins after the call that launched it;
- nothing outlasts the profile: the host's steps, from the first to the last; nor does a kernel wait for longer than
  these and all kernels take;
- a stream runs one kernel at a time: none contains a later one of another launch.

If most kernels begin before their launches, or later than that, the clock of the device is another one than the host's:
its rows are moved until none begins before its launch.

Source: pytorch/kineto issue 109; pytorch/pytorch issues 188481 and 192021. Profiles of real jobs break none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from topoflow.capture.formats.kineto.rows import DEVICE, KinetoRow, ProfileRows, launches
from topoflow.capture.formats.kineto.spans import into_graphs
from topoflow.capture.torch_names import STEP
from topoflow.units import human

IMPOSSIBLE = "kernels and copies have impossible times in the profile and are left out: how long they took is unknown"
CLOCK_TOLERANCE_NS = 10_000_000  # ns: host and device agree better than this
CLOCK = "clocks of devices are set by their launches, as they were apart from the host's by"
LOST = "launched kernels have no row in the profile: how long they took is unknown"


@dataclass(frozen=True)
class Sound:
    """The rows whose times are possible, and when the host launched the kernels of which something is unknown (ns)."""

    rows: ProfileRows
    untimed: Sequence[int] = ()
    uncertain: Sequence[tuple[int, int]] = ()  # of kernels whose call was lost: not before, and not after


def sound_rows(rows: ProfileRows, counts: Counter[str]) -> Sound:
    """Leave out device rows with impossible times."""
    captured = into_graphs(rows.host)
    launched = {
        row.correlation: row
        for row in rows.host
        if row.is_call and launches(row.name) and row.correlation is not None and not captured(row.start)
    }
    delays = _delays(rows.device, launched)
    offset = _clock_offset(rows, delays)
    if offset:
        counts[f"{CLOCK} {human(abs(offset) / 1e9, 's')}"] += 1
        rows = _moved(rows, -offset)
        delays = _delays(rows.device, launched)
    device = rows.device
    impossible = _outside(rows, delays)
    impossible |= _containing([row for row in device if row.number not in impossible])
    kept_rows = ProfileRows([row for row in rows.rows if row.number not in impossible]) if impossible else rows
    recorded = {row.correlation for row in device}
    kept_correlations = {row.correlation for row in kept_rows.device} if impossible else recorded
    if not device:
        return Sound(kept_rows)  # only the host was profiled
    counts[IMPOSSIBLE] += len(impossible)
    untimed = [launch for correlation, launch in launched.items() if correlation not in kept_correlations]
    counts[LOST] += sum(launch.correlation not in recorded for launch in untimed)
    return Sound(kept_rows, sorted(launch.start for launch in untimed), _uncertain(kept_rows.device, rows.calls))


def _outside(rows: ProfileRows, delays: Sequence[tuple[KinetoRow, int]]) -> set[int]:
    """Return the numbers of kernels without a duration, and of device rows that the profile cannot have seen."""
    device, host = rows.device, rows.host
    begin = host[0].start if host else 0
    numbers = {row.number for row in device if row.category == "kernel" and row.end == row.start}
    numbers |= {row.number for row in device if row.start == 0 < begin}
    numbers |= {row.number for row, delay in delays if delay < -CLOCK_TOLERANCE_NS}
    if any(row.name.startswith(STEP) for row in host):
        longest = max(row.end for row in host) - begin
        numbers |= {row.number for row in device if row.end - row.start > longest}
        numbers |= {row.number for row, delay in delays if delay > rows.longest_delay}
    return numbers


def _delays(device: Sequence[KinetoRow], launched: Mapping[Any, KinetoRow]) -> list[tuple[KinetoRow, int]]:
    """Return the device rows whose launch is known, each with the time from its launch to its start, ns."""
    return [(row, row.start - launched[row.correlation].start) for row in device if row.correlation in launched]


def _clock_offset(rows: ProfileRows, delays: Sequence[tuple[KinetoRow, int]]) -> int:
    """Return how far the device's clock is ahead of the host's, ns; 0 unless most kernels prove that it is."""
    known_delays = sorted(delay for row, delay in delays if row.start)
    if not known_delays or not any(row.name.startswith(STEP) for row in rows.host):
        return 0
    longest = rows.longest_delay
    median = known_delays[len(known_delays) // 2]
    if -CLOCK_TOLERANCE_NS <= median <= longest:
        return 0
    return min(delay for delay in known_delays if abs(delay - median) <= longest)


def _moved(rows: ProfileRows, by: int) -> ProfileRows:
    """Return the rows with those of the device later by ``by`` ns, except for rows without a time."""
    moved = [
        row._replace(start=row.start + by, end=row.end + by) if row.category in DEVICE and row.start else row
        for row in rows.rows
    ]
    return ProfileRows(sorted(moved, key=attrgetter("start")))


def _containing(device: Sequence[KinetoRow]) -> set[int]:
    """Return the numbers of kernels during which a later kernel of their stream began and ended."""
    running: dict[tuple[Any, Any], KinetoRow] = {}
    numbers = set()
    for row in device:
        if row.category != "kernel":
            continue
        before = running.get(row.lane)
        if before is None or row.end > before.end:
            running[row.lane] = row
        elif row.start > before.start and (row.correlation is None or row.correlation != before.correlation):
            numbers.add(before.number)
            running[row.lane] = row
    return numbers


def _uncertain(device: Sequence[KinetoRow], calls: Mapping[Any, KinetoRow]) -> list[tuple[int, int]]:
    """Return when each kernel without a call was launched at the earliest and latest, as a stream works in order.

    Kernels before the first call of their stream were launched before the profile began.
    """
    spans: list[tuple[int, int]] = []
    latest: dict[tuple[Any, Any], int] = {}  # call of each stream
    waiting: dict[tuple[Any, Any], list[KinetoRow]] = {}  # kernels since then
    is_lost = any(row.correlation not in calls for row in device)
    for row in device if is_lost else ():
        call, lane = calls.get(row.correlation), row.lane
        if call is not None:
            if lane in waiting:
                spans += [(latest[lane], min(call.start, kernel.start)) for kernel in waiting.pop(lane)]
            latest[lane] = max(call.start, latest.get(lane, call.start))
        elif lane in latest:
            waiting.setdefault(lane, []).append(row)
    return spans + [(latest[lane], kernel.start) for lane, kernels in waiting.items() for kernel in kernels]
