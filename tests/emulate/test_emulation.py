"""Laws of emulation: links carry what they are given at their rate, over the paths of the plan; nothing is left behind.

Needs root and network namespaces; where they are not permitted the tests skip and say so. Times are only compared where
a busy machine cannot change the answer: a link is never faster than its rate.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.plans import topoopt_plan
from topoflow.cli import main
from topoflow.emulate import sandbox
from topoflow.emulate.base import EmulatedJob, emulate, world_of
from topoflow.emulate.scenario import Scenario
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import simulate

REFUSAL = sandbox.why_not()
needs_namespaces = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
RATE = 2.5e6  # B/s


STREAM = """
import json, socket, sys, time
from pathlib import Path
from topoflow.emulate.marks import carried
from topoflow.emulate.rank import enter
import os
size = 500_000
if os.fork() == 0:
    enter(Path("/run/netns/s2"))
    with socket.create_server(("10.77.0.3", 5000)) as server:
        server.settimeout(60)
        connection, _ = server.accept()
        while connection.recv(1 << 16):
            pass
    os._exit(0)
enter(Path("/run/netns/s0"))
for _ in range(600):
    try:
        connection = socket.create_connection(("10.77.0.3", 5000), timeout=60)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
began = time.monotonic()
connection.sendall(bytes(size))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
took = time.monotonic() - began
os.wait()
counted = {}
for server in range(3):
    enter(Path(f"/run/netns/s{server}"))
    counted[server] = carried()
Path(sys.argv[1], "counted.json").write_text(json.dumps({"took": took, "counted": counted}))
"""


@needs_namespaces
def test_a_stream_takes_the_planned_hops_at_the_rate_of_the_links(tmp_path: Path) -> None:
    """A ring of three, in one direction: 0 to 2 goes by 1, the answers go straight back; 500 kB at 1 MB/s."""
    from topoflow.emulate.base import _scripts

    fabric = Scenario(topoopt_plan(3, 1), 1e6).fabric()
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), fabric.bandwidth.tolist(), strict=True)
    network = {"servers": 3, "links": list(ends), "mtu": 9000, "scripts": _scripts(fabric, tmp_path)}
    (tmp_path / "stream.py").write_text(STREAM)
    code = sandbox.start(tmp_path, network, [sys.executable, str(tmp_path / "stream.py"), str(tmp_path)], {})
    assert code == 0, (tmp_path / "job.log").read_text()
    counts = json.loads((tmp_path / "counted.json").read_text())
    received = {server: counts["counted"][str(server)] for server in range(3)}
    for server, device in ((1, "from0"), (2, "from1")):
        assert 500_000 < received[server][device][0] < 1.03 * 500_000
    assert received[0]["from2"][0] < 0.03 * 500_000
    assert counts["took"] > 0.9 * (500_000 - 2 * 9014) / 1e6  # the bucket holds two packets at first


@needs_namespaces
def test_nothing_is_left_of_a_run_that_was_killed(tmp_path: Path) -> None:
    """Not even by kill -9: no process, and no namespace or interface that was not there before."""

    def there() -> list[str]:
        commands = (["ip", "netns", "list"], ["ip", "-o", "link"], ["ip", "rule"])
        return [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands]

    def processes() -> list[int]:
        pids = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and str(tmp_path).encode() in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
            except OSError:
                continue
        return pids

    before = there()
    program = textwrap.dedent(f"""
        from pathlib import Path
        from topoflow.emulate.sandbox import start
        network = {{"servers": 2, "links": [[0, 1, 1e6], [1, 0, 1e6]], "mtu": 1500, "scripts": []}}
        start(Path({str(tmp_path)!r}), network, ["sh", "-c", "echo up; sleep 1000; : {tmp_path}"], {{}})
    """)
    started = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    log = tmp_path / "job.log"
    deadline = time.monotonic() + 120
    while not (log.exists() and "up" in log.read_text()):
        assert time.monotonic() < deadline, "the network was not built"
        assert started.poll() is None
        time.sleep(0.05)
    assert len(processes()) > 2
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    while processes():
        assert time.monotonic() < deadline, f"still there: {processes()}"
        time.sleep(0.05)
    assert there() == before


@needs_namespaces
def test_a_namespace_of_the_same_name_is_neither_in_the_way_nor_touched(tmp_path: Path) -> None:
    """Those of an emulation are named s0, s1, ..; the one here has a device to be known by."""
    program = f"""
from pathlib import Path
from topoflow.emulate.sandbox import start
network = {{"servers": 2, "links": [[0, 1, 1e6], [1, 0, 1e6]], "mtu": 1500, "scripts": []}}
assert start(Path({str(tmp_path)!r}), network, ["ip", "-n", "s0", "-o", "link"], {{}}) == 0
"""
    (tmp_path / "program.py").write_text(program)
    before = "mount -t tmpfs none /run && ip netns add s0 && ip -n s0 link add dev known type veth peer name other"
    after = f"{sys.executable} {tmp_path / 'program.py'} && ip netns list && ip -n s0 -o link"
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", f"{before} && {after}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "known" in ran.stdout
    assert "to1" not in ran.stdout
    assert "to1" in (tmp_path / "job.log").read_text()
    assert "known" not in (tmp_path / "job.log").read_text()


@needs_namespaces
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_ddp_job_sends_what_was_predicted_where_it_was_predicted(tmp_path: Path, watching: Any) -> None:
    """Rings and transfers that are passed on, four servers, two interfaces: bytes of every link within 3 %."""
    scenario = Scenario(topoopt_plan(4, 2), RATE)
    fabric = scenario.fabric()
    job = EmulatedJob(4_000_000, tuple((i, (i + 2) % 4, 500_000) for i in range(4)), 2)
    (predicted,) = simulate([world_of(fabric, job)], Fluid())
    measured = emulate(fabric, job, scenario.orders, tmp_path, observer=watching)
    assert watching.advances[-1] == (job.iterations + 1, job.iterations + 1)  # one is to warm up
    assert np.allclose(measured.timeline.link_bytes, predicted.link_bytes, rtol=0.03)
    assert min(measured.iteration_times) > 0.95 * predicted.makespan
    assert len(measured.iteration_times) == 2
    tasks = measured.timeline
    assert np.all(tasks.task_finish >= tasks.task_start)
    assert tasks.task_finish.max() == tasks.makespan


def test_no_rank_starts_before_the_last_is_ready() -> None:
    """And every iteration has a start of its own."""
    pytest.importorskip("torch", reason="the job is one of PyTorch")
    from torch.distributed import HashStore

    from topoflow.emulate.job import start_together

    store = HashStore()

    def rank(number: int, iteration: int) -> tuple[float, float]:
        time.sleep(0.1 * number)
        ready = time.monotonic()
        start_together(store, 3, iteration)
        return ready, time.monotonic()

    for iteration in range(2):
        with ThreadPoolExecutor(3) as pool:
            times = list(pool.map(partial(rank, iteration=iteration), range(3)))
        assert min(started for _, started in times) >= max(ready for ready, _ in times)


def test_without_root_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "PROGRAMS", ())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["emulate", str(tmp_path / "plan.json")]) == 2
    assert capsys.readouterr().err.startswith("topoflow emulate: emulate: must be run as root")
    assert not list(tmp_path.iterdir())


@needs_namespaces
@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--mbps", "0"], "mbps"),
        (["--mbps", "1e-9"], "mbps"),
        (["--fail", "0"], "fail"),
        (["--fail", "0,2"], "fail"),
        (["--fail", "0,1", "--switch"], "fail"),
        (["--transfer", "4:1"], "transfer"),
        (["--transfer", "1"], "transfer"),
        (["--megabytes", "-1"], "megabytes"),
        (["--iterations", "0"], "iterations"),
        (["--job", "missing.py"], "job"),
    ],
)
def test_a_wrong_argument_is_one_line_and_nothing_is_written(
    tmp_path: Path, words: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(topoopt_plan(4, 1).to_json())
    assert main(["emulate", str(path), *words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow emulate: {field}: must be")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_ring_that_a_failure_cuts_goes_round_and_costs_what_it_should() -> None:
    """Eight servers, two interfaces: the ring +1 less 0 to 1 takes other circuits, which then carry more."""
    plan = topoopt_plan(8, 2)
    job = EmulatedJob(8_000_000)
    intact, failed = (Scenario(plan, RATE, failed).fabric() for failed in (None, (0, 1)))
    times = [simulate([world_of(fabric, job)], Fluid())[0].makespan for fabric in (intact, failed)]
    assert failed.links == intact.links - 1
    assert times[1] > 1.2 * times[0]


def test_a_failure_that_cuts_off_a_server_is_refused() -> None:
    with pytest.raises(ValueError, match="must stay connected"):
        Scenario(topoopt_plan(4, 1), RATE, (0, 1)).fabric()
