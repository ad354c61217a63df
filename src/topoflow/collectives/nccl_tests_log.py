"""The output of nccl-tests: the times of one operation by size.

Source of the format: NVIDIA/nccl-tests, ``src/common.cu`` (``writeBenchmarkLinePreamble`` and the lines after it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from topoflow.fields import Fields, parse_json
from topoflow.files import read_bytes
from topoflow.units import check_positive

DTYPE_BYTES = {"int8": 1, "uint8": 1, "half": 2, "bfloat16": 2, "float": 4, "int32": 4, "uint32": 4}
DTYPE_BYTES |= {"double": 8, "int64": 8, "uint64": 8, "f8e4m3": 1, "f8e5m2": 1}
TESTS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter"}
TESTS |= {"alltoall": "all_to_all"}
NUMBER = re.compile(r"[0-9]{1,18}")
MIN_FIELDS = 8  # size, count, type, time, algbw, busbw, #wrong and one more


@dataclass(frozen=True)
class NcclTestsLog:
    """The times of a run, out of place."""

    path: Path
    op: str  # "" where the file does not say
    ranks: int  # 0 where it does not say
    version: str  # of NCCL, or ""
    dtype: str
    times: Mapping[int, float]  # B -> s


def read(path: Path) -> NcclTestsLog:
    """Return the rows of a file; raise ``ValueError`` in one line where it is not what nccl-tests prints."""
    text = read_bytes(path).decode(errors="replace")
    if text.lstrip().startswith("{"):
        return _json(path, text)
    times: dict[int, float] = {}
    column, dtype = 5, ""
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if line.startswith("#"):
            if "size" in fields and "time" in fields:
                column = fields.index("time") - 1
            continue
        if len(fields) < MIN_FIELDS or not (NUMBER.fullmatch(fields[0]) and NUMBER.fullmatch(fields[1])):
            continue
        if fields[2] not in DTYPE_BYTES:
            raise ValueError(f"{path}:{number}: type: must be one of {', '.join(DTYPE_BYTES)}, got {fields[2]!r}")
        dtype = dtype or fields[2]
        try:
            seconds = float(fields[column]) * 1e-6
        except (ValueError, IndexError):
            raise ValueError(f"{path}:{number}: time: must be a number, got {fields[column:][:1]}") from None
        check_positive(f"{path}:{number}: time", seconds)
        check_positive(f"{path}:{number}: size", int(fields[0]))
        times[int(fields[0])] = seconds
    if not times:
        raise ValueError(f"{path}: must have rows of nccl-tests (size, count, type, ..., time), got none")
    test = re.search(r"Collective test starting: (\w+)_perf", text)
    version = re.search(r"NCCL version (\d+\.\d+(?:\.\d+)?)", text)
    ranks = len(re.findall(r"^#\s+Rank\s+\d+", text, flags=re.MULTILINE))
    op = TESTS.get(test[1], test[1]) if test else ""
    return NcclTestsLog(path, op, ranks, version[1] if version else "", dtype, times)


def _json(path: Path, text: str) -> NcclTestsLog:
    """Return the rows of what ``-J FILE`` writes (``src/util.cu``)."""
    content = Fields.of(f"{path}: ", parse_json(str(path), text, bounded=True))
    program = Path(next(iter(content.texts("args")), "")).name
    config = Fields.of(f"{content.place}config.", content.require("config"))
    code, devices = content.integer("nccl_version"), config.items("devices")
    times: dict[int, float] = {}
    dtype = ""
    for number, values in enumerate(content.items("results")):
        row = Fields.of(f"{path}: results[{number}].", values)
        if not row.has("out_of_place"):
            continue  # a test that runs in place only
        if row.text("type") not in DTYPE_BYTES:
            row.fail("type", f"must be one of {', '.join(DTYPE_BYTES)}")
        dtype = dtype or row.text("type")
        measured = Fields.of(f"{row.place}out_of_place.", row.values["out_of_place"])
        seconds = measured.number("time") * 1e-6
        check_positive(f"{measured.place}time", seconds)
        times[row.integer("size", 1)] = seconds
    if not times:
        raise ValueError(f"{path}: results: must have rows that ran out of place, got none")
    version = f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    op = program.removesuffix("_perf")
    return NcclTestsLog(path, TESTS.get(op, op), len(devices), version, dtype, times)
