"""Real jobs under torchrun and gloo, recorded: what they are known to send is what comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # each job starts up to 4 processes that import torch

ROOT = Path(__file__).resolve().parent.parent.parent
JOBS = Path(__file__).resolve().parent / "jobs"
# examples/train_ddp.py: 1024 -> 1024 -> 1024 -> 10 with biases
PARAMETERS = 2 * (1024 * 1024 + 1024) + 10 * 1024 + 10


def capture(out: Path, script: Path, ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*torchrun, "-m", "topoflow.capture", "run", "--out", str(out), str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=out.parent)


@pytest.fixture(scope="module")
def ddp(tmp_path_factory) -> Trace:
    out = tmp_path_factory.mktemp("ddp") / "captured"
    done = capture(out, ROOT / "examples" / "train_ddp.py", 4, "--steps", "3", "--batch", "8")
    assert done.returncode == 0, done.stderr
    assert "topoflow.capture: rank 0 of 4 is recorded" in done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["step 0", "step 1", "step 2"]
    return load([out])


@pytest.fixture(scope="module")
def operations(tmp_path_factory) -> Trace:
    out = tmp_path_factory.mktemp("operations") / "captured"
    done = capture(out, JOBS / "every_operation.py", 4)
    assert done.returncode == 0, done.stderr
    return load([out])


def communications(trace: Trace, rank: int, op: str) -> list[Communication]:
    return [event for event in trace.communications(rank) if event.op == op]


def test_ddp_all_reduces_four_bytes_per_parameter_in_every_iteration(ddp) -> None:
    for rank in range(4):
        sums: Counter[int] = Counter()
        for event in communications(ddp, rank, "all_reduce"):
            sums[event.iteration] += event.bytes
            assert event.group == (0, 1, 2, 3)
            assert event.dtype == "float32"
        assert sums == dict.fromkeys(range(3), 4 * PARAMETERS)


def test_ddp_sends_one_bucket_in_the_first_iteration_and_two_later(ddp) -> None:
    # Buckets are rebuilt in the order of the gradients after the first iteration: bucket_cap_mb=2 then cuts once.
    counts = Counter(event.iteration for event in communications(ddp, 0, "all_reduce"))
    assert counts == {0: 1, 1: 2, 2: 2}


def test_what_the_constructor_broadcasts_is_set_up(ddp) -> None:
    before = [event for event in communications(ddp, 1, "broadcast") if event.iteration == -1]
    assert sum(event.bytes for event in before if event.dtype == "float32") == 4 * PARAMETERS
    assert {event.root for event in before} == {0}


def test_an_iteration_computes_forward_backward_and_optimizer(ddp) -> None:
    names = [event.name for event in ddp.ranks[2] if isinstance(event, ComputeSpan) and event.iteration == 2]
    assert list(dict.fromkeys(names)) == ["forward", "backward", "optimizer"]
    for event in ddp.ranks[2]:
        if isinstance(event, ComputeSpan):
            assert 0 < event.seconds <= event.end - event.start + 1e-3  # two clocks


def test_an_iteration_has_the_flops_of_its_layers(ddp) -> None:
    # 8 samples; forward, gradients of weights and, but of the first layer, of inputs: 2 FLOP per multiply-add
    for rank in range(4):
        computes = [event for event in ddp.ranks[rank] if isinstance(event, ComputeSpan) and event.iteration == 2]
        work = [work for event in computes for work in event.work]
        assert sum(work.flops for work in work) == 2 * 8 * (2 * 1024**2 + 3 * 1024**2 + 3 * 1024 * 10)
        # at least the parameters: read by three passes, and read and written by the optimizer
        assert 4 * 4 * PARAMETERS < sum(work.moved for work in work) < 20 * 4 * PARAMETERS


def test_the_optimizer_has_waited_for_all_buckets(ddp) -> None:
    events = ddp.ranks[0]
    optimizer = next(
        index
        for index, event in enumerate(events)
        if isinstance(event, ComputeSpan) and event.name == "optimizer" and event.iteration == 2
    )
    waited, todo = set(), [optimizer]
    while todo:
        for earlier in events[todo.pop()].after:
            waited.add(earlier)
            todo.append(earlier)
    buckets = {
        index
        for index, event in enumerate(events)
        if isinstance(event, Communication) and event.op == "all_reduce" and event.iteration == 2
    }
    assert buckets <= waited
    last_backward = max(
        index for index, event in enumerate(events) if isinstance(event, ComputeSpan) and event.name == "backward"
    )
    assert not buckets & set(events[last_backward].after)  # but the backward pass ran on beside them


def test_transfers_end_after_they_began(ddp) -> None:
    for rank in range(4):
        for event in ddp.communications(rank):
            assert 0 <= event.issue <= event.start <= event.end


def test_transfers_that_nobody_waits_for_are_recorded_and_not_waited_for(tmp_path) -> None:
    done = capture(tmp_path / "captured", JOBS / "never_waits.py", 2)
    assert done.returncode == 0, done.stderr
    reduces = communications(load([tmp_path / "captured"]), 0, "all_reduce")
    assert len(reduces) == 20
    assert all(event.end is None or event.start <= event.end for event in reduces)


def test_every_operation_is_recorded_with_its_size(operations) -> None:
    # elements times 4 bytes, see jobs/every_operation.py; all-gathers count the output, reduce-scatters the input
    sizes = Counter((event.op, event.bytes // 4) for event in operations.communications(0) if event.dtype == "float32")
    assert sizes == {
        ("all_reduce", 100): 1,
        ("broadcast", 101): 1,
        ("reduce", 102): 1,
        ("all_gather", 4 * 103): 1,
        ("all_gather", 4 * 104): 1,
        ("reduce_scatter", 4 * 105): 1,
        ("reduce_scatter", 4 * 106): 1,
        ("all_to_all", 4 * 107): 1,
        ("gather", 108): 1,
        ("scatter", 109): 1,
        ("all_to_all", 10 * (1 + 2 + 3 + 4)): 1,
        ("all_to_all", 4 * 120): 1,
        ("send", 112): 1,
        ("send", 113): 1,
        ("send", 114): 1,
        ("recv", 114): 1,
        ("all_reduce", 115 + 116): 1,  # coalesced
        ("all_reduce", 117): 1,
        ("all_gather", 4 * 118): 1,
        ("all_reduce", 119): 1,
    }
    assert operations.notes == (  # nothing was not understood
        "no optimizer took a step: the script is one iteration",
        "4 communications of threads that the script started are not recorded",
    )


def test_roots_hold_the_buffers_of_gather_and_scatter(operations) -> None:
    (gather,), (scatter,) = communications(operations, 3, "gather"), communications(operations, 3, "scatter")
    assert (gather.bytes_in, gather.bytes_out, gather.root) == (4 * 108, 4 * 4 * 108, 3)
    assert (scatter.bytes_in, scatter.bytes_out, scatter.root) == (4 * 4 * 109, 4 * 109, 3)


def test_splits_of_an_uneven_all_to_all_are_elements(operations) -> None:
    for rank in range(4):
        splits = [event.splits_in for event in communications(operations, rank, "all_to_all") if event.splits_in]
        assert splits == [tuple(10 * (rank + peer + 1) for peer in range(4))]


def test_a_subgroup_keeps_its_own_order(operations) -> None:
    (reduced,) = [event for event in communications(operations, 1, "all_reduce") if event.dtype == "float64"]
    assert reduced.group == (3, 1)
    assert reduced.bytes == 8 * 110
    (broadcast,) = [event for event in communications(operations, 3, "broadcast") if event.group == (3, 1)]
    assert broadcast.root == 1  # a global rank
    assert not [event for event in operations.communications(0) if event.group == (3, 1)]


def test_sends_and_receives_name_their_peers(operations) -> None:
    assert [event.peer for event in communications(operations, 0, "send")] == [2, 3, 1]
    assert [event.peer for event in communications(operations, 2, "recv")] == [0, 1]
    assert [event.peer for event in communications(operations, 3, "recv")] == [0, 2]  # the first from any source


def test_gradients_of_a_sparse_embedding_are_gathered_entry_by_entry(tmp_path) -> None:
    out = tmp_path / "captured"
    done = capture(out, JOBS / "sparse_gradients.py", 2)
    assert done.returncode == 0, done.stderr
    assert "recording stopped" not in done.stderr
    trace = load([out])
    entries = 4 + 5  # of both ranks, each an index (int64) and a row of 16 float32
    for rank in range(2):
        gathered = [event.bytes for event in communications(trace, rank, "all_gather") if event.iteration >= 0]
        assert gathered == 2 * [entries * (8 + 16 * 4)]


def test_an_object_is_recorded_as_the_bytes_that_it_sends(operations) -> None:
    length, content = [event for event in communications(operations, 0, "broadcast") if event.dtype != "float32"]
    assert (length.dtype, length.bytes) == ("int64", 8)
    assert content.dtype == "uint8"


def test_an_asynchronous_operation_overlaps_until_it_is_waited_for(operations) -> None:
    events = operations.ranks[0]
    issued = next(i for i, e in enumerate(events) if isinstance(e, Communication) and e.bytes == 4 * 119)
    beside, behind = events[issued + 1], events[issued + 2]
    assert issued not in beside.after
    assert issued in behind.after


def test_ranks_that_disagree_are_one_line_for_their_reader(tmp_path) -> None:
    done = capture(tmp_path / "out", JOBS / "ranks_disagree.py", 2)
    assert done.returncode == 0, done.stderr
    with pytest.raises(ValueError, match=r"ranks 0 and 1: .*float32.*int32"):
        load([tmp_path / "out"])


def test_a_failing_script_fails_as_it_would_alone(tmp_path) -> None:
    done = capture(tmp_path / "out", JOBS / "rank_one_fails.py", 2, "--its", "arguments")
    assert done.returncode != 0
    assert "RuntimeError: the script's own error, with ['--its', 'arguments']" in done.stderr
    assert 'rank_one_fails.py", line' in done.stderr


def test_a_forked_child_does_not_speak_for_its_rank(tmp_path) -> None:
    # the child ends first, badly; then the rank it was forked from ends well
    (tmp_path / "forks.py").write_text("import os\nif os.fork() == 0:\n    raise SystemExit(3)\nos.wait()\n")
    command = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "forks.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rank0.jsonl"]
    assert (tmp_path / "out" / "rank0.jsonl").read_text().endswith('{"kind":"ended"}\n')


def test_a_script_without_torchrun_is_one_rank(tmp_path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'found beside the script'\n")
    script = tmp_path / "alone.py"
    script.write_text("import sys, neighbour\nprint(neighbour.NAME, sys.argv[1:], __name__)\nsys.exit(0)\n")
    command = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "alone.py", "-x"]  # [5] is the folder
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "found beside the script ['-x'] __main__\n"
    assert load([tmp_path / "out"]).world_size == 1
    script.write_text("import os\nprint('left')\nos._exit(0)\n")  # which passes by all that Python does at its end
    command[5] = "left"
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stdout) == (0, "left\n")
    assert load([tmp_path / "left"]).world_size == 1
    script.write_text("import sys\nsys.exit(7)\n")
    command[5] = "again"
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stderr) == (7, "")
    assert any("cut off or failed" in note for note in load([tmp_path / "again"]).notes)


PAST_THE_MODE = """
import torch
import torch.distributed as dist
from topoflow.capture.record.recorder import Recorder

seen = []
slow = Recorder._communicate
Recorder._communicate = lambda *arguments: seen.append(arguments) or slow(*arguments)
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
start = len(seen)
tensor = torch.ones(4)
for _ in range(5):
    dist.all_reduce(tensor)
    dist.broadcast(tensor, src=0)
    dist.all_gather_into_tensor(tensor, tensor.clone())
    dist.all_reduce(tensor, async_op=True).wait()
print(len(seen) - start)
"""


def test_collectives_that_python_calls_take_no_dispatch_mode(tmp_path) -> None:
    """The mode alone takes three to four times as long as a tiny collective."""
    (tmp_path / "tiny.py").write_text(PAST_THE_MODE)
    command = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "tiny.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "rank0.jsonl").read_text().splitlines()]
    sent = Counter(row["op"] for row in rows if row.get("kind") == "communication")
    assert sent == {"all_reduce": 10, "broadcast": 5, "all_gather": 5}
    assert all(row["end"] >= row["issue"] for row in rows if row.get("kind") == "communication" and "end" in row)


def test_methods_of_a_process_group_are_left_as_they_were(tmp_path) -> None:
    """A script may communicate in what it registered for its end, when nothing is recorded any more."""
    (tmp_path / "at_exit.py").write_text(
        "import atexit, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo', rank=0, world_size=1, store=dist.HashStore())\n"
        "one = torch.ones(1)\n"
        "atexit.register(lambda: print(dist.all_reduce(one, async_op=True).wait()))\n"
    )
    command = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "at_exit.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


FAKE_JOB = """
import sys
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from .model import layer

dist.init_process_group("fake", rank=3, world_size=1024, store=FakeStore())
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(int(sys.argv[2])):
    layer(torch.ones(4, 8)).sum().backward()
    dist.all_reduce(layer.weight.grad)
    optimizer.step()
"""


def test_a_module_records_one_rank_of_a_fake_process_group(tmp_path) -> None:
    """As torchtitan starts: ``python -m package.train``, with its own folder and relative imports; and dry runs."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.py").write_text("import torch\n\nlayer = torch.nn.Linear(8, 8, bias=False)\n")
    (package / "train.py").write_text(FAKE_JOB)
    run = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "-m", "package.train", "--steps", "3"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = load([tmp_path / "out"])
    assert (trace.name, trace.world_size, list(trace.ranks), trace.iterations) == ("train", 1024, [3], 3)
    assert [event.bytes for event in trace.communications(3)] == [4 * 8 * 8] * 3
    assert "1 of 1024 ranks ran, the others were fake: nothing was sent or received" in trace.notes


FAKE_TENSORS = """
import sys
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=1024, store=FakeStore())
traced = torch.compile(lambda x: functional.all_reduce(x, "sum", dist.group.WORLD) + 1, backend="eager")
with FakeTensorMode():
    gradient, whole = torch.ones(1000), torch.empty(1024_000)
    dist.all_reduce(gradient)
    dist.all_gather_into_tensor(whole, gradient)
    functional.all_reduce(gradient, "sum", dist.group.WORLD) + 1
    functional.all_gather_tensor(gradient, 0, dist.group.WORLD) + 1
print(traced(torch.ones(500)).shape)
"""


def test_communications_of_fake_tensors_are_recorded_and_those_of_a_compiler_are_not(tmp_path) -> None:
    (tmp_path / "fake.py").write_text(FAKE_TENSORS)
    run = [sys.executable, "-m", "topoflow.capture", "run", "--out", "out", "fake.py"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = load([tmp_path / "out"])
    sent = Counter((event.op, event.bytes) for event in trace.communications(0))
    assert sent == {("all_reduce", 4000): 2, ("all_gather", 4_096_000): 2, ("all_reduce", 2000): 1}
    assert "4 communications were of FakeTensors, whose computation is not recorded" in trace.notes


def test_no_message_lists_all_ranks_of_a_large_group() -> None:
    group = tuple(range(1, 1025))
    with pytest.raises(ValueError, match=r"got \[1, 2, .*, 8, ...\] \(1024 ranks\)$") as caught:
        Trace("job", 1024, 1, {1: (Communication("all_reduce", group, "float32", 4, 4),)})
    assert len(str(caught.value)) < 200
