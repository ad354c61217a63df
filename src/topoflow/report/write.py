"""Writer of a report as a folder of files."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from topoflow.report.base import Report
from topoflow.report.draw.pictures import PICTURES, start_drawing
from topoflow.report.files import whole_folder, written_by
from topoflow.report.page.comparison import report_page
from topoflow.report.perfetto import write_perfetto
from topoflow.report.tables import write_result

STEPS = len(PICTURES) + 1
TABLES = ("failures", "latencies", "links", "messages", "ports", "queues", "tasks")  # Parquet tables of a report
OPTIONAL_FILES = (*(picture.file for picture in PICTURES), *(f"{name}.parquet" for name in TABLES))
NO_PARQUET = "The Parquet tables of links and tasks were left out: they need pyarrow (pip install 'topoflow[parquet]')."


def can_write_parquet() -> bool:
    """Return whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def write(report: Report, out: Path, progress: Callable[[int], None]) -> list[str]:
    """Write ``result.json``, ``trace.json``, Parquet, pictures and ``report.html`` into ``out``: all or none.

    Files of an earlier report that this one does not have are removed. Without pyarrow there are no Parquet tables
    (``NO_PARQUET`` tells the user). ``progress`` is called with the number of finished ``STEPS``. Return what does not
    fit in ``trace.json``.
    """
    pictures = start_drawing(PICTURES, report, progress)
    with whole_folder(out, OPTIONAL_FILES if written_by(out) == "compare" else ()) as folder:
        write_result(report, folder / "result.json")
        absent = write_perfetto(report, folder / "trace.json")
        if can_write_parquet():
            from topoflow.report.parquet_tables import write_tables

            write_tables(report, folder)
        images = pictures()
        for name, image in images.items():
            (folder / name).write_bytes(image)
        (folder / "report.html").write_text(report_page(report, images), encoding="utf-8")
    progress(STEPS)
    return absent
