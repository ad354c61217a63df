"""HPCC and DCQCN of one simulator as peers: the same messages over the same links, on the paths that it hashes.

The program is ``scratch/third`` of github.com/alibaba-edu/High-Precision-Congestion-Control, an ns-3.17, as it is. It
stores and forwards, ports are first come first served, and priority flow control never pauses in buffers this large.
A packet has 48 B of headers, and with HPCC 42 of telemetry. Acknowledgements, of 88 B with HPCC and 60 B with DCQCN,
take turns on links; those of DCQCN, which notify of marks, go first.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats
from topoflow.fabric.base import Fabric

HEADERS = 48  # B: Ethernet's 14, 20 of IP, 8 of UDP, 6 of sequence numbers
TELEMETRY = 42  # B
NS = 1e9  # of a second
BUFFER = 256  # MiB of a switch; pauses begin at an eighth of what is free
UDP, ENQUEUED = 0x11, 1
RECORD = np.dtype(  # TraceFormat of point-to-point/model/trace-format.h
    {
        "names": ["time", "node", "sip", "dip", "protocol", "event", "sequence"],
        "formats": ["<u8", "<u2", "<u4", "<u4", "u1", "u1", "<u4"],
        "offsets": [0, 8, 16, 20, 26, 27, 36],
        "itemsize": 56,
    }
)
PORT = 2 + 1 + 8  # B of a port in front of the records
# As in its mix/config.txt.
SETTINGS = """
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
GLOBAL_T 1
RATE_BOUND 1
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
ERROR_RATE_PER_LINK 0
LINK_DOWN 0 0 0
ENABLE_TRACE 1
SIMULATOR_STOP_TIME 1
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
TRACE_FILE trace.txt
TRACE_OUTPUT_FILE trace.bin
FCT_OUTPUT_FILE fct.txt
PFC_OUTPUT_FILE pfc.txt
QLEN_MON_FILE qlen.txt
"""


class Answer(NamedTuple):
    """What the peer measured."""

    finish: Floats  # [messages] s until senders know that their message has arrived
    nodes: list[list[int]]  # of the path of each message


class Marks(NamedTuple):
    """Packets are marked from ``low`` kB that wait, up to a share ``most`` of them at ``high``."""

    low: int
    high: int
    most: float


def hpcc(utilization: float, stages: int, step: float) -> list[str]:
    """Return the settings of HPCC, whose rates grow by ``step`` B/s.

    As in mix/config.txt: one rate for the whole path, a window that follows it, reactions to each packet, and telemetry
    in units of 128 and 80 B. Marks are not looked at.
    """
    usual = ["CC_MODE 3", "HAS_WIN 1", "VAR_WIN 1", "FAST_REACT 1", "INT_MULTI 1", "MULTI_RATE 0", "SAMPLE_FEEDBACK 0"]
    usual += ["ACK_HIGH_PRIO 0", "MIN_RATE 1Mb/s"]
    return [*usual, f"U_TARGET {utilization}", f"MI_THRESH {stages}", f"RATE_AI {bits(step)}"]


def dcqcn(gain: float, timer: float, alpha_timer: float, notice: float, recoveries: int, step: float) -> list[str]:
    """Return the settings of DCQCN without a byte counter, with times in s and a step in B/s.

    A rate returns to what it was before the last cut (CLAMP_TARGET_RATE), as the paper says. Its first increase counts
    as number 0 there, so that one recovery less is as many.
    """
    usual = ["CC_MODE 1", "HAS_WIN 0", "VAR_WIN 0", "ACK_HIGH_PRIO 1", "CLAMP_TARGET_RATE 1", f"EWMA_GAIN {gain}"]
    times = {"RP_TIMER": timer, "ALPHA_RESUME_INTERVAL": alpha_timer, "RATE_DECREASE_INTERVAL": notice}
    rates = [f"{name} {bits(step)}" for name in ("RATE_AI", "RATE_HAI", "MIN_RATE")]
    return [
        *usual,
        *(f"{name} {1e6 * time:g}" for name, time in times.items()),
        *rates,
        f"FAST_RECOVERY_TIMES {recoveries - 1}",
    ]


def bits(rate: float) -> str:
    return f"{round(8 * rate)}bps"


class Peer(NamedTuple):
    """A configuration. ``payload``: B of a packet, ``control``: lines of the configuration."""

    program: Path
    payload: int
    control: list[str]
    marks: Marks = Marks(1000, 1000, 1)

    def run(self, fabric: Fabric, pairs: list[tuple[int, int]], packets: int, folder: Path) -> Answer:
        """Send ``packets`` from the first to the second of each pair, which appears once."""
        rates = sorted({round(8 * bandwidth) for bandwidth in fabric.bandwidth.tolist()})
        maps = [
            f"{name}_MAP {len(rates)} {' '.join(f'{rate} {mark}' for rate in rates)}"
            for name, mark in zip(("KMIN", "KMAX", "PMAX"), self.marks, strict=True)
        ]
        settings = [f"PACKET_PAYLOAD_SIZE {self.payload}", f"BUFFER_SIZE {BUFFER}", *self.control]
        (folder / "config.txt").write_text(SETTINGS + "\n".join([*settings, *maps, ""]))
        (folder / "topology.txt").write_text(topology(fabric))
        flows = [f"{source} {target} 3 100 {packets * self.payload} 0" for source, target in pairs]
        (folder / "flow.txt").write_text("\n".join([str(len(flows)), *flows, ""]))
        switches = range(fabric.servers, len(fabric.nodes))
        (folder / "trace.txt").write_text(f"{len(switches)}\n{' '.join(map(str, switches))}\n")
        command, libraries = [str(self.program), "config.txt"], {"LD_LIBRARY_PATH": str(self.program.parent.parent)}
        completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | libraries)
        times = folder / "fct.txt"
        rows = [line.split() for line in times.read_text().splitlines()] if times.exists() else []
        if completed.returncode or len(rows) != len(pairs) or (folder / "pfc.txt").stat().st_size:
            raise RuntimeError(
                f"{self.program}: {len(pairs)} messages must finish, got {len(rows)}: {completed.stdout[-500:]}"
            )
        finish = {(server(int(row[0], 16)), server(int(row[1], 16))): int(row[6]) / NS for row in rows}
        through = switches_of(folder / "trace.bin")
        return Answer(
            np.array([finish[pair] for pair in pairs]), [[pair[0], *through[pair], pair[1]] for pair in pairs]
        )


def server(address: int) -> int:
    return address >> 8 & 0xFFFF


def topology(fabric: Fabric) -> str:
    """Return a line for each cable, the links of both directions."""
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    rate, latency = fabric.bandwidth.tolist(), fabric.latency.tolist()
    rows = [
        f"{one} {other} {round(8 * rate[link])}bps {round(latency[link] * NS)}ns 0"
        for link, (one, other) in enumerate(ends)
        if one < other
    ]
    switches = range(fabric.servers, len(fabric.nodes))
    return "\n".join([f"{len(fabric.nodes)} {len(switches)} {len(rows)}", " ".join(map(str, switches)), *rows, ""])


def switches_of(trace: Path) -> dict[tuple[int, int], list[int]]:
    """Return the switches that the first packet from one server to another went through."""
    ports = int(np.fromfile(trace, "<u4", 1)[0])
    records = np.fromfile(trace, RECORD, offset=4 + ports * PORT + 4)
    first_packets = records[(records["protocol"] == UDP) & (records["event"] == ENQUEUED) & (records["sequence"] == 0)]
    paths: dict[tuple[int, int], list[int]] = {}
    for record in first_packets[np.argsort(first_packets["time"], kind="stable")].tolist():
        _, node, sip, dip, *_ = record
        paths.setdefault((server(sip), server(dip)), []).append(node)
    return paths
