"""Readers of networks and of measurements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from damaged.reader import ROOT, Files, Reader, content, shared


def _use_links(paths: list[Path]) -> None:
    from topoflow.demand import Demand
    from topoflow.fabric.link_list import read_links
    from topoflow.fabric.links import Links

    (path,) = paths
    hosts = read_links(path).nodes[:2]
    fabric = Links(str(path), hosts=list(hosts), servers_forward=True).build(len(hosts), Demand(len(hosts)))
    fabric.route(0, 1)


def _use_xml(paths: list[Path]) -> None:
    from topoflow.hardware import Node

    node = Node.from_nccl_xml(paths[0])
    for gpu in node.gpus[:8]:
        node.ports_of(gpu)
        for other in node.gpus[:8]:
            node.path(gpu, other)


def _use_nccl_tests(paths: list[Path]) -> None:
    from topoflow.cli.calibrate import rows

    rows(paths[0], {"node": "hgx_h100", "gpus": "8"})


def _use_calibration(paths: list[Path]) -> None:
    from topoflow.cli.calibrate import changes
    from topoflow.collectives.calibration import read
    from topoflow.collectives.communicator import Communicator
    from topoflow.collectives.nccl_flows import Nccl
    from topoflow.collectives.nccl_time import predict
    from topoflow.hardware.presets import preset

    calibration = read(paths[0])
    changes(calibration)
    str(calibration.note)
    for ranks in (8, 16):
        comm = Communicator(preset("hgx_h100"), ranks)
        predict(comm, "all_reduce", 2**20, coefficients=Nccl(calibration=str(paths[0])).coefficients(comm))


def _use_efficiency(paths: list[Path]) -> None:
    from topoflow.strategy.data_parallel import DataParallel
    from topoflow.traffic.lower import lower
    from topoflow.workload.gpu import Gpu
    from topoflow.workload.transformer import Transformer

    gpu = Gpu("some", {"bfloat16": 100e12}, 1e12, 100e9, 40e9, efficiency=str(paths[0]))
    workload = Transformer(gpu, layers=2, hidden=256, heads=4, key_value_heads=4, sequence=1024).build()
    lower(workload, DataParallel().place(workload, 2))


def _use_kernels(paths: list[Path]) -> None:
    from topoflow.workload.kernels import Kernels

    kernels = Kernels.load(str(paths[0]))
    for kernel in kernels.measured:
        for samples in (1.0, 100.0, 1e6):
            kernels.times(kernel, samples, 4)


def _use_sizes(paths: list[Path]) -> None:
    from topoflow.workload.flow_sizes import read_sizes
    from topoflow.workload.gpu import Gpu
    from topoflow.workload.messages.flows import Arrivals

    gpu = Gpu("some", {"float32": 1e12}, 1e12, 100e9, 40e9)
    Arrivals(gpu, read_sizes(paths[0]), 100, 0.5, 1e9, 0).messages(4)
    read_sizes(paths[0]).of(np.linspace(0, 1, 9))


def _use_blocks(paths: list[Path]) -> None:
    from topoflow.papers.dragonfly.motifs.block_file import read_blocks

    read_blocks(paths[0]).mesh()


def _links_csv(scratch: Path) -> Iterator[Files]:
    yield content(ROOT / "examples" / "four_servers.csv")
    yield {"n.csv": b"dst,src,latency,bandwidth\nb, a,1e-6,1e9\na, b,0,2e9\nc,b,0,1e9\nb,c,0,1e9\n"}


def _links_json(scratch: Path) -> Iterator[Files]:
    from tests.fabric.test_links_fabric import PAIR

    yield {"n.json": json.dumps({"links": PAIR}).encode()}
    yield {"n.json": json.dumps({"links": PAIR, "servers": ["a", "b"]}, indent=1).encode()}
    for path in shared("field_cases/server_is_no_switch/*.json"):
        yield content(path)


def _xml(scratch: Path) -> Iterator[Files]:
    from tests.hardware.test_nodes import COMPLETE

    yield {"topo.xml": COMPLETE.replace("><", ">\n<").encode()}
    for path in (*shared("nccl_topo_xml/*-topo.xml"), *shared("nccl_topo_xml/simccl_2*.xml")):
        yield {"topo.xml": path.read_bytes()}


def _nccl_tests(scratch: Path) -> Iterator[Files]:
    yield content(ROOT / "examples" / "all_reduce_perf.log")


def _nccl_tests_json(scratch: Path) -> Iterator[Files]:
    row: dict[str, Any] = {"type": "float", "redop": "sum", "root": "-1", "out_of_place": {"time": 10.5}}
    rows = [{"size": size, "count": size // 4, **row} for size in (1024, 2048)]
    log = {"version": 1, "args": ["./build/all_gather_perf", "-g", "8"], "nccl_version": 22807, "results": rows}
    yield {"log.json": json.dumps(log | {"config": {"devices": [{"rank": rank} for rank in range(8)]}}).encode()}


def _calibration(scratch: Path) -> Iterator[Files]:
    from tests.collectives.test_calibration import fitted

    fitted().write(scratch / "cluster.json")
    yield content(scratch / "cluster.json")


def _efficiency(scratch: Path) -> Iterator[Files]:
    from tests.workload.test_efficiency import SHIPPED, plain

    yield {"half.json": json.dumps(plain()).encode()}
    yield content(next(path for path in SHIPPED if path.stem == "a100"))


def _kernels(scratch: Path) -> Iterator[Files]:
    folder = ROOT / "src" / "topoflow" / "workload" / "measured" / "topoopt"
    for path in sorted(folder.glob("*.json")):
        yield content(path)


def _sizes(scratch: Path) -> Iterator[Files]:
    yield {"sizes.txt": b"100 0\n1000 0.5\n\n10000 0.9\n1e6 1\n"}
    for path in shared("flow_cdf/*.txt"):
        yield content(path)


def _blocks(scratch: Path) -> Iterator[Files]:
    from tests.papers.dragonfly.test_block_file import COARSE, TINY

    for text in (COARSE, TINY):
        yield {"mesh.amr": text.encode()}


def _binary_blocks(scratch: Path) -> Iterator[Files]:
    from topoflow.papers.dragonfly.motifs.block_file import read_blocks, write_blocks

    for files in _blocks(scratch):
        (scratch / "text").write_bytes(files["mesh.amr"])
        write_blocks(scratch / "mesh.amr", read_blocks(scratch / "text"))
        yield content(scratch / "mesh.amr")


NETWORKS = {
    "links_csv": Reader(_use_links, _links_csv),
    "links_json": Reader(_use_links, _links_json),
    "topology_xml": Reader(_use_xml, _xml),
    "nccl_tests": Reader(_use_nccl_tests, _nccl_tests),
    "nccl_tests_json": Reader(_use_nccl_tests, _nccl_tests_json),
    "calibration": Reader(_use_calibration, _calibration),
    "efficiency": Reader(_use_efficiency, _efficiency),
    "kernels": Reader(_use_kernels, _kernels),
    "flow_sizes": Reader(_use_sizes, _sizes),
    "blocks_text": Reader(_use_blocks, _blocks),
    "blocks_binary": Reader(_use_blocks, _binary_blocks),
}
