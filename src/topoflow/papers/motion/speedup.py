"""Speedup of an all-to-all from one network to another, over message sizes: MOTION's Figure 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topoflow.papers.motion.exchange import SIZE, Exchange
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import FigurePicture, Row, curves, distinct, grouped, number, where


@dataclass(frozen=True)
class Speedup(Exchange):
    """The speedup from one series to another; ``pairs`` are (faster, slower), with a panel and a picture each."""

    pairs: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in self.pairs:
            self.check_series("pairs", *pair)

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the least and the greatest speedup over all sizes, for each pair and number of servers."""
        extremes = []
        for pair, title in self._chosen(rows):
            for servers, same in grouped(rows, "servers").items():
                line = _speedups(same, pair)
                if line:
                    least, most = min(line, key=line.__getitem__), max(line, key=line.__getitem__)
                    ends = {"least": line[least], "slowest_bytes": least, "greatest": line[most], "fastest_bytes": most}
                    extremes.append({"speedup": title, "servers": servers, **ends})
        return extremes

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        pictures = []
        for pair, title in self._chosen(rows):
            by_servers = grouped(rows, "servers").items()
            lines = curves({f"{servers} servers": _speedups(same, pair) for servers, same in by_servers})
            figure = draw_lines(self.title, {title: lines}, SIZE, Axis("speedup"))
            file = f"speedup_{'_over_'.join(pair)}.png".replace(" ", "_")
            pictures.append(FigurePicture.of(file, f"Speedup, {title}. After {self.source}.", figure))
        return pictures

    def _chosen(self, rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], str]]:
        """Yield the pairs whose series were both simulated, and their titles."""
        simulated = distinct(rows, "series")
        for faster, slower in self.pairs:
            if faster in simulated and slower in simulated:
                yield (faster, slower), f"{faster} over {slower}"


def _speedups(rows: Sequence[Row], pair: tuple[str, str]) -> dict[float, float]:
    """Return message size -> speedup of the first of the pair over the second."""
    fast, slow = (
        {number(row, "bytes"): number(row, "completion") for row in where(rows, series=series)} for series in pair
    )
    return {size: slow[size] / fast[size] for size in sorted(fast) if size in slow}
