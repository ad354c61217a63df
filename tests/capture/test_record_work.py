"""Operators are counted in some iterations, and what is recorded is what counting in all of them would give."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Hashable, Iterable
from pathlib import Path

import pytest

from tests.capture.parallel_jobs import flops, sent
from tests.capture.recordings import group, read, reduce
from topoflow.capture.base import OperatorWork, Trace
from topoflow.capture.load import load
from topoflow.capture.record.iteration_work import MAX_REPEATED, IterationWork

# What an iteration does: marks, and the FLOPs of operators; None takes the work, as the end of a span does.
Step = Hashable | float | None
STEADY: list[Step] = ["embedding", 1.0, "layer", 2.0, 3.0, None, "all_reduce", 5.0, None]


def run(work: IterationWork, steps: Iterable[Step]) -> tuple[str, list[float]]:
    """Run an iteration as the recorder does; return how its work is known, and the work of its spans."""
    spans = []
    for step in steps:
        if isinstance(step, float):
            if work.counting:
                work.operator(OperatorWork("float32", step, 1.0))
        elif step is None:
            work.mark("span")
            spans.append(sum(part.flops for part in work.take()))
        else:
            work.mark(step)
            if work.wanted and not work.counting:
                work.count(True)
    known = work.end()
    if work.wanted is not work.counting:
        work.count(work.wanted)
    return known, spans


def begun() -> IterationWork:
    work = IterationWork()
    work.begin()
    return work


def known(work: IterationWork, iterations: Iterable[list[Step]]) -> list[str]:
    """Return how the work of each iteration is known."""
    return [run(work, steps)[0] for steps in iterations]


def test_a_steady_job_has_the_work_of_full_counting_in_every_iteration() -> None:
    work = begun()
    iterations = [run(work, STEADY) for _ in range(2 * MAX_REPEATED)]
    assert {tuple(spans) for _, spans in iterations} == {(6.0, 5.0)}
    states = [state for state, _ in iterations]
    assert states[:3] == ["counted", "counted", "repeated"]
    assert states.count("counted") == 2 + 1  # and one after MAX_REPEATED others
    assert states[2 + MAX_REPEATED] == "counted"


def test_a_first_iteration_that_does_more_is_not_repeated() -> None:
    work = begun()
    run(work, [*STEADY, 100.0, None])
    assert [run(work, STEADY)[1] for _ in range(9)] == [[6.0, 5.0]] * 9


def test_an_iteration_that_changes_is_counted_from_the_mark_that_differs() -> None:
    work = begun()
    assert known(work, [STEADY] * 4) == ["counted"] * 2 + ["repeated"] * 2
    other: list[Step] = ["embedding", 1.0, "longer layer", 20.0, 30.0, None, "all_reduce", 50.0, None]
    assert run(work, other) == ("changed", [51.0, 50.0])
    assert run(work, STEADY) == ("counted", [6.0, 5.0])


@pytest.mark.parametrize("end", [STEADY[:-2], [*STEADY, "all_reduce"]])
def test_an_iteration_that_ends_sooner_or_later_has_changed(end: list[Step]) -> None:
    assert known(begun(), [STEADY, STEADY, STEADY, end, STEADY])[2:] == ["repeated", "changed", "counted"]


def test_a_job_that_changes_in_every_iteration_is_counted_in_every_one() -> None:
    work = begun()
    for rows in range(40):
        assert run(work, [f"layer of {rows}", 2.0 * rows, None]) == ("counted", [2.0 * rows])


def test_a_change_without_a_mark_is_found_by_the_next_counted_iteration() -> None:
    work = begun()
    known(work, [STEADY] * 3)
    changed: list[Step] = [10 * step if isinstance(step, float) else step for step in STEADY]
    spans = [run(work, changed)[1] for _ in range(2 * MAX_REPEATED)]
    assert spans == [[6.0, 5.0]] * (MAX_REPEATED - 1) + [[60.0, 50.0]] * (MAX_REPEATED + 1)


def test_a_job_that_differs_while_it_is_not_counted_is_counted_ever_longer() -> None:
    """As one that is compiled does if it is compiled only where no operators are counted."""
    work, states = begun(), []
    for _ in range(200):
        compiled = not work.counting
        states.append(run(work, ["fused" if compiled else "layer", 1.0, None])[0])
    assert states.count("changed") <= 8


def test_a_rare_change_costs_one_more_counted_iteration() -> None:
    evaluates: list[Step] = [*STEADY, "evaluation", 4.0, None]
    work = begun()
    states = known(work, [evaluates if at % 20 == 19 else STEADY for at in range(200)])
    assert states.count("changed") == 10
    assert states.count("counted") <= 2 + 10 + 200 // MAX_REPEATED


def test_outside_of_iterations_everything_is_counted() -> None:
    work = IterationWork()
    assert known(work, [STEADY] * 9) == ["counted"] * 9


def test_a_trace_says_how_many_iterations_were_not_counted() -> None:
    rows = [group(0), {"kind": "begin"}]
    for at, state in enumerate(("counted", "counted", "repeated", "changed", "repeated")):
        rows += [reduce(at), {"kind": "step", "work": state}]
    assert {note.split()[0] for note in read(rows).notes if "operators" in note} == {"2", "1"}
    with pytest.raises(ValueError, match=r"rank.jsonl:3: work: must be one of counted, repeated, changed, got 'no'"):
        read([*rows[:1], {"kind": "step", "work": "no"}])


JOB = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint
from topoflow.capture.record.recorder import Recorder

kind = sys.argv[1]
if kind == "all":  # operators of all iterations are counted
    Recorder._switch_counting = lambda recorder: None
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
model = nn.parallel.DistributedDataParallel(nn.Sequential(layers, nn.Linear(8, 4)))
if kind == "compiled":
    model = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters())
inner = model.module if hasattr(model, "module") else model._orig_mod.module
for step in range(8):
    batch = 16 + (step if kind == "growing" else 0)
    with model.no_sync():
        model(torch.ones(batch, 64)).sum().backward()
    hidden = checkpoint(inner[0], torch.ones(batch, 64, requires_grad=True), use_reentrant=step < 0)
    (model(torch.ones(batch, 64)).sum() + hidden.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def recorded(folder: Path, kind: str) -> tuple[Trace, list[str]]:
    """Return the trace of a job, and how the work of its iterations is known."""
    (folder / "job.py").write_text(JOB)
    command = [sys.executable, "-m", "topoflow.capture", "run", "--out", kind, "job.py", kind]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "recording stopped" not in done.stderr
    rows = [json.loads(line) for line in (folder / kind / "rank0.jsonl").read_text().splitlines()]
    return load([folder / kind]), [row["work"] for row in rows if row.get("kind") == "step"]


@pytest.mark.slow
def test_repeated_iterations_have_the_traffic_and_the_work_of_full_counting(tmp_path) -> None:
    full, all_counted = recorded(tmp_path, "all")
    trace, states = recorded(tmp_path, "steady")
    growing, growing_states = recorded(tmp_path, "growing")
    assert all_counted == growing_states == ["counted"] * 8
    # AdamW makes its state in the first iteration, and DDP its buckets anew in the second
    assert states == ["counted"] * 4 + ["repeated"] * 4
    for iteration in range(8):
        expected, actual = ([e for e in t.ranks[0] if e.iteration == iteration] for t in (full, trace))
        assert sent(actual) == sent(expected)
        assert [getattr(event, "work", None) for event in actual] == [
            getattr(event, "work", None) for event in expected
        ]
        larger = [event for event in growing.ranks[0] if event.iteration == iteration]
        assert flops(larger) * 16 == pytest.approx(flops(expected) * (16 + iteration), rel=1e-9)


@pytest.mark.slow
def test_a_compiled_job_is_recorded(tmp_path) -> None:
    trace, states = recorded(tmp_path, "compiled")
    assert len(states) == trace.iterations == 8
    assert len({tuple(sent(e for e in trace.ranks[0] if e.iteration == at)) for at in range(2, 8)}) == 1
