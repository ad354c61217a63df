"""SST replays what ranks do: their traces call what the script says, and a missing program is one line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from packets import sst
from peers.sst_peer import FINALIZE, INIT, IRECV, RECV, SEND, WAITALL, Script, Sst, trace

import topoflow

ranks = np.array


def kinds(script: Script, folder: Path) -> list[list[int]]:
    """Of the calls of each rank, by their lengths in the format of SIRIUS."""
    script.write(folder / "trace", 12_000)
    length = {INIT: 24, FINALIZE: 24, SEND: 52, RECV: 52, IRECV: 60}
    by_rank = []
    for rank in range(script.ranks):
        data, calls = (folder / f"trace.{rank}").read_bytes(), []
        while data:
            calls.append(struct.unpack("<I", data[:4])[0])
            if calls[-1] == WAITALL:
                data = data[28 + 8 * struct.unpack("<I", data[12:16])[0] :]
            else:
                data = data[length[calls[-1]] :]
        by_rank.append(calls)
    return by_rank


def test_a_rank_posts_its_receives_sends_and_waits_for_all(tmp_path: Path) -> None:
    script = Script(3)
    script.send(ranks([0, 1]), ranks([1, 0]), 100.0)
    script.send(ranks([2]), ranks([1]), 100.0)
    script.step()
    script.send(ranks([0]), ranks([2]), 20_000.0)
    assert script.most == 100
    both = [IRECV, SEND, WAITALL]
    assert kinds(script, tmp_path) == [
        [INIT, *both, SEND, FINALIZE],
        [INIT, IRECV, *both, FINALIZE],
        [INIT, SEND, RECV, FINALIZE],
    ]
    assert script.most == 20_000


def test_a_host_hands_its_nic_a_command_each_2_ns() -> None:
    """Five buffers of Init, one for each receive, and each send; counted from the start, whatever is between them."""
    script = Script(3)
    script.send(ranks([0, 1, 2]), ranks([1, 0, 1]), 100.0)
    script.step()
    script.compute(ranks([0]), 1e-6)
    script.send(ranks([0]), ranks([2]), 100.0)
    times_ns = [np.rint(times * 1e9).tolist() for times in script.handed()]
    assert times_ns == [[12, 14], [14], [10]]


def test_a_rank_computes_until_its_next_call() -> None:
    """In whole ns: Ember cuts the rest off."""
    data = trace([("compute", 0, 1e-6), ("compute", 0, 0.0), ("send", 1, 5)], 10)
    (begin,) = struct.unpack("<d", data[28:36])
    assert int(begin * 1e9) == 1000


def test_a_program_that_is_none_is_one_line() -> None:
    message = "must be the program of SST 16 with merlin, firefly and Ember"
    assert Sst.missing("/nowhere/sst") == f"sst: {message}, got '/nowhere/sst', which is none"


@pytest.mark.parametrize("name", ["allpingpong", "random", "sweep3d"])
@pytest.mark.parametrize("cables", [1, 12])
def test_a_comparison_gives_what_the_benchmark_gives(name: str, cables: int) -> None:
    """Of motifs without collectives and without an isend of a long message, which a trace of Ember cannot say."""
    world, _ = sst.world_of(sst.CASES[name], cables, "minimal", hosts=True)
    motif, model = sst.CASES[name].motif, sst.MODEL
    sizes = {key: getattr(motif, key) for key in ("bytes", "cells", "iterations")}
    (result,) = topoflow.compare(
        "workload=motif",
        "workload.library=firefly",
        f"workload.name={name}",
        *(f"workload.{key}={value}" for key, value in sizes.items() if value is not None),
        "fabric=dragonfly",
        *("fabric.nodes=3", "fabric.routers=6", "fabric.groups=4", f"fabric.global_links={cables}", "servers=72"),
        *("bandwidth_gbps=100", "degree=1", "latency_us=0.15", "routing=minimal", "fidelity=packet"),
        *(f"packet.{key}={getattr(model, key)}" for key in ("model", "size", "buffer", "setup", "match")),
        *(f"packet.{key}={getattr(model, key)}" for key in ("switch_latency", "credit_latency", "nic_latency")),
    )
    assert result.iteration_time == sst.MODEL.simulate([world], sst.Run(threads=1))[0].makespan
