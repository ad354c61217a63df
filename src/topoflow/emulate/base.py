"""Emulation: runs a job on a fabric of network namespaces, and returns the measurements as a Timeline.

Shapes: L links, T tasks, K traffic tasks, I iterations.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.apply.forwarding import forwarding
from topoflow.apply.hosts import Host, Wire
from topoflow.apply.script import script
from topoflow.emulate.inside import CONTROL, PORT, address, mac
from topoflow.emulate.marks import FOLDER
from topoflow.emulate.rank import PLAN
from topoflow.emulate.sandbox import start
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import place
from topoflow.engine.observer import Observer, Silent
from topoflow.engine.timelines import timeline
from topoflow.fabric.base import Fabric, Orders
from topoflow.traffic.base import Collective, Task, Traffic, Transfer

MTU = 32_768  # B; headers are 0.2 % of a packet, and TCP acknowledgements on relayed simplex circuits are few
MAX_SERVERS = 64  # processes of PyTorch on one machine


@dataclass(frozen=True)
class EmulatedJob:
    """A job of ``iterations``: transfers between servers, then an all-reduce among all servers in ``buckets``."""

    gradient_bytes: int
    transfers: tuple[tuple[int, int, int], ...] = ()  # source, target, B
    iterations: int = 3
    buckets: int = 8

    def __post_init__(self) -> None:
        for name, least in (("gradient_bytes", 4 * self.buckets), ("iterations", 1), ("buckets", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if self.gradient_bytes % 4:
            raise ValueError(f"gradient_bytes: must be whole numbers of 4 bytes, got {self.gradient_bytes}")

    def traffic(self, servers: int) -> Traffic:
        """Return one iteration as simulated traffic."""
        transfers: list[Task] = [
            Transfer(float(size), source, target, name=f"transfer {source}>{target}")
            for source, target, size in self.transfers
        ]
        reduce = Collective(
            "all_reduce", float(self.gradient_bytes), tuple(range(servers)), tuple(range(len(transfers))), "all-reduce"
        )
        return Traffic.from_tasks("emulated", servers, [*transfers, reduce])


@dataclass(frozen=True, eq=False)
class Emulated:
    """The measurements of an emulation: times of every iteration, and a timeline."""

    timeline: Timeline  # times of the median iteration, mean bytes per iteration
    iteration_times: tuple[float, ...]  # [I] s
    reduce_times: tuple[float, ...]  # [I] s of the all-reduce; empty for a script


def world_of(fabric: Fabric, job: EmulatedJob) -> World:
    """Return the job on the fabric as a world that can be simulated."""
    return place(job.traffic(fabric.servers), fabric, name="emulated", rings="steps")


def emulate(
    fabric: Fabric,
    job: EmulatedJob,
    orders: Orders | None,
    folder: Path,
    shaped: bool = True,
    observer: Observer = Silent(),
) -> Emulated:
    """Run ``job`` on ``fabric`` with PermutedRings in ``orders``, or in DDP's own order (None).

    ``fabric`` has one path for each pair (``apply.network.forwarded``), or is one switch. Without ``shaped``, links
    have no rate limit. ``observer`` sees the optimizer steps of rank 0. Raises ``ValueError`` where this machine cannot
    emulate, or the job fails.
    """
    plain = {**asdict(job), "orders": orders}
    (folder / "job.json").write_text(json.dumps(plain))
    command = ["-m", "topoflow.emulate.rank", str(Path(__file__).with_name("job.py"))]
    _run(fabric, command, folder, {}, shaped, partial(_advance, folder, observer, job.iterations + 1))
    return _measured(world_of(fabric, job), fabric, job, _marks(folder, fabric.servers))


def emulate_script(
    fabric: Fabric, script: Sequence[str], plan: Path | None, folder: Path, observer: Observer = Silent()
) -> Emulated:
    """Run a PyTorch script with its arguments; an iteration ends with the step of an optimizer.

    Its DistributedDataParallel models take the rings of ``plan``, if one is given. The first iteration, which opens the
    connections, is not measured. The timeline has one task, the iteration. Raises ``ValueError`` as ``emulate`` does,
    and for less than three steps.
    """
    environment = {} if plan is None else {PLAN: str(plan)}
    command = ["-m", "topoflow.emulate.rank", *script]
    _run(fabric, command, folder, environment, True, partial(_advance, folder, observer, 0))
    ends = [[mark for mark in of_rank if mark["what"] == "step"] for of_rank in _marks(folder, fabric.servers)]
    steps = min(map(len, ends))
    if steps < 3:
        raise ValueError(f"{script[0]}: must make at least 3 optimizer steps, got {steps}")
    times = [max(of_rank[step]["time"] for of_rank in ends) for step in range(steps)]
    durations = tuple(float(duration) for duration in np.diff(times))
    carried = _carried(fabric, [(of_rank[0], of_rank[steps - 1]) for of_rank in ends], steps - 1)
    task = Transfer(0.0, 0, 1 % fabric.servers, name="iteration")
    world = place(Traffic.from_tasks(script[0], fabric.servers, [task]), fabric, name="emulated")
    middle = np.array([statistics.median(durations)])
    zero = np.zeros(world.graph.tasks)
    return Emulated(timeline(world, zero, zero + middle, carried), durations, ())


def _advance(folder: Path, observer: Observer, steps: int) -> None:
    """Say how many optimizer steps rank 0 has made, of all ``steps``; 0 is an unknown number."""
    notes = folder / "rank0.jsonl"
    if notes.exists():
        observer.advance(notes.read_text().count('"what": "step"'), steps)


def _run(
    fabric: Fabric,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    shaped: bool,
    watch: Callable[[], None],
) -> None:
    servers = fabric.servers
    if not 2 <= servers <= MAX_SERVERS:
        raise ValueError(f"servers: must be within 2..{MAX_SERVERS} to be emulated, got {servers}")
    extra = len(fabric.nodes) - servers
    if extra > 1:
        raise ValueError(f"{fabric.name}: must have circuits or one switch to be emulated, got {extra} switches")
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), fabric.bandwidth.tolist(), strict=True)
    links = [(source, target, rate if shaped else 0.0) for source, target, rate in ends]
    network = {"servers": servers, "links": links, "mtu": MTU, "scripts": [] if extra else _scripts(fabric, folder)}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", str(servers)]
    torchrun += ["--master-addr", CONTROL, "--master-port", str(PORT)]
    variables = {
        FOLDER: str(folder),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "uplink" if extra else "host",
        "PYTHONUNBUFFERED": "1",
    }
    code = start(folder, network, [*torchrun, *arguments], {**variables, **environment}, watch)
    if code:
        raise ValueError(f"{arguments[2]}: must end with exit code 0, got {code}: {_reason(folder)}")


def _reason(folder: Path) -> str:
    """Return the line of a job's log that says why it ended."""
    lines = (folder / "job.log").read_text(errors="replace").splitlines()
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return (errors or lines or ["it said nothing"])[0].strip()


def _scripts(fabric: Fabric, folder: Path) -> list[str]:
    """Write the forwarding script of every server, as for hosts of a real network; return the paths."""
    hosts = [Host(f"s{server}", address(server), ()) for server in range(fabric.servers)]
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    wires = [Wire(i, j, f"to{j}", f"to{j}", f"from{i}", mac(i, j), mac(i, j)) for i, j in ends]
    paths = []
    for host, commands in zip(hosts, forwarding(fabric, hosts, wires), strict=True):
        path = folder / f"{host.name}.sh"
        path.write_text(script(host, commands))
        paths.append(str(path))
    return paths


def _marks(folder: Path, servers: int) -> list[list[dict[str, Any]]]:
    """Return [servers] the marks that each rank has noted."""
    marks = []
    for rank in range(servers):
        path = folder / f"rank{rank}.jsonl"
        if not path.exists():
            raise ValueError(f"{folder}: must have the notes of rank {rank}, got none; see {folder / 'job.log'}")
        marks.append([json.loads(line) for line in path.read_text().splitlines()])
    return marks


def _measured(world: World, fabric: Fabric, job: EmulatedJob, marks: list[list[dict[str, Any]]]) -> Emulated:
    iterations = range(1, job.iterations + 1)

    def times(event: str, iteration: int, **labels: int) -> list[float]:
        wanted = {"what": event, "iteration": iteration, **labels}
        return [mark["time"] for rank in marks for mark in rank if wanted.items() <= mark.items()]

    begin = {i: min(times("begin", i)) for i in iterations}
    exchanged = {i: max(times("exchanged", i)) - begin[i] for i in iterations}
    reduced = {i: max(times("reduced", i)) - begin[i] for i in iterations}
    middle = sorted(iterations, key=lambda i: reduced[i])[len(iterations) // 2]
    arrived = [max(times("arrived", middle, transfer=k)) - begin[middle] for k in range(len(job.transfers))]
    start = np.array([0.0] * len(arrived) + [exchanged[middle]])
    finish = np.array([*arrived, reduced[middle]])
    owner = world.graph.owner
    # Counters are read at "end", which every rank notes before any starts the next iteration and sends through others.
    span = [(_mark(rank, "end", 0), _mark(rank, "end", job.iterations)) for rank in marks]
    carried = _carried(fabric, span, job.iterations)
    return Emulated(
        timeline(world, start[owner], finish[owner], carried),
        tuple(reduced[i] for i in iterations),
        tuple(reduced[i] - exchanged[i] for i in iterations),
    )


def _mark(rank: list[dict[str, Any]], event: str, iteration: int) -> dict[str, Any]:
    return next(mark for mark in rank if mark["what"] == event and mark["iteration"] == iteration)


def _carried(
    fabric: Fabric, span: Sequence[tuple[dict[str, Any], dict[str, Any]]], iterations: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return [L] the mean bytes of an iteration with frame headers, as counted by the receiving interface."""

    def grown(server: int, device: str, sent: int) -> int:  # sent: 0 counts received bytes, 1 sent bytes
        first, last = span[server]
        return int(last["carried"][device][sent] - first["carried"][device][sent])

    link_bytes = []
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        if target == fabric.servers:
            link_bytes.append(grown(source, "uplink", 1))
        else:
            link_bytes.append(grown(target, "uplink" if source == fabric.servers else f"from{source}", 0))
    return np.array(link_bytes, np.float64) / iterations
