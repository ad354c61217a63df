"""HPCC of its authors' simulator as a peer: the same messages over the same links, on the paths that it hashes.

The program is ``scratch/third`` of github.com/alibaba-edu/High-Precision-Congestion-Control, an ns-3.17, as it is. It
stores and forwards, ports are first come first served, and priority flow control never pauses in buffers this large.
A packet has 90 B of headers, 42 of these telemetry; acknowledgements, of 88 B, take turns on links.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats
from topoflow.fabric.base import Fabric

HEADERS = 90  # B: Ethernet's 14, 20 of IP, 8 of UDP, 6 of sequence numbers, 42 of telemetry
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
# As in its mix/config.txt: one rate for the whole path, a window that follows it, reactions to each packet, and
# telemetry in units of 128 and 80 B. Marks are not looked at.
SETTINGS = """
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
CC_MODE 3
HAS_WIN 1
GLOBAL_T 1
VAR_WIN 1
FAST_REACT 1
INT_MULTI 1
MULTI_RATE 0
SAMPLE_FEEDBACK 0
RATE_BOUND 1
ACK_HIGH_PRIO 0
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


class Hpcc(NamedTuple):
    """A configuration. ``payload``: B of a packet, ``step``: B/s by which a rate grows."""

    program: Path
    payload: int
    utilization: float
    stages: int
    step: float

    def run(self, fabric: Fabric, pairs: list[tuple[int, int]], packets: int, folder: Path) -> Answer:
        """Send ``packets`` from the first to the second of each pair, which appears once."""
        rates = sorted({round(8 * bandwidth) for bandwidth in fabric.bandwidth.tolist()})
        maps = [f"{name}_MAP {len(rates)} {' '.join(f'{rate} 1000' for rate in rates)}" for name in ("KMIN", "KMAX")]
        maps.append(f"PMAX_MAP {len(rates)} {' '.join(f'{rate} 1' for rate in rates)}")
        settings = [f"PACKET_PAYLOAD_SIZE {self.payload}", f"U_TARGET {self.utilization}", f"MI_THRESH {self.stages}"]
        settings += [f"RATE_AI {round(8 * self.step)}bps", "MIN_RATE 1Mb/s", f"BUFFER_SIZE {BUFFER}"]
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
            raise RuntimeError(f"hpcc: {len(pairs)} messages must finish, got {len(rows)}: {completed.stdout[-500:]}")
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
