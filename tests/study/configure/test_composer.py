"""What is kept between points changes none of them."""

from __future__ import annotations

from typing import Any

import pytest
from hydra import compose, initialize_config_module
from hydra._internal.config_repository import CachingConfigRepository
from omegaconf import OmegaConf

from topoflow.study.configure import memo
from topoflow.study.configure.composer import Composer
from topoflow.units import register_resolvers

POINTS = [
    ["fabric=ring"],
    ["fabric=ring", "bandwidth_gbps=25", "fabric.degree=2"],
    ["fabric=fat_tree", "fabric.oversubscription=2", "workload=bert", "gpu=a100"],
    ["fabric=ring", "+fabric.note={a: 1}"],
    ["fabric=fat_tree", "fabric={radix: 8}", "workload=dlrm", "~seed"],
    ["workload.tables=3", "fabric=ring", "hydra.job.name=other"],
    ["fidelity=packet", "packet.size=1024", "fluid.merge=0.5"],
    ["fabric.oversubscription=2", "fabric=fat_tree", "~fabric.oversubscription"],
    ["fail={links: [3]}", "++fail.links=[4]", "fail.links=[5]"],
    ["fail={links: [3]}", "~fail.links", "seed=2"],
    ["+requests=motion", "requests.count=2"],
    ["fabric=ring"],
]


def test_a_point_is_what_hydra_composes_whatever_was_composed_before() -> None:
    register_resolvers()
    with initialize_config_module("topoflow.configs", version_base="1.3"):
        composer = Composer("compare")
        for overrides in POINTS:
            config, choices = composer.compose(overrides)
            whole = compose("compare", overrides=overrides, return_hydra_config=True)
            assert choices == {group: str(option) for group, option in whole.hydra.runtime.choices.items()}
            OmegaConf.set_struct(whole, False)
            whole.pop("hydra")
            assert OmegaConf.to_container(config) == OmegaConf.to_container(whole)
            assert list(config) == list(whole)


@pytest.mark.parametrize("wrong", [["fabric=none_such"], ["no_such_key=1"], ["fabric.no_such_key=1"], ["~no_such_key"]])
def test_what_hydra_refuses_is_refused(wrong: list[str]) -> None:
    register_resolvers()
    with initialize_config_module("topoflow.configs", version_base="1.3"):
        with pytest.raises(Exception) as ours:  # noqa: PT011
            Composer("compare").compose(wrong)
        with pytest.raises(Exception) as theirs:  # noqa: PT011
            compose("compare", overrides=wrong)
        assert (ours.type, str(ours.value)) == (theirs.type, str(theirs.value))


def test_points_that_choose_the_same_files_have_these_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = 0
    original = CachingConfigRepository.__init__

    def counted(self: CachingConfigRepository, *arguments: Any, **given: Any) -> None:
        nonlocal lookups
        lookups += 1
        original(self, *arguments, **given)

    monkeypatch.setattr(CachingConfigRepository, "__init__", counted)
    monkeypatch.setattr(memo, "MEMO", memo.Memo())
    register_resolvers()
    with initialize_config_module("topoflow.configs", version_base="1.3"):
        composer = Composer("compare")
        composer.compose(["fabric=ring", "gpu=a100", "seed=0"])
        once = lookups
        for seed in range(1, 20):
            composer.compose(["fabric=ring", "gpu=a100", f"seed={seed}"])
    assert lookups == once > 0, "Hydra copies all that it knows of its files for each"
