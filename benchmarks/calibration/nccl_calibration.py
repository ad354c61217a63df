"""Fit the coefficients of ``src/topoflow/collectives/nccl_time.py`` to measured collectives.

    python benchmarks/calibration/nccl_calibration.py rows=FILE [rows=FILE ...]

Prints ``INSIDE`` of each kind of node, fitted to the rows that ``benchmarks/nccl.py`` calls calibrated. The time is
linear in the coefficients, so a weighted least-squares fit finds them; iterated weights make it one of the absolute
relative errors, and a coefficient below its bound is held there. Rows between nodes give
the network.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter, defaultdict
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from nccl import Row, communicator, rows_of

from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import Choice, choose
from topoflow.collectives.nccl_time import (
    INSIDE,
    NETWORKS,
    Inside,
    NcclPrediction,
    NetworkCoefficients,
    calibrated,
    terms,
)
from topoflow.collectives.tuning_tables import HOP

PROTOCOLS = 3
ROUNDS = 80
SMALLEST_ERROR = 0.02  # relative: smaller ones count as this, so that no row gets an infinite weight
OUTLIER = 0.3  # of the logarithm of predicted over measured
NETWORK_ROUNDS = 8
FACTORS = (0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25)
TRIPLES = ("hop", "cost", "p2p_hop", "p2p_cost")
COEFFICIENTS = [(f.name, i) for f in fields(Inside) for i in range(PROTOCOLS if f.name in TRIPLES else 1)]
# What LL, LL128 and Simple send at least, in data sheets.
BOUNDS = {("cost", 0): 2.0, ("cost", 1): 128 / 120, ("cost", 2): 1.0, ("p2p_cost", 2): 1.0, ("nvls_cost", 0): 1.0}

LL, LL128 = COEFFICIENTS.index(("hop", 0)), COEFFICIENTS.index(("hop", 1))
LL128_TO_LL = HOP["NVL"]["ring"][1] / HOP["NVL"]["ring"][0]  # a hop of LL128 is not longer than NCCL counts it

Floats = NDArray[np.float64]


def inside(values: Floats) -> Inside:
    """Return coefficients from a vector of them."""
    coefficients = dict(zip(COEFFICIENTS, values.tolist(), strict=True))
    triples = {name: tuple(coefficients[name, i] for i in range(PROTOCOLS)) for name in TRIPLES}
    return Inside(**{name: triples.get(name, coefficients[name, 0]) for name, _ in COEFFICIENTS})


def time(row: Row, comm: Communicator, choice: Choice, values: Floats) -> float:
    cost = terms(comm, row.op, row.size, choice, inside(values), NETWORKS["infiniband"])
    return NcclPrediction(row.op, row.size, choice, cost, comm.ranks).time


def fit(rows: list[Row]) -> Floats:
    """Return the coefficients with the least sum of relative errors."""
    units = np.eye(len(COEFFICIENTS))
    matrix, target = np.zeros((len(rows), len(COEFFICIENTS))), np.zeros(len(rows))
    for place, row in enumerate(rows):
        comm = communicator(row.node, row.nodes, row.per_node, row.version, row.port)
        choice = choose(comm, row.op, row.size, dtype_bytes=row.dtype_bytes)
        base = time(row, comm, choice, 0 * units[0])
        matrix[place] = [(time(row, comm, choice, unit) - base) / row.time for unit in units]
        target[place] = 1 - base / row.time
    bound = np.array([BOUNDS.get(coefficient, 0.0) for coefficient in COEFFICIENTS])
    free, weight, values = matrix.any(axis=0), np.ones(len(rows)), bound
    for _ in range(ROUNDS):
        residual = target - matrix[:, ~free] @ bound[~free]
        values = bound.copy()
        values[free] = np.linalg.lstsq(matrix[:, free] * weight[:, None], residual * weight, rcond=None)[0]
        below = free & (values < bound)
        free &= ~below
        if free[LL128] and values[LL128] > LL128_TO_LL * values[LL]:
            free[LL128], bound[LL128] = False, LL128_TO_LL * values[LL]
        elif not below.any():
            weight = 1 / np.sqrt(np.maximum(np.abs(matrix @ values - target), SMALLEST_ERROR))
    return values


def fit_network(rows: list[Row]) -> NetworkCoefficients:
    """Return the network with the least mean error, by a search along one coefficient after the other.

    The hops of LL128 and Simple stay; an error counts at most ``OUTLIER``.
    """
    comms = [communicator(row.node, row.nodes, row.per_node, row.version, row.port) for row in rows]
    choices = [choose(comm, row.op, row.size) for comm, row in zip(comms, rows, strict=True)]

    def error(network: NetworkCoefficients) -> float:
        costs = [
            terms(comm, row.op, row.size, choice, INSIDE[calibrated(comm)], network)
            for comm, row, choice in zip(comms, rows, choices, strict=True)
        ]
        times = [NcclPrediction(r.op, r.size, c, t, 1).time for r, c, t in zip(rows, choices, costs, strict=True)]
        return sum(min(abs(math.log(t / row.time)), OUTLIER) for t, row in zip(times, rows, strict=True))

    best = NETWORKS["infiniband"]
    for _ in range(NETWORK_ROUNDS):
        for name, factor in itertools.product(("hop", "message", "half", "efficiency"), FACTORS):
            value = getattr(best, name)
            moved = (value[0] * factor, *value[1:]) if name == "hop" else value * factor
            change: dict[str, Any] = {name: moved}
            tried = replace(best, **change)
            if tried.efficiency <= 1 and error(tried) < error(best):
                best = tried
    return best


def main(paths: list[Path]) -> None:
    kinds: dict[str, list[Row]] = defaultdict(list)
    between: list[Row] = []
    for row in (row for path in paths for row in rows_of(path, Counter())):
        if row.held_out:
            continue
        if row.nodes > 1:
            between.append(row)
        else:
            kinds[calibrated(communicator(row.node, row.nodes, row.per_node, row.version, row.port))].append(row)
    for kind in INSIDE:
        if kinds[kind]:
            for (name, place), value in zip(COEFFICIENTS, fit(kinds[kind]), strict=True):
                print(f"nccl.inside.{kind}.{name}{f'.{place}' if name in TRIPLES else ''} {value:.4g}")
    if between:
        network = fit_network(between)
        for name in ("message", "half", "efficiency"):
            print(f"nccl.network.{between[0].network}.{name} {getattr(network, name):.4g}")
        print(f"nccl.network.{between[0].network}.hop.0 {network.hop[0]:.4g}")


if __name__ == "__main__":
    if not sys.argv[1:] or not all(word.startswith("rows=") for word in sys.argv[1:]):
        sys.exit(__doc__)
    main([Path(word.removeprefix("rows=")) for word in sys.argv[1:]])
