"""Results that the functions of ``topoflow`` return: to look at, to compute with, and to save."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, overload

from topoflow.case.base import Result
from topoflow.case.frame import frame
from topoflow.report.base import Report

WIDTH = 160  # characters of a table where there is no terminal


class Results(Sequence[Result]):
    """The results of a comparison, in the order of its grid. As text and in a notebook they are a table.

    ``results[0]`` and ``results["topoopt"]`` are one :class:`~topoflow.case.base.Result`; ``results[:2]`` are fewer.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def __len__(self) -> int:
        return len(self._report.outcomes)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._report.outcomes)

    @overload
    def __getitem__(self, key: int | str) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Results: ...
    def __getitem__(self, key: int | str | slice) -> Result | Results:
        """Return a result by number, or by the name of its world or fabric; several by a slice. Raises ``KeyError``."""
        if isinstance(key, slice):
            return Results(replace(self._report, outcomes=self._report.outcomes[key]))
        if isinstance(key, int):
            return self._report.outcomes[key]
        matches = [result for result in self if key in (result.settings.world, result.settings.fabric)]
        if len(matches) != 1:
            raise KeyError(f"{key!r}: must name one of {', '.join(result.settings.world for result in self)}")
        return matches[0]

    @property
    def fastest(self) -> Result:
        """The fastest result among those that fit in memory and can be built; the cheapest of equals."""
        from topoflow.report.answer import recommended

        return recommended(self._report.ranking)[0]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Fabrics of the default sweep that cannot be built for the job, each with the reason."""
        return self._report.left_out

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per result; ``topoflow.case.rows.COLUMNS`` says what the columns mean.

        Raises ``ImportError`` where pandas is not installed.
        """
        return frame([asdict(row) for row in self._report.rows])

    @property
    def pictures(self) -> list[str]:
        """The names that ``figure`` takes: pictures for which these results have something to show."""
        from topoflow.report.draw.pictures import PICTURES

        return [Path(picture.file).stem for picture in PICTURES if picture.needs(self._report)]

    def figure(self, name: str) -> Any:
        """A picture of the report, a ``matplotlib.figure.Figure``; ``name`` is of ``pictures``, else ``ValueError``.

        They are those of the files that ``save`` writes: ``iteration_time``, ``price``, ``traffic``, ``timeline``, ...
        """
        from topoflow.report.draw.pictures import PICTURES

        for picture in PICTURES:
            if Path(picture.file).stem == name and picture.needs(self._report):
                return picture.draw(self._report)
        raise ValueError(f"figure: must be one of {', '.join(self.pictures)}, got {name!r}")

    def save(self, out: str | Path) -> Path:
        """Write what ``topoflow compare out=DIR`` writes into the folder ``out``; returns its ``report.html``.

        Raises ``ValueError`` where ``out`` cannot be such a folder.
        """
        from topoflow.report.write import write

        write(self._report, Path(out), lambda done: None)
        return Path(out) / "report.html"

    def __repr__(self) -> str:
        from topoflow.report.terminal import show

        return printed(lambda console: show(self._report, console))

    def _repr_html_(self) -> str:
        from topoflow.report.answer import answers, notes
        from topoflow.report.page.elements import paragraphs, table
        from topoflow.report.terminal import cells, setting

        parts = [paragraphs((*answers(self._report), *notes(self._report)))]
        for job in self._report.jobs:
            columns, best = cells(self._report, job), job[0].iteration_time
            rows = ([cell.text(result, best) for cell in columns] for result in job)
            parts += [paragraphs([setting(self._report, job)]), table([cell.title for cell in columns], rows)]
        return "".join(parts)


def printed(show: Any) -> str:
    """Return what ``show(console)`` prints as text."""
    from topoflow.report.output import Output

    file = io.StringIO()
    console = Output(file=file, width=WIDTH, force_jupyter=False)  # text, in a notebook too
    show(console)
    return "\n".join(line.rstrip() for line in file.getvalue().strip("\n").splitlines())
