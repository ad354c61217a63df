"""Presets from Python are those of the command line, and every key of a file is an argument with its type."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest
import yaml

import topoflow
from topoflow.api import functions, presets
from topoflow.api.keys import CompareKeys, SearchKeys
from topoflow.api.presets import Presets
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.options import options
from topoflow.track import trackers

CONFIGS = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs"
GROUPS = [name for name in topoflow.__all__ if isinstance(getattr(topoflow, name), Presets)]
MUST_BE_GIVEN = {"captured", "taskgraph", "links"}  # a file of the user


def test_the_examples_in_the_documentation_run() -> None:
    failed, tried = doctest.testmod(presets)
    assert (failed, tried) == (0, 5)


@pytest.mark.parametrize("plural", GROUPS)
def test_a_preset_is_the_object_of_its_file(plural: str) -> None:
    group: Presets = getattr(topoflow, plural)
    for name in dir(group):
        if name in MUST_BE_GIVEN:
            with pytest.raises(ValueError, match="must be given"):
                getattr(group, name)()
            continue
        chosen = [f"{group.group}={name}"] if group.group == "fabric" else ["fabric=ring", f"{group.group}={name}"]
        (point,) = grid(chosen, check)
        assert repr(getattr(group, name)()) == repr(build(point, name if group.group == "fidelity" else group.group))


def test_a_change_of_a_preset_is_a_key_of_its_own_or_one_that_it_refers_to() -> None:
    assert topoflow.workloads.dlrm(tables=8, gpu="h100").gpu == topoflow.gpus.h100()
    assert topoflow.fabrics.torus(bandwidth_gbps=400, dims=[2, 2]).bandwidth == 50e9
    assert topoflow.fabrics.torus(degree=6).degree == 6
    with pytest.raises(ValueError, match=r"^gpu\.memry: no such key; did you mean gpu\.memory\?$"):
        topoflow.gpus.h100(memry=1)
    with pytest.raises(AttributeError, match="gpu: no preset 'h10'; did you mean h100"):
        _ = topoflow.gpus.h10


def test_help_shows_where_the_numbers_of_a_preset_come_from() -> None:
    assert "Source:" in (inspect.getdoc(topoflow.gpus.h100) or "")


@pytest.mark.parametrize(("verb", "keys"), [("compare", CompareKeys), ("search", SearchKeys)])
def test_every_key_of_a_file_is_an_argument(verb: str, keys: type) -> None:
    content = yaml.safe_load((CONFIGS / f"{verb}.yaml").read_text())
    groups = {group for entry in content["defaults"] if isinstance(entry, dict) for group in entry}
    expected = {*content, *groups, *options("fidelity"), *trackers()} - {"defaults", "hydra"}
    assert set(keys.__annotations__) == expected
    parameters = inspect.signature(getattr(functions, verb)).parameters
    assert set(parameters) == expected | {"settings", "observer"}
    assert all(parameter.annotation != inspect.Parameter.empty for parameter in parameters.values())


def test_everything_public_is_there() -> None:
    assert all(getattr(topoflow, name) is not None for name in topoflow.__all__)
    assert set(topoflow.__all__) <= set(dir(topoflow))
