"""What HPCC's peer is asked, and how its trace is read; the simulator is not needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from peers.hpcc_peer import ENQUEUED, PORT, RECORD, UDP, switches_of, topology

from topoflow.demand import Demand
from topoflow.fabric.fat_tree import FatTree


def test_every_cable_is_a_line() -> None:
    fabric = FatTree(12.5e9, 1, 1e-6, radix=4).build(16, Demand(16))
    first, switches, *cables = topology(fabric).splitlines()
    assert first == f"{len(fabric.nodes)} 20 {len(fabric.source) // 2}"
    assert switches.split() == [str(node) for node in range(16, 36)]
    assert cables[0] == "0 16 100000000000bps 1000ns 0"
    assert len({tuple(line.split()[:2]) for line in cables}) == len(fabric.source) // 2


def test_a_path_is_where_the_first_packet_was_in_the_order_of_time(tmp_path: Path) -> None:
    records = np.zeros(4, RECORD)
    records["time"], records["node"], records["sequence"] = (30, 10, 20, 40), (18, 16, 24, 25), (0, 0, 0, 4006)
    records["sip"], records["dip"], records["protocol"], records["event"] = 0x0B000001, 0x0B000501, UDP, ENQUEUED
    head = np.array([2], "<u4").tobytes() + bytes(2 * PORT + 4)
    (tmp_path / "trace.bin").write_bytes(head + records.tobytes())
    assert switches_of(tmp_path / "trace.bin") == {(0, 5): [16, 24, 18]}
