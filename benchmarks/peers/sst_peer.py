"""The Structural Simulation Toolkit as a peer: the same script of each rank, replayed by Ember over merlin and firefly.

Needs an SST with merlin, firefly and Ember, of which ``sst`` is the program. ``Script`` writes down what ranks do, as a
``Writer`` of topoflow does, and SST reads it as traces (SIRIUS); ``sst/network.py`` builds the dragonfly.
"""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from topoflow.arrays import Floats, Offsets
from topoflow.engine.packet import Packet
from topoflow.fabric.dragonfly import DragonflyRoutes

NETWORK = Path(__file__).parent / "sst" / "network.py"
ALGORITHMS = {"minimal": "minimal", "valiant_group": "valiant", "adaptive_local": "adaptive-local"}
ROUTER = re.compile(r"rtr_G(\d+)R(\d+)")
ENDED = re.compile(r"simulated time: ([0-9.]+) (ps|ns|us|ms|s)")
UNITS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
NO_HOSTS = {"matchDelay_ns": 0, "regRegionBaseDelay_ns": 0, "regRegionPerPageDelay_ns": 0}
NO_HOSTS |= {f"{side}SetupModParams.base": "0ns" for side in ("tx", "rx")}
NO_CALLS = {"defaultEnterLatency": 0, "defaultReturnLatency": 0}
COMMAND = 2e-9  # s; a host hands its NIC number i of its commands not before i times this (VirtNic, latPerSend_ns)
AT_FIRST = 5  # commands of Init, each a buffer for a short message (pqs.minPostedShortBuffers)
INIT, FINALIZE, SEND, ISEND, RECV, IRECV, WAITALL, CHAR, WORLD, NO_TAG = 1, 2, 4, 5, 16, 17, 129, 4, 0, 0


class Script:
    """What ranks do, step by step, in the words of a ``Writer``: those that a motif calls.

    In a step a rank posts all receives, sends, and waits for all of both. One that does nothing but send or receive one
    message does so with a blocking call, and so does the last send of a step. A collective is its messages.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._calls: list[list[tuple[str, int, float]]] = [[] for _ in range(ranks)]  # kind, other rank, B or s
        self._sends: list[list[tuple[int, int, bool]]] = [[] for _ in range(ranks)]  # and whether it blocks
        self._receives: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]

    def send(self, source: Offsets, target: Offsets, bytes: ArrayLike, *, blocking: bool = False) -> None:
        for a, b, size in zip(source.tolist(), target.tolist(), np.broadcast_to(bytes, len(source)), strict=True):
            self._sends[a].append((b, int(np.ceil(size)), blocking))
            self._receives[b].append((a, int(np.ceil(size))))

    def compute(self, rank: Offsets, seconds: ArrayLike) -> None:
        for index, time in zip(rank.tolist(), np.broadcast_to(seconds, len(rank)).tolist(), strict=True):
            self._calls[index].append(("compute", 0, time))

    @contextmanager
    def one_call(self) -> Iterator[None]:
        yield
        self.step()

    def step(self, only: Offsets | None = None) -> None:
        for rank in range(self.ranks) if only is None else only.tolist():
            calls, receives, sends = self._calls[rank], self._receives[rank], self._sends[rank]
            if len(receives) + len(sends) == 1:
                calls.extend(("recv", *receive) for receive in receives)
                calls.extend(("send", *send) for send, _ in self._split(sends))
            elif receives or sends:
                calls.extend(("irecv", *receive) for receive in receives)
                split = self._split(sends)
                calls.extend(("send" if blocks or not receives else "isend", *send) for send, blocks in split)
                calls.extend([("waitall", 0, 0)] * bool(receives))
            self._receives[rank], self._sends[rank] = [], []

    @staticmethod
    def _split(sends: Sequence[tuple[int, int, bool]]) -> list[tuple[tuple[int, int], bool]]:
        """Return the other rank and bytes of each send of a step, and whether it blocks, as the last one does."""
        last = len(sends) - 1
        return [((other, size), blocks or place == last) for place, (other, size, blocks) in enumerate(sends)]

    def handed(self) -> list[Floats]:
        """Of each rank, s before which its sends are not handed to its NIC, where its calls take no time.

        A call that receives is a command, too: it posts a buffer. Of messages that need no acknowledgement.
        """
        self.step()
        times = []
        for calls in self._calls:
            sends = np.array([kind in ("send", "isend") for kind, _, _ in calls if kind not in ("compute", "waitall")])
            times.append((AT_FIRST + np.flatnonzero(sends)) * COMMAND)
        return times

    @property
    def most(self) -> int:
        """B of the largest message."""
        return max((int(amount) for calls in self._calls for kind, _, amount in calls if kind != "compute"), default=0)

    def write(self, prefix: Path, eager: int) -> None:
        """A file for each rank: ``prefix``.RANK."""
        self.step()
        for rank, calls in enumerate(self._calls):
            Path(f"{prefix}.{rank}").write_bytes(trace(calls, eager))


def trace(calls: Sequence[tuple[str, int, float]], eager: int) -> bytes:
    """The calls of a rank. Between two of them it computes until the second begins, in whole ns.

    Ember 16 takes an isend only with the number of a request that is open, and waits for the older of both alone. So
    those of long messages have that of a receive of the same step: of a step's sends, only the last one, which blocks,
    waits for its acknowledgement. A send of up to ``eager`` B returns at once, so it stands for an isend.
    """
    now, requests = 0.0, list[int]()
    parts = [struct.pack("<Iddi", INIT, 0.0, 0.0, 0)]
    for kind, other, amount in calls:
        common = (now, 0, int(amount), CHAR, other, NO_TAG, WORLD)
        if kind == "compute":
            now += (round(amount * 1e9) + 0.5) * 1e-9 if amount else 0.0
        elif kind == "waitall":
            parts.append(struct.pack(f"<IdI{len(requests)}Qdi", WAITALL, now, len(requests), *requests, now, 0))
            requests = []
        elif kind == "irecv":
            requests.append(len(requests) + 1)
            parts.append(struct.pack("<IdQIIiiIQdi", IRECV, *common, requests[-1], now, 0))
        elif kind == "isend" and amount > eager:
            parts.append(struct.pack("<IdQIIiiIQdi", ISEND, *common, requests[0], now, 0))
        else:
            parts.append(struct.pack("<IdQIIiiIdi", RECV if kind == "recv" else SEND, *common, now, 0))
    return b"".join([*parts, struct.pack("<Iddi", FINALIZE, now, now, 0)])


@dataclass(frozen=True)
class Answer:
    """What SST said."""

    makespan: float  # s, until all ranks have done all that they do
    finish: Floats  # [ranks] s, to six digits
    cpu: float  # s of all of it, building included
    bytes: dict[tuple[int, int, int], int] = field(default_factory=dict)  # by group, router and port
    packets: int = 0  # packet-hops: of all links, those of NICs too
    stalled: float = 0.0  # s, of all ports of routers together
    latency: float = 0.0  # s, mean of packets, from when they leave the NIC
    delivered: int = 0  # packets


@dataclass(frozen=True)
class Sst:
    """The program, and a folder for its files."""

    program: Path
    folder: Path

    @staticmethod
    def missing(program: str) -> str | None:
        """Why it cannot be run, or None."""
        if shutil.which(program) is None:
            return f"sst: must be the program of SST 16 with merlin, firefly and Ember, got {program!r}, which is none"
        return None

    def run(
        self,
        script: Script,
        plan: DragonflyRoutes,
        link: tuple[float, float],
        routing: str,
        model: Packet,
        eager: int,
        *,
        hosts: bool = True,
        counts: bool = True,
        seed: int = 0,
    ) -> Answer:
        """``seed``: of what routers draw, where this SST reads it (``sst.py``).

        Raises ``RuntimeError`` with what went wrong.
        """
        traces, statistics = self.folder / "trace", self.folder / "statistics.csv"
        for old in self.folder.glob("*"):
            old.unlink()
        script.write(traces, eager)
        log = self.folder / "ranks"
        world = {
            "nodes": plan.nodes,
            "routers": plan.routers,
            "groups": plan.groups,
            "global_links": plan.global_links,
            "algorithm": ALGORITHMS[routing],
            "threshold": model.threshold,
            "link_latency": f"{round(link[1] * 1e12)}ps",
            "port_latency": f"{round(model.switch_latency * 1e12 / 2)}ps",
            "bandwidth": f"{round(link[0])}B/s",
            "flit": f"{model.flit}B",
            "buffer": f"{model.buffer}B",
            "ctrl": {"shortMsgLength": eager, **({} if hosts else NO_HOSTS)},
            "functionsm": {} if hosts else NO_CALLS,
            "nic": {
                "nic2host_lat": f"{round(model.nic_latency * 1e12)}ps",
                "txDelay_ns": round(model.setup * 1e9),
                "rxMatchDelay_ns": round(model.match * 1e9),
                "packetSize": f"{model.size}B",
                **({} if hosts else {"maxActiveRecvStreams": 10**6, "maxPendingRecvPkts": 10**6}),
            },
            "traces": str(traces),
            "statistics": str(statistics) if counts else "",
            "log": str(log),
        }
        (self.folder / "world.json").write_text(json.dumps(world))
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [self.program, NETWORK, f"--model-options={self.folder / 'world.json'}"]
        completed = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, env=os.environ | {"SST_SEED": str(seed)}
        )
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        match = ENDED.search(completed.stdout)
        if completed.returncode or match is None:
            raise RuntimeError(f"{self.program.name}: {(completed.stderr or completed.stdout).strip()[-2000:]}")
        finish = np.zeros(script.ranks)
        for line in Path(f"{log}.log").read_text().splitlines():
            _, rank, number, *_, ended, unit = line.split()
            if number == "1":
                finish[int(rank)] = float(ended) * UNITS[unit]
        answer = Answer(
            float(match[1]) * UNITS[match[2]], finish, end.ru_utime - begin.ru_utime + end.ru_stime - begin.ru_stime
        )
        return counted(answer, statistics) if counts else answer


def counted(answer: Answer, file: Path) -> Answer:
    """With what merlin counts of ports: what they sent, and how long they waited for room, once that has ended."""
    sums: dict[str, int] = {}
    ports: dict[tuple[int, int], int] = {}
    delivered = 0
    with file.open() as lines:
        for row in csv.DictReader(lines, skipinitialspace=True):
            name, total, router = row["StatisticName"], int(row["Sum.u64"]), ROUTER.match(row["ComponentName"])
            kind = f"{'nic' if router is None else 'router'}.{name}"
            sums[kind] = sums.get(kind, 0) + total
            delivered += int(row["Count.u64"]) if kind == "nic.packet_latency" else 0
            if kind == "router.send_bit_count" and router is not None:
                ports[int(router[1]), int(router[2]), int(row["StatisticSubId"].removeprefix("port"))] = total // 8
    return replace(
        answer,
        bytes=ports,
        packets=sums["router.send_packet_count"] + delivered,
        stalled=(sums["router.output_port_stalls"] + sums["nic.output_port_stalls"]) * 1e-12,
        latency=sums["nic.packet_latency"] * 1e-9 / max(delivered, 1),
        delivered=delivered,
    )
