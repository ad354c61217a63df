"""Every real trace replays within 5 % of the step that was recorded, or says why it cannot.

The recorded network is not described in the files. It is taken as an ideal switch with the bus bandwidth that the
recorded collectives reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.capture import jsonl
from topoflow.capture.load import load
from topoflow.capture.summary import Summary, summarize
from topoflow.operations import bus_factor

TOLERANCE = 0.05
Files = Callable[[str], list[Path]]


@pytest.fixture
def files(
    shared_data: Path,
    dlrm_traces: tuple[Path, Path],
    task_graphs: dict[str, Path],
    unpacked: Callable[[str], Path],
) -> Files:
    """Return the files of a job by name."""
    megatron = shared_data / "megatron_tp2"
    chakra = "chakra_et/astra_sim_microbench.tar.xz", "chakra_et/mlcommons_feeder_2024-06.tar.gz"
    sources: dict[str, Callable[[], list[Path]]] = {
        "resnet50_ddp": lambda: [shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"],
        "megatron_tp2": lambda: [megatron / f"kineto_rank{rank}.pt.trace.json.gz" for rank in (0, 1)],
        "megatron_tp2_folder": lambda: [megatron],
        "megatron_chakra": lambda: [megatron / f"chakra.{rank}.et" for rank in (0, 1)],
        "megatron_execution_traces": lambda: [megatron / f"pytorch_et_{rank}.json.gz" for rank in (0, 1)],
        "dlrm_8_gpus": lambda: [*dlrm_traces],
        "dlrm_execution_traces": lambda: [dlrm_traces[1]],
        "dlrm_profiles_alone": lambda: [dlrm_traces[0]],
        "two_v100": lambda: [shared_data / "hta_single_rank" / "df_index_resolver_df_index_resolver.json.gz"],
        "torchrec": lambda: [shared_data / "torchrec_2gpu"],
        "two_groups": lambda: [shared_data / "chakra_et" / f"two_pg_allreduce.{rank}.et" for rank in (0, 1)],
        "custom_ring": lambda: [
            unpacked(chakra[0]) / "examples/system/custom_collectives/custom_ring_allreduce_8npus_1MB"
        ],
        "feeder": lambda: [unpacked(chakra[1]) / "tests" / "data"],
        "vgg_task_graph": lambda: [task_graphs["100vgg_16"]],
    }
    return lambda name: sources[name]()


PROFILES = ("resnet50_ddp", "megatron_tp2", "megatron_tp2_folder", "dlrm_8_gpus")
WITHOUT_TIMES = (
    "megatron_chakra",
    "megatron_execution_traces",
    "dlrm_execution_traces",
    "custom_ring",
    "feeder",
    "vgg_task_graph",
)
REFUSED = {
    "dlrm_profiles_alone": "all_to_all must name the ranks of its process group",
    "two_v100": "all_reduce must have a size, got none: profile with record_shapes=True",
    "torchrec": "all_to_all must have a size, got none: profile with record_shapes=True",
    "two_groups": "if all ranks were the job's only group, topoflow capture import --one-group",
}


def replayed(paths: Sequence[Path], folder: Path, **keys: Any) -> tuple[float, Summary]:
    """Return the replayed step (s) and what was recorded."""
    trace = load(paths)
    jsonl.write(trace, folder / "trace.jsonl")
    (result,) = topoflow.compare(f"workload.trace={folder / 'trace.jsonl'}", workload="captured", **keys)
    return result.iteration_time, summarize(trace)


def recorded_bandwidth(summary: Summary) -> float:
    """Return the bus bandwidth of all collectives of a step together, Gb/s."""
    reached = [line for line in summary.collectives if line.bus_bandwidth]
    sent = [bus_factor(line.op, line.group_size) * line.bytes_per_iteration for line in reached]
    seconds = sum(size / (line.bus_bandwidth or 1.0) for size, line in zip(sent, reached, strict=True))
    return sum(sent) / seconds * 8e-9


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_replays_as_long_as_recorded_on_its_own_network(name: str, files: Files, tmp_path: Path) -> None:
    bandwidth = recorded_bandwidth(summarize(load(files(name))))
    network = {"fabric": "ideal_switch", "degree": 1, "bandwidth_gbps": bandwidth}
    step, summary = replayed(files(name), tmp_path, **network)
    assert step == pytest.approx(summary.iteration_time, rel=TOLERANCE)


@pytest.mark.parametrize("name", PROFILES)
def test_an_infinitely_fast_network_saves_at_most_the_exposed_communication(
    name: str, files: Files, tmp_path: Path
) -> None:
    network = {"fabric": "ideal_switch", "degree": 1, "bandwidth_gbps": 1e9, "latency_us": 0}
    step, summary = replayed(files(name), tmp_path, **network)
    assert summary.iteration_time is not None
    exposed = max(share.exposed or 0.0 for share in summary.shares)
    assert (1 - exposed - TOLERANCE) * summary.iteration_time <= step <= summary.iteration_time * (1 + 1e-6)


@pytest.mark.parametrize(("name", "gpus_per_node"), [("megatron_tp2", 2), ("dlrm_8_gpus", 8)])
def test_a_job_of_one_host_replays_as_long_as_recorded_on_the_gpus_of_a_node(
    name: str, gpus_per_node: int, files: Files, tmp_path: Path
) -> None:
    node = {"node": "dgx_a100", "gpus_per_node": gpus_per_node, "fabric": "rail_optimized"}
    step, summary = replayed(files(name), tmp_path, **node)
    assert step == pytest.approx(summary.iteration_time, rel=TOLERANCE)


@pytest.mark.parametrize("name", WITHOUT_TIMES)
def test_a_trace_without_times_claims_no_step(name: str, files: Files) -> None:
    summary = summarize(load(files(name)))
    assert (summary.iteration_time, summary.communication_share) == (None, None)


@pytest.mark.parametrize("name", REFUSED)
def test_a_trace_that_lacks_sizes_or_groups_is_refused_in_one_line(name: str, files: Files) -> None:
    with pytest.raises(ValueError, match=r"^\S+: ") as refused:
        load(files(name))
    assert REFUSED[name] in str(refused.value)
    assert "\n" not in str(refused.value)
