"""What Hydra composed once is what it would compose again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from topoflow.study.configure import composition
from topoflow.study.configure.composition import composed, group_options, initialized
from topoflow.units import register_resolvers


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept yet."""
    register_resolvers()
    monkeypatch.setattr(composition, "_answers", {})


def test_it_is_composed_once_and_a_change_to_it_is_nobody_elses() -> None:
    with initialized():
        first, answers = composed("compare", ["fabric=ring"]), dict(composition._answers)
        OmegaConf.set_readonly(first, False)
        first.fabric.degree = 77
        assert composed("compare", ["fabric=ring"]).fabric.degree != 77
        assert composition._answers == answers
        group_options("fabric", "compare").clear()
        assert "ring" in group_options("fabric", "compare")


def test_where_a_program_runs_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with initialized():
        before = composed("compare", []).hydra.runtime.cwd
        monkeypatch.chdir(tmp_path)
        assert composed("compare", []).hydra.runtime.cwd == str(tmp_path) != before


def test_a_file_of_the_user_may_change(tmp_path: Path) -> None:
    file = tmp_path / "gpu" / "mine.yaml"
    file.parent.mkdir()
    with initialized():
        assert "mine" not in group_options("gpu", "compare")
    for flops in (1.0, 2.0):
        file.write_text(f"flops: {flops}\n")
        with initialized([str(tmp_path)]):
            assert composed("compare", ["gpu=mine"]).gpu.flops == flops
            assert "mine" in group_options("gpu", "compare")
    arguments = [f"hydra.searchpath=[file://{tmp_path}]", "gpu=mine"]
    for flops in (3.0, 4.0):
        file.write_text(f"flops: {flops}\n")
        with initialized():
            assert composed("compare", arguments).gpu.flops == flops


def test_what_a_program_adds_to_hydras_store_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with initialized():
        monkeypatch.setitem(ConfigStore.instance().repo, "gpu", {})  # which are gone after the test
        assert "added" not in group_options("gpu", "compare")
        for flops in (1.0, 2.0):
            ConfigStore.instance().store("added", {"flops": flops}, group="gpu")
            assert "added" in group_options("gpu", "compare")
            assert composed("compare", ["gpu=added"]).gpu.flops == flops
