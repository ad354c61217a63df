"""Laws of calibrations: a slower cluster is learnt, held-out rows judge, files are read as they were written."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.collectives.calibration import Calibration, Measured, fit, read
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl_flows import Nccl
from topoflow.collectives.nccl_tests_log import read as read_log
from topoflow.collectives.nccl_time import INSIDE, NETWORKS, predict
from topoflow.hardware.presets import preset

SIZES = [2**power for power in range(10, 32, 2)]
SLOWER = (
    replace(INSIDE["hopper"], launch=9e-6, nvls_cost=2.0, cost=(2.77, 1.44, 1.5)),
    replace(NETWORKS["infiniband"], efficiency=0.7, hop=(9e-6, 14e-6, 20e-6)),
)
FAST = {"hop": [1, 1, 1], "message": 0, "half": 1, "efficiency": 2, "peer": 0}


def measured(*ranks: int) -> list[Measured]:
    """Return what a slower cluster would measure."""
    comms = [Communicator(preset("hgx_h100"), count) for count in ranks]
    return [
        Measured(comm, op, size, 4, predict(comm, op, size, coefficients=SLOWER).time)
        for comm in comms
        for op in ("all_reduce", "all_gather")
        for size in SIZES
    ]


@cache
def fitted() -> Calibration:
    return fit(measured(8, 32), "infiniband", ["a.log"])


def test_rows_that_were_held_out_are_predicted_better_than_before() -> None:
    calibration = fitted()
    assert calibration.held_out == calibration.rows == len(SIZES) * 2
    assert calibration.error < 0.05 < calibration.prior_error
    assert calibration.network.efficiency == pytest.approx(0.7, rel=0.1)


def test_rows_of_the_shipped_coefficients_move_nothing() -> None:
    comm = Communicator(preset("hgx_h100"), 16)
    rows = [Measured(comm, "all_reduce", size, 4, predict(comm, "all_reduce", size).time) for size in SIZES]
    calibration = fit(rows, "infiniband", ["a.log"])
    assert (calibration.inside, calibration.network, calibration.error) == (
        INSIDE["hopper"],
        NETWORKS["infiniband"],
        0.0,
    )


def test_a_file_is_read_as_it_was_written_and_used(tmp_path: Path) -> None:
    calibration, path = fitted(), tmp_path / "cluster.json"
    calibration.write(path)
    assert read(path) == calibration
    assert Nccl(calibration=str(path)).coefficients(Communicator(preset("hgx_h100"), 8)) == (
        calibration.inside,
        calibration.network,
    )
    with pytest.raises(ValueError, match=r"nccl.network: must be left out with nccl.calibration"):
        Nccl(calibration=str(path), network="slingshot")
    with pytest.raises(ValueError, match="kind: must be ampere, as node dgx_a100 is, got hopper"):
        Nccl(calibration=str(path)).coefficients(Communicator(preset("dgx_a100"), 8))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": "other"}, "format: must be"),
        ({"kind": "pascal"}, "kind: must be one of .* got 'pascal'"),
        ({"inside": {}}, "inside: must have launch, "),
        ({"kind": ["hopper"]}, r"kind: must be one of .* got \['hopper'\]"),
        ({"error": "small"}, "error: must be a number, got 'small'"),
        ({"rows": float("inf")}, "must be JSON, got Infinity"),
        (
            {"network": {"hop": [1, 1, 1], "message": 0, "half": 1, "efficiency": 2, "peer": 0}},
            "network.efficiency: must",
        ),
        (
            {"network": {"hop": [1, 1, 1], "message": 0, "half": 1, "efficiency": [1, 1, 1], "peer": 0}},
            r"network.efficiency: must be a number, got \[1, 1, 1\]",
        ),
        (
            {"network": {"hop": 1, "message": 0, "half": 1, "efficiency": 1, "peer": 0}},
            "network.hop: must be three numbers, got 1",
        ),
        (
            {"network": {"hop": [1, 1], "message": 0, "half": 1, "efficiency": 1, "peer": 0}},
            r"network.hop: must be three numbers, got \[1, 1\]",
        ),
        ({"network_name": "token_ring"}, r"cluster.json: network_name: must be one of .* got 'token_ring'"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, change: dict[str, object], error: str) -> None:
    path = tmp_path / "cluster.json"
    fitted().write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=error) as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_logs_in_json_are_those_that_nccl_tests_writes(tmp_path: Path) -> None:
    rows = [
        {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "-1",
            "out_of_place": {"time": 10.5},
        }
        for size in (1024, 2048)
    ]
    log = {"version": 1, "args": ["./build/all_gather_perf", "-g", "8"], "nccl_version": 22807, "results": rows}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log | {"config": {"devices": [{"rank": rank} for rank in range(8)]}}))
    parsed = read_log(path)
    assert (parsed.op, parsed.ranks, parsed.version, parsed.dtype) == ("all_gather", 8, "2.28.7", "float")
    assert parsed.times == {1024: 1.05e-5, 2048: 1.05e-5}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"config": None}, "config: must be an object"),
        ({"config": {"devices": 8}}, "config.devices: must be a list"),
        ({"nccl_version": float("inf")}, "must be JSON, got Infinity"),
        ({"results": 3}, "results: must be a list"),
        ({"results": [{"out_of_place": 1, "type": ["float"]}]}, r"results\[0\].type: must be a string"),
        ({"results": [{"out_of_place": 1, "type": "float"}]}, r"results\[0\].out_of_place: must be an object"),
        ({"results": []}, "results: must have rows"),
    ],
)
def test_a_damaged_log_in_json_is_one_line(tmp_path: Path, change: dict[str, object], error: str) -> None:
    log = {"args": ["all_gather_perf"], "nccl_version": 22807, "config": {"devices": []}, "results": []}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log | change))
    with pytest.raises(ValueError, match=rf"log\.json: {error}"):
        read_log(path)
    path.write_text('{"args": ' + "[" * 100_000)
    with pytest.raises(ValueError, match=r"log\.json: must be JSON"):
        read_log(path)


def test_the_verb_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text("# Collective test starting: all_reduce_perf\n8 2 float sum -1 20 0 0 0 20 0 0 0\n")
    for arguments, error in (
        (["node=hgx_h100"], "LOG: must be at least one file"),
        ([str(log)], "gpus: must be given, as the log does not name its ranks"),
        ([str(log), "gpus=8"], "must have at least 4 rows, got 1"),
        ([str(log), "gpus=9"], f"{log}: gpus: must fill whole nodes of 8, got 9"),
    ):
        assert main(["calibrate", "nccl", *arguments, "--out", str(tmp_path / "out.json")]) != 0
        assert error in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
