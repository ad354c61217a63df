"""A fabric has one colour wherever it is drawn; colours in one report can be told apart, on white and on dark pages."""

from __future__ import annotations

from itertools import combinations
from math import dist
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.report.draw import colours
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.colours import (
    DARK,
    FABRICS,
    MIN_CONTRAST,
    MIN_DISTANCE,
    WHITE,
    contrast,
    fabric_colours,
    oklab,
)
from topoflow.report.draw.figures import draw_bars, draw_lines
from topoflow.report.draw.style import COMPUTE, KINDS, OTHER_KIND, fabric_looks, series_looks

ROOT = Path(__file__).resolve().parents[2]
NAMES = st.lists(st.one_of(st.sampled_from(sorted(FABRICS)), st.text(min_size=1, max_size=12)), min_size=1, max_size=12)

# What the colour-blind see of linear light (Machado, Oliveira & Fernandes 2009, table 1, severity 1.0).
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
JUST_NOTICEABLE = 0.02  # in OKLab (Ottosson 2020)


@given(one=NAMES, other=NAMES)
@settings(max_examples=200)
def test_a_fabric_has_the_same_colour_in_any_two_reports(one: list[str], other: list[str]) -> None:
    """A design of topoflow always has; another name gives way only to names of its report whose colour is near."""
    reports = fabric_colours(one), fabric_colours(other)
    for name in reports[0].keys() & reports[1].keys():
        (alone,) = fabric_colours([name]).values()
        rivals = [c for report in reports for n, c in report.items() if n != name and n not in FABRICS]
        if name in FABRICS or all(dist(oklab(rival), oklab(alone)) >= MIN_DISTANCE for rival in rivals):
            assert reports[0][name] == reports[1][name] == alone


@given(names=NAMES)
@settings(max_examples=200)
def test_colours_of_a_report_are_apart_and_can_be_seen_on_white_and_on_dark(names: list[str]) -> None:
    chosen = fabric_colours(names)
    assert list(chosen) == list(dict.fromkeys(names))
    assert all(min(contrast(colour, WHITE), contrast(colour, DARK)) >= MIN_CONTRAST for colour in chosen.values())
    assert all(dist(oklab(a), oklab(b)) >= MIN_DISTANCE for a, b in combinations(chosen.values(), 2))
    assert fabric_colours(reversed(names)) == chosen


def test_colours_of_many_names_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    def counted(one: object, other: object) -> float:
        nonlocal tried
        tried += 1
        return dist(one, other)  # type: ignore[arg-type]

    monkeypatch.setattr(colours, "dist", counted)
    counts = []
    for names in (500, 1000, 2000):
        tried = 0
        chosen = fabric_colours(f"fabric {number}" for number in range(names))
        assert all(min(contrast(colour, WHITE), contrast(colour, DARK)) >= MIN_CONTRAST for colour in chosen.values())
        counts.append(tried)
    assert counts[2] - counts[1] < 3 * (counts[1] - counts[0])


@pytest.mark.parametrize("sight", SEEN)
def test_the_colour_blind_can_tell_the_designs_apart(sight: str) -> None:
    def seen(colour: str) -> np.ndarray:
        value = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
        light = np.clip(np.array(SEEN[sight]) @ linear, 0, 1)
        back = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
        return np.array(oklab("#" + "".join(f"{round(255 * v):02X}" for v in back)))

    for one, other in combinations(FABRICS.values(), 2):
        assert np.linalg.norm(seen(one) - seen(other)) > JUST_NOTICEABLE, (one, other)


def test_designs_have_their_own_colour() -> None:
    designs = {path.stem for path in (ROOT / "src" / "topoflow" / "configs" / "fabric").glob("*.yaml")}
    assert set(FABRICS) <= designs


def test_the_page_and_the_pictures_have_one_dark_background() -> None:
    style = (ROOT / "src" / "topoflow" / "report" / "page" / "style.css").read_text().upper()
    assert f"--BACK: {DARK};" in style


def test_what_servers_do_can_be_seen_on_white_and_on_dark() -> None:
    for colour in (COMPUTE, OTHER_KIND, *KINDS.values()):
        assert min(contrast(colour, WHITE), contrast(colour, DARK)) >= MIN_CONTRAST


def test_series_of_a_figure_have_the_colours_of_their_fabrics() -> None:
    fabrics = {"Ours": "topoopt", "Fat-tree": "fat_tree", "Oversub. Fat-tree": "fat_tree"}
    looks = series_looks(["Fat-tree", "Oversub. Fat-tree", "measured", "Ours"], fabrics)
    by_fabric = {name: look.colour for name, look in fabric_looks(["topoopt", "fat_tree"]).items()}
    assert {name: looks[name].colour for name in fabrics} == {
        name: by_fabric[fabric] for name, fabric in fabrics.items()
    }
    assert looks["measured"].colour not in by_fabric.values()
    assert looks["Fat-tree"].hatch != looks["Oversub. Fat-tree"].hatch
    assert len({(look.colour, str(look.line), look.marker) for look in looks.values()}) == 4


def test_series_of_one_fabric_are_told_apart_by_colour() -> None:
    names = ["Q = 2", "Q = 4", "Q = 8"]
    looks = series_looks(names, dict.fromkeys(names, "sirius"))
    assert len({look.colour for look in looks.values()}) == 3
    assert series_looks(names[:1], dict.fromkeys(names, "sirius"))["Q = 2"].colour == FABRICS["sirius"]


def test_lines_and_bars_are_drawn_in_the_colours_of_fabrics() -> None:
    fabrics = {"Ours": "topoopt", "Theirs": "torus"}
    lines = draw_lines("", {"": dict.fromkeys(fabrics, ([1, 2], [1, 2]))}, Axis("x"), Axis("y"), fabrics)
    drawn_colours = {str(line.get_label()): str(line.get_color()) for line in lines.axes[0].lines}
    assert drawn_colours == {name: FABRICS[fabric] for name, fabric in fabrics.items()}
    bars = draw_bars("", {"": {name: {"a": 1.0} for name in fabrics}}, Axis("y"), fabrics=fabrics)
    drawn = [bar.get_facecolor() for bar in bars.axes[0].patches]
    assert [tuple(round(255 * part) for part in colour[:3]) for colour in drawn] == [
        tuple(int(FABRICS[fabric][at : at + 2], 16) for at in (1, 3, 5)) for fabric in fabrics.values()
    ]
