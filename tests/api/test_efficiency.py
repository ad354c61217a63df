"""``efficiency=``: what it changes in a comparison, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topoflow

SMALL = "workload.layers=2"


def test_measured_kernels_take_longer_than_the_roofline() -> None:
    keys = {"workload": "transformer", "servers": 2, "gpu": "h100", "fabric": "ideal_switch"}
    roofline, measured = topoflow.compare(SMALL, efficiency=["roofline", "measured"], **keys)
    assert measured.iteration_time > 1.2 * roofline.iteration_time
    assert [result.settings.world for result in (roofline, measured)] == ["efficiency=roofline", "efficiency=measured"]


def test_an_efficiency_that_a_gpu_made_in_python_does_not_have_is_refused() -> None:
    gpu = topoflow.workload.gpu.Gpu("mine", {"bfloat16": 1e15}, 1e12, 1e11, 80e9)
    with pytest.raises(ValueError, match=r"^efficiency: must be that of mine \(gpu\.efficiency\), which is roofline"):
        topoflow.compare(SMALL, workload="transformer", servers=2, gpu=gpu, fabric="ring", efficiency="measured")


def test_times_that_a_gpu_cannot_reach_name_their_file(tmp_path: Path) -> None:
    """All matrix multiplications of GPT-2, of 12 sequences on a GPU, in a picosecond each."""
    file = tmp_path / "kernels.json"
    sizes = ("768_2304", "768_768", "768_3072", "3072_768", "768_50257")
    rows = [{"name": f"Dense_{size}", "pc_str": "2-1-1", "fw_time": 1e-9, "bw_time": 1e-9} for size in sizes]
    file.write_text(json.dumps({"batch_size": 48, "ngpus": 4, "measurements": rows}))
    keys = {"workload": "transformer", "strategy": "data_parallel", "servers": 1, "fabric": "ideal_switch"}
    with pytest.raises(
        ValueError, match=r"kernels\.json: must be times that a A100 can reach, got \d{3}\.\d% of its peak"
    ):
        topoflow.compare(f"workload.kernels={file}", "gpu.local_bandwidth=1e15", **keys)
