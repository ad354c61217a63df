"""trace.json: an event for every task that ran, none beyond it, and what each waited for."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.case.base import Result
from topoflow.fabric.base import Fabric
from topoflow.report import perfetto
from topoflow.report.base import Report
from topoflow.report.perfetto import events, write_perfetto
from topoflow.report.tasks import drawn, servers_of, waited_for
from topoflow.traffic.base import Collective, Compute, Task, Traffic, Transfer

ODD = st.sampled_from(["", '"', "\\", "größer \u2028 \U0001f600", "\ud800", "null", "\x00"])  # parts of names


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    """Up to 12 tasks on 4 servers, each after any of those before it."""
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 12))):
        after = tuple(sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)))) if number else ()
        seconds = draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
        a, b = draw(st.permutations(range(4)))[:2]
        tasks.append(
            draw(
                st.sampled_from(
                    (
                        Compute(seconds, a, after, f"c{number}{draw(ODD)}"),
                        Compute(seconds, None, after),
                        Transfer(seconds, a, b, after, draw(ODD)),
                        Collective("all_reduce", seconds, (0, 1, 2, 3), after),
                        Collective("all_gather", seconds, (a, b), after, "gather"),
                    )
                )
            )
        )
    return Traffic.from_tasks("any", 4, tuple(tasks))


@given(traffics())
@settings(deadline=None)
def test_there_is_one_event_for_every_task_that_ran(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]], traffic: Traffic
) -> None:
    results = tuple(make_outcome(fabric(1.0), traffic) for fabric in fabrics.values())
    complete = [event for event in events(Report(results, "")) if event["ph"] == "X"]
    for result in results:
        mine = {event["args"]["task"]: event for event in complete if event["args"]["world"] == result.settings.world}
        assert len(mine) == len(traffic)
        assert len([event for event in complete if event["args"]["world"] == result.settings.world]) == len(traffic)
        for task, event in mine.items():
            assert event["ts"] == pytest.approx(1e6 * result.timeline.task_start[task])
            assert event["ts"] + event["dur"] == pytest.approx(1e6 * result.timeline.task_finish[task])
            assert event["cat"] == traffic.kinds()[task]
    lanes = defaultdict(list)
    for event in complete:
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(end <= start * (1 + 1e-12) for (_, end), (start, _) in pairwise(spans))
    pids = {event["pid"] for event in complete}
    assert {event["pid"] for event in events(Report(results, "")) if event["name"] == "process_name"} == pids


@given(traffics())
@settings(deadline=None)
def test_the_file_has_the_events_that_are_made_task_by_task(
    make_outcome: Callable[..., Result],
    fabrics: dict[str, Callable[[float], Fabric]],
    tmp_path_factory: pytest.TempPathFactory,
    traffic: Traffic,
) -> None:
    report = Report(tuple(make_outcome(fabric(1.0), traffic) for fabric in fabrics.values()), "")
    path = tmp_path_factory.getbasetemp() / "trace.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perfetto, "ROWS", 5)
        write_perfetto(report, path)
    expected, base = list[dict[str, Any]](), 0
    for result in drawn(report, 100, 6):
        task_events = list(task_by_task(result, base))
        expected += task_events
        base = 1 + max(event["pid"] for event in task_events)
    read = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    read = [{key: value for key, value in event.items() if key != "tid"} for event in read if event["ph"] == "X"]
    assert repr(read) == repr(json.loads(json.dumps(expected)))  # in the same order, to the last digit


@given(traffics(), st.integers(0, 12))
@settings(deadline=None)
def test_of_too_many_tasks_the_file_has_those_of_some_servers(
    make_outcome: Callable[..., Result],
    fabrics: dict[str, Callable[[float], Fabric]],
    traffic: Traffic,
    most: int,
) -> None:
    report = Report((make_outcome(fabrics["ring"](1.0), traffic),), "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perfetto, "MAX_TASKS", most)
        tasks = {event["args"]["task"] for event in events(report) if event["ph"] == "X"}
        left_out = perfetto.left_out(report)
    tasks_of = {
        server: {task for task in range(len(traffic)) if server in servers_of(traffic, task)} for server in range(4)
    }
    without = {task for task in range(len(traffic)) if not servers_of(traffic, task)}
    if not left_out:
        assert tasks == set(range(len(traffic)))
        return
    (note,) = left_out
    servers = 4 - int(note.rpartition(": ")[2].split()[0])
    assert servers in (1, 2)
    assert note == f"{report.outcomes[0].settings.world}: {4 - servers} of 4 servers"
    assert tasks == without.union(*(tasks_of[server] for server in range(0, 4, 4 // servers)))
    assert len(traffic) > most
    assert len(tasks) <= most or servers == 1


def task_by_task(result: Result, base: int) -> Iterator[dict[str, Any]]:
    """The complete events of a world without their threads."""
    traffic, timeline = result.traffic, result.timeline
    waited = waited_for(traffic, timeline.task_finish, np.arange(len(traffic)))
    for task in sorted(range(len(traffic)), key=lambda number: timeline.task_start[number]):
        start, finish, kind = timeline.task_start[task], timeline.task_finish[task], traffic.kinds()[task]
        servers, before = servers_of(traffic, task), int(waited[task])
        together = traffic.operation[task] >= 0 or not servers
        arguments: dict[str, Any] = {"task": task, "world": result.settings.world}
        if before >= 0:
            arguments["waited for"] = traffic.task_name(before) or f"task {before}"
        if kind != "compute":
            arguments["bytes"] = float(traffic.bytes[task])
        if kind == "transfer":
            arguments |= {"source": int(traffic.source[task]), "target": int(traffic.target[task])}
        if together and servers:
            arguments["group"] = list(servers)
        yield {
            "ph": "X",
            "name": traffic.task_name(task) or f"{kind} {task}",
            "cat": kind,
            "pid": base if together else base + 1 + servers[0],
            "ts": float(start * 1e6),
            "dur": float((finish - start) * 1e6),
            "args": arguments,
        }


@given(traffics())
@settings(deadline=None)
def test_a_task_starts_when_what_it_waited_for_has_ended(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]], traffic: Traffic
) -> None:
    timeline = make_outcome(fabrics["star"](1.0), traffic).timeline
    predecessors = waited_for(traffic, timeline.task_finish, np.arange(len(traffic)))
    for task, before in enumerate(predecessors.tolist()):
        expected = timeline.task_finish[before] if before >= 0 else 0.0
        assert timeline.task_start[task] == pytest.approx(expected)


def test_the_file_is_json_of_whole_worlds(report: Report, tmp_path: Path) -> None:
    write_perfetto(report, tmp_path / "trace.json")
    read = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len([event for event in read if event["ph"] == "X"]) == sum(len(one.traffic) for one in report.outcomes)
    (waits,) = (e for e in read if e["name"] == "backward" and e["args"]["world"] == report.outcomes[0].settings.world)
    assert waits["args"]["waited for"] == "activation"


def test_the_fastest_is_always_whole_and_others_where_there_is_room(report: Report) -> None:
    assert drawn(report, 0, 6) == report.ranking[:1]
    assert drawn(report, 10, 6) == report.ranking[:2]
    assert len(drawn(report, 100, 6)) == 4
    assert np.isfinite([one.iteration_time for one in drawn(report, 100, 2)]).all()


@pytest.mark.parametrize("worlds", [1, 6, 7, 40])
def test_the_file_names_the_worlds_that_it_leaves_out(
    worlds: int, make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]], tmp_path: Path
) -> None:
    report = Report(tuple(make_outcome(fabrics["ring"](1.0 + n), bandwidth_gbps=str(n)) for n in range(worlds)), "")
    write_perfetto(report, tmp_path / "trace.json")
    content = json.loads((tmp_path / "trace.json").read_text())
    inside = {event["args"]["world"] for event in content["traceEvents"] if event["ph"] == "X"}
    left_out = content["otherData"]["leftOut"]
    assert len(inside) == min(worlds, 6)
    assert sorted([*inside, *left_out]) == sorted(row.world for row in report.rows)
