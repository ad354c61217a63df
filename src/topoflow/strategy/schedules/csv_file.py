"""Schedules in CSV files of torch.distributed.pipelining: a row for each rank, a column for each action.

    0F0,0F1,,0B0,0B1          (pipeline of two ranks, "compute_only")
    ,1F0,1B0,1F1,1B1

Actions of communication, which torch writes as "compute_comms" (``0SEND_F0``, ``1UNSHARD``), follow from the passes,
and are left out. ``(0F5;7B3)OVERLAP_F_B`` is two passes, one after the other. An empty cell is no action.
Source: torch/distributed/pipelining/schedules.py (2.13), ``_Action`` and ``_PipelineScheduleRuntime._load_csv``.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path

from topoflow.files import read_bytes
from topoflow.strategy.schedules.base import Pass, Schedule

PASS = re.compile(r"(\d{1,6})([FIBW])(\d{1,6})")
OVERLAPPED = re.compile(r"\((.*)\)OVERLAP_F_B")
COMMUNICATION = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)\d*")


def read_schedule(path: str) -> Schedule:
    """Return the table of a file. Raise ``ValueError`` with the file, the row and the action that is wrong."""
    try:
        text = read_bytes(Path(path)).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise ValueError(f"strategy.schedule: must be a file that can be read, got {path} ({reason})") from error
    try:
        lines = list(csv.reader(StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}: must be CSV, got {error}") from error
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()
    rows, columns = [], []
    for number, line in enumerate(lines, 1):
        row = [
            (action, column)
            for column, cell in enumerate(line, 1)
            for action in _actions(f"{path}: row {number}, column {column}", cell.strip())
        ]
        rows.append(tuple(action for action, _ in row))
        columns.append([column for _, column in row])
    if not rows:
        raise ValueError(f"{path}: must have a row of actions for each rank, got none")

    def place(rank: int, index: int) -> str:
        if rank < 0:
            return path
        return f"{path}: row {rank + 1}" + (f", column {columns[rank][index]}" if index >= 0 else "")

    schedule = Schedule(tuple(rows), place)
    if schedule.stages % len(rows) or len(set(schedule.stage_ranks)) < len(rows):
        raise ValueError(f"{path}: each row must have equally many stages, got {schedule.stages} in {len(rows)} rows")
    assert schedule.order  # a deadlock is refused
    return schedule


def _actions(place: str, text: str) -> list[Pass]:
    overlapped = OVERLAPPED.fullmatch(text)
    parts = overlapped[1].split(";") if overlapped else [text] if text else []
    actions = []
    for part in parts:
        match = PASS.fullmatch(part.strip())
        if match:
            actions.append(Pass(int(match[1]), int(match[3]), match[2]))
        elif not COMMUNICATION.fullmatch(part):
            raise ValueError(f"{place}: must be an action such as 0F3, 1B3, 1I3 or 1W3, got {text!r}")
    return actions
