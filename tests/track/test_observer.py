"""What trackers are informed of, and that none of them can stop the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.track.base import About, Tracked, TrackedResults

ABOUT = About("compare", "ring", "topoflow compare", {"servers": 4}, None)


@dataclass
class Remembering:
    """A tracker and its log, which fails from its ``fails``-th call on."""

    fails: int = 10**9
    calls: list[tuple[str, Any]] = field(default_factory=list)
    where: str = "in memory"

    def begin(self, about: About) -> Remembering:
        self._call("begin", about)
        return self

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self._call("record", (step, dict(values)))

    def record_results(self, results: TrackedResults) -> None:
        self._call("record_results", results)

    def end(self, failed: bool) -> None:
        self._call("end", failed)

    def _call(self, name: str, value: Any) -> None:
        if len(self.calls) + 1 >= self.fails:
            raise OSError(28, "No space left on device")
        self.calls.append((name, value))


@dataclass
class Terminal:
    """An observer that remembers what it was informed of."""

    seen: list[str] = field(default_factory=list)

    def stage(self, name: str) -> None:
        self.seen.append("stage")

    def size(self, text: str) -> None:
        self.seen.append("size")

    def advance(self, done: float, total: int) -> None:
        self.seen.append("advance")

    def note(self, text: str) -> None:
        self.seen.append("note")

    def record(self, **values: float | str) -> None:
        self.seen.append("record")


def work(tracked: Tracked) -> None:
    tracked.stage("simulating")
    for done in range(5):
        tracked.advance(done, 5)
    tracked.stage("ring")
    tracked.record(time=0.5, activity="exploring", acceptance=0.25, rate=1000)
    tracked.record_results(TrackedResults({"iteration_time": 0.5}))
    tracked.end(failed=False)


@given(st.integers(1, 12))
def test_a_tracker_that_fails_at_any_moment_is_said_once_and_stops_no_other(fails: int) -> None:
    messages: list[str] = []
    sound, broken = Remembering(), Remembering(fails)
    terminal = Terminal()
    tracked = Tracked(terminal, say=messages.append)
    tracked.begin({"broken": broken, "sound": sound}, ABOUT)
    work(tracked)
    assert len(broken.calls) == min(fails - 1, 9)
    assert [name for name, _ in sound.calls] == ["begin", *["record"] * 6, "record_results", "end"]
    lost = [line for line in messages if line.startswith("broken: the run is not logged")]
    assert len(lost) == (fails <= 9)
    assert all("No space left on device" in line for line in lost)
    assert "sound: in memory" in messages
    assert terminal.seen == ["stage", *["advance"] * 5, "stage", "record"]


def test_steps_count_up_and_values_have_the_name_of_their_stage() -> None:
    log = Remembering()
    tracked = Tracked(Terminal(), say=lambda text: None)
    tracked.begin({"log": log}, ABOUT)
    work(tracked)
    records = [value for name, value in log.calls if name == "record"]
    assert [step for step, _ in records] == [*range(1, 7)]
    assert records[0][1] == {"simulating/progress": 0.0}
    assert records[-1][1] == {"ring/time": 0.5, "ring/acceptance": 0.25, "ring/rate": 1000.0}


def test_progress_of_many_parts_is_logged_a_hundred_times() -> None:
    log = Remembering()
    tracked = Tracked(Terminal(), say=lambda text: None)
    tracked.begin({"log": log}, ABOUT)
    tracked.stage("simulating")
    for done in range(12_345):
        tracked.advance(done, 12_345)
    assert sum(name == "record" for name, _ in log.calls) == 100


def test_a_tracker_that_is_not_installed_is_refused_before_the_work() -> None:
    class Missing:
        def begin(self, about: About) -> Any:
            raise ModuleNotFoundError("No module named 'missing'")

    begun = Remembering()
    with pytest.raises(
        ValueError, match=r"^missing: must be left out where its package is not installed \(pip install"
    ):
        Tracked(Terminal(), say=lambda text: None).begin({"begun": begun, "missing": Missing()}, ABOUT)
    assert begun.calls[1:] == [("end", True)], "no run is left open"
