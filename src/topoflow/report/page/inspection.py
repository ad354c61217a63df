"""``inspect.html``: the tables and pictures of a trace, or of two side by side, in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topoflow.capture.summary import Summary
from topoflow.report.page.elements import Drawing, page
from topoflow.report.trace_tables import (
    collectives_table,
    groups_table,
    repetition,
    shares_table,
    side_by_side,
    stragglers,
)

CAPTIONS = {
    "shares.png": "The step of each rank: compute, exposed communication (waiting until the slowest rank had joined, "
    "then transfer) and host idle, in which neither ran. Communication that compute hides is hatched.",
    "timeline.png": "When each rank computes and communicates.",
    "traffic.png": "Bytes from rank to rank in one iteration.",
}


def inspection_page(summaries: Sequence[Summary], images: Mapping[str, bytes]) -> str:
    """Return the HTML page of one trace or two; ``images`` are PNG files by name."""
    pair = len(summaries) > 1
    if pair:
        tables = [side_by_side(*summaries)]
    else:
        (summary,) = summaries
        tables = [shares_table(summary), collectives_table(summary), groups_table(summary)]
    heads = [f"{letter}: " if pair else "" for letter, _ in zip("AB", summaries, strict=False)]
    lines, notes = [], []
    for head, summary in zip(heads, summaries, strict=True):
        ranks = f"{summary.ranks} of {summary.world_size} ranks recorded"
        lines += [f"{head}{summary.name} ({summary.source}), {ranks}, iteration {summary.iteration}"]
        lines += [f"{head}{line}" for line in (repetition(summary.steps), *stragglers(summary))]
        notes += [f"{head}{note}" for note in summary.notes]
    return page(
        "inspection.html",
        {},
        ("table",),
        title=" and ".join(summary.name for summary in summaries),
        lines=lines,
        tables=tables,
        pictures=[Drawing("", "", CAPTIONS[name], image=image) for name, image in images.items()],
        notes=notes,
    )
