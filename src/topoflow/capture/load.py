"""One call for every trace: files or folders of any supported format in, one merged Trace out."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from topoflow.capture import formats
from topoflow.capture.base import Trace, brief
from topoflow.capture.foreign import recognise
from topoflow.capture.layout import MeshLayout
from topoflow.capture.merge import merge
from topoflow.capture.merge.parts import InputFile, RankRecord
from topoflow.files import CutOffGzip, read_bytes, read_cut_off_gzip
from topoflow.memory import free_memory, no_garbage_collection
from topoflow.processes import map_processes

MAX_GZIP_RATIO = 20  # size of a profile by that of its gzip file, at most
MEMORY_OF_FILE = 3  # B of memory, at most, by B of a profile that is read
LEAST_FOR_PROCESSES = 2**25  # B of profiles; smaller ones take less time than the start of processes and their answers


class Format(Protocol):
    """The functions of a module of ``topoflow.capture.formats``.

    A module whose ``parse`` keeps what can be read of a file without its end says ``MAY_BE_CUT_OFF = True``.
    """

    def matches(self, source: InputFile) -> bool:
        """Return whether the file is of this format, by its content."""

    def parse(self, source: InputFile) -> list[RankRecord]:
        """Return the parts of the file, one or more for each rank."""


def known_formats() -> dict[str, Format]:
    """Name -> module, found by looking into ``topoflow.capture.formats``."""
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    return {name: cast(Format, import_module(f"{formats.__name__}.{name}")) for name in names}


def load(
    paths: Sequence[Path],
    one_group: bool = False,
    layout: Callable[[int | None], MeshLayout] | None = None,
    rank: int | None = None,
    sizes_required: bool = True,
) -> Trace:
    """Return the job in ``paths``: files, or folders of them, of one or more ranks each.

    Formats are recognised by content. ValueError names file, place, law and value: a damaged file, sizes that no file
    records, ranks that disagree. In a folder, files that are no trace are passed over and named in the notes; a file
    given by name must be a trace.
    ``one_group``: the job had one process group, so that operations whose group no file describes are of all ranks.
    ``layout``: the mesh of the job of its number of ranks, if that is known, by which recorded ranks stand for others.
    ``rank``: the only one to take. ``sizes_required``: see ``merge``.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise ValueError("paths: must name a file or folder, got none")
    parts: list[RankRecord] = []
    notes: list[str] = []
    with no_garbage_collection():
        files = [path for path in paths if not path.is_dir()]
        records_by_file = dict(zip(files, _read_files(files), strict=True))
        for path in paths:
            parts += _read_folder(path, notes) if path.is_dir() else records_by_file[path]
        if rank is not None:
            parts = _only(parts, rank)
        if layout is not None:
            parts = [_placed(part, layout(part.world_size)) for part in parts]
        trace = merge(parts, _job_name(paths), one_group, sizes_required)
    return replace(trace, notes=(*trace.notes, *notes))


def _placed(part: RankRecord, layout: MeshLayout) -> RankRecord:
    return replace(part, layout=layout, world_size=part.world_size or layout.world_size)


def _only(parts: Sequence[RankRecord], rank: int) -> list[RankRecord]:
    matching = [part for part in parts if part.rank == rank]
    if not matching:
        ranks = brief(sorted({part.rank for part in parts}))
        raise ValueError(f"--rank: must be one that the files record, {ranks}, got {rank}")
    return matching


def _read_folder(folder: Path, notes: list[str]) -> list[RankRecord]:
    """Return the parts in all files of a folder.

    A file with several ranks that has all ranks of the other files is read alone: the recorder leaves the merged trace
    in the folder of the ranks' traces, and so does a tool that makes graphs of traces.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    read = _read_files(files, must_match=False)
    by_file = {file.name: parts for file, parts in zip(files, read, strict=True)}
    notes += [f"{name} is no trace and is passed over" for name, parts in by_file.items() if not parts]
    by_file = {name: parts for name, parts in by_file.items() if parts}
    if not by_file:
        raise ValueError(f"{folder}: must hold a trace ({', '.join(known_formats())}), got {_others(files)}")
    starts = max(part.restart for parts in by_file.values() for part in parts)
    earlier = [name for name, parts in by_file.items() if all(part.restart < starts for part in parts)]
    notes += [f"{name} is of an earlier start of the job and is passed over" for name in earlier]
    by_file = {name: parts for name, parts in by_file.items() if name not in earlier}
    recorded = {part.rank for parts in by_file.values() for part in parts if not (part.derived or part.lists_groups)}
    derived = [name for name, parts in by_file.items() if all(part.derived and part.rank in recorded for part in parts)]
    notes += [f"{name} is made of other traces of its rank and is passed over" for name in derived]
    by_file = {name: parts for name, parts in by_file.items() if name not in derived}
    merged = [name for name, parts in by_file.items() if len(parts) > 1 and not parts[0].lists_groups]
    if len(merged) == 1 and {part.rank for part in by_file[merged[0]]} >= {
        part.rank for parts in by_file.values() for part in parts
    }:
        return by_file[merged[0]]
    return [part for parts in by_file.values() for part in parts]


def _others(files: Sequence[Path]) -> str:
    """Return how many files of a folder are no traces, and what the first one is."""
    first = f", the first of which is {_content(InputFile(files[0].name, read_bytes(files[0])))}" if files else ""
    return f"{len(files)} other files{first}"


def _read_files(paths: Sequence[Path], must_match: bool = True) -> list[list[RankRecord]]:
    """Return the parts of each file. Large files are read in as many processes as processors and memory allow."""
    function = partial(_read_file, must_match=must_match)
    sizes = [path.stat().st_size * (MAX_GZIP_RATIO if path.suffix == ".gz" else 1) for path in paths if path.is_file()]
    workers = min(len(paths), os.cpu_count() or 1, free_memory() // (MEMORY_OF_FILE * max(sizes, default=0) + 1))
    if workers < 2 or sum(sizes) < LEAST_FOR_PROCESSES:
        return [function(path) for path in paths]
    known_formats()  # imported once, before the processes are forked
    return list(map_processes(function, paths, workers))


def _read_file(path: Path, must_match: bool = True) -> list[RankRecord]:
    """Return the parts of one file; without ``must_match``, none for a file that is no trace."""
    try:
        source = InputFile(str(path), read_bytes(path))
    except CutOffGzip as error:
        return _read_cut_off(path, error)
    for module in known_formats().values():
        if module.matches(source):
            parts = module.parse(source)
            if must_match and not parts:
                raise ValueError(f"{path}: must record a rank of a job, got none")
            return parts
    foreign = recognise(source)
    if source.looks_like_json and source.damage and not foreign:
        raise ValueError(source.damage)
    if must_match:
        raise ValueError(f"{path}: must be one of {', '.join(known_formats())}, got {_content(source)}")
    return []


def _read_cut_off(path: Path, error: CutOffGzip) -> list[RankRecord]:
    """Return the parts of a gzip file without its end, if its format has rows of which the first ones are enough."""
    source = InputFile(str(path), read_cut_off_gzip(path), gzip_is_cut_off=True)
    for module in known_formats().values():
        if getattr(module, "MAY_BE_CUT_OFF", False) and module.matches(source):
            return module.parse(source)
    raise error


def _content(source: InputFile) -> str:
    """Return what a file is that is no trace."""
    if foreign := recognise(source):
        return foreign
    if isinstance(source.document, dict):
        return f"JSON with {', '.join(list(source.document)[:5]) or 'nothing'}"
    return "JSON" if source.document is not None else f"{len(source.data)} bytes that begin with {source.data[:8]!r}"


def _job_name(paths: Sequence[Path]) -> str:
    """The name of the only file or folder without its endings, or of the folder that several are in."""
    path = paths[0] if len(paths) == 1 else paths[0].parent
    return path.absolute().name.split(".")[0] or "trace"
