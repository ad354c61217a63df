"""Of the points of a grid, Optuna chooses those that are simulated; the bound prunes none that belongs to the front."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.engine.base import Run
from topoflow.fabric.prices import front
from topoflow.study import trials
from topoflow.study.configure.grid import Grid, grid
from topoflow.study.configure.sweeps import MOST_SAMPLED
from topoflow.study.searches import check
from topoflow.study.trials import Trial, is_beaten, sampled

pytest.importorskip("optuna", reason="needs the extra optuna")
KEYS = (
    *("servers=4", "workload.tables=4", "workload.rows=1000", "fabric=fat_tree,ring", "bandwidth_gbps=200,25,100"),
    *("degree=2,4", "search.objective=pareto", "study=optuna", "study.startup=4"),
)


def tried(out: Path) -> list[Trial]:
    return [Trial(**values) for values in json.loads((out / "trials.json").read_text())["trials"]]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Trial]:
    """Every point of the grid, simulated."""
    out = tmp_path_factory.mktemp("everything")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trials, "ROUNDING", 1.0)  # no bound is above 0 then
        sampled(grid(KEYS, check, "search"), Run(), out)
    return {trial.number: trial for trial in tried(out)}


def swept(points: Sequence[Any]) -> list[dict[str, str]]:
    return [dict(point.swept) for point in points]


def test_a_study_of_all_points_has_the_front_of_the_grid_with_fewer_simulations(
    everything: dict[int, Trial], tmp_path: Path
) -> None:
    points = grid(KEYS, check, "search")
    assert [everything[number].swept for number in range(12)] == swept(points)
    assert all(trial.bound is not None and trial.time is not None for trial in everything.values())
    assert all((trial.bound or 0) <= (trial.time or 0) * (1 + 1e-9) for trial in everything.values())
    chosen = sampled(points, Run(), tmp_path)
    ordered = [everything[number] for number in range(12)]
    best = front([trial.cost or 0 for trial in ordered], [trial.time or 0 for trial in ordered])
    values = [(everything[number].time, everything[number].cost) for number in best]
    by_number = {trial.number: trial for trial in tried(tmp_path)}
    numbers = [points.index(point) for point in chosen]
    assert [(by_number[number].time, by_number[number].cost) for number in numbers] == values
    pruned = [trial for trial in by_number.values() if trial.time is None]
    assert pruned
    for trial in pruned:
        complete = everything[trial.number]
        assert any(is_beaten((complete.time or 0, complete.cost or 0), [value]) for value in values)


SHORT = ("workload=flows", "workload.count=60", "workload.load=0.5", "routing=spray", "latency_us=11,10")
SLOTS = ("workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64", "bandwidth_gbps=90,100")


@pytest.mark.parametrize("order", range(2))  # of both seeds, one has Optuna try the worse point first
@pytest.mark.parametrize(
    ("keys", "best"),
    [
        ((*SHORT, "fabric=torus", "fidelity=packet"), {"latency_us": "10"}),  # 269 us, bound 275, other 271
        ((*SLOTS, "fabric=fosquare", "fidelity=slotted"), {"bandwidth_gbps": "100"}),
        ((*SLOTS, "fabric=fosquare", "fidelity=fitting"), {"bandwidth_gbps": "100"}),
    ],
)
def test_no_study_prunes_the_best_point_where_it_may_be_below_its_bound(
    keys: tuple[str, ...], best: dict[str, str], order: int
) -> None:
    study = ("servers=8", "search.objective=time", "study=optuna", f"study.seed={order}")
    (chosen,) = sampled(grid([*keys, *study], check, "search"), Run(), None)
    assert dict(chosen.swept) == best


def test_merged_events_prune_nothing(tmp_path: Path) -> None:
    sampled(grid([*KEYS, "fluid.merge=0.001"], check, "search"), Run(), tmp_path)
    assert all(trial.bound is None and trial.time is not None for trial in tried(tmp_path))


def test_a_study_goes_on_where_it_was_and_simulates_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[str] = []
    simulate = trials.simulate

    def counted(worlds: Any, fidelity: Any, run: Run) -> Any:
        simulated.append(f"{worlds[0].name} {fidelity}")
        return simulate(worlds, fidelity, run)

    monkeypatch.setattr(trials, "simulate", counted)
    few = grid([*KEYS, "study.trials=5"], check, "search")
    tmp_path = tmp_path / "a b?c%20#d&e=f"  # a folder may have a name that is no URL
    sampled(few, Run(), tmp_path)
    first = tried(tmp_path)
    assert (tmp_path / "study.db").is_file()
    assert len(first) == 5
    sampled(few, Run(), tmp_path)
    assert tried(tmp_path) == first
    sampled(Grid.of([*KEYS, "study.trials=9"], check, "search"), Run(), tmp_path)
    assert tried(tmp_path)[:5] == first
    assert len({trial.number for trial in tried(tmp_path)}) == 9
    assert len(simulated) == len(set(simulated))


def test_few_of_ten_million_points_are_composed(tmp_path: Path) -> None:
    keys = [*KEYS[:3], "fabric=ring", "bandwidth_gbps=range(1,5001)", "latency_us=range(1,2001)"]
    chosen = sampled(
        Grid.of([*keys, "study=optuna", "study.trials=3"], check, "search", most=MOST_SAMPLED), Run(), tmp_path
    )
    assert len(tried(tmp_path)) == 3
    assert len(chosen) == 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8))
def test_what_is_beaten_is_not_of_the_front(values: list[tuple[int, int]]) -> None:
    best = front([cost for _, cost in values], [time for time, _ in values])
    for number, value in enumerate(values):
        others = [other for other in values if other != value]
        same = [values.index(value)] if number not in best else [number]
        assert is_beaten(value, others) == (same[0] not in best)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study=optuna", "study.trials=0"], "study.trials: must be a whole number of at least 1, got 0"),
        (["study=tpe"], "study: must be one of optuna, got 'tpe'"),
        (["bandwidth_gbps=range(1,1000001)", "latency_us=range(1,1001)"], "sweep: must be of at most 131072 points"),
        (
            ["bandwidth_gbps=range(1,1000001)", "latency_us=range(1,1001)", "study=optuna"],
            "sweep: must be of at most 16777216 points (sweep fewer values of a key), got 1e+09",
        ),
    ],
)
def test_what_is_wrong_is_a_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from topoflow.cli import main

    assert main(["search", *KEYS[:3], "fabric=ring", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow search: {message}"), error
    assert error.count("\n") == 1


def test_a_value_given_twice_is_a_line() -> None:
    import topoflow

    keys: dict[str, Any] = {"workload.tables": 4, "study": "optuna", "bandwidth_gbps": [25, 25, 100]}
    with pytest.raises(
        ValueError, match=r"^study: points must be every combination of different values, 2 in all, got 3$"
    ):
        topoflow.search(workload="dlrm", servers=4, fabric="ring", **keys)
