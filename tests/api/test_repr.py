"""Every public object says in a line what it is, with its sizes."""

from __future__ import annotations

from dataclasses import replace

import topoflow


def test_objects_say_in_a_line_what_they_are() -> None:
    (result,) = topoflow.compare("workload.tables=4", servers=4, fabric="torus", degree=2)
    trace = topoflow.load("examples/ddp_4_ranks.jsonl.gz")
    timeline = result.timeline
    assert repr(result.fabric) == "<torus: 4 servers, 0 switches, 8 links of 100 Gb/s>"
    assert repr(timeline.world).startswith(f"<world torus: {len(timeline.world.graph.delay):,} tasks on 8 links")
    assert repr(timeline).startswith(f"<timeline of torus: {len(timeline.task_start):,} tasks in ")
    assert repr(result.traffic).startswith(f"<traffic {result.traffic.name}: 4 servers, {len(result.traffic.kind):,} ")
    assert repr(trace).startswith("<trace train_ddp: 4 of 4 ranks, 4 iterations, ")
    assert not any("\n" in repr(thing) for thing in (result, result.fabric, result.traffic, timeline, trace))


def test_a_notebook_shows_each_as_a_table_and_a_name_as_text() -> None:
    results = topoflow.compare("workload.tables=4", servers=4, fabric="torus", degree=2)
    (result,) = results
    trace = replace(topoflow.load("examples/ddp_4_ranks.jsonl.gz"), name="<b>job</b>")
    simulated = topoflow.simulate("examples/two_flows.json")
    search = topoflow.search("workload.tables=4", "workload.rows=1000", servers=4, search={"proposals": 8})
    objects = {
        "links</th><td>8 of 100 Gb/s, 1 us each at most": result.fabric,
        "busiest link</th><td>": result.timeline,
        "step time</th><td>": result,
        "all_reduce</th><td>": trace,
        "makespan</th><td>15 s": simulated,
        "topoopt": search,
    }
    for text, thing in objects.items():
        assert text in thing._repr_html_()
    assert "<b>job" not in trace._repr_html_()
