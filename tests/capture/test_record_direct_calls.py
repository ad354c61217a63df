"""Collectives that are recorded without their operator have the rows of those that are recorded by it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

# Calls of the methods of ProcessGroup that Python makes, in random order, in iterations that compute a little.
JOB = """
import random
import sys
import threading
import time
import torch
import torch.distributed as dist

dice = random.Random(int(sys.argv[1]))
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
groups = [dist.new_group([0]) for _ in range(2)]
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
group = None


def send(is_async):
    global group
    group = dice.choice(groups)
    tensor = torch.ones(dice.choice([1, 4, 100]), dtype=dice.choice([torch.float32, torch.float64, torch.int64]))
    kind = dice.randrange(6)
    if kind == 0:
        return dist.broadcast(tensor, src=0, group=group, async_op=is_async)
    if kind == 1:
        return dist.all_gather_into_tensor(tensor.clone(), tensor, group=group, async_op=is_async)
    if kind == 2:
        return dist.reduce_scatter_tensor(tensor.clone(), tensor, group=group, async_op=is_async)
    if kind == 3:
        return dist.all_reduce(torch.nn.Parameter(tensor.float()).data, group=group, async_op=is_async)
    if kind == 4:
        return dist.all_reduce(tensor.double().to_sparse(), group=group, async_op=is_async)
    return dist.all_reduce(tensor, group=group, async_op=is_async)


layer.weight.register_hook(lambda gradient: send(False))
for step in range(6):
    works = []
    for _ in range(dice.randrange(1, 12)):
        works.append(send(dice.random() < 0.3))
        if dice.random() < 0.2:
            layer(torch.ones(2, 8))
        if dice.random() < 0.2 and works[-1] is not None:
            works.pop().wait()
    layer(torch.ones(2, 8)).sum().backward()
    options = dist.AllreduceOptions()
    options.asyncOp = False
    five, seven = torch.ones(5), torch.ones(7)
    for _ in range(dice.randrange(3)):
        groups[0].allreduce([five], options)  # not waited for
    kept = groups[0].allreduce([seven], options)  # waited for late
    layer(torch.ones(2, 8))
    if dice.random() < 0.5:
        time.sleep(0.3)  # rows are written meanwhile
    kept.wait()
    kept.wait()
    try:
        groups[0].allreduce([], options)
    except RuntimeError:
        pass
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        send(False)
    other = threading.Thread(target=send, args=(False,))
    other.start()
    other.join()
    for work in works:
        if work is not None:
            work.wait()
    optimizer.step()
"""
TIMES = ("start", "end", "busy", "issue")
RUN = "import sys; from topoflow.capture.record import c10d; {}; import topoflow.capture.__main__ as run; "
RUN += "sys.exit(run.main({}))"


def rows(folder: Path, name: str, seed: int, before: str) -> list[dict[str, Any]]:
    """Return the rows of the job, completed by what became known later."""
    (folder / "job.py").write_text(JOB)
    run = RUN.format(before, ["run", "--out", name, "job.py", str(seed)])
    completed = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, cwd=folder, timeout=200)
    assert completed.returncode == 0, completed.stderr
    assert "recording stopped" not in completed.stderr
    recorded: list[dict[str, Any]] = []
    events = []
    for line in (folder / name / "rank0.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        if row["kind"] == "later":
            events[row["event"]] |= {key: value for key, value in row.items() if key not in ("kind", "event")}
        else:
            recorded.append(row)
            if row["kind"] in ("compute", "communication"):
                events.append(row)
    return recorded


def rows_without_times(recorded: list[dict[str, Any]]) -> list[Any]:
    """Return all rows without times.

    An operator's call ends before the wait for it begins. So spans that computed nothing are between both: they are
    left out, and what an event follows is said in communications, those that it follows by way of others among them.
    """
    follows: list[frozenset[int]] = []
    communications = 0
    without_times = []
    for row in recorded:
        if row["kind"] in ("compute", "communication"):
            behind = frozenset().union(*(follows[position] for position in row["after"]))
            if row["kind"] == "communication":
                assert row["issue"] <= row.get("end", row["issue"])
                follows.append(behind | {communications})
                communications += 1
            else:
                assert row["start"] <= row["end"]
                follows.append(behind)
                if "work" not in row:
                    continue
            row = row | {"after": sorted(behind)}
        if row["kind"] not in ("state", "group"):
            without_times.append({key: row[key] for key in row if key not in TIMES})
    states = [row for row in recorded if row["kind"] == "state"]
    groups = [row for row in recorded if row["kind"] == "group"]
    return [*without_times, states[-1], sorted(groups, key=lambda row: row["name"])]


@pytest.mark.slow
def test_direct_calls_have_the_rows_of_operators(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    direct = rows(tmp_path, "direct", seed, "pass")
    by_operator = rows(tmp_path, "by_operator", seed, "c10d.METHODS.clear()")
    assert rows_without_times(direct) == rows_without_times(by_operator), f"seed {seed}"
    assert len(direct) < len(by_operator)  # spans between calls and their waits
