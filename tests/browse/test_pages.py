"""Pages of runs in a browser: a list, two runs, a search that is watched as it works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browse.test_server import row, write_run
from tests.report.chromium import at, check_console, check_contrast, check_keyboard, needs_browser, opened, start, until
from topoflow.browse.pages import run_page
from topoflow.browse.run import RunFolder
from topoflow.browse.server import Server
from topoflow.report.page.data import as_script

pytestmark = needs_browser

# A search that says how it goes when it is asked to.
SEARCH = """
import sys
from pathlib import Path
from topoflow import progress
progress.LEAST_INTERVAL = 0.0
progress.SHARE = 1e12
log = progress.ProgressLog.begin(Path(sys.argv[1]), verb="search", command="topoflow search <i>", cwd="/")
for number, line in enumerate(sys.stdin):
    time, rate = map(float, line.split())
    values = {"time": time, "best": time, "current": time, "acceptance": 0.25, "rate": rate, "progress": number / 100}
    log.record(number, {f"torus/{key}": value for key, value in values.items()})
    print("said", flush=True)
"""
CURVE = "return topoflow.charts.find((each) => each.id === arguments[0])?.figure.renderers[0].data_source.data.y"
HAS = f"return (() => {{ {CURVE} }})()?.length >= arguments[1]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from start()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_run(folder / "slow", "topoflow compare degree=4", [row("torus", 2.0, 5.0, degree=4), row("ring", 3.0, 1.0)])
    write_run(
        folder / "fast", "topoflow compare degree=8", [row("torus", 1.0, 9.0, degree=8), row("fat_tree", 4.0, 2.0)]
    )
    write_run(folder / "multirun" / "0", "topoflow compare <script>alert(1)</script>", [row("<b>", 1.5, None)])
    return folder


@pytest.fixture(scope="module")
def address(root: Path, browser: Any) -> Iterator[str]:
    with Server(root, "127.0.0.1", 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        at(browser, server.address)  # which has the token; the browser keeps it
        yield server.address.partition("?")[0]
        server.shutdown()


def names(browser: Any) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#runs tbody tr')].filter((r) => !r.hidden).map((r) => r.dataset.run)"
    )
    return list(browser.execute_script(script))


def click(browser: Any, selector: str) -> None:
    from selenium.webdriver.common.by import By

    browser.find_element(By.CSS_SELECTOR, selector).click()


def test_runs_are_sorted_filtered_and_compared(browser: Any, address: str, root: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page = at(browser, address)
    assert set(names(page)) == {"slow", "fast", "multirun/0"}
    times = {"fast": 1.0, "multirun/0": 1.5, "slow": 2.0}
    head = page.find_elements(By.CSS_SELECTOR, "#runs th button")[4]
    for order in (1, -1):
        head.send_keys(Keys.ENTER)
        assert names(page) == [*times][::order]
    page.find_element(By.ID, "filter").send_keys("degree=")
    assert set(names(page)) == {"slow", "fast"}
    click(page, "#compare")
    assert "0 marked" in page.find_element(By.ID, "marked").text, "nothing is compared with nothing"
    for name in ("slow", "fast"):
        click(page, f"input[value={name}]")
    write_run(root / "later", "topoflow compare later=1", [row("torus", 7.0, None)])
    until(page, "return document.querySelector('#runs input[value=later]') !== null")  # the list follows the folder
    assert set(names(page)) == {"slow", "fast"}, "it is filtered as before"
    click(page, "#compare")
    until(page, "return window.topoflow?.ready === true && Boolean(document.getElementById('pair'))")
    points = page.execute_script("return topoflow.charts[0].source.data")
    assert sorted(zip(points["fabric"], points["right"], strict=True)) == [
        ("fat_tree", 4000), ("ring", 3000), ("torus", 1000), ("torus", 2000)
    ]  # fmt: skip
    assert {"key", "degree"} <= {cell.text for cell in page.find_elements(By.CSS_SELECTOR, "th, td")}
    check_contrast(page)
    check_console(page)


@pytest.mark.parametrize("path", ["", "run/slow", "run/multirun/0", "pair?run=slow&run=fast"])
def test_every_page_can_be_read_and_used_by_anybody(path: str, browser: Any, address: str) -> None:
    page = at(browser, f"{address}{path}")
    check_contrast(page)
    check_keyboard(page)
    assert page.execute_script("return document.querySelectorAll('b').length") == 0, "a name is no HTML"
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert all(name.startswith((address, "data:", "blob:")) for name in loaded)
    check_console(page)


def test_a_search_is_watched_as_it_works(browser: Any, address: str, root: Path, tmp_path: Path) -> None:
    folder = root / "search"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", SEARCH, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, answers = process.stdin, process.stdout

        def say(time: float) -> None:
            asks.write(f"{time} 1000\n")
            asks.flush()
            assert answers.readline() == "said\n"

        say(0.5)
        page = at(browser, f"{address}run/search")
        assert "This run works: searching torus" in page.execute_script("return document.body.textContent")
        for number, time in enumerate((0.4, 0.3), start=2):
            say(time)
            for chart in ("search-time", "search-acceptance", "search-rate"):
                until(page, HAS, chart, number)
        assert page.execute_script(CURVE, "search-time") == [500, 400, 300]
        assert page.execute_script(CURVE, "search-acceptance") == [25, 25, 25]
        assert page.execute_script(CURVE, "search-rate") == [1000, 1000, 1000]
        check_contrast(page)
        process.kill()
        process.wait()
    until(page, "return document.body.textContent.includes('This run was cut off: searching torus')")
    until(page, "return document.body.textContent.includes('cd / && topoflow search <i>')")
    check_console(page)
    file = tmp_path / "report.html"
    file.write_text(run_page(RunFolder(folder, "search"), served=False))
    page = opened(browser, file)
    assert page.execute_script(CURVE, "search-time") == [500, 400, 300]
    check_keyboard(page)
    check_console(page)


def test_a_report_reads_nothing_from_the_server(browser: Any, address: str, root: Path) -> None:
    """The scripts of a report run, but as a page of no site: an evil one cannot read other runs."""
    write_run(root / "evil", "topoflow compare", [])
    target = as_script({"live": f"{address}live"})
    script = (
        "fetch(target.live).then((a) => a.text()).then(() => 'read', () => 'refused').then((t) => { window.got = t; })"
    )
    (root / "evil" / "report.html").write_text(f"<!DOCTYPE html><p>x<script>const target = {target}; {script}</script>")
    at(browser, f"{address}files/evil/report.html", "window.got")
    assert browser.execute_script("return window.got") == "refused"
    browser.get_log("browser")  # which says so, too
    assert json.loads(browser.execute_script("return JSON.stringify(target)"))["live"] == f"{address}live"
