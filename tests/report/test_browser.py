"""``report.html`` in a browser: it draws all that ran without an error, and can be read and used by anybody."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import topoflow
from tests.report.chromium import check_contrast, check_keyboard, check_quiet, needs_browser, opened, pointed_at, until
from tests.report.test_port_pictures import DRAGONFLY, simulated
from topoflow.case.base import Result
from topoflow.fabric.ring import Ring
from topoflow.report.base import Report
from topoflow.report.draw.network.topology import wirings
from topoflow.report.draw.price import frontier
from topoflow.report.draw.style import fabric_looks
from topoflow.report.load import BINS, bytes_over_time
from topoflow.report.page.data import row_id
from topoflow.report.tasks import NOTHING, Tasks
from topoflow.report.write import write
from topoflow.units import human

pytestmark = needs_browser

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

# The tasks that rectangles of a world's timeline are of, and what a rectangle of each says.
DRAW_TIMELINE = """
const done = arguments[arguments.length - 1];
document.getElementById("timeline-world").value = arguments[0];
timeline().then(() => {
  const chart = topoflow.charts.find((each) => each.id === "timeline");
  const { left, right, top, bottom, task, ...rest } = chart.source.data;
  const middle = (a, b, n) => (a[n] + b[n]) / 2;
  done(task.map((number, n) => ({
    task: number, count: rest.count[n], waited: rest.waited[n], x: middle(left, right, n), y: middle(top, bottom, n),
  })));
});
"""

DRAW_NETWORK = """
document.getElementById("network-world").value = arguments[0];
network().then(() => Promise.all(showing)).then(arguments[1]);
"""

# Where a world is in a chart; null: it is not.
POINT = """
const { source } = topoflow.charts.find((each) => each.id === arguments[0]);
const at = source.data.number.indexOf(arguments[1]);
if (at < 0) return null;
const { x, y, xs, ys, left, right } = source.data;
if (xs) return [0.8 * xs[at][0] + 0.2 * xs[at][1], 0.8 * ys[at][0] + 0.2 * ys[at][1]]; // lines cross in the middle
return x ? [x[at], y[at]] : [(left[at] + right[at]) / 2, y[at]];
"""

# A place on a link that is near its source, where few others are.
LINK = """
const { xs, ys } = topoflow.charts.find((each) => each.id === "network").source.data;
const near = Math.floor(0.3 * xs[arguments[0]].length);
return [xs[arguments[0]][near], ys[arguments[0]][near]];
"""

CELLS = """
const chart = topoflow.charts.find((each) => each.id === "queues");
return chart.view && chart.source.data.left.length === arguments[0];
"""


IN_VIEW = """
const { top, bottom } = document.getElementById(arguments[0]).getBoundingClientRect();
return top >= 0 && bottom <= innerHeight;
"""

CUT_OFF = """
return [...document.querySelectorAll(".wide")].filter((each) => each.scrollWidth > each.clientWidth).length;
"""


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "out"
    write(report, out, lambda done: None)
    return out


def test_a_page_draws_without_an_error_and_loads_nothing(browser: Any, folder: Path) -> None:
    page = opened(browser, folder / "report.html")
    check_quiet(page)
    charts = page.execute_script("return topoflow.charts.map((each) => each.id)")
    assert set(charts) == {"bars", "scatter", "parallel", "timeline", "network"}
    assert (folder / "report.html").stat().st_size < 3e6


def test_no_column_is_cut_off_on_a_small_screen(browser: Any, tmp_path: Path) -> None:
    """A table of a job with throughput, price and memory, and two swept keys: 15 columns."""
    out = tmp_path / "out"
    topoflow.compare(workload="llama2_7b", servers=4, bandwidth_gbps=[100, 200], strategy=["fsdp", "parallel"]).save(
        out
    )
    page = opened(browser, out / "report.html")
    before = page.get_window_size()
    page.set_window_size(1200, 800)
    assert page.execute_script(CUT_OFF) == 0
    fabrics = page.execute_script("return Object.keys(page.fabrics)")
    assert page.find_element("id", "legend").text == "".join(fabrics)
    page.set_window_size(before["width"], before["height"])


def test_every_task_that_ran_is_drawn_and_says_what_it_waited_for(browser: Any, folder: Path, report: Report) -> None:
    page = opened(browser, folder / "report.html")
    rows = parquet.read_table(folder / "tasks.parquet").to_pylist()
    labels = dict(zip(report.labels(report.outcomes), report.outcomes, strict=True))
    names = page.execute_script("return page.timelines.map((each) => each.label)")
    assert sorted(names) == sorted(labels)
    for number, name in enumerate(names):
        tasks = Tasks.of(labels[name])
        waited = dict(zip(tasks.number.tolist(), tasks.waited_for.tolist(), strict=True))
        rectangles = page.execute_async_script(DRAW_TIMELINE, number)
        world = labels[name].settings.world
        ran = {row["task"]: row for row in rows if row["world"] == world and row["finish"] is not None}
        assert {rectangle["task"] for rectangle in rectangles} == set(ran)
        assert {rectangle["count"] for rectangle in rectangles} == {1}
        for rectangle in rectangles:
            before = waited[rectangle["task"]]
            expected = "the start of the step" if before == NOTHING else ran[before]["name"] or f"task {before}"
            assert rectangle["waited"] == expected
    for rectangle in {
        rectangle["task"]: rectangle for rectangle in rectangles
    }.values():  # of the last world, with the mouse
        tooltip = pointed_at(page, "timeline", rectangle["x"], rectangle["y"])
        assert ran[rectangle["task"]]["name"] in tooltip
        assert f"waited for: {rectangle['waited']}" in tooltip


def test_rows_are_sorted_filtered_and_linked(browser: Any, folder: Path, report: Report) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, folder / "report.html", "#row-2")
    config = json.loads(page.find_element(By.ID, "config").text)
    assert config == dict(report.outcomes[2].settings.config)
    assert "chosen" in page.find_element(By.ID, "row-2").get_attribute("class")
    titles = page.execute_script("return [...document.querySelectorAll('th')].map((each) => each.textContent)")
    column = titles.index("iteration time")
    head = page.find_elements(By.CSS_SELECTOR, "th button")[column]
    for ascending in (True, False):
        head.send_keys(Keys.ENTER)
        ids = [row.get_attribute("id") for row in page.find_elements(By.CSS_SELECTOR, "table.sortable tbody tr")]
        times = [report.rows[int(identifier.removeprefix("row-"))].iteration_time for identifier in ids]
        assert times == sorted(times, reverse=not ascending)
    page.find_element(By.ID, "filter").send_keys("star 4")
    visible = [row for row in page.find_elements(By.CSS_SELECTOR, "table.sortable tbody tr") if row.is_displayed()]
    assert [row.get_attribute("id") for row in visible] == ["row-3"]


def test_the_keyboard_reaches_everything(browser: Any, folder: Path) -> None:
    check_keyboard(opened(browser, folder / "report.html"))


def test_text_has_contrast_in_both_themes(browser: Any, folder: Path) -> None:
    check_contrast(opened(browser, folder / "report.html"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_is_that_of_the_reader_and_paper_is_white(browser: Any, folder: Path, theme: str) -> None:
    def emulate(media: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    try:
        emulate("screen")
        page = opened(browser, folder / "report.html")
        assert page.execute_script("return document.documentElement.dataset.theme") == theme
        emulate("print")
        hidden = "return [...document.querySelectorAll('.controls, .theme')].every((each) => !each.offsetParent)"
        assert page.execute_script(hidden)
        pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        assert b64decode(pdf).startswith(b"%PDF")
        assert page.execute_script("return document.documentElement.dataset.theme") == "light"
        emulate("screen")
        assert not page.execute_script(hidden)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("chart", ["bars", "scatter", "parallel"])
def test_a_point_says_which_world_it_is_and_a_click_shows_its_configuration(
    browser: Any, folder: Path, report: Report, chart: str
) -> None:
    page = opened(browser, folder / "report.html")
    for number, world in enumerate(report.ranking):
        place = page.execute_script(POINT, chart, number)
        if place is None:
            assert chart == "scatter"
            assert world.cost is None
            continue
        assert report.labels(report.ranking)[number] in pointed_at(page, chart, *place, click=True)
        until(page, "return document.getElementById('chosen').textContent === arguments[0]", world.settings.world)
        assert page.execute_script(IN_VIEW, "chosen"), "what a click fills can be seen"
        assert json.loads(page.find_element("id", "config").text) == dict(world.settings.config)
        assert page.execute_script("return location.hash") == f"#{row_id(report, world)}"


def test_any_number_is_shown_against_another_and_the_front_is_joined(
    browser: Any, folder: Path, report: Report
) -> None:
    from selenium.webdriver.support.ui import Select

    page = opened(browser, folder / "report.html")
    chart = "const chart = topoflow.charts.find((each) => each.id === 'scatter');"
    points = f"{chart} const {{ x, y }} = chart.source.data; return x.map((each, n) => [each, y[n]])"
    priced = [[entry.cost, entry.iteration_time] for entry in report.ranking if entry.cost is not None]
    assert page.execute_script(points) == pytest.approx(np.array(priced))
    lines = page.execute_script(
        f"{chart} return chart.figure.renderers.filter((each) => each.glyph.type === 'Line')"
        ".map(({ data_source: { data } }) => data.x.map((each, n) => [each, data.y[n]]))"
    )
    front = [[[entry.cost, entry.iteration_time] for entry in reversed(frontier(job))] for job in report.jobs]
    assert lines == front
    for key, field in (("across", "bandwidth"), ("up", "bandwidth_tax")):
        Select(page.find_element("id", key)).select_by_value(field)
    values = [[entry.row.bandwidth, entry.row.bandwidth_tax] for entry in report.ranking]
    assert page.execute_script(points) == pytest.approx(np.array(values))


def test_links_say_what_they_carry(browser: Any, folder: Path, report: Report) -> None:
    page = opened(browser, folder / "report.html")
    for number, world in enumerate(wirings(report)):
        page.execute_async_script(DRAW_NETWORK, number)
        fabric = world.fabric
        for link in range(fabric.links):
            ends = f"{fabric.nodes[fabric.source[link]]} to {fabric.nodes[fabric.target[link]]}"
            x, y = page.execute_script(LINK, link)
            tooltip = pointed_at(page, "network", x, y)
            assert f"link: {ends} carried: {human(float(world.timeline.link_bytes[link]), 'B')}" in tooltip


def test_links_say_what_they_carry_in_a_part_of_the_step(browser: Any, folder: Path, report: Report) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, folder / "report.html")
    slider, part = page.find_element("id", "network-time"), page.find_element("id", "network-part")
    script = "return topoflow.charts.find((each) => each.id === 'network').source.data"
    for number, world in enumerate(wirings(report)):
        page.execute_async_script(DRAW_NETWORK, number)
        load = bytes_over_time(world.timeline, world.iteration_time)
        assert load is not None
        slider.send_keys(Keys.HOME)
        assert part.text == slider.get_attribute("aria-valuetext") == "whole step"
        whole_step = page.execute_script(script)
        for bin in range(BINS):
            slider.send_keys(Keys.ARROW_RIGHT)
            assert part.text == slider.get_attribute("aria-valuetext")
            ends = [float(end.split()[0]) * UNITS[end.split()[1]] for end in part.text.split(" to ")]
            assert ends == pytest.approx([world.iteration_time * edge / BINS for edge in (bin, bin + 1)], rel=1e-3)
            possible = world.fabric.bandwidth * world.iteration_time / BINS
            used = [float(text.removesuffix(" %")) for text in page.execute_script(script)["used"]]
            np.testing.assert_allclose(used, 100 * load[bin] / possible, atol=0.1 + 1e-9)  # steps of 1/1000
        link = int(load[-1].argmax())
        tooltip = pointed_at(page, "network", *page.execute_script(LINK, link))
        assert f"carried: {human(float(load[-1, link]), 'B')}"[:12] in tooltip
        slider.send_keys(Keys.HOME)
        assert page.execute_script(script) == whole_step


def test_a_fabric_has_one_colour(browser: Any, folder: Path, report: Report) -> None:
    page = opened(browser, folder / "report.html")
    looks = {name: look.colour for name, look in fabric_looks(report.fabrics).items()}
    assert page.execute_script("return page.fabrics") == looks
    point_colours = page.execute_script(
        "return topoflow.charts.find((each) => each.id === 'scatter').source.data.colour"
    )
    assert set(point_colours) <= set(looks.values())


def test_a_cell_says_how_much_waited_at_a_port(
    browser: Any, make_outcome: Callable[..., Result], tmp_path: Path
) -> None:
    """Of the worlds that were simulated packet by packet, each chosen by the keyboard."""
    from selenium.webdriver.common.keys import Keys

    designs = {"dragonfly": DRAGONFLY, "ring": Ring(1.25e9, 2, 1e-7)}
    by_packets = Report(tuple(simulated(make_outcome, name, design) for name, design in designs.items()), "")
    write(by_packets, tmp_path / "out", lambda done: None)
    page = opened(browser, tmp_path / "out" / "report.html")
    check_quiet(page)
    check_keyboard(page)
    rows = parquet.read_table(tmp_path / "out" / "queues.parquet").to_pylist()
    panels = page.execute_script("return page.queues")
    assert [panel["label"] for panel in panels] == list(by_packets.labels(by_packets.outcomes))
    for number, (world, panel) in enumerate(zip(by_packets.outcomes, panels, strict=True)):
        selected = [row for row in rows if row["world"] == world.settings.world]
        assert (
            np.array(panel["depth"]).max()
            == max(row["depth"] for row in selected)
            == world.timeline.ports.fullest.max()
        )
        page.find_element("id", "queues-world").send_keys(Keys.DOWN if number else Keys.HOME)
        until(page, CELLS, len(np.flatnonzero(panel["depth"])))
        assert human(np.array(panel["depth"]).max(), "B") in page.find_element("id", "queues-scale").text
        for port, name in list(enumerate(panel["names"]))[:3]:
            at = int(np.argmax(panel["depth"][port]))
            middle = 1e6 * (at + 0.5) * panel["interval"]
            tooltip = pointed_at(page, "queues", middle, len(panel["names"]) - port)
            assert f"port: {name} most waiting: {human(panel['depth'][port][at], 'B')}" in tooltip
