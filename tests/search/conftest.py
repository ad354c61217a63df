"""Small problems of real jobs, that are searched in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from topoflow.search.problem import Problem
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

Make = Callable[..., Problem]
SMALL = ("workload.tables=4", "workload.dense_layers=2", "workload.feature_layers=2", "workload.rows=100000")


def make_problem(*overrides: str, **fields: Any) -> Problem:
    """Return the search problem of a small DLRM, unless another workload is named."""
    sized = () if any(override.startswith("workload=") for override in overrides) else SMALL
    named = () if any(override.startswith("fabric=") for override in overrides) else ("fabric=topoopt",)
    (point,) = grid([*sized, *named, *overrides], check)
    workload = build(point, "workload").build()
    strategy = build(point, "strategy").place(workload, point.config["servers"])
    return Problem(workload, strategy, build(point, "fabric"), build(point, "prices"), **fields)


@pytest.fixture
def problem() -> Make:
    """``problem("servers=4", "fabric=topoopt", seed=7)``: ``make_problem``."""
    return make_problem
