"""Figures from plain numbers show all of them, on scales that are shared or say that they are not."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.typing import NDArray

from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars, draw_cdf, draw_heat_maps, draw_lines
from topoflow.report.draw.style import COLOURS, png

SECONDS = Axis("time", "s")
PARTS = {
    "DLRM": {"topoopt": ([10, 100], [0.2, 0.03]), "fat_tree": ([100, 10], [0.06, 0.5])},
    "BERT": {"fat_tree": ([10, 100], [0.4, np.nan]), "expander": ([10, 100], [0.7, 0.1])},
}


def colours(figure: Figure, panel: int) -> dict[str, str]:
    handles, names = figure.axes[panel].get_legend_handles_labels()
    return {name: to_hex(handle.get_color()) for handle, name in zip(handles, names, strict=True)}


def test_a_series_looks_the_same_in_every_panel_and_unlike_the_others() -> None:
    figure = draw_lines("Time", PARTS, Axis("bandwidth", log=True), SECONDS)
    first, second = colours(figure, 0), colours(figure, 1)
    assert first["fat_tree"] == second["fat_tree"]
    assert len(set((first | second).values())) == 3


def test_lines_are_in_the_unit_that_a_person_reads_and_in_order_of_x() -> None:
    figure = draw_lines("Time", PARTS, Axis("bandwidth"), SECONDS)
    line = next(line for line in figure.axes[0].get_lines() if line.get_label() == "fat_tree")
    assert figure.axes[0].get_ylabel() == "time [ms]"
    assert np.array_equal(line.get_xydata(), [[10, 500], [100, 60]])  # 0.5 s is 500 ms


def test_the_legend_names_every_series_once() -> None:
    figure = draw_lines("Time", PARTS, Axis("bandwidth"), SECONDS)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["topoopt", "fat_tree", "expander"]


def test_a_logarithmic_axis_names_units_at_its_ticks() -> None:
    parts = {"": {"a": ([1e-6, 1e-4, 1e-2], [1.0, 2.0, 3.0])}}
    axes = draw_lines("Latency", parts, Axis("latency", "s", log=True), Axis("x")).axes[0]
    assert axes.xaxis.get_major_formatter()(1e-6, 0) == "1 us"
    assert axes.get_xlabel() == "latency"


def test_values_that_are_the_same_but_for_rounding_are_a_flat_line_on_a_logarithmic_axis() -> None:
    parts = {"": {"a": ([1.0, 2.0, 3.0], [0.05, 0.05 * (1 + 1e-15), 0.05])}}
    axes = draw_lines("Time", parts, Axis("x"), Axis("time", "s", log=True)).axes[0]
    low, high = axes.get_ylim()
    assert low < 0.0499 < 0.0501 < high


@pytest.mark.parametrize(("value", "name"), [(0.2, "0.2"), (4394.0, "4394"), (5e6, "5 M"), (128e3, "128 k")])
def test_large_numbers_are_shortened_at_ticks(value: float, name: str) -> None:
    assert Axis("dollars", log=True).tick(value) == name


def test_few_measured_x_are_the_ticks() -> None:
    axes = draw_lines("Time", {"": {"a": ([10, 25, 40, 100], [4.0, 3.0, 2.0, 1.0])}}, Axis("Gb/s", log=True), SECONDS)
    assert axes.axes[0].get_xticks().tolist() == [10, 25, 40, 100]


def test_a_distribution_ends_at_all_of_its_values() -> None:
    figure = draw_cdf("Links", {"": {"d = 4": [1.0, 3.0, 2.0], "d = 8": [5.0]}}, Axis("carried", "B"), "links")
    ends = [line.get_xydata()[-1].tolist() for line in figure.axes[0].get_lines()]
    assert ends == [[3.0, 100.0], [5.0, 100.0]]


def test_bars_stand_at_their_values_and_what_is_missing_says_so() -> None:
    figure = draw_bars("Tax", {"": {"d = 4": {"64": 1.1, "128": 1.2}, "d = 8": {"128": 1.4}}}, Axis("tax"))
    heights = {round(bar.get_height(), 6) for bar in figure.axes[0].patches}
    assert heights == {1.1, 1.2, 0.0, 1.4}
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["1.1", "1.2", "1.4", "none"]


def test_heat_maps_share_one_colour_scale() -> None:
    figure = draw_heat_maps("DLRM", {"before": np.full((4, 4), 5.0), "after": np.eye(4)})
    limits = {axes.images[0].get_clim() for axes in figure.axes if axes.images}
    assert limits == {(0.0, 5.0)}


@pytest.mark.parametrize("series", [1, 12, 20])
def test_many_series_stay_within_a_page(series: int) -> None:
    parts = {str(n): {f"a fabric with a long name {i}": ([1, 2], [i, 2 + i]) for i in range(series)} for n in range(6)}
    figure = draw_lines("Many", parts, Axis("x"), Axis("y"))
    figure.set_dpi(20)
    width, height = figure.get_size_inches()
    assert width <= 15
    assert height <= 15
    assert png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (([1, 2], [1.0, 0.0]), "Time: DLRM: topoopt: y: must be positive on a logarithmic axis, got 0"),
        (([1, 2], [1.0, np.inf]), "Time: DLRM: topoopt: y: must be finite, or NaN where there is nothing, got inf"),
        (([1, 2], [1.0]), "Time: DLRM: topoopt: x and y must be lists of one length, got .2,. and .1,."),
    ],
)
def test_what_cannot_be_drawn_is_named(points: tuple[list[float], list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_lines("Time", {"DLRM": {"topoopt": points}}, Axis("x"), Axis("y", log=True))


def test_a_figure_without_a_series_is_an_error() -> None:
    with pytest.raises(ValueError, match="Time: DLRM: must have at least one, got none"):
        draw_lines("Time", {"DLRM": {}}, Axis("x"), Axis("y"))


@pytest.mark.parametrize("others", [1, 2, 3])
def test_markers_can_be_seen_under_those_of_other_series(others: int) -> None:
    values = ([1.0, 2.0, 3.0], [2.0, 1.0, 3.0])
    names = [f"series {number}" for number in range(others + 1)]

    def image(shown: list[str]) -> NDArray[np.uint8]:
        figure = draw_lines("", {"": dict.fromkeys(names, values)}, Axis("x"), Axis("y"))
        figure.legends.clear()
        figure.set_dpi(300)
        for line in figure.axes[0].lines:
            line.set(linestyle="", visible=line.get_label() in shown)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3]

    blue = np.array([int(COLOURS[0][at : at + 2], 16) for at in (1, 3, 5)])
    alone, together = (int((image(shown) == blue).all(axis=-1).sum()) for shown in (names[:1], names))
    assert together > alone / 50 > 0


@pytest.mark.parametrize("low", [1.0, 1.9, 2.3, 4.2, 5.1, 6.5, 9.9])
@pytest.mark.parametrize("times", [1, 1.1, 1.5, 2.2, 4, 9, 30, 250, 400, 1e5])
def test_four_ticks_or_more_of_a_logarithmic_axis_have_names(low: float, times: float) -> None:
    parts = {"": {"a": ([1.0, 2.0], [1e-3 * low, 1e-3 * low * times])}}
    axes = draw_lines("Time", parts, Axis("x"), Axis("time", "s", log=True)).axes[0]
    bottom, top = axes.get_ylim()
    names = [axes.yaxis.get_major_formatter()(at, 0) for at in axes.get_yticks() if bottom <= at <= top]
    assert 4 <= len(set(names)) == len(names) <= 12
