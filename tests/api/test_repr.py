"""Every public object says in a line what it is, with its sizes."""

from __future__ import annotations

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
