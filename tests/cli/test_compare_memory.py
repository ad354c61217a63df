"""What a comparison says about memory: what every strategy needs, and which would not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate

from topoflow.cli import main
from topoflow.study.configure.composition import composed, initialized
from topoflow.units import register_resolvers

pytestmark = pytest.mark.usefixtures("without_pixels")

MOE = ("workload=moe", "strategy=parallel", "servers=4", "strategy.tensor=4", "gpu=h100", "fabric=ideal_switch")


def rows(out: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())["rows"]
    return records


def test_memory_per_gpu_is_what_the_strategy_needs_on_the_fullest(tmp_path: Path) -> None:
    sizes = ["workload.tables=6", "workload.rows=100000", "servers=4"]
    assert main(["compare", "fabric=ideal_switch", *sizes, f"out={tmp_path}"]) == 0
    register_resolvers()
    with initialized():
        config = composed("compare", sizes)
    workload = instantiate(config.workload).build()
    needed = instantiate(config.strategy).place(workload, 4).bytes_per_gpu(workload)
    assert len(set(needed.tolist())) > 1, "6 tables on 4 servers"
    assert [row["memory_per_gpu"] for row in rows(tmp_path)] == [needed.max()]


def test_what_does_not_fit_is_noted_once_and_not_called_the_fastest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = ["strategy.expert=1,4", "bandwidth_gbps=25,100", "workload.layers=8"]
    assert main(["compare", *MOE, *swept, "gpu.memory=30e9", "gpu.memory_share=1", f"out={tmp_path}"]) == 0
    needed = {row["memory_per_gpu"] for row in rows(tmp_path)}
    assert len(needed) == 2
    assert min(needed) < 30e9 < max(needed)
    printed = capsys.readouterr().out.splitlines()
    notes = [line for line in printed if "would not run" in line]
    assert len(notes) == 1, "bandwidth does not change what is needed"
    assert notes[0].startswith("moe on 4 servers, strategy parallel, strategy.expert=1: needs ")
    assert notes[0].endswith(" GB per GPU, has 30 GB: would not run")
    (answer,) = [line for line in printed if "the fastest" in line]
    assert answer.startswith("moe on 4 servers, of what fits in memory: ideal_switch, expert=4")
    assert notes[0] in (tmp_path / "report.html").read_text()


def test_a_recorded_job_says_nothing_about_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Path(__file__).resolve().parents[2] / "examples" / "ddp_4_ranks.jsonl.gz"
    recorded = ["workload=captured", f"workload.trace={trace}", "fabric=ideal_switch"]
    assert main(["compare", *recorded, "gpu.memory=1", f"out={tmp_path}"]) == 0
    assert [row["memory_per_gpu"] for row in rows(tmp_path)] == [None]
    assert "would not run" not in capsys.readouterr().out
