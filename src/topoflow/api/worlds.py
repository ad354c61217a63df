"""A world that was simulated by itself: one from a file, or one made by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoflow.case.frame import frame
from topoflow.engine.base import Timeline, World
from topoflow.printable import html_table
from topoflow.report.files import check_folder, whole_folder
from topoflow.units import human
from topoflow.worldfile.world_file import WorldFile

FLOWS = ("id", "start", "finish")
LINKS = ("link", "src", "dst", "bytes", "utilization")


@dataclass(frozen=True, eq=False)
class Simulated:
    """When every task of a world ran, and what its links carried."""

    file: WorldFile  # the world, and what its tasks and nodes are called
    timeline: Timeline

    @property
    def world(self) -> World:
        return self.file.world

    @property
    def iteration_time(self) -> float:
        """s, until the last task has finished."""
        return self.timeline.makespan

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per task: id, start and finish (s).

        Raises ``ImportError`` where pandas is not installed.
        """
        return frame([dict(zip(FLOWS, row, strict=True)) for row in self.file.flows(self.timeline)])

    def links_to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per link: its ends, the bytes it carried, the share of what it could."""
        return frame([dict(zip(LINKS, row, strict=True)) for row in self._links()])

    def save(self, out: str | Path) -> Path:
        """Write ``flows.csv`` and ``links.csv``, both or none; numbers are the shortest that read back as the same.

        Returns the folder. Raises ``ValueError`` where it has the result of another command.
        """
        check_folder(Path(out), "simulate")
        with whole_folder(Path(out)) as folder:
            (folder / "flows.csv").write_bytes(table(FLOWS, self.file.flows(self.timeline)))
            (folder / "links.csv").write_bytes(table(LINKS, self._links()))
        return Path(out)

    def _links(self) -> list[tuple[object, ...]]:
        return [(number, *row) for number, row in enumerate(self.file.loads(self.timeline))]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Return (quantity, value) pairs that summarize the simulation."""
        rows = [
            ("makespan", human(self.iteration_time, "s")),
            ("tasks", f"{len(self.file.ids):,}"),
            ("links", f"{len(self.file.ends):,}"),
        ]
        loads = self.file.loads(self.timeline)
        if loads:
            link = max(range(len(loads)), key=lambda link: loads[link][3])
            source, target, carried, utilization = loads[link]
            rows.append(("busiest link", f"{link}: {source} to {target}"))
            rows.append(("its load", f"{human(carried, 'B')}, {utilization:.1%} of what it could carry"))
        return rows

    def _repr_html_(self) -> str:
        return html_table(self.world.name, self.summary)

    def __repr__(self) -> str:
        width = max(len(quantity) for quantity, _ in self.summary)
        return "\n".join([self.world.name, *(f"{quantity:<{width}}  {value}" for quantity, value in self.summary)])


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """CSV as RFC 4180 has it, with line feeds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue().encode()


def named(world: World) -> WorldFile:
    """A world made by hand as one of a file: tasks and links have their numbers as names where they have no other."""
    fabric, owners = world.fabric, world.graph.owners
    if fabric is None:
        ends = tuple((f"link {link}", "") for link in range(world.graph.links))
    else:
        pairs = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
        ends = tuple((fabric.nodes[source], fabric.nodes[target]) for source, target in pairs)
    return WorldFile(world, tuple(map(str, range(owners))), tuple(range(owners)), ends)
