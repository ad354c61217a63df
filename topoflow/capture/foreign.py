"""Files that people take for traces of a job but that do not say enough: what they are, and what to give instead.

Sources: mlcommons/chakra schema/protobuf/et_def.proto; NVIDIA/nccl plugins/profiler/inspector; pytorch
torch/csrc/distributed/c10d/FlightRecorder.hpp.
"""

from __future__ import annotations

from topoflow.capture.merge.parts import Source


def recognise(source: Source) -> str:
    """What the file is and what to give instead, in one phrase; empty if it is none of these."""
    head = source.data[:512]
    if b"chakra" in head[:128] and not source.looks_like_json:
        return (
            "Chakra's protobuf, which the PyTorch execution traces of the ranks were converted to: "
            "give those (JSON with a schema and nodes), or the ranks' profiles"
        )
    if b'"workload_graph"' in head:
        return "Chakra's graph as JSON: give the PyTorch execution traces that it was converted from"
    if b"inspector_output_format_version" in head or b'"coll_perf"' in head:
        return (
            "a log of NCCL Inspector, which has some operations but not all, and no compute: "
            "profile a few steps of every rank with torch.profiler"
        )
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return (
            "a Python pickle (a Flight Recorder dump?), which is never loaded: "
            "profile a few steps of every rank with torch.profiler"
        )
    if head.startswith(b"SQLite format 3"):
        return "a database (of Nsight Systems?): profile a few steps of every rank with torch.profiler"
    return ""
