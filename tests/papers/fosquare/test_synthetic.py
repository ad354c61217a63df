"""Messages of scientific applications: the sizes that are published, and what holds for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.papers.fosquare.synthetic import APPLICATIONS, PROCESSES, Background, application

VOLUMES = {"cg": 20461.6 * 1024, "mg": 8353 * 1024, "milc": 8640 * 1024, "mini_md": 6974.25 * 1024}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_process_sends_its_part_to_others_at_its_rate(name: str) -> None:
    messages = application(name, VOLUMES[name], 1e9, seed=3)
    sent = np.bincount(messages.source, messages.bytes, PROCESSES)
    assert (sent >= VOLUMES[name] / PROCESSES).all()
    assert (sent - VOLUMES[name] / PROCESSES < messages.bytes.max()).all()
    assert (messages.source != messages.target).all()
    for process in range(PROCESSES):
        sends = messages.source == process
        before = np.concatenate([[0.0], np.cumsum(messages.bytes[sends])[:-1]])
        np.testing.assert_allclose(messages.release[sends], before / 1e9, rtol=1e-12)
    assert messages.counts(PROCESSES).sum() == len(messages.source)


def test_cg_and_milc_have_the_one_size_that_the_paper_gives_and_the_others_several() -> None:
    """FOSquare, 2: 28,000 B and 4,608 B; 1,920 of the latter are the 8,640 KB of Table 2."""
    sizes = {name: set(application(name, VOLUMES[name], 1.0).bytes.tolist()) for name in APPLICATIONS}
    assert sizes["cg"] == {28_000.0}
    assert sizes["milc"] == {4_608.0}
    assert len(application("milc", VOLUMES["milc"], 1.0).source) == 1_920
    assert min(len(sizes["mg"]), len(sizes["mini_md"])) >= 3


def test_background_has_the_load_and_the_locality_that_it_is_given() -> None:
    model = Background(28_000.0, 0.5, 6.25e9, 0.5, 0.375)
    busy = np.full(48, 8)
    flows = model.draw(busy, 12, 2e-3, seed=1)
    offered = flows.bytes.sum() / (busy.sum() * 6.25e9 * 2e-3)
    assert offered == pytest.approx(0.5 * (0.375 + 0.125), rel=0.02), "what stays in a server is left out"
    near = flows.source // 12 == flows.target // 12
    assert near.mean() == pytest.approx(0.375 / 0.5, rel=0.03)
    assert (flows.source != flows.target).all()
    assert ((flows.target >= 0) & (flows.target < 48)).all()
    assert len(np.unique(flows.target[~near] // 12)) == 4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"load": 1.5}, "background.load: must be within 0..1, got 1.5"),
        ({"within_rack": 0.6}, "background: within_server and within_rack must be shares of at most 1 in all, got 0.5"),
        ({"message": 0.0}, "background.message: must be positive, got 0"),
    ],
)
def test_wrong_fields_are_one_line(fields: dict[str, float], message: str) -> None:
    settings = {"message": 1.0, "load": 0.5, "bandwidth": 1.0, "within_server": 0.5, "within_rack": 0.3, **fields}
    with pytest.raises(ValueError, match=message):
        Background(**settings)


def test_an_application_that_nobody_knows_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"application: must be one of cg, milc, mg, mini_md, got 'lu'"):
        application("lu", 1.0, 1.0)
