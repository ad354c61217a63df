"""Sentences on the state of a run, on what is missing, and on how to continue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from topoflow.browse.run import FIGURE, RESULT, STUDY, RunFolder
from topoflow.search.checkpoint import Seen

CONTINUES = {  # what the same command does after a run was cut off
    "search": "The same command continues the search where its checkpoint is, and finds what it would have found:",
    "experiment": "The same command simulates the points that are missing, and draws the figure:",
}
BEGINS_ANEW = "The same command begins anew:"


def when(seconds: float) -> str:
    """A time since 1970 on the clock of this machine."""
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def state_line(run: RunFolder) -> str:
    """The state, and how far a run came that is not finished."""
    if run.state == "finished":
        return f"This run is finished: {when(run.changed)}."
    if run.progress is None:
        began = f"it began {when(run.changed)}"
        return f"This run has no result. It was cut off, or is a job of a batch that still works; {began}."
    stage, share = run.progress.stage, run.progress.share
    far = f" ({share:.0%} done)" if share is not None else ""
    doing = f"{'searching ' if stage in run.found_by_search else ''}{stage}{far}" if stage else "before its first stage"
    state = "works" if run.state == "running" else "was cut off"
    return f"This run {state}: {doing}, last update {when(run.changed)}."


def missing(run: RunFolder) -> list[str]:
    """Return sentences on the files that a run that was cut off has, and those that are missing."""
    if run.state != "cut off":
        return []
    files = "report.html with its pictures" + ("" if run.verb in ("experiment", "place") else " and tables")
    sentences = [_partial_result(run, files)]
    if (run.folder / RESULT).is_file():
        sentences.append("result.json and what else is whole here are of an earlier run, which was finished.")
    sentences += [f"{path} has files that were being written; it can be deleted." for path in run.leftovers]
    return sentences


def _partial_result(run: RunFolder, files: str) -> str:
    """Return a sentence on the files that a run has in place of its result."""
    searches = [search for search in run.searches.values() if isinstance(search, Seen)]
    if searches:
        done = sum(search.done for search in searches)
        several = f"{done} of {len(searches)} searches that began are done. " if len(searches) > 1 else ""
        return f"{several}Missing are plan.json, result.json and {files}; the best that was found so far is below."
    if run.rows:
        kinds = {FIGURE: "rows of the figure's points", STUDY: "trials of the study"}
        kind = next((text for file, text in kinds.items() if (run.folder / file).is_file()), "worlds")
        more = "" if kind == "worlds" else "what is not simulated yet, "
        return f"{len(run.rows)} {kind} are below. Missing are {more}result.json and {files}."
    if run.verb == "simulate":
        return "It had kept nothing of its result yet: missing are flows.csv and links.csv."
    return f"It had kept nothing of its result yet: missing are all of result.json and {files}."


def how_to_continue(run: RunFolder) -> str:
    """Return what the command of ``RunFolder.again`` does, as a sentence; empty if there is none."""
    if run.state != "cut off" or not run.again:
        return ""
    return CONTINUES.get(run.verb, BEGINS_ANEW)


def search_lines(searches: Mapping[str, Seen | str]) -> list[tuple[str, ...]]:
    """Return the checkpoint of each search as text: folder, rounds, proposals, whether it is done."""
    lines: list[tuple[str, ...]] = []
    for name, checkpoint in searches.items():
        if isinstance(checkpoint, str):
            lines.append((name, "-", "-", checkpoint))
            continue
        rounds = f"{checkpoint.round} done" if checkpoint.done else f"in round {checkpoint.round + 1}"
        lines.append(
            (name, rounds, f"{checkpoint.history.num_proposals:,}", "done" if checkpoint.done else "can be continued")
        )
    return lines
