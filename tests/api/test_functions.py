"""The functions of ``topoflow``: the same numbers as the commands, for the same keys or for objects."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoflow
from topoflow.api import functions
from topoflow.cli import main
from topoflow.engine.bound import Bound
from topoflow.engine.fluid import Fluid
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ring import Ring
from topoflow.search.base import Plan
from topoflow.strategy.data_parallel import DataParallel
from topoflow.units import gbps, us
from topoflow.workload.gpu import Gpu
from topoflow.worldfile.world_file import WorldFile

ROOT = Path(__file__).resolve().parent.parent.parent
TABLES = ("workload.tables=4", "workload.rows=1000")
INTERFACES = {"bandwidth": gbps(100), "degree": 4, "latency": us(1)}


def rows(out: Path, key: str = "rows") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())[key]
    return records


def test_the_examples_in_the_documentation_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(functions)
    assert (failed, tried > 10) == (0, True)


@pytest.mark.slow
def test_a_comparison_has_the_numbers_of_the_command(tmp_path: Path) -> None:
    keys = {"servers": 4, "fabric": ["fat_tree", "topoopt"], "bandwidth_gbps": [25, 100], "fail": {"each": "fiber"}}
    results = topoflow.compare(*TABLES, **keys)
    results.save(tmp_path / "python")
    arguments = ["servers=4", "fabric=fat_tree,topoopt", "bandwidth_gbps=25,100", "fail.each=fiber"]
    assert main(["compare", *TABLES, *arguments, f"out={tmp_path / 'command'}"]) == 0
    of_python, of_command = rows(tmp_path / "python"), rows(tmp_path / "command")
    for row in of_python + of_command:
        del row["config"]["out"]
    assert of_python == of_command
    names = sorted(path.name for path in (tmp_path / "command").iterdir())
    assert sorted(path.name for path in (tmp_path / "python").iterdir()) == names
    assert [len(result.failures) for result in results] == [1] * 4


def test_a_search_has_the_plan_of_the_command(tmp_path: Path) -> None:
    keys = {"servers": 4, "search": {"proposals": 64, "rounds": 1, "emphasis": [1, 2]}}
    result = topoflow.search(*TABLES, **keys)
    arguments = ["servers=4", "search.proposals=64", "search.rounds=1", "search.emphasis=[1,2]"]
    assert main(["search", *TABLES, *arguments, f"out={tmp_path / 'command'}"]) == 0
    assert result.plan.to_json() == (tmp_path / "command" / "plan.json").read_text()
    assert topoflow.load(tmp_path / "command") == topoflow.load(tmp_path / "command" / "plan.json") == result.plan
    result.save(tmp_path / "python")
    for row in (of_python := rows(tmp_path / "python", "plans")) + (of_command := rows(tmp_path / "command", "plans")):
        row.pop("config")
    assert of_python == of_command
    assert result.best.iteration_time == result.iteration_time == result.plan.iteration_time


def test_a_world_has_the_times_of_the_command(tmp_path: Path) -> None:
    world = ROOT / "examples" / "two_flows.json"
    topoflow.simulate(world).save(tmp_path / "python")
    assert main(["simulate", f"world={world}", f"out={tmp_path / 'command'}"]) == 0
    for name in ("flows.csv", "links.csv"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    file = topoflow.load(world)
    assert isinstance(file, WorldFile)
    assert topoflow.simulate(file.world).iteration_time == topoflow.simulate(file).iteration_time == 15.0
    assert topoflow.simulate(world, fidelity=Bound()).iteration_time <= 15.0


def test_objects_give_the_numbers_of_their_names() -> None:
    """A design, what it builds, a rule and what it places: as the configurations that describe them."""
    named = topoflow.compare(*TABLES, servers=4, fabric="fat_tree", strategy="data_parallel")[0]
    design, rule = FatTree(**INTERFACES), DataParallel()
    job = named.case.job
    for fabric in (design, named.case.fabric):
        for strategy in (rule, job.strategy):
            (one,) = topoflow.compare(workload=job.workload, servers=4, fabric=fabric, strategy=strategy)
            assert one.iteration_time == named.iteration_time
            assert one.timeline.finish.tobytes() == named.timeline.finish.tobytes()
            assert (one.cost, one.memory) == (named.cost, named.memory)


def test_objects_and_names_are_swept_together_and_told_from_each_other() -> None:
    slim = FatTree(**INTERFACES, oversubscription=2)
    results = topoflow.compare(*TABLES, servers=8, fabric=[FatTree(**INTERFACES), slim, "ring"], seed=[0, 1])
    fabrics = [result.settings.fabric for result in results]
    assert fabrics == ["fat_tree", "fat_tree", "fat_tree", "fat_tree", "ring", "ring"]
    assert len({result.settings.world for result in results}) == 6
    assert results[0].cost > results[2].cost, "half of the uplinks"
    assert results[4].iteration_time == topoflow.compare(*TABLES, servers=8, fabric="ring")[0].iteration_time


def test_a_gpu_and_a_fidelity_can_be_objects() -> None:
    slow = Gpu(name="slow", flops={"float32": 1e12}, memory_bandwidth=1e11, local_bandwidth=1e11, memory=80e9)
    slower = topoflow.compare(*TABLES, servers=4, fabric="ring", gpu=[slow, "a100"])
    assert slower[0].row.compute_time > slower[1].row.compute_time
    merged, bound = topoflow.compare(*TABLES, servers=4, fabric="ring", fidelity=[Fluid(merge=0.001), Bound()])
    assert (merged.settings.fidelity, bound.settings.fidelity) == ("fluid", "bound")
    text = topoflow.compare(*TABLES, "fluid.merge=0.001", servers=4, fabric="ring")[0]
    assert merged.iteration_time == text.iteration_time
    assert bound.iteration_time <= merged.iteration_time


def test_servers_are_those_of_what_is_built() -> None:
    strategy = topoflow.compare(*TABLES, servers=6, fabric="ring")[0].strategy
    assert topoflow.compare(*TABLES, fabric="ring", strategy=strategy)[0].fabric.servers == 6
    with pytest.raises(ValueError, match=r"^servers: must be the 6 of strategy hybrid, got 4"):
        topoflow.compare(*TABLES, servers=4, fabric="ring", strategy=strategy)
    fabric = topoflow.compare(*TABLES, servers=4, fabric="ring")[0].fabric
    with pytest.raises(ValueError, match=r"^fabric: must have at least 6 servers, got 4"):
        topoflow.compare(*TABLES, servers=6, fabric=fabric)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sarvers": 4}, "sarvers: no such key; did you mean servers?"),
        ({"servers": -1}, "servers: must be a whole number of at least 1, got -1"),
        ({"fabric": "fat_treee"}, "fabric: must be one of "),
        ({"fabric": []}, "fabric: must have at least one value, got none"),
        ({"fabric": Ring}, "fabric: must be a name or an object with build, got the class Ring"),
        ({"servers": Ring(**INTERFACES)}, "servers: must be text, a number or a list of these, got Ring"),
        ({"workload": object()}, "workload: must be a name or an object with build, got object"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.partition(":")[0]) as raised:
        topoflow.compare(*TABLES, **keys)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_results_are_looked_at_by_number_name_and_slice() -> None:
    results = topoflow.compare(*TABLES, servers=4, fabric=["fat_tree", "ring"], bandwidth_gbps=100)
    assert len(results) == 2
    assert results["ring"] is results[1] is results["fabric=ring"]
    assert list(results[1:]) == [results[1]]
    assert results.fastest in list(results)
    with pytest.raises(KeyError, match="must name one of"):
        results["torus"]
    with pytest.raises(ValueError, match=r"^figure: must be one of iteration_time, .*, got 'cake'"):
        results.figure("cake")
    assert results.figure("timeline").axes
    for text in (repr(results), results._repr_html_()):
        assert "the fastest" in text
        assert "ring" in text
        assert "fat_tree" in text


def test_tables_for_pandas_have_the_numbers() -> None:
    pytest.importorskip("pandas")
    results = topoflow.compare(*TABLES, servers=4, fabric=["fat_tree", "ring"])
    table = results.to_pandas()
    assert table["iteration_time"].tolist() == [result.iteration_time for result in results]
    tasks = results[0].to_pandas()
    assert tasks["finish"].max() == results[0].iteration_time
    assert set(tasks["kind"]) >= {"compute", "all_reduce"}
    world = topoflow.simulate(ROOT / "examples" / "two_flows.json")
    assert world.to_pandas()["finish"].max() == 15.0
    assert world.links_to_pandas()["bytes"].tolist() == [1000, 200, 1200]


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        topoflow.simulate(ROOT / "examples" / "two_flows.json").to_pandas()


def test_the_room_and_the_function_of_one_name_are_both_there() -> None:
    from topoflow.search import base

    assert base.Plan is Plan
    assert topoflow.search(*TABLES, servers=2, search={"proposals": 0, "rounds": 1}).plan.servers == 2


def test_numbers_of_numpy_are_numbers() -> None:
    results = topoflow.compare(
        *TABLES, servers=np.int64(4), fabric="ring", bandwidth_gbps=np.array([25.0, 100.0]).tolist()
    )
    assert [result.fabric.servers for result in results] == [4, 4]
