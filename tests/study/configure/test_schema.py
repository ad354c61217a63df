"""The schema for editors accepts what a run accepts, and marks a wrong key and a wrong type."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf

from tests.examples import examples
from tests.study.configure.test_points import drawn
from topoflow.cli import main
from topoflow.study.configure.composition import composed, initialized
from topoflow.study.configure.keys import check
from topoflow.study.configure.options import options
from topoflow.study.configure.own_files import composed_of_files
from topoflow.study.configure.point import Point
from topoflow.study.configure.points import PointComposer
from topoflow.study.configure.schema import schema

VERBS = ("compare", "search", "place", "simulate")


def configuration(verb: str, *overrides: str) -> Any:
    """Return what Hydra composes, with interpolations as text."""
    with initialized():
        content = OmegaConf.to_container(composed(verb, overrides))
    assert isinstance(content, dict)
    return {key: value for key, value in content.items() if key != "hydra"}


@pytest.mark.parametrize("verb", VERBS)
def test_it_is_a_schema_that_accepts_the_defaults(verb: str) -> None:
    Draft202012Validator.check_schema(schema(verb))
    Draft202012Validator(schema(verb)).validate(configuration(verb))


@pytest.mark.parametrize("group", ["workload", "fabric", "strategy", "gpu", "prices", "fidelity"])
def test_it_accepts_every_preset(group: str) -> None:
    validator = Draft202012Validator(schema("compare"))
    for name in options(group):
        validator.validate(composed_of_files("compare", [f"{group}={name}"])[0])


def test_it_accepts_the_values_of_every_point_that_a_run_accepts() -> None:
    validator, accepted = Draft202012Validator(schema("compare")), 0
    with initialized():
        points = PointComposer("compare", check)
        for overrides in [
            drawn_overrides for seed in range(examples(2)) for drawn_overrides in drawn(random.Random(seed))
        ]:
            try:
                points.compose(overrides, Point({}, {}, {}))
            except ValueError:
                continue
            accepted += 1
            validator.validate(configuration("compare", *overrides))
    assert accepted > 5


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"bandwith_gbps": 1}, []),
        ({"bandwidth_gbps": "fast"}, ["bandwidth_gbps"]),
        ({"fabric": {"oversubscripton": 2}}, ["fabric"]),
        ({"packet": {"size": "big"}}, ["packet", "size"]),
    ],
)
def test_it_marks_what_a_run_would_refuse(content: dict[str, Any], place: list[str]) -> None:
    errors = [*Draft202012Validator(schema("compare")).iter_errors(content)]
    assert [list(error.absolute_path) for error in errors] == [place]


def test_an_interpolation_may_stand_for_a_number() -> None:
    Draft202012Validator(schema("compare")).validate({"bandwidth_gbps": "${oc.env:SPEED}", "fabric": "mine"})


def test_the_command_prints_the_schema_and_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("compare")
    assert main(["config", "gpu/h100"]) == 0
    assert "memory_bandwidth: 3.35e12" in capsys.readouterr().out
    assert main(["config", "fabric"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == options("fabric")
    assert all(len(line.split()) > 3 for line in lines), "each file begins with a line about it"
    for words in (["nope"], ["gpu/none"], ["../setup"], ["gpu/h100", "--schema"]):
        assert main(["config", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
