"""Bytes sent over bytes of the job: TopoOpt's Figure 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.case.rows import bandwidth_tax
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number
from topoflow.study.figures.setup import Setup, buffer_bytes, model_parallel, wire_bytes

TAXES = {  # column -> how the bytes of all-reduces are counted
    "bandwidth_tax": "all-reduces by what their rings send",
    "bandwidth_tax_buffers": "all-reduces by their buffers, as TopoOpt counts",
}


@dataclass(frozen=True)
class BandwidthTax(Experiment):
    """A group of bars for each value of ``x``, with a bar for each of ``series``. Nothing is simulated.

    A bar is the bytes that servers send, including relayed bytes, over the bytes of the job (TopoOpt 5.4), which the
    routes determine.

    The bytes of an all-reduce among k servers are counted in two ways: those that its ring sends, 2 (k - 1) / k of the
    buffer for each server, and its buffer, once for each server. TopoOpt counts buffers (Figure 12: "all-to-all traffic
    is 80% of AllReduce traffic").
    """

    x: str
    x_label: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("x", self.x)

    def measure(self, setup: Setup) -> Sequence[Row]:
        case = setup.case
        graph, demand, is_mp = case.world.graph, case.job.demand, model_parallel(case)
        mp, reduced = (
            bandwidth_tax(replace(graph, bytes=np.where(chosen, graph.bytes, 0.0)), case.fabric)
            for chosen in (is_mp, ~is_mp)
        )
        mp_bytes, buffers = float(demand.bytes.sum()), buffer_bytes(demand)
        job_bytes = mp_bytes + buffers
        return [
            {
                "bandwidth_tax": bandwidth_tax(graph, case.fabric),
                "bandwidth_tax_mp": mp,
                "bandwidth_tax_buffers": (mp * mp_bytes + reduced * buffers) / job_bytes if job_bytes > 0 else 1.0,
                "mp_bytes": mp_bytes,
                "all_reduce_bytes": wire_bytes(demand),
                "buffer_bytes": buffers,
            }
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        return [{key: row[key] for key in ("series", self.x, *TAXES, "bandwidth_tax_mp")} for row in rows]

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            self.x: Heading(self.x_label),
            **{tax: Heading(f"bandwidth tax, {counted}", "x") for tax, counted in TAXES.items()},
            "bandwidth_tax_mp": Heading("of model-parallel traffic alone", "x"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {
            counted: {
                series: {str(row[self.x]): number(row, tax) for row in same}
                for series, same in grouped(rows, "series").items()
            }
            for tax, counted in TAXES.items()
        }
        figure = draw_bars(self.title, parts, Axis("bandwidth tax"), self.x_label, self.fabrics)
        caption = f"Bytes sent, counted again at every relay, over the bytes of the job. After {self.source}."
        return [FigurePicture.of("bandwidth_tax.png", caption, figure)]
