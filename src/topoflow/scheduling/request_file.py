"""Requests from a CSV file: one row is one request."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from topoflow.fields import decode, shorten
from topoflow.files import read_bytes
from topoflow.scheduling.base import Request
from topoflow.units import check_positive

REQUIRED_QUANTITIES = ("arrival", "cores")
ENDS = ("lifetime", "end")  # one of them
TIMES = ("arrival", *ENDS)
QUANTITIES = ("name", *TIMES, "machines", "cores", "memory", "network", "network_share", "gpus")


@dataclass(frozen=True)
class RequestFile:
    """A CSV file with a header.

        name,arrival_s,lifetime_s,machines,cores,memory_gib,network_gbps,gpus
        job 1,0,3600,48,32,64,20,0

    ``columns`` maps quantities to columns, ``units`` gives the SI value of 1 in a column. Absent columns have a default
    (one machine; nothing of a resource); arrival, cores, and lifetime or end are required. A row without an end never
    ends. All other columns must be listed in ``ignore``.
    """

    file: str
    columns: Mapping[str, str]
    units: Mapping[str, float] = field(default_factory=dict)
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for where, mapping in (("columns", self.columns), ("units", self.units)):
            for key in mapping:
                if key not in QUANTITIES:
                    raise ValueError(f"requests.{where}.{key}: must be one of {', '.join(QUANTITIES)}")
        for key, unit in self.units.items():
            check_positive(f"requests.units.{key}", unit)
        for key, column in self.columns.items():
            if not isinstance(column, str):
                raise ValueError(f"requests.columns.{key}: must be the name of a column, got {shorten(column)}")
            if list(self.columns.values()).count(column) > 1:
                raise ValueError(f"requests.columns.{key}: must be a column of its own, got {column!r} for another too")

    def build(self, seed: int) -> tuple[Request, ...]:
        """Return the requests of the file. Raises ``ValueError`` that names the row, ``OSError`` without a file."""
        text = decode(self.file, read_bytes(Path(self.file)))
        try:
            reader = csv.reader(io.StringIO(text, newline=""), strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            raise ValueError(f"{self.file}: must be a CSV file, got {error}") from error
        if not rows:
            raise ValueError(f"{self.file}: must have a header, got nothing")
        header = rows[0][1]
        places = self._places(header)
        return tuple(
            self._request(f"request {number}", line, row, places, len(header))
            for number, (line, row) in enumerate(rows[1:], 1)
        )

    def _places(self, header: Sequence[str]) -> dict[str, int]:
        """Return the position of each quantity in a row."""
        known = {column: quantity for quantity, column in self.columns.items()}
        for column in header:
            if header.count(column) > 1:
                raise ValueError(f"{self.file}: columns must have names of their own, got {column!r} twice")
            if column not in known and column not in self.ignore:
                raise ValueError(
                    f"{self.file}: a column must be of requests.columns or requests.ignore, got {column!r}"
                )
        places = {known[column]: position for position, column in enumerate(header) if column in known}
        for quantity in REQUIRED_QUANTITIES:
            if quantity not in places:
                raise ValueError(f"{self.file}: must have a column {self.columns.get(quantity, quantity)!r}, got none")
        if len(places.keys() & set(ENDS)) != 1:
            names = " or ".join(repr(self.columns.get(quantity, quantity)) for quantity in ENDS)
            raise ValueError(
                f"{self.file}: must have a column {names}, got {'both' if set(ENDS) <= set(places) else 'none'}"
            )
        return places

    def _request(self, name: str, line: int, row: Sequence[str], places: Mapping[str, int], width: int) -> Request:
        where = f"{self.file}: line {line}"
        if len(row) != width:
            raise ValueError(f"{where}: must have {width} columns as the header, got {len(row)}")
        texts = {quantity: row[position].strip() for quantity, position in places.items()}
        name = texts.pop("name", "") or name
        amounts = {quantity: self._amount(where, quantity, text) for quantity, text in texts.items()}
        machines = amounts.pop("machines", 1.0)
        if machines != int(machines):
            raise ValueError(f"{where}.machines: must be a whole number, got {machines}")
        if "end" in amounts:
            amounts["lifetime"] = amounts.pop("end") - amounts["arrival"]
        try:
            return Request(name, machines=int(machines), **amounts)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    def _amount(self, where: str, quantity: str, text: str) -> float:
        """Return a finite number in SI units; an empty cell means no end, or none of a resource."""
        if not text:
            return math.inf if quantity in ENDS else 0.0
        try:
            value = float(text) * self.units.get(quantity, 1.0)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{where}.{self.columns[quantity]}: must be a finite number, got {text!r}")
        return value
