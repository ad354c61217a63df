"""Load of circuits: TopoOpt's Figure 15."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.engine.timelines import link_bytes
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_cdf
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number, words
from topoflow.study.figures.setup import Setup, model_parallel

KINDS = {"mp_bytes": "all-to-all", "bytes": "all traffic"}


@dataclass(frozen=True)
class LinkTraffic(Experiment):
    """The distribution of bytes over physical links. Nothing is simulated, because the routes determine these bytes.

    There is a panel for each value of ``panel``, and a curve for each of ``series`` and each kind of traffic:
    all-to-all alone, and all traffic.
    """

    panel: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("panel", self.panel)

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each link; parallel circuits are one link and carry equal parts of its bytes."""
        graph, fabric = setup.case.world.graph, setup.case.fabric
        circuits = np.maximum(1, np.round(fabric.bandwidth / fabric.interface_bandwidth))
        every = link_bytes(graph) / circuits
        mp = link_bytes(graph, graph.bytes * model_parallel(setup.case)) / circuits
        return [
            {"link": link, "circuits": int(circuits[link]), "bytes": float(every[link]), "mp_bytes": float(mp[link])}
            for link in range(fabric.links)
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the least and the most bytes of a link, and ``less``, their difference over the most."""
        extremes: list[Row] = []
        for panel, of_panel in grouped(rows, self.panel).items():
            for series, same in grouped(of_panel, "series").items():
                for kind in KINDS:
                    least, most = (end(number(row, kind) for row in same) for end in (min, max))
                    less = 1 - least / most if most else 0.0
                    keys = {self.panel: panel, "series": series, "traffic": KINDS[kind]}
                    extremes.append({**keys, "least": least, "most": most, "less": less})
        return extremes

    @property
    def headings(self) -> Mapping[str, Heading]:
        ends = {"least": Heading("least on a link", "B"), "most": Heading("most on a link", "B")}
        return {**ends, "less": Heading("their difference over the most", "%")}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {
            f"{words(self.panel)} = {panel}": {
                f"{series}, {name}": np.repeat(
                    [number(row, kind) for row in same], [int(number(row, "circuits")) for row in same]
                )
                for series, same in grouped(of_panel, "series").items()
                for kind, name in KINDS.items()
            }
            for panel, of_panel in grouped(rows, self.panel).items()
        }
        fabrics = {f"{series}, {name}": of for series, of in self.fabrics.items() for name in KINDS.values()}
        figure = draw_cdf(self.title, parts, Axis("carried by a link in one iteration", "B"), "links", fabrics)
        return [FigurePicture.of("link_traffic.png", f"A steep curve is an even load. After {self.source}.", figure)]
