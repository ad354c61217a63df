"""Levels of detail of the page's timeline: whatever window is shown, all that ran in it is drawn, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.report.chromium import at, needs_browser

PAGE = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "report" / "page"
MAX_RECTANGLES = 10_000

pytestmark = needs_browser

LEVEL = """
const [tasks, servers, byKind, view] = arguments;
const layout = timelineLayout(tasks, servers, byKind);
const found = levelOfDetail(layout, view(layout));
for (const each of found.rectangles) [each.low, each.high] = layout.place(each.lane, each.from, each.to);
return { ...found, kinds: layout.kinds, height: layout.height, rows: layout.rows };
""".replace("view(layout)", "{ ...view, low: view.low * layout.height, high: view.high * layout.height }")

Plain = dict[str, Any]


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("levels") / "levels.html"
    file.write_text(f"<script>{(PAGE / 'levels.js').read_text()}</script>")
    return at(browser, file.as_uri(), "typeof levelOfDetail === 'function'")


def trace(seed: int, servers: int, tasks: int) -> Plain:
    """Tasks of any length on one server, on some, on all and on none; many of them at the same time."""
    draw = random.Random(seed)
    groups = [[], list(range(servers)), *([server] for server in range(min(servers, 40)))]
    groups += [draw.sample(range(servers), draw.randint(1, min(servers, 9))) for _ in range(5)]
    groups += [list(range(first, servers, 8)) for first in range(min(servers, 8))]
    start = [draw.choice([0, draw.randrange(10**9), 10**6 * draw.randrange(1000)]) for _ in range(tasks)]
    took = [draw.choice([0, 1, draw.randrange(10**4), draw.randrange(10**8)]) for _ in range(tasks)]
    return {
        "start": start,
        "finish": [a + b for a, b in zip(start, took, strict=True)],
        "kind": [draw.randrange(4) for _ in range(tasks)],
        "on": [draw.randrange(len(groups)) for _ in range(tasks)],
        "kinds": ["all_reduce", "compute", "transfer", "send"],
        "groups": groups,
    }


def view(seed: int) -> Plain:
    """A window: times in ns, heights as shares of the whole."""
    draw = random.Random(seed)
    width = draw.choice([10**9, 10**7, 10**4])
    left = draw.randrange(max(1, 10**9 - width))
    low = draw.choice([0.0, draw.uniform(0, 0.8)])
    high = draw.choice([1.0, low + draw.uniform(0.05, 0.2)])
    return {"left": left, "right": left + width, "low": low, "high": high, "width": 1000, "height": 600}


@pytest.mark.parametrize("by_kind", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_all_that_ran_is_within_a_rectangle_and_no_rectangle_shows_what_did_not_run(
    page: Any, seed: int, by_kind: bool
) -> None:
    servers = (1, 16, 100, 1024)[seed % 4]
    tasks, window = trace(seed, servers, 400), view(seed)
    level = page.execute_script(LEVEL, tasks, servers, by_kind, window)
    low, high = (window[side] * level["height"] for side in ("low", "high"))
    by_lane: dict[tuple[int, int], list[Plain]] = {}
    for rectangle in level["rectangles"]:
        for server in range(rectangle["from"], rectangle["to"]):
            by_lane.setdefault((level["kinds"][rectangle["lane"]], server), []).append(rectangle)
    ran: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for kind, on, *span in zip(*(tasks[key] for key in ("kind", "on", "start", "finish")), strict=True):
        if span[1] < window["left"] or span[0] > window["right"]:
            continue
        for server in tasks["groups"][on] or [servers]:
            ran.setdefault((kind, server), []).append((span[0], span[1]))
            lane, band = level["kinds"].index(kind), level["rows"] * 1.04
            at = lane * band + server + 0.5 if by_kind else server + 0.06 + 0.88 * (lane + 0.5) / len(level["kinds"])
            if level["block"] == 1 and not low <= at <= high:
                continue
            if level["block"] > 1 and (low, high) != (0, level["height"]):
                continue
            drawn = by_lane.get((kind, server), [])
            assert any(rectangle["start"] <= span[0] and span[1] <= rectangle["finish"] for rectangle in drawn)
    for rectangle in level["rectangles"]:
        kind = level["kinds"][rectangle["lane"]]
        spans = sorted(
            span for server in range(rectangle["from"], rectangle["to"]) for span in ran.get((kind, server), [])
        )
        inside = [span for span in spans if rectangle["start"] <= span[0] and span[1] <= rectangle["finish"]]
        assert (inside[0][0], max(end for _, end in inside)) == (rectangle["start"], rectangle["finish"])
        end = rectangle["start"]
        for start, finish in inside:
            assert start - end <= 4 * level["step"]  # what is not there is narrower than four pixels
            end = max(end, finish)


@pytest.mark.parametrize("by_kind", [False, True])
def test_each_task_has_a_rectangle_of_its_own_where_it_is_wide_enough(page: Any, by_kind: bool) -> None:
    span = 10**8
    tasks = {
        "start": [0, span, 2 * span, 3 * span],
        "finish": [span, 2 * span, 3 * span, 4 * span],
        "kind": [0, 0, 1, 1],
        "on": [0, 1, 2, 3],
        "kinds": ["compute", "all_reduce"],
        "groups": [[0], [1], [0, 1, 2, 3], [0, 2]],
    }
    window = {"left": 0, "right": 4 * span, "low": 0, "high": 1, "width": 1000, "height": 600}
    level = page.execute_script(LEVEL, tasks, 4, by_kind, window)
    assert level["block"] == 1
    assert {rectangle["count"] for rectangle in level["rectangles"]} == {1}
    number = [sum(rectangle["task"] == task for rectangle in level["rectangles"]) for task in range(4)]
    assert number == ([1, 1, 1, 2] if by_kind else [1, 1, 4, 2])  # by kind, neighbours are one rectangle


@pytest.mark.parametrize("by_kind", [False, True])
def test_ten_thousand_collectives_on_a_thousand_servers_are_few_rectangles(page: Any, by_kind: bool) -> None:
    servers, collectives = 1024, 10_000
    start = [10**5 * number for number in range(collectives)]
    tasks = {
        "start": start,
        "finish": [time + 8 * 10**4 for time in start],
        "kind": [0] * collectives,
        "on": [number % 9 for number in range(collectives)],
        "kinds": ["all_reduce"],
        "groups": [list(range(servers)), *(list(range(first, servers, 8)) for first in range(8))],
    }
    for width in (10**9, 10**7):
        window = {"left": 0, "right": width, "low": 0, "high": 1, "width": 1000, "height": 600}
        level = page.execute_script(LEVEL, tasks, servers, by_kind, window)
        assert 0 < len(level["rectangles"]) <= MAX_RECTANGLES
        assert level["step"] <= 8 * width / 1000  # some pixels
