"""The benchmarks are scripts beside each other, not a package: their folder goes where imports are looked for.

And the peers, which are compiled once for all tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from peers.ns3_peer import Ns3
from peers.simgrid_peer import SimGrid


@pytest.fixture(scope="session")
def simgrid(tmp_path_factory: pytest.TempPathFactory) -> SimGrid:
    missing = SimGrid.missing()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the peer: {missing}")
        pytest.skip(f"the peer cannot be built: {missing}")
    return SimGrid.build(tmp_path_factory.mktemp("simgrid"))


@pytest.fixture(scope="session")
def ns3(tmp_path_factory: pytest.TempPathFactory) -> Ns3:
    missing = Ns3.missing()
    if missing is not None:
        pytest.skip(f"the peer cannot be built: {missing}")
    return Ns3.build(tmp_path_factory.mktemp("ns3"))
