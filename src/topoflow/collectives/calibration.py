"""A calibration: coefficients of NCCL's times, fitted to what nccl-tests measured on a cluster.

The coefficients of ``nccl_time`` are the prior. Each is multiplied by a factor that is found by a search along one
coefficient after the other; a factor must reduce the errors by more than it costs, as if its logarithm were the error
of a row. Rows are taken in the order of their size; every second one is held out, and judges the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import Choice, choose
from topoflow.collectives.nccl_time import (
    INSIDE,
    NETWORKS,
    WIRE,
    Inside,
    NcclPrediction,
    NetworkCoefficients,
    calibrated,
    network_named,
    terms,
)
from topoflow.fields import parse_json, shorten
from topoflow.files import read_bytes, write_atomically
from topoflow.units import check_among, check_not_negative

FORMAT = "topoflow NCCL calibration 1"
ROUNDS = 12
FACTORS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.01, 1.02, 1.05, 1.1, 1.25, 2.0)
OUTLIER = 1.0  # an error (of the logarithm) counts at most as much
PARTS = ("inside", "network")
# The least that a protocol sends: its bytes on the wire.
MIN_VALUES = {("inside", "cost", 0): WIRE["LL"], ("inside", "cost", 1): WIRE["LL128"], ("inside", "cost", 2): 1.0}
MIN_VALUES |= {("inside", "p2p_cost", 2): 1.0, ("inside", "nvls_cost", 0): 1.0}
MAX_VALUES = {("network", "efficiency", 0): 1.0}

Place = tuple[str, str, int]  # part, name, and the protocol of a triple


@dataclass(frozen=True)
class Measured:
    """One measured collective."""

    comm: Communicator
    op: str
    size: int  # B
    dtype_bytes: int
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """Coefficients for one kind of node and one network, with the error on rows that they were not fitted to."""

    kind: str  # of ``INSIDE``
    network_name: str
    inside: Inside
    network: NetworkCoefficients
    rows: int
    held_out: int  # rows
    error: float  # median relative error of these
    prior_error: float  # the same, of the coefficients that are shipped
    origin: tuple[str, ...]  # files

    @property
    def note(self) -> str:
        """The error, to be printed next to an answer."""
        return (
            f"NCCL is calibrated by {', '.join(self.origin)}: median error {self.error:.1%} on {self.held_out} rows "
            f"that were held out ({self.prior_error:.1%} without)"
        )

    def write(self, path: Path) -> None:
        """Write the file that ``read`` reads."""
        write_atomically(path, (json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n").encode())


def read(path: Path) -> Calibration:
    """Return the calibration of a file; raise ``ValueError`` in one line where it is none."""
    content = parse_json(str(path), read_bytes(path), bounded=True)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: format: must be {FORMAT!r}, got {content!r:.60}")
    if content.get("kind") not in list(INSIDE):
        raise ValueError(f"{path}: kind: must be one of {', '.join(INSIDE)}, got {shorten(content.get('kind'))}")
    inside = _part(path, "inside", Inside, content.get("inside"))
    between = _part(path, "network", NetworkCoefficients, content.get("network"))
    rest: dict[str, Any] = {}
    for name, type_ in (("rows", int), ("held_out", int), ("error", float), ("prior_error", float)):
        value = content.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{path}: {name}: must be a number, got {value!r}")
        rest[name] = type_(value)
    origin = content.get("origin")
    if not isinstance(origin, list):
        raise ValueError(f"{path}: origin: must be a list of files, got {origin!r}")
    network = str(content.get("network_name"))
    check_among(f"{path}: network_name", network, NETWORKS)
    return Calibration(content["kind"], network, inside, between, **rest, origin=tuple(map(str, origin)))


def _part(path: Path, part: str, kind: type, values: object) -> Any:
    """Return the coefficients of a part of a file."""
    types = {field.name: field.type for field in fields(kind)}
    if not isinstance(values, dict) or set(values) != set(types):
        raise ValueError(f"{path}: {part}: must have {', '.join(types)}, got {values!r:.60}")
    coefficients: dict[str, Any] = {}
    for name, value in values.items():
        if types[name] == "Triple" and not (isinstance(value, list) and len(value) == 3):
            raise ValueError(f"{path}: {part}.{name}: must be three numbers, got {shorten(value)}")
        numbers = value if types[name] == "Triple" else [value]
        for number in numbers:
            if not isinstance(number, int | float) or isinstance(number, bool):
                raise ValueError(f"{path}: {part}.{name}: must be a number, got {shorten(number)}")
            check_not_negative(f"{path}: {part}.{name}", number)
        coefficients[name] = tuple(value) if types[name] == "Triple" else value
    if part == "network" and not 0 < coefficients["efficiency"] <= 1:
        raise ValueError(
            f"{path}: network.efficiency: must be within 0 < efficiency <= 1, got {coefficients['efficiency']}"
        )
    return kind(**coefficients)


def fit(measured: Sequence[Measured], network: str, origin: Sequence[str]) -> Calibration:
    """Return the calibration of rows of one kind of node; raise ``ValueError`` for several kinds or too few rows."""
    kinds = sorted({calibrated(row.comm) for row in measured})
    if len(kinds) != 1:
        raise ValueError(f"node: must be of one kind in all logs, got {', '.join(kinds)}")
    ordered = sorted(measured, key=lambda row: (row.comm.ranks, row.op, row.size))
    fitted, held_out = _Rows(ordered[::2]), _Rows(ordered[1::2])
    if len(held_out.rows) < 2:
        raise ValueError(f"{', '.join(origin)}: must have at least 4 rows, got {len(ordered)}")
    prior: Coefficients = (INSIDE[kinds[0]], network_named(network))
    coefficients = _searched(fitted, prior)
    errors = held_out.error(coefficients), held_out.error(prior)
    return Calibration(kinds[0], network, *coefficients, len(fitted.rows), len(held_out.rows), *errors, tuple(origin))


Coefficients = tuple[Inside, NetworkCoefficients]


class _Rows:
    """Measured rows with what NCCL chooses for them."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        self.rows = rows
        self._choices = [choose(row.comm, row.op, row.size, dtype_bytes=row.dtype_bytes) for row in rows]

    def logarithms(self, coefficients: Coefficients) -> list[float]:
        """Return the logarithm of predicted over measured time of each row."""
        pairs = zip(self.rows, self._choices, strict=True)
        return [log(_time(row, choice, coefficients) / row.seconds) for row, choice in pairs]

    def error(self, coefficients: Coefficients) -> float:
        """Return the median relative error."""
        return median(abs(exp(value) - 1) for value in self.logarithms(coefficients))


def _time(row: Measured, choice: Choice, coefficients: Coefficients) -> float:
    return NcclPrediction(
        row.op, row.size, choice, terms(row.comm, row.op, row.size, choice, *coefficients), row.comm.ranks
    ).time


def _searched(rows: _Rows, prior: Coefficients) -> Coefficients:
    """Return the coefficients with the least sum of errors and costs of factors."""
    factors: dict[Place, float] = dict.fromkeys(_places(prior), 1.0)

    def loss(tried: dict[Place, float]) -> float:
        errors = sum(min(abs(value), OUTLIER) for value in rows.logarithms(_scaled(prior, tried)))
        return errors + sum(abs(log(factor)) for factor in tried.values())

    best = loss(factors)
    for _ in range(ROUNDS):
        before = best
        for place in factors:
            for factor in FACTORS:
                tried = {**factors, place: factors[place] * factor}
                value = loss(tried) if _is_allowed(prior, place, tried[place]) else best
                if value < best:
                    factors, best = tried, value
        if best == before:
            break
    return _scaled(prior, factors)


def _places(coefficients: Coefficients) -> Iterator[Place]:
    """Yield the coefficients that are not 0."""
    for part, values in zip(PARTS, coefficients, strict=True):
        for name, value in vars(values).items():
            numbers = value if isinstance(value, tuple) else (value,)
            yield from ((part, name, number) for number in range(len(numbers)) if numbers[number] > 0)


def _value(coefficients: Coefficients, place: Place) -> float:
    part, name, number = place
    value = getattr(coefficients[PARTS.index(part)], name)
    return float(value[number] if isinstance(value, tuple) else value)


def _is_allowed(prior: Coefficients, place: Place, factor: float) -> bool:
    """Return whether a coefficient keeps its physical bounds."""
    return MIN_VALUES.get(place, 0.0) <= _value(prior, place) * factor <= MAX_VALUES.get(place, float("inf"))


def _scaled(prior: Coefficients, factors: dict[Place, float]) -> Coefficients:
    changed: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for (part, name, number), factor in factors.items():
        value = changed[part].get(name, getattr(prior[PARTS.index(part)], name))
        if isinstance(value, tuple):
            changed[part][name] = (*value[:number], value[number] * factor, *value[number + 1 :])
        else:
            changed[part][name] = value * factor
    return replace(prior[0], **changed["inside"]), replace(prior[1], **changed["network"])
