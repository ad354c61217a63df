"""Pages in headless Chromium: opened, pointed at, read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
OPENED = count()
SECONDS = 120  # for what takes one or two on a machine that does nothing else

needs_browser = pytest.mark.skipif(
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

# What tooltips say, each as its text: they are in shadow trees.
TIPS = """
const found = [];
const walk = (root) => {
  for (const element of root.querySelectorAll("*")) {
    if (!element.shadowRoot) continue;
    if (element.classList.contains("bk-Tooltip") && getComputedStyle(element).display !== "none") {
      const content = element.shadowRoot.querySelector(".bk-tooltip-content") ?? element.shadowRoot;
      found.push(content.textContent.replace(/\\s+/g, " "));
    }
    walk(element.shadowRoot);
  }
};
walk(document);
return found.join(" ");
"""

# Charts that a page has a place for, and nothing in it.
UNDRAWN = """
const places = [...document.querySelectorAll("figure:not([hidden]) div[role=img]")].map((each) => each.id);
return places.filter((id) => !topoflow.charts.some((each) => each.id === id));
"""

# Where on the screen a chart has a point of its axes.
PLACE = """
const found = topoflow.charts.find((each) => each.id === arguments[0]);
document.getElementById(arguments[0]).scrollIntoView({ block: "center" });
const box = found.view.el.getBoundingClientRect();
const { x_scale, y_scale } = found.view.frame;
return [box.left + x_scale.compute(arguments[1]), box.top + y_scale.compute(arguments[2])];
"""


def start() -> Iterator[Any]:
    """A browser, until it is no longer needed."""
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
    # at() waits for pages. The driver itself may wait without an end for the empty one that a browser starts with.
    options.page_load_strategy = "none"
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
    yield driver
    driver.quit()


def opened(browser: Any, file: Path, part: str = "") -> Any:
    """The page in a file, drawn. ``part`` is what its address ends with."""
    # Each address is a new one, as what differs in its part alone would not be loaded. A blank page in between would
    # help, too, but the driver says that it is there before it is, and Chromium then forgets what it was to load next.
    try:
        return at(browser, f"{file.as_uri()}?opened={next(OPENED)}{part}")
    finally:  # what a page throws is why it is never drawn
        check_console(browser)


def at(browser: Any, address: str, loaded: str = "window.topoflow?.ready === true") -> Any:
    """The page at an address, as soon as ``loaded``, a JavaScript expression, is true of it."""
    browser.execute_script("window.leaving = true")
    browser.get(address)
    until(browser, f"return !window.leaving && ({loaded})")
    return browser


def until(browser: Any, script: str, *arguments: Any) -> Any:
    """What ``script`` returns, as soon as that is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, SECONDS).until(lambda page: page.execute_script(script, *arguments))


def pointed_at(browser: Any, chart: str, x: float, y: float, click: bool = False) -> str:
    """What tooltips say when the mouse is at a point of a chart's axes, which is then clicked if ``click``."""
    across, down = browser.execute_script(PLACE, chart, x, y)
    _move(browser, 1, 1)
    until(browser, f"return !(() => {{ {TIPS} }})()")
    _move(browser, round(across), round(down))
    tooltip = str(until(browser, TIPS))
    if click:
        _move(browser, round(across), round(down), click)
    return tooltip


def _move(browser: Any, across: int, down: int, click: bool = False) -> None:
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    mouse = ActionBuilder(browser, mouse=PointerInput("mouse", "mouse"))
    moved = mouse.pointer_action.move_to_location(across, down)
    if click:
        moved.click()
    mouse.perform()


def check_console(browser: Any) -> None:
    """The console has neither errors nor warnings since it was last read."""
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def check_quiet(browser: Any) -> None:
    """Nothing was loaded, every chart was drawn, and the console has neither errors nor warnings."""
    check_console(browser)
    assert browser.execute_script(UNDRAWN) == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []


def check_keyboard(browser: Any) -> None:
    """The tabulator key reaches all that can be used."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    wanted = [
        element
        for element in browser.find_elements(By.CSS_SELECTOR, "button, input, select, a[href], pre[tabindex], summary")
        if element.is_displayed()
    ]
    for number, element in enumerate(wanted):
        browser.execute_script("arguments[0].dataset.number = arguments[1]", element, number)
    reached = set()
    tools = 10 * browser.execute_script("return topoflow.charts.length")  # the charts' own are between
    for _ in range(3 * len(wanted) + tools + 30):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(browser.execute_script("return document.activeElement.dataset.number ?? null"))
    assert reached - {None} == {str(number) for number in range(len(wanted))}


def check_contrast(browser: Any) -> None:
    """Text can be read in both themes."""
    from selenium.webdriver.common.by import By

    themes = set()
    for _ in range(2):
        browser.find_element(By.ID, "theme").click()
        themes.add(browser.execute_script("return document.documentElement.dataset.theme"))
        browser.execute_async_script("topoflow.drawing.then(arguments[0])")
        ratio, *where = browser.execute_script(CONTRAST)
        assert ratio >= 4.5, where  # WCAG 2.1, 1.4.3, level AA
    assert themes == {"light", "dark"}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
