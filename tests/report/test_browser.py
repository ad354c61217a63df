"""``report.html`` in a browser: it draws all that ran without an error, and can be read and used by anybody."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from topoflow.report.base import Report
from topoflow.report.draw.style import fabric_looks
from topoflow.report.write import write

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SECONDS = 120  # for what takes one or two on a machine that does nothing else

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs a browser: apt-get install chromium chromium-driver"
)

CONTRAST = """
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const back = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = [];
const texts = "h1, h2, h3, p, td, th, a, button, figcaption, label, select, input, pre, dt, dd";
for (const element of document.querySelectorAll(texts)) {
  if (!element.textContent.trim()) continue;
  const [a, b] = [luminance(parse(getComputedStyle(element).color).slice(0, 3)), luminance(back(element))];
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.tagName, element.textContent.slice(0, 40)]);
}
return found.sort((a, b) => a[0] - b[0])[0];
"""

DRAW_TIMELINE = """
const done = arguments[arguments.length - 1];
document.getElementById("timeline-world").value = arguments[0];
timeline().then(() => done([...new Set(topoflow.charts.find((each) => each.id === "timeline").source.data.task)]));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install 'topoflow[test]')")
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1300,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = None
    for last in (False, False, True):
        try:
            driver = webdriver.Chrome(options=options, service=Service(DRIVER))
            break
        except WebDriverException:  # a busy machine took longer than the driver waits for a browser to start
            if last:
                raise
    assert driver is not None
    driver.set_script_timeout(SECONDS)
    driver.set_page_load_timeout(SECONDS)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "out"
    write(report, out, lambda done: None)
    return out


def opened(browser: Any, folder: Path, part: str = "") -> Any:
    """The page, drawn. ``part`` is what its address ends with."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")  # an address that differs in its part alone would not be loaded anew
    browser.get(f"{(folder / 'report.html').as_uri()}{part}")
    WebDriverWait(browser, SECONDS).until(lambda page: page.execute_script("return window.topoflow?.ready === true"))
    return browser


def test_a_page_draws_without_an_error_and_loads_nothing(browser: Any, folder: Path) -> None:
    page = opened(browser, folder)
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []
    drawn = page.execute_script("return topoflow.charts.map((each) => each.id)")
    assert set(drawn) == {"bars", "scatter", "parallel", "timeline", "network"}
    assert (folder / "report.html").stat().st_size < 3e6


def test_every_task_that_ran_is_drawn(browser: Any, folder: Path, report: Report) -> None:
    page = opened(browser, folder)
    rows = parquet.read_table(folder / "tasks.parquet").to_pylist()
    labels = dict(zip(report.labels(report.outcomes), report.rows, strict=True))
    names = page.execute_script("return page.timelines.map((each) => each.label)")
    assert sorted(names) == sorted(labels)
    for number, name in enumerate(names):
        drawn = page.execute_async_script(DRAW_TIMELINE, number)
        ran = [row["task"] for row in rows if row["world"] == labels[name].world and row["finish"] is not None]
        assert sorted(drawn) == ran


def test_rows_are_sorted_filtered_and_linked(browser: Any, folder: Path, report: Report) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, folder, "#row-2")
    config = json.loads(page.find_element(By.ID, "config").text)
    assert config == dict(report.outcomes[2].settings.config)
    assert "chosen" in page.find_element(By.ID, "row-2").get_attribute("class")
    titles = page.execute_script("return [...document.querySelectorAll('th')].map((each) => each.textContent)")
    column = titles.index("iteration time")
    head = page.find_elements(By.CSS_SELECTOR, "th button")[column]
    for ascending in (True, False):
        head.send_keys(Keys.ENTER)
        ids = [row.get_attribute("id") for row in page.find_elements(By.CSS_SELECTOR, "table.sortable tbody tr")]
        times = [report.rows[int(each.removeprefix("row-"))].iteration_time for each in ids]
        assert times == sorted(times, reverse=not ascending)
    page.find_element(By.ID, "filter").send_keys("star 4")
    shown = [row for row in page.find_elements(By.CSS_SELECTOR, "table.sortable tbody tr") if row.is_displayed()]
    assert [row.get_attribute("id") for row in shown] == ["row-3"]


def test_the_keyboard_reaches_everything(browser: Any, folder: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, folder)
    wanted = "button, input, select, a[href], pre[tabindex]"
    for number, element in enumerate(page.find_elements(By.CSS_SELECTOR, wanted)):
        page.execute_script("arguments[0].dataset.number = arguments[1]", element, number)
    count, reached = len(page.find_elements(By.CSS_SELECTOR, wanted)), set()
    for _ in range(3 * count + 30):  # the charts' own tools are between
        page.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.execute_script("return document.activeElement.dataset.number ?? null"))
    assert reached - {None} == {str(number) for number in range(count)}


def test_text_has_contrast_in_both_themes(browser: Any, folder: Path) -> None:
    from selenium.webdriver.common.by import By

    page = opened(browser, folder)
    themes = set()
    for _ in range(2):
        page.find_element(By.ID, "theme").click()
        themes.add(page.execute_script("return document.documentElement.dataset.theme"))
        page.execute_async_script("topoflow.drawing.then(arguments[0])")
        ratio, *where = page.execute_script(CONTRAST)
        assert ratio >= 4.5, where  # WCAG 2.1, 1.4.3, level AA
    assert themes == {"light", "dark"}
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_fabric_has_one_colour(browser: Any, folder: Path, report: Report) -> None:
    page = opened(browser, folder)
    looks = {name: look.colour for name, look in fabric_looks(report.fabrics).items()}
    assert page.execute_script("return page.fabrics") == looks
    drawn = page.execute_script("return topoflow.charts.find((each) => each.id === 'scatter').source.data.colour")
    assert set(drawn) <= set(looks.values())
