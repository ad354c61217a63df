"""Names of all tasks at once are those of each; a label with ends says the servers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topoflow.traffic.base import Compute, Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.tasks import Label, Operation


@given(st.lists(st.tuples(st.sampled_from(["compute", "transfer", "all_reduce"]), st.text(), st.booleans())), st.data())
def test_names_and_kinds_are_in_the_order_of_the_tasks(runs: list[tuple[str, str, bool]], data: st.DataObject) -> None:
    columns, expected = Columns(), list[tuple[str, str]]()
    for kind, stem, ends in runs:
        if kind == "compute":
            columns.compute(Label(stem, ends), np.array([3, -1]), 1.0)
            expected += [(kind, f"{stem} @3" if ends else stem), (kind, f"{stem} @-1" if ends else stem)]
        elif kind == "transfer":
            columns.transfer(Label(stem, ends), np.array([0, 2]), np.array([1, 0]), 1.0)
            expected += [(kind, f"{stem} 0>1" if ends else stem), (kind, f"{stem} 2>0" if ends else stem)]
        else:
            columns.collective(Label(stem), np.array([columns.row(Operation(kind, (0, 1)))]), 1.0)
            expected.append((kind, stem))
    traffic = columns.traffic("any", 4, math.inf)
    assert list(zip(traffic.kinds(), traffic.names(), strict=True)) == expected
    assert [traffic.task_name(task) for task in range(len(traffic))] == traffic.names()
    some = data.draw(st.lists(st.integers(0, len(traffic) - 1))) if len(traffic) else []
    assert traffic.names(np.array(some, np.int64)) == [traffic.names()[task] for task in some]


def test_tasks_without_labels_have_empty_names() -> None:
    tasks = Traffic.from_tasks("any", 1, [Compute(1.0, 0), Compute(1.0, 0, name="b")])
    assert tasks.names() == ["", "b"]
    none = Columns().traffic("any", 1, math.inf)
    assert none.names() == []
