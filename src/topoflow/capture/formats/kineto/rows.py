"""The rows of a Kineto profile that an importer needs: host operators, annotations, launches, kernels.

A row is a complete event (``"ph": "X"``) with ``ts`` and ``dur`` in microseconds; here they are whole nanoseconds,
since epoch seconds with nanoseconds do not fit a double.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import repeat
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from topoflow.capture.event_list import NO_CORRELATION, EventList
from topoflow.capture.torch_names import PARAM_COMMS, STEP, SYMMETRIC, dtype_of
from topoflow.fields import LARGEST_INTEGER, Fields

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNC = "cuda_sync"
CALLS = ("_runtime", "_driver")  # end the category of a call to the device
# Categories that are neither calls nor work of a device. One that is not known here is work of the device of a vendor
# ("hpu_op", "mtia_ccp_events") if its rows have the correlation of a call. Source: pytorch/kineto ActivityType.cpp.
OTHERS = frozenset(
    [
        "cpu_op",
        "user_annotation",
        "gpu_user_annotation",
        "external_correlation",
        "cpu_instant_event",
        "python_function",
        "overhead",
        "cuda_sync",
        "cuda_event",
        "cuda_profiler_range",
        "ac2g",
        "async_cpu_to_gpu",
        "fwdbwd",
        "Trace",
        "mtia_insight",
        "collective_comm",
        "gpu_pm_counter",
    ]
)
NUMBERS, LANE = (int, float), (int, str, float)
NOTHING: dict[str, Any] = {}
CAPTURE_BEGINS = ("cudaStreamBeginCapture", "hipStreamBeginCapture")
CAPTURE_ENDS = ("cudaStreamEndCapture", "hipStreamEndCapture")
COLUMNS = ("number", "text", "lane", "start", "end", "correlation", "args_begin", "args_end", "names_collective")
ROWS_PER_CHUNK = 2**14  # of columns that become objects
DAMAGED = "rows are damaged and are left out; the first is"


class KinetoRow(NamedTuple):
    """One complete event. ``lane`` is the host thread, or the device's stream."""

    file: str
    number: int  # of the event in ``traceEvents``
    category: str
    name: str
    lane: tuple[Any, Any]
    start: int  # ns
    end: int  # ns
    correlation: int | str | None  # that a kernel shares with the call that launched it
    is_call: bool  # to the runtime or driver of the device: of CUDA, HIP, XPU, MTIA or another vendor
    arguments: Mapping[str, Any]  # of calls, and of kernels that name no collective, none are kept

    @property
    def place(self) -> str:
        """The file and the number of the event, for messages."""
        return _place(self.file, self.number)

    @property
    def args(self) -> Fields:
        """Return the arguments with their place."""
        return Fields(f"{self.place}.args.", self.arguments)

    def listed(self, argument: str) -> list[Any]:
        """Return an argument that is a list; an empty one if the row has not this argument."""
        value = self.arguments.get(argument)
        return value if isinstance(value, list) else [] if value is None else self.args.items(argument)


NEW_ROW: Callable[[Iterable[Any]], KinetoRow] = partial(tuple.__new__, KinetoRow)  # half the time of KinetoRow(...)


def _place(file: str, index: int) -> str:
    return f"{file}: traceEvents[{index}]"


@dataclass(frozen=True)
class ProfileRows:
    """The rows of a profile in the order of their start, with the selections that several rules need."""

    rows: Sequence[KinetoRow]

    @cached_property
    def device(self) -> Sequence[KinetoRow]:
        """The kernels and copies."""
        return [row for row in self.rows if row.category in DEVICE]

    @cached_property
    def host(self) -> Sequence[KinetoRow]:
        """All other rows."""
        return [row for row in self.rows if row.category not in DEVICE]

    @cached_property
    def longest_delay(self) -> int:
        """How long a kernel can wait at most after its launch, ns: while the host runs, and while other kernels run."""
        return max(row.end for row in self.host) - self.host[0].start + sum(row.end - row.start for row in self.device)

    @cached_property
    def calls(self) -> Mapping[int | str, KinetoRow]:
        """The calls to the device, by correlation."""
        return {row.correlation: row for row in self.host if row.is_call and row.correlation is not None}


@lru_cache(maxsize=2**10)
def launches(call: str) -> bool:
    """Return whether a call of this name launches a kernel, not a function of the host."""
    return "launch" in call.lower() and "hostfunc" not in call.lower()


class Category(NamedTuple):
    """The rows of one ``cat`` that matter, and what they are."""

    matters: bool | Callable[[str], bool]  # a function: of the name
    is_call: bool = False
    is_work: bool = False  # of a device
    is_foreign: bool = False  # not known here: work of a device if a row has the correlation of a call

    def applies_to(self, name: str) -> bool:
        """Return whether rows of this name matter."""
        return self.matters if isinstance(self.matters, bool) else self.matters(name)


class Categories(dict[str, Category]):
    """The categories of a profile; each is looked up once."""

    def __missing__(self, category: str) -> Category:
        is_call, is_device = category.endswith(CALLS), category in DEVICE
        is_foreign = not (is_call or is_device or category in OTHERS)
        by_name = NAMED.get(category, is_call or is_device or category == SYNC or is_foreign)
        rules = self[category] = Category(by_name, is_call, is_device or is_foreign, is_foreign)
        return rules


def _is_operator(name: str) -> bool:
    return name == PARAM_COMMS or name.startswith("c10d::") or name in SYMMETRIC


def _is_annotation(name: str) -> bool:
    return name.startswith((STEP, "nccl:", "gloo:"))


NAMED: dict[str, Callable[[str], bool]] = {
    "cpu_op": _is_operator,
    "user_annotation": _is_annotation,
}


def read_rows(file: str, events: EventList | Iterable[Any], counts: Counter[str]) -> ProfileRows:
    """Return the rows that matter, in the order of their start; one that is damaged is left out and counted.

    Raises ``ValueError`` if none is whole, and ``orjson.JSONDecodeError`` if a list that is not decoded yet is no JSON.
    """
    categories = Categories()
    rows: list[KinetoRow] = []
    if isinstance(events, EventList):
        rows, decoded = _plain_rows(file, events, categories)
    else:
        decoded = enumerate(events)
    damage: list[str] = []
    whole = len(rows)
    for number, event in decoded:
        try:
            row = _row(file, number, event, categories)
        except ValueError as error:
            damage.append(str(error))
        else:
            if row is not None:
                rows.append(row)
    if damage and not rows:
        raise ValueError(damage[0])
    if damage:
        counts[f"{DAMAGED} {damage[0]}"] += len(damage)
    if 0 < whole < len(rows):
        rows.sort(key=attrgetter("number"))
    rows.sort(key=attrgetter("start"))
    return ProfileRows(rows)


def _plain_rows(
    file: str, events: EventList, categories: Categories
) -> tuple[list[KinetoRow], Iterator[tuple[int, Any]]]:
    """Return the rows of plain events, and the numbers and values of others, of which some may be rows as well."""
    texts: list[tuple[str, str, Category]] = []

    def matters(category: bytes, name: bytes) -> bool:
        pair = orjson.loads(category), orjson.loads(name)
        rules = categories[pair[0]]
        texts.append(("kernel" if rules.is_foreign else pair[0], pair[1], rules))
        return rules.applies_to(pair[1])

    columns = events.columns(matters)
    lanes = [(orjson.loads(process), orjson.loads(thread)) for process, thread in columns["lanes"]]
    odd = zip(*(columns[name].tolist() for name in ("odd_number", "odd_begin", "odd_end")), strict=True)
    positions = _needed(columns, texts)
    category, name, all_rules = zip(*texts, strict=True) if texts else ((), (), ())
    is_call, is_work = (
        np.array([getattr(rules, flag) for rules in all_rules], bool) for flag in ("is_call", "is_work")
    )
    category_of, name_of, lane_of = (np.fromiter(values, object, len(values)) for values in (category, name, lanes))
    rows: list[KinetoRow] = []
    for part in range(0, len(positions), ROWS_PER_CHUNK):
        chunk = {column: columns[column][positions[part : part + ROWS_PER_CHUNK]] for column in COLUMNS}
        text, correlation = chunk["text"], chunk["correlation"].astype(object)
        correlation[chunk["correlation"] == NO_CORRELATION] = None
        begins, ends = chunk["args_begin"], chunk["args_end"]
        has_args = (begins < ends) & ~is_call[text] & ((chunk["names_collective"] != 0) | ~is_work[text])
        arguments = [NOTHING] * len(text)
        for at in np.flatnonzero(has_args).tolist():
            arguments[at] = orjson.loads(events.data[begins[at] : ends[at]])
        names = category_of[text], name_of[text], lane_of[chunk["lane"]]
        fields = chunk["number"], *names, chunk["start"], chunk["end"], correlation, is_call[text]
        values = (field.tolist() for field in fields)
        rows += map(NEW_ROW, zip(repeat(file), *values, arguments, strict=False))
    return rows, ((number, orjson.loads(events.data[begin:stop])) for number, begin, stop in odd)


def _needed(columns: Mapping[str, Any], texts: Sequence[tuple[str, str, Category]]) -> NDArray[np.int64]:
    """Return the positions of the rows that rules look at.

    A call is, if it launches, is part of a capture, has the correlation of another row, or is the first or last of the
    host; half of the calls of a profile ask for attributes and events.
    """
    text, correlation = columns["text"], columns["correlation"]

    def matching(test: Callable[[str, str, Category], bool]) -> NDArray[np.bool_]:
        """Return the rows whose category, name and rules pass a test."""
        passed: NDArray[np.bool_] = np.array([test(*entry) for entry in texts], dtype=bool)[text]
        return passed

    is_foreign = matching(lambda _category, _name, rules: rules.is_foreign)
    is_call = matching(lambda _category, _name, rules: rules.is_call)
    is_relevant = ~is_foreign | (correlation != NO_CORRELATION)
    host = np.flatnonzero(is_relevant & ~matching(lambda _category, _name, rules: rules.is_work))
    unneeded = is_call & ~matching(
        lambda _category, name, _rules: launches(name) or name.startswith((*CAPTURE_BEGINS, *CAPTURE_ENDS))
    )
    unneeded &= ~np.isin(correlation, correlation[is_relevant & ~is_call])
    if len(columns["odd_number"]) or any(category == SYNC for category, _, _ in texts):
        unneeded[:] = False  # their arguments name calls
    if len(host):
        unneeded[[host[columns["start"][host].argmin()], host[columns["end"][host].argmax()]]] = False
    return np.flatnonzero(is_relevant & ~unneeded)


def _row(file: str, number: int, event: Any, categories: Categories) -> KinetoRow | None:
    """Return the row of an event, or None if it does not matter. Raises ``ValueError`` with the field that is wrong."""
    if type(event) is not dict:
        _refuse(_place(file, number), event)
    if event.get("ph") != "X":
        return None
    category, name, arguments = event.get("cat"), event.get("name"), event.get("args") or NOTHING
    if not (type(category) is str and type(name) is str):
        _refuse(_place(file, number), event)
    rules = categories[category]
    if not rules.applies_to(name):
        return None
    if rules.is_foreign:
        if type(arguments) is not dict or "correlation" not in arguments:
            return None
        category = "kernel"
    start: Any = event.get("ts")
    duration: Any = event.get("dur")
    lane = event.get("pid"), event.get("tid")
    if not (
        type(start) in NUMBERS
        and type(duration) in NUMBERS
        and -LARGEST_INTEGER <= start <= LARGEST_INTEGER
        and 0 <= duration <= LARGEST_INTEGER
        and all(type(part) in LANE for part in lane)
        and type(arguments) is dict
    ):
        _refuse(_place(file, number), event)
    begin = round(float(start) * 1000)
    correlation = arguments.get("correlation")
    if rules.is_call or (rules.is_work and arguments.get("Collective name") is None):
        arguments = NOTHING
    return KinetoRow(
        file,
        number,
        category,
        name,
        lane,
        begin,
        begin + round(float(duration) * 1000),
        correlation if isinstance(correlation, int | str) else None,
        rules.is_call,
        arguments,
    )


def _refuse(place: str, event: Any) -> NoReturn:
    """Raise ``ValueError`` with the field that is wrong."""
    fields = Fields.of(f"{place}.", event)
    fields.number("ts")
    if fields.number("dur") < 0:
        fields.fail("dur", "must not be negative")
    fields.text("cat")
    fields.text("name")
    Fields.of(f"{place}.args.", fields.values.get("args") or NOTHING)
    fields.fail("tid", "must be a number, and pid as well")


class Enclosing:
    """Finds the row of a thread within which something happened; the rows of one thread must not overlap."""

    def __init__(self, rows: Iterable[KinetoRow]) -> None:
        self._rows: dict[tuple[Any, Any], list[KinetoRow]] = {}
        for row in rows:
            self._rows.setdefault(row.lane, []).append(row)
        self._starts = {lane: [row.start for row in rows] for lane, rows in self._rows.items()}

    def find(self, lane: tuple[Any, Any], at: int) -> KinetoRow | None:
        """The row of ``lane`` that began last before ``at`` and had not ended."""
        starts = self._starts.get(lane, [])
        index = bisect_right(starts, at) - 1
        row = self._rows[lane][index] if index >= 0 else None
        return row if row is not None and at <= row.end else None


def tensor_elements(row: KinetoRow, argument: int | None) -> int | None:
    """Elements of the tensor or list of tensors that a row's ``Input Dims`` records; None where it does not."""
    tensors = tensor_list(row, argument)
    return None if tensors is None else sum(tensors)


def tensor_list(row: KinetoRow, argument: int | None) -> tuple[int, ...] | None:
    """Elements of each tensor of an argument: ``[[10], [10]]`` -> (10, 10); old files leave lists of tensors empty."""
    dims = [] if argument is None else row.listed("Input Dims")
    if argument is None or argument >= len(dims):
        return None
    shape = dims[argument]
    if _type(row, argument) in ("TensorList", "") and not (isinstance(shape, list) and shape):
        return None
    shapes = shape if isinstance(shape, list) and shape and isinstance(shape[0], list) else [shape]
    return tuple(_product(row, shape) for shape in shapes)


def tensor_dtype(row: KinetoRow, arguments: Sequence[int | None]) -> str | None:
    """The dtype of the first of these arguments that has one in ``Input type``."""
    for argument in arguments:
        dtype = None if argument is None else dtype_of(_type(row, argument))
        if dtype is not None:
            return dtype
    return None


def _type(row: KinetoRow, argument: int) -> str:
    types = row.listed("Input type")
    return types[argument] if argument < len(types) and isinstance(types[argument], str) else ""


def _product(row: KinetoRow, shape: Any) -> int:
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        row.args.fail("Input Dims", "must be lists of sizes")
    if len(shape) > 64 or (elements := prod(shape)) >= 2**60:
        row.args.fail("Input Dims", "must be fewer than 2**60 elements")
    return elements
