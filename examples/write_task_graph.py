"""Write an iteration as a task graph of FlexFlow (FlatBuffers), as TopoOpt's authors publish theirs.

    python examples/write_task_graph.py examples/traces/dlrm_4_servers.fbuf

The job is a DLRM with four embedding tables on four servers: tables on one server each, the rest data parallel. The
fields and their slots are in ``topoflow/capture/formats/taskgraph.py``.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import flatbuffers

from topoflow.capture.formats.taskgraph import ALL_REDUCE, BACKWARD, FORWARD, GPU, NOMINAL_LINK, TRANSFER, UPDATE
from topoflow.strategy.hybrid import Hybrid
from topoflow.traffic.base import Collective, Compute, Task, Traffic, Transfer
from topoflow.traffic.lower import lower
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu

A100 = Gpu("A100", {"float32": 19.5e12}, memory_bandwidth=1555e9, local_bandwidth=300e9, memory=40e9)
KINDS = {"forward": FORWARD, "backward": BACKWARD, "optimizer": UPDATE}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.parse_args().file.write_bytes(task_graph(iteration()))


def iteration() -> Traffic:
    """The tasks of the job."""
    workload = Dlrm(A100, batch_per_gpu=8, tables=4, rows=1000, dense_size=64, feature_size=64).build()
    return lower(workload, Hybrid().place(workload, servers=4))


def task_graph(traffic: Traffic) -> bytes:
    """``traffic`` as a FlatBuffers file. A server has device ``server``, a pair of them ``n + source * n + target``."""
    builder, n = flatbuffers.Builder(), traffic.servers
    pairs = [(source, target) for source in range(n) for target in range(n) if source != target]
    devices = [device(builder, GPU, server, node=server) for server in range(n)]
    devices += [
        device(builder, NOMINAL_LINK, n + source * n + target, between=source * n + target) for source, target in pairs
    ]
    following: list[list[int]] = [[] for _ in traffic.tasks]
    for number, one in enumerate(traffic.tasks):
        for earlier in one.after:
            following[earlier].append(number)
    tasks = [task(builder, n, number, one, following[number]) for number, one in enumerate(traffic.tasks)]
    task_list, device_list = offsets(builder, tasks), offsets(builder, devices)
    builder.StartObject(10)
    builder.PrependUint32Slot(1, n, 0)
    builder.PrependUOffsetTRelativeSlot(8, task_list, 0)
    builder.PrependUOffsetTRelativeSlot(9, device_list, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def device(builder: flatbuffers.Builder, kind: int, number: int, node: int = 0, between: int = 0) -> int:
    builder.StartObject(4)
    builder.PrependInt16Slot(0, kind, 0)
    builder.PrependUint64Slot(1, number, 0)
    builder.PrependUint64Slot(2, node, 0)
    builder.PrependUint64Slot(3, between, 0)
    return builder.EndObject()


def task(builder: flatbuffers.Builder, n: int, number: int, one: Task, following: Sequence[int]) -> int:
    """Of an all-reduce the file names the servers that take part, and not what follows it."""
    kind, at, milliseconds, size = ALL_REDUCE, 0, 0.0, 0
    if isinstance(one, Compute):
        kind, at, milliseconds = KINDS[one.name.split()[0]], one.server or 0, one.seconds * 1e3
    elif isinstance(one, Transfer):
        kind, at, size = TRANSFER, n + one.source * n + one.target, round(one.bytes)
    elif isinstance(one, Collective):
        following, size = one.group, round(one.bytes)
    named = vector(builder, 8, following, builder.PrependUint64)
    builder.StartObject(6)
    builder.PrependInt16Slot(0, kind, 0)
    builder.PrependUint64Slot(1, number, 0)
    builder.PrependUint64Slot(2, at, 0)
    builder.PrependFloat32Slot(3, milliseconds, 0.0)
    builder.PrependUint64Slot(4, size, 0)
    builder.PrependUOffsetTRelativeSlot(5, named, 0)
    return builder.EndObject()


def offsets(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    return vector(builder, 4, tables, builder.PrependUOffsetTRelative)


def vector(builder: flatbuffers.Builder, width: int, values: Sequence[int], prepend: Callable[[int], None]) -> int:
    builder.StartVector(width, len(values), width)
    for value in reversed(values):
        prepend(value)
    return builder.EndVector()


if __name__ == "__main__":
    main()
