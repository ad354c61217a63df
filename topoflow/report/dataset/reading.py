"""Reading a dataset with DuckDB: the front, the best of each factor, a sample; never all rows at once.

Times of different jobs say nothing about each other: a job is what its workload, number of servers, fidelity and swept
keys of the workload and the GPU are.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from topoflow.report.dataset.base import SWEPT, Dataset

OF_JOB = ("workload", "gpu", "strategy.gpus")  # keys that make another job of it, and those within them
MEMORY = "512MB"  # DuckDB's; what needs more is sorted on disk
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)

Values = dict[str, Any]


@dataclass(frozen=True)
class Factor:
    """The values of a key, those with the least time first."""

    key: str
    count: int  # of values
    best: Sequence[Values]  # value, worlds, least and median time, and the point with the least


class Reader:
    """Questions to the rows of a dataset that are there. Raises ``ValueError`` where DuckDB is not installed."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        try:
            import duckdb
        except ImportError as error:
            rule = "must be read with DuckDB, which is not installed (pip install 'topoflow[dataset]')"
            raise ValueError(f"{dataset.folder}: {rule}, got {error}") from error
        self._connection = duckdb.connect(config={"memory_limit": MEMORY, "threads": "2"})
        self.parts = [part for part in dataset.written if dataset.is_whole(part)]
        self.damaged = [dataset.path(part[0]).name for part in dataset.written if part not in self.parts]
        if not self.parts:
            got = f"damaged ones, as {self.damaged[0]}" if self.damaged else "none"
            raise ValueError(f"{dataset.folder}: must have at least one whole file of rows, got {got}")
        files = ", ".join(_file(dataset.path(part[0])) for part in self.parts)
        self._connection.execute(f"CREATE VIEW every AS SELECT * FROM read_parquet([{files}])")
        self._connection.execute("CREATE VIEW rows AS SELECT * FROM every WHERE error IS NULL")

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Values]:
        found = self._connection.execute(query, list(values))
        names = [each[0] for each in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    @cached_property
    def counts(self) -> Values:
        """``rows`` that are written, and of these ``errors``, with one of them as ``error``."""
        return self._rows("SELECT count(*) AS rows, count(error) AS errors, min(error) AS error FROM every")[0]

    @cached_property
    def job(self) -> tuple[str, ...]:
        """The columns that tell jobs from each other."""
        swept = (key for key in self.dataset.keys if key.split(".")[0] in OF_JOB)
        return ("workload", "servers", "fidelity", *(f"{SWEPT}{key}" for key in swept))

    @cached_property
    def jobs(self) -> list[Values]:
        """Each job, with its number of worlds as ``worlds``, most first."""
        names = ", ".join(map(_name, self.job))
        return self._rows(f"SELECT {names}, count(*) AS worlds FROM rows GROUP BY ALL ORDER BY worlds DESC, {names}")

    def front(self, job: Values) -> list[Values]:
        """Worlds that fit in memory, can be built, and that no other such world beats in both time and price.

        The cheapest first. Where all networks are ideal, these count.
        """
        for rule in ("AND NOT is_ideal", ""):
            query = f"""
                WITH cheapest AS (
                    SELECT cost_usd, min(iteration_time) AS iteration_time,
                        arg_min(point, (iteration_time, point)) AS point
                    FROM rows WHERE {self._of_job} AND fits AND cost_usd IS NOT NULL {rule} GROUP BY cost_usd
                ), compared AS (
                    SELECT point, iteration_time, min(iteration_time) OVER (
                        ORDER BY cost_usd ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM cheapest
                )
                SELECT point FROM compared WHERE before IS NULL OR iteration_time < before"""
            points = [row["point"] for row in self._rows(query, self._values(job))]
            if points:
                return sorted(self.rows(points), key=lambda row: float(row["cost_usd"]))
        return []

    def quantiles(self, job: Values) -> list[float]:
        """The iteration times, s, that shares ``QUANTILES`` of the worlds do not exceed."""
        query = f"SELECT quantile_disc(iteration_time, {list(QUANTILES)}) AS found FROM rows WHERE {self._of_job}"
        return list(map(float, self._rows(query, self._values(job))[0]["found"]))

    def factors(self, job: Values, most: int) -> list[Factor]:
        """Of each key that varies within a job, the ``most`` values that reach the least time, of worlds that fit."""
        found = []
        for key in self.dataset.keys:
            column = _name(f"{SWEPT}{key}")
            if f"{SWEPT}{key}" in self.job:
                continue
            where = f"FROM rows WHERE {self._of_job} AND fits"
            (count,) = self._rows(f"SELECT count(DISTINCT {column}) AS count {where}", self._values(job))
            query = f"""
                SELECT {column} AS value, count(*) AS worlds, min(iteration_time) AS least,
                    approx_quantile(iteration_time, 0.5) AS median, arg_min(point, (iteration_time, point)) AS point
                {where} GROUP BY value ORDER BY least, value LIMIT {most}"""
            if count["count"] > 1:
                found.append(Factor(key, count["count"], self._rows(query, self._values(job))))
        return found

    def sample(self, most: int) -> list[Values]:
        """At most so many rows, drawn by the numbers of their points alone: the same of the same dataset."""
        draw = "(point * 2654435761) % 4294967291"  # Knuth's multiplicative hash, modulo a prime
        return self._rows(f"SELECT * FROM rows ORDER BY {draw}, point LIMIT {most}")

    def rows(self, points: Sequence[int]) -> list[Values]:
        """The rows of these points."""
        return self._rows("SELECT * FROM rows WHERE list_contains(?, point) ORDER BY point", [list(points)])

    @property
    def _of_job(self) -> str:
        return " AND ".join(f"{_name(key)} = ?" for key in self.job)

    def _values(self, job: Values) -> list[Any]:
        return [job[key] for key in self.job]


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _file(path: Path) -> str:
    """The one file of this name, which DuckDB would take for a pattern of names."""
    return "'" + glob.escape(str(path)).replace("'", "''") + "'"
