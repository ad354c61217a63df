"""The distribution of an application's message sizes: FOSquare's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.papers.fosquare.synthetic import application
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_cdf
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class MessageSizes(Experiment):
    """The share of messages up to each size, with a line for each application."""

    volumes: Mapping[str, float]  # application -> B that all of its processes send

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.volumes:
            raise ValueError("experiment.volumes: must have an application, got none")
        for name, volume in self.volumes.items():
            application(name, volume, 1.0)

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"volumes": self.volumes}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each application and size."""
        rows = []
        for name, volume in self.volumes.items():
            messages = application(name, volume, 1.0, int(setup.point.config["seed"]))
            sizes, counts = np.unique(messages.bytes, return_counts=True)
            pairs = zip(sizes.tolist(), counts.tolist(), strict=True)
            rows += [{"application": name, "size": size, "messages": count} for size, count in pairs]
        return rows

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the messages and sizes of each application."""
        statistics = []
        for name, same in grouped(rows, "application").items():
            sizes = self._sizes(same)
            ends = {"least": float(sizes.min()), "median": float(np.median(sizes)), "most": float(sizes.max())}
            statistics.append({"application": name, "messages": len(sizes), "bytes": float(sizes.sum()), **ends})
        return statistics

    @staticmethod
    def _sizes(rows: Sequence[Row]) -> np.ndarray:
        counts = [round(number(row, "messages")) for row in rows]
        return np.repeat([number(row, "size") for row in rows], counts)

    @property
    def headings(self) -> Mapping[str, Heading]:
        sizes = {"least": "smallest message", "median": "median message", "most": "largest message"}
        return {"bytes": Heading("all together", "B"), **{key: Heading(text, "B") for key, text in sizes.items()}}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        samples = {name: self._sizes(same) for name, same in grouped(rows, "application").items()}
        figure = draw_cdf(self.title, {"": samples}, Axis("size of a message", "B", log=True), "messages")
        return [FigurePicture.of("sizes.png", f"Synthetic messages. After {self.source}.", figure)]
