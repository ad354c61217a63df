"""The rows of a Kineto profile that an importer needs: host operators, annotations, launches, kernels.

A row is a complete event (``"ph": "X"``) with ``ts`` and ``dur`` in microseconds; here they are whole nanoseconds,
since epoch seconds with nanoseconds do not fit a double.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from topoflow.capture.torch_names import PARAM_COMMS, STEP, SYMMETRIC, dtype_of
from topoflow.fields import Fields

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNC = "cuda_sync"
CALLS = ("_runtime", "_driver")  # end the category of a call to the device
DAMAGED = "rows are damaged and are left out; the first is"


@dataclass(frozen=True)
class Row:
    """One complete event. ``lane`` is the host thread, or the device's stream."""

    place: str
    category: str
    name: str
    lane: tuple[Any, Any]
    start: int  # ns
    end: int  # ns
    args: Fields

    @property
    def correlation(self) -> Any:
        """The number that a kernel shares with the call that launched it."""
        value = self.args.values.get("correlation")
        return value if isinstance(value, (int, str)) else None


def is_call(row: Row) -> bool:
    """Return whether a row is a call to the device's runtime or driver: of CUDA, HIP, XPU, MTIA or another vendor."""
    return row.category.endswith(CALLS)


def is_launch(row: Row) -> bool:
    """Return whether a row is a call that launches a kernel, not a function of the host."""
    return is_call(row) and "launch" in row.name.lower() and "hostfunc" not in row.name.lower()


def read_rows(file: str, document: Fields, counts: Counter[str]) -> list[Row]:
    """Return the rows that matter, in the order of their start; one that is damaged is left out and counted."""
    rows: list[Row] = []
    damage: list[str] = []
    for index, event in enumerate(document.items("traceEvents")):
        if isinstance(event, dict) and (event.get("ph") != "X" or not _matters(event.get("cat"), event.get("name"))):
            continue
        place = f"{file}: traceEvents[{index}]"
        try:
            rows.append(_row(place, Fields.of(f"{place}.", event)))
        except ValueError as error:
            damage.append(str(error))
    if damage:
        counts[f"{DAMAGED} {damage[0]}"] += len(damage)
    return sorted(rows, key=lambda row: row.start)


def _matters(category: Any, name: Any) -> bool:
    if not isinstance(category, str) or not isinstance(name, str):
        return True  # damaged
    if category == "cpu_op":
        return name == PARAM_COMMS or name.startswith("c10d::") or name in SYMMETRIC
    if category == "user_annotation":
        return name.startswith((STEP, "nccl:", "gloo:"))
    return category in DEVICE or category == SYNC or category.endswith(CALLS)


def _row(place: str, fields: Fields) -> Row:
    start, duration = fields.number("ts"), fields.number("dur")
    if duration < 0:
        fields.fail("dur", "must not be negative")
    lane = (fields.values.get("pid"), fields.values.get("tid"))
    if not all(isinstance(part, (int, str, float)) for part in lane):
        fields.fail("tid", "must be a number, and pid as well")
    args = Fields.of(f"{place}.args.", fields.values.get("args") or {})
    begin = round(start * 1000)
    return Row(place, fields.text("cat"), fields.text("name"), lane, begin, begin + round(duration * 1000), args)


class Enclosing:
    """Finds the row of a thread within which something happened; the rows of one thread must not overlap."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[Any, Any], list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row.lane, []).append(row)
        self._starts = {lane: [row.start for row in rows] for lane, rows in self._rows.items()}

    def find(self, lane: tuple[Any, Any], at: int) -> Row | None:
        """The row of ``lane`` that began last before ``at`` and had not ended."""
        starts = self._starts.get(lane, [])
        index = bisect_right(starts, at) - 1
        row = self._rows[lane][index] if index >= 0 else None
        return row if row is not None and at <= row.end else None


def tensor_elements(row: Row, argument: int | None) -> int | None:
    """Elements of the tensor or list of tensors that a row's ``Input Dims`` records; None where it does not."""
    tensors = tensor_list(row, argument)
    return None if tensors is None else sum(tensors)


def tensor_list(row: Row, argument: int | None) -> tuple[int, ...] | None:
    """Elements of each tensor of an argument: ``[[10], [10]]`` -> (10, 10); old files leave lists of tensors empty."""
    if argument is None or not row.args.has("Input Dims"):
        return None
    dims = row.args.items("Input Dims")
    if argument >= len(dims):
        return None
    shape = dims[argument]
    if _type(row, argument) in ("TensorList", "") and not (isinstance(shape, list) and shape):
        return None
    shapes = shape if isinstance(shape, list) and shape and isinstance(shape[0], list) else [shape]
    return tuple(_product(row, shape) for shape in shapes)


def tensor_dtype(row: Row, arguments: Sequence[int | None]) -> str | None:
    """The dtype of the first of these arguments that has one in ``Input type``."""
    for argument in arguments:
        dtype = None if argument is None else dtype_of(_type(row, argument))
        if dtype is not None:
            return dtype
    return None


def _type(row: Row, argument: int) -> str:
    types = row.args.items("Input type") if row.args.has("Input type") else []
    return types[argument] if argument < len(types) and isinstance(types[argument], str) else ""


def _product(row: Row, shape: Any) -> int:
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        row.args.fail("Input Dims", "must be lists of sizes")
    if len(shape) > 64 or (elements := prod(shape)) >= 2**60:
        row.args.fail("Input Dims", "must be fewer than 2**60 elements")
    return elements
