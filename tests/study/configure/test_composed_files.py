"""topoflow's own files are composed as Hydra composes them, without Hydra."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.examples import some
from topoflow.study.configure.composition import composed, initialized
from topoflow.study.configure.options import options
from topoflow.study.configure.own_files import OwnFilesError, composed_of_files, default_params
from topoflow.study.configure.sources import HYDRA

CONFIGS = ("compare", "search", "simulate", "place")


def by_hydra(name: str, overrides: list[str]) -> tuple[str, dict[str, str]]:
    config = composed(name, overrides)
    values: Any = OmegaConf.to_container(config)
    values.pop(HYDRA)
    choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
    return repr(values), {group: option for group, option in choices.items() if not group.startswith(HYDRA)}


def by_own_files(name: str, overrides: list[str]) -> tuple[str, dict[str, str]]:
    values, choices = composed_of_files(name, overrides)
    values.pop(HYDRA, None)
    return repr(values), choices  # the order of keys counts, and 1 is not 1.0


@pytest.mark.parametrize("name", CONFIGS)
def test_every_file_of_every_group_is_composed_as_by_hydra(name: str) -> None:
    _, choices = by_own_files(name, [])
    files = {group: options(group) for group in choices if "@" not in group}
    if "workload" in files:
        files["workload"].extend(("topoopt/dlrm", "topoopt/ncf", "topoopt/vgg16"))
    if name == "search":  # what it has in common with compare
        files = {group: names[:2] for group, names in files.items()}
    points = [
        [f"{group}={name}" for group, name in zip(files, names, strict=True) if name]
        for names in zip_longest(*files.values())
    ]
    with initialized():
        for overrides in some([[], *points], 8):
            assert by_own_files(name, overrides) == by_hydra(name, overrides), overrides


@pytest.mark.parametrize("name", CONFIGS)
def test_the_default_sweep_is_that_of_hydra(name: str) -> None:
    with initialized():
        assert dict(default_params(name)) == dict(composed(name, []).hydra.sweeper.params or {})


@pytest.mark.parametrize(
    "override", ["fabric=none_such", "requests=motion", "seed=1", "+requests=motion", "~fabric", "fabric={radix: 4}"]
)
def test_other_arguments_are_left_to_hydra(override: str) -> None:
    with pytest.raises(OwnFilesError):
        composed_of_files("compare", [override])
