"""The benchmarks of packets: packet.py and packet_instructions.py."""

from __future__ import annotations

import re
import subprocess
import sys

import packet
import pytest
from packets import packet_instructions

from topoflow.engine.device import DeviceMemory


def test_worlds_at_once_send_the_packets_of_one_as_often(capsys: pytest.CaptureFixture[str], device: str) -> None:
    packet.side_by_side(packet.ring(4), 3, DeviceMemory.named(device))
    printed = dict(line.split(" ") for line in capsys.readouterr().out.splitlines())
    steps, hosts, packets = 6, 4, 245  # of 1 MB, the last one shorter
    assert int(printed["ring.worlds.packet_hops"]) == 3 * steps * hosts * packets
    assert float(printed["ring.worlds.million_packet_hops_per_s"]) > 0


def test_every_case_whose_instructions_are_counted_is_simulated() -> None:
    command = [sys.executable, packet_instructions.__file__, "simulate"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(packet_instructions.CASES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["cases=rings"],
            "cases: must be some of leaf_spine, ring, hashed, balanced, sprayed, fast_800, fast_3200, dragonfly, got",
        ),
        (
            ["cases=dragonfly", "worlds=2"],
            "cases: must be some of leaf_spine, ring, hashed, balanced, sprayed, fast_800, fast_3200, got",
        ),
        (["cases=ring", "worlds=0"], "worlds: must be a whole number of at least 1, got 0"),
        (["cases=ring", "device=cuda"], "worlds: must be the number of worlds on device=cuda, got none"),
        (["cases=ring", "device=gpu", "worlds=2"], "device: must be one of"),
    ],
)
def test_a_wrong_argument_is_one_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.setattr(sys, "argv", ["packet.py", *arguments])
    with pytest.raises(SystemExit, match="^" + re.escape(message)):
        packet.main()
