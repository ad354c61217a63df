"""Queries of a dataset with DuckDB: the front, the best of each factor, a sample; never all rows in memory.

Times of different jobs cannot be compared. A job is defined by its workload, number of servers, fidelity, and swept
keys of the workload and the GPU.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from topoflow.fields import shorten
from topoflow.report.dataset.base import MANIFEST, SWEPT, Dataset

JOB_KEYS = ("workload", "gpu", "strategy.gpus")  # config groups and keys that define a job
MEMORY = "512MB"  # of DuckDB, which sorts larger data on disk
SQL_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)

Values = dict[str, Any]


@dataclass(frozen=True)
class Factor:
    """The values of a key, those with the least times first."""

    key: str
    count: int  # number of values
    best: Sequence[Values]  # value, worlds, least and median time, and the point with the least


class Reader:
    """A reader of the written rows of a dataset. Raises ``ValueError`` where DuckDB is not installed."""

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
        paths = [dataset.path(part[0]) for part in self.parts]
        for path in paths:
            self._check_columns(path)
        files = ", ".join(map(_file, paths))
        self._rows(f"CREATE VIEW every AS SELECT * FROM read_parquet([{files}])")
        self._rows("CREATE VIEW rows AS SELECT * FROM every WHERE error IS NULL")
        swept = [f"{SWEPT}{key}" for key in dataset.keys]
        for name in dict.fromkeys(["point", "fabric", "iteration_time", *self.job, *swept]):
            for row in self._rows(f"SELECT point FROM rows WHERE {_name(name)} IS NULL LIMIT 1"):
                raise ValueError(f"{dataset.folder}: point {row['point']}: {name}: must be given, got null")

    def _check_columns(self, path: Path) -> None:
        """Raise ``ValueError`` for a file without the columns of the manifest; its digest is not of the manifest."""
        types = {
            row["column_name"]: row["column_type"] for row in self._rows(f"DESCRIBE FROM read_parquet({_file(path)})")
        }
        for name, kind in self.dataset.columns.items():
            if types.get(name) != SQL_TYPES[kind]:
                rule = f"must have a column of {kind} for {shorten(name)}, as {MANIFEST} says"
                raise ValueError(f"{path}: {rule}, got {types.get(name, 'none')}")

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Values]:
        import duckdb

        try:
            result = self._connection.execute(query, list(values))
            rows = result.fetchall()
        except duckdb.Error as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{self.dataset.folder}: must have rows that can be read, got {reason}") from error
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in rows]

    @cached_property
    def counts(self) -> Values:
        """Return the number of written ``rows`` and of ``errors`` among them, with one error text as ``error``."""
        return self._rows("SELECT count(*) AS rows, count(error) AS errors, min(error) AS error FROM every")[0]

    @cached_property
    def job(self) -> tuple[str, ...]:
        """Return the columns that distinguish jobs."""
        swept = (key for key in self.dataset.keys if key.split(".")[0] in JOB_KEYS)
        return ("workload", "servers", "fidelity", *(f"{SWEPT}{key}" for key in swept))

    @cached_property
    def jobs(self) -> list[Values]:
        """Return each job with its number of ``worlds``, most first."""
        names = ", ".join(map(_name, self.job))
        return self._rows(f"SELECT {names}, count(*) AS worlds FROM rows GROUP BY ALL ORDER BY worlds DESC, {names}")

    def front(self, job: Values) -> list[Values]:
        """Return the Pareto-optimal worlds in time and price, cheapest first.

        Only worlds that fit in memory and can be built count; if all networks are ideal, ideal networks count.
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
        """Return the iteration times (s) that shares ``QUANTILES`` of the worlds do not exceed."""
        query = f"SELECT quantile_disc(iteration_time, {list(QUANTILES)}) AS times FROM rows WHERE {self._of_job}"
        return list(map(float, self._rows(query, self._values(job))[0]["times"]))

    def factors(self, job: Values, most: int) -> list[Factor]:
        """Return each key that varies within a job, with the ``most`` values of fitting worlds with the least times."""
        factors = []
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
                factors.append(Factor(key, count["count"], self._rows(query, self._values(job))))
        return factors

    def sample(self, most: int) -> list[Values]:
        """Return at most ``most`` rows, selected by a hash of the point's number: always the same."""
        draw = "(point * 2654435761) % 4294967291"  # Knuth's multiplicative hash, modulo a prime
        return self._rows(f"SELECT * FROM rows ORDER BY {draw}, point LIMIT {most}")

    def rows(self, points: Sequence[int]) -> list[Values]:
        """Return the rows of these points."""
        return self._rows("SELECT * FROM rows WHERE list_contains(?, point) ORDER BY point", [list(points)])

    @property
    def _of_job(self) -> str:
        return " AND ".join(f"{_name(key)} = ?" for key in self.job)

    def _values(self, job: Values) -> list[Any]:
        return [job[key] for key in self.job]


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _file(path: Path) -> str:
    """Return the path of a file as SQL text, escaped since DuckDB takes it for a pattern of names."""
    return "'" + glob.escape(str(path)).replace("'", "''") + "'"
