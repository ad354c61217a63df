"""How often bytes are sent: TopoOpt's Figure 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.case.rows import bandwidth_tax
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.report.draw.style import png
from topoflow.study.figures.base import (
    Experiment,
    Heading,
    Picture,
    Row,
    check_roles,
    distinct,
    number,
    where,
)
from topoflow.study.figures.setup import Setup, model_parallel, wire_bytes


@dataclass(frozen=True)
class BandwidthTax(Experiment):
    """Bytes that servers send, those that they relay included, over bytes asked for (5.4); a group of bars for each
    value of ``x``, in it a bar for each of ``series``. Nothing is simulated: routes say it."""

    x: str
    x_label: str

    def __post_init__(self) -> None:
        check_roles("experiment.x", self, self.x)

    def measure(self, setup: Setup) -> Sequence[Row]:
        case = setup.case
        graph, demand = case.world.graph, case.job.demand
        mp = replace(graph, bytes=np.where(model_parallel(case), graph.bytes, 0.0))
        return [
            {
                "bandwidth_tax": bandwidth_tax(graph, case.fabric),
                "bandwidth_tax_mp": bandwidth_tax(mp, case.fabric),
                "mp_bytes": float(demand.bytes.sum()),
                "all_reduce_bytes": wire_bytes(demand),
            }
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        return [{key: row[key] for key in ("series", self.x, "bandwidth_tax", "bandwidth_tax_mp")} for row in rows]

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            self.x: Heading(self.x_label),
            "bandwidth_tax": Heading("bandwidth tax: bytes sent over bytes asked for", "x"),
            "bandwidth_tax_mp": Heading("of model parallelism alone", "x"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        bars = {
            series: {str(row[self.x]): number(row, "bandwidth_tax") for row in where(rows, series=series)}
            for series in distinct(rows, "series")
        }
        figure = draw_bars(self.title, {"": bars}, Axis("bandwidth tax"), self.x_label)
        caption = f"Bytes sent, counted again at every relay, over bytes asked for. After {self.source}."
        return [Picture("bandwidth_tax.png", caption, png(figure))]
