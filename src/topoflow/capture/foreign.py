"""Files that people take for traces of a job but that do not say enough: what they are, and what to give instead.

Source: mlcommons/chakra src/feeder/json_node.cpp.
"""

from __future__ import annotations

from topoflow.capture.merge.parts import InputFile


def recognise(source: InputFile) -> str:
    """Return what the file is and what to give instead, in one phrase; empty if it is none of these."""
    head = source.data[:512]
    if b'"workload_graph"' in head:
        return "Chakra's graph as JSON: give its protobuf (.et), or the PyTorch execution traces that it was made from"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return (
            "a Python pickle that is no dump of Flight Recorder, which is never loaded: "
            "profile a few steps of every rank with torch.profiler"
        )
    if head.lstrip().startswith(b"[") and b'"ph"' in head:
        return (
            "a list of trace events alone, without rank and world size (distributedInfo): "
            "give the file as torch.profiler wrote it"
        )
    if head.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS: get the file itself (git lfs pull)"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "a text in UTF-16, as PowerShell writes it: write it in UTF-8"
    if head.startswith((b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
        return "a file packed by zstd, bzip2 or xz: unpack it"
    if head[257:262] == b"ustar" or head.startswith(b"PK\x03\x04"):
        return "an archive of files: unpack it and give the folder"
    if head.startswith(b"SQLite format 3"):
        return "a database (of Nsight Systems?): profile a few steps of every rank with torch.profiler"
    return ""
