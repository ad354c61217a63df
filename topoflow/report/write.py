"""A report as a folder of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from topoflow.report.base import Report
from topoflow.report.draw.pictures import PICTURES, draw_all
from topoflow.report.files import whole_folder
from topoflow.report.page.template import page
from topoflow.report.tables import write_failures, write_links, write_result, write_tasks

STEPS = len(PICTURES) + 1


def write(report: Report, out: Path, progress: Callable[[int], None]) -> None:
    """Write ``result.json``, Parquet, pictures and ``report.html`` into the folder ``out``: all of them or none.

    ``progress`` is called with how many of ``STEPS`` are done.
    """
    images = draw_all(PICTURES, report, progress)
    with whole_folder(out) as folder:
        for name, image in images.items():
            (folder / name).write_bytes(image)
        write_result(report, folder / "result.json")
        write_links(report, folder / "links.parquet")
        write_tasks(report, folder / "tasks.parquet")
        if report.failures:
            write_failures(report, folder / "failures.parquet")
        (folder / "report.html").write_text(page(report, images), encoding="utf-8")
    progress(STEPS)
