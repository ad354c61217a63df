"""What needs much memory says how much before it is taken."""

import json
from pathlib import Path

import numpy as np
import pytest

from topoflow import memory
from topoflow.cli import main, simulate
from topoflow.memory import check_memory, free_memory


def test_what_is_free():
    assert 2**20 < free_memory() < 2**50


def test_without_the_systems_word_it_is_what_the_machine_has(tmp_path, monkeypatch):
    free = free_memory()
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert free_memory() >= free


def test_only_what_does_not_fit_is_refused():
    check_memory("fabric", "a small table", 1e3)
    with pytest.raises(ValueError, match=r"fabric: must fit in the .*B of memory that are free, got a table \(1 PB\)"):
        check_memory("fabric", "a table", 1e15)


@pytest.mark.parametrize("local", [10**4, 10**5, 10**6])
def test_a_short_file_cannot_fill_the_memory(local, tmp_path, capsys):
    """A ring among 20,000 members and more: some hundred bytes that become 10^9 tasks."""
    links = [{"src": one, "dst": other, "bandwidth": 1} for one, other in ("ab", "ba")]
    task = {"id": 1, "type": "all_reduce", "group": ["a", "b"], "bytes": 1, "local": local, "algorithm": "ring"}
    path = Path(tmp_path, "world.json")
    path.write_text(json.dumps({"links": links, "tasks": [task], "local_bandwidth": 1}))
    assert main(["simulate", f"world={path}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topoflow simulate: ")
    assert f"sends of a ring of {2 * local} ranks" in error
    assert error.count("\n") == 1


def test_many_collectives_together_are_counted(tmp_path, capsys, monkeypatch):
    """Each is small enough, all of them are not."""
    monkeypatch.setattr(memory, "free_memory", lambda: 2**27)
    links = [{"src": one, "dst": other, "bandwidth": 1} for one, other in ("ab", "ba")]
    task = {"type": "all_reduce", "group": ["a", "b"], "bytes": 1, "local": 100, "algorithm": "ring"}
    path = Path(tmp_path, "world.json")
    path.write_text(json.dumps({"links": links, "tasks": [{**task, "id": i} for i in range(9)], "local_bandwidth": 1}))
    assert main(["simulate", f"world={path}"]) == 2
    assert "tasks (" in capsys.readouterr().err


@pytest.mark.parametrize("workload", ["vgg16", "dlrm"])
@pytest.mark.parametrize("verb", ["compare", "search"])
def test_a_job_on_a_million_servers_is_refused_before_it_is_lowered(verb, workload, capsys, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 20 * 2**30)
    assert main([verb, f"workload={workload}", "servers=1000000", "fabric=ideal_switch"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"topoflow {verb}: servers: must fit in the 21.47 GB of memory that are free")


def test_numpy_without_memory_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(simulate, "run", lambda arguments: np.zeros(2**46))
    assert main(["simulate", "world=x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topoflow simulate: needs more memory than there is")
    assert error.count("\n") == 1
