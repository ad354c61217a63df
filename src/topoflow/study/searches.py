"""Searches: for every point of a grid the strategy and the network that make an iteration fastest, found together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from topoflow.case.base import Job
from topoflow.engine.base import Run
from topoflow.engine.executor.base import do_all
from topoflow.engine.lowering.addresses import is_by_address
from topoflow.fabric.channels.strides import WithStrides, check_fit
from topoflow.files import read_bytes, write_atomically
from topoflow.report.search_report import SearchReport
from topoflow.search.alternate import search
from topoflow.search.checkpoint import key as key_of
from topoflow.search.checkpoint import load
from topoflow.search.found import SearchResult
from topoflow.search.front import chosen
from topoflow.search.judge import check_keeps_circuits
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.space import space
from topoflow.search.spread import STRETCH_SECONDS, Searching, SearchRequest
from topoflow.study.builder import problem_of
from topoflow.study.configure.build import build
from topoflow.study.configure.keys import GROUPS, check_job, check_keys
from topoflow.study.configure.point import Point, at_point, numbered, unique_names
from topoflow.study.figures.similar_cost import unwired
from topoflow.study.search_files import memory_row, report, row, write_overview, write_plan, write_result
from topoflow.study.trials import is_sampled, sampled
from topoflow.units import counted

CONFIG = "search"
CHECKPOINTS = ("checkpoint.npz", "checkpoint_others.npz")  # of a search, and of that from what others found
Tick = Callable[[int, int], None]
KEYS = (
    *("servers", "gpus", "efficiency", "global_batch", "micro_batch", "bandwidth_gbps", "degree", "latency_us"),
    *("all_reduce", "routing", "strides", "fidelity", "seed"),
    *("search", "resume", "device", "threads", "out"),
)


@dataclass(frozen=True)
class Search:
    """One point of the grid, as objects, and where its files are."""

    name: str
    point: Point
    problem: Problem
    settings: SearchSettings
    out: Path | None

    @property
    def checkpoint(self) -> Path | None:
        return None if self.out is None else self.out / CHECKPOINTS[0]


@dataclass(frozen=True)
class Searched:
    """Searches, what each found, and which of them the objective chooses."""

    searches: tuple[Search, ...]
    found: Mapping[str, SearchResult]  # by the names of the searches
    reports: Mapping[str, SearchReport]
    winners: tuple[str, ...]
    out: Path | None

    def keep(self, out: Path) -> None:
        """``result.json``, and ``plan.json`` of every search, in its folder as ``write`` names it."""
        for each in self.searches:
            folder = out / each.name if each.point.swept else out
            folder.mkdir(exist_ok=True)
            (folder / "plan.json").write_text(self.found[each.name].plan.to_json(), encoding="utf-8")
        write_result(self.rows, self.reports[self.searches[0].name].command, out)

    def write(self, out: Path, tick: Tick) -> None:
        """A folder for every search, an overview of several; ``tick`` is called with (pictures done, of how many)."""
        rows = self.rows
        folders = {each.name: out / each.name if each.point.swept else out for each in self.searches}
        for name, found in self.found.items():
            write_plan(found, self.reports[name], folders[name], tick)
        write_result(rows, self.reports[self.searches[0].name].command, out)
        if len(self.searches) > 1:
            write_overview(self.reports, folders, self.winners, out, tick)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the numbers of each search for programs."""
        return [
            row(each.name, each.point, self.found[each.name], each.name in self.winners)
            | memory_row(self.reports[each.name])
            for each in self.searches
        ]


def search_all(
    points: Sequence[Point],
    run: Run,
    command: str,
    out: Path | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Searched:
    """A search for every point, or with a ``study`` for those that it chooses.

    In ``out``, one that was stopped continues; ``say`` is called with where.

    Raises ``ValueError`` in one line, before anything is searched, for what is impossible.
    """
    if is_sampled(points):
        points = sampled(points, run, out)
        say(f"{len(points)} of the points that were tried are searched.")
    searches = tuple(_search(name, point, out) for name, point in zip(names(points), points, strict=True))
    objective = _objective(searches)
    for each in searches:
        with at_point(each.point):
            check_possible(each, objective)
    with TemporaryDirectory(prefix="topoflow-") as folder:
        found = _Finding(searches, run, say, Path(folder)).find()
    can_be_built = {name: one for name, one in found.items() if not one.fabric.is_ideal} or found
    best = chosen([one.plan for one in can_be_built.values()], objective)
    winners = tuple(list(can_be_built)[number] for number in best)
    reports = {each.name: report(each.problem, found[each.name], command) for each in searches}
    return Searched(searches, found, reports, winners, out)


def check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/search.yaml`` does not have, before it is used."""
    check_keys(config, (*GROUPS, *KEYS))
    if not isinstance(config["resume"], bool):
        raise ValueError(f"resume: must be true or false, got {config['resume']!r}")
    if config["micro_batch"] is not None:
        raise ValueError(f"micro_batch: must be null, as a search chooses microbatches, got {config['micro_batch']}")
    check_job(config)


def names(points: Sequence[Point]) -> list[str]:
    """Return the names of searches, which are also their folders: the fabric of the only one, else what differs."""
    return numbered([re.sub(r"[^\w.,=+-]", "_", name) for name in unique_names(points)])


def _search(name: str, point: Point, out: Path | None) -> Search:
    """Objects of a point. Several searches have a folder each."""
    with at_point(point):
        settings = build(point, "search")
        problem = problem_of(point)
    folder = out / name if out is not None and point.swept else out
    return Search(name, point, problem, settings, folder)


def _objective(searches: Sequence[Search]) -> str:
    """Return the objective that chooses between the searches. Raise ``ValueError`` if they have several."""
    named = dict.fromkeys(each.settings.objective for each in searches)
    if len(named) > 1:
        raise ValueError(f"search.objective: must be one, as it chooses between searches, got {', '.join(named)}")
    return next(iter(named))


def check_possible(each: Search, objective: str) -> None:
    """Raise ``ValueError`` for what only the end of a search, or another search, would otherwise find impossible."""
    if each.problem.servers < 2:
        raise ValueError("servers: must be at least 2 for a strategy or a network to be searched, got 1")
    if is_by_address(each.problem.routing):
        law = "must be of whole paths (ecmp, spray, ..), as a search bounds the time of what it finds by these"
        raise ValueError(f"routing: {law}, got {each.problem.routing}")
    space(each.problem, each.settings).start()
    each.settings.deciding(each.problem.fidelity)
    if isinstance(each.problem.design, WithStrides):
        check_fit(each.problem.design.strides, Job(each.problem.workload, each.problem.start).demand)
    fabric = unwired(each.problem.design, each.problem.servers)
    check_keeps_circuits(fabric)
    if fabric.bill and each.problem.prices is not None:
        each.problem.prices.cost(fabric.bill)
        each.problem.prices.power(fabric.bill)
    elif objective != "time":
        what = "power" if objective == "power" else "cost"
        law = f"must be time where a network has no bill of materials, as {fabric.name}"
        raise ValueError(f"search.objective: {law}, got {objective}, which needs its {what}")


@dataclass(frozen=True)
class _Finding:
    """Searches that are done one after the other, or each by a worker of the executor: ``is_spread``."""

    searches: tuple[Search, ...]
    run: Run
    say: Callable[[str], object]
    aside: Path  # for checkpoints of workers where none are kept

    @property
    def is_spread(self) -> bool:
        workers = self.run.workers
        return workers is not None and (len(self.searches) > 1 or workers.shortest_chunk > STRETCH_SECONDS)

    def find(self) -> dict[str, SearchResult]:
        """Run each search; one of the same job as others also begins from what these found."""
        for each in self.searches:
            for path in map(self._path, (each, each), CHECKPOINTS):
                if path is not None and not each.point.config["resume"]:
                    path.unlink(missing_ok=True)
        problems = {each.name: each.problem for each in self.searches}
        found = self._found(problems, CHECKPOINTS[0])
        again = {each.name: self._from_others(each, found) for each in self.searches}
        better = self._found({name: problem for name, problem in again.items() if problem is not None}, CHECKPOINTS[1])
        return {
            name: min([own, better.get(name, own)], key=lambda one: one.plan.iteration_time)
            for name, own in found.items()
        }

    def _found(self, problems: Mapping[str, Problem], file: str) -> dict[str, SearchResult]:
        """Return what the searches of these ``problems`` find, by the names of the searches."""
        chosen = [each for each in self.searches if each.name in problems]
        run, say = self.run, self.say
        if self.is_spread and chosen:
            self._spread(chosen, problems, file)
            run, say = replace(run, workers=None), lambda text: None
        return {each.name: self._find(each, problems[each.name], file, run, say) for each in chosen}

    def _spread(self, chosen: Sequence[Search], problems: Mapping[str, Problem], file: str) -> None:
        """Have workers bring checkpoints to the end."""
        self.run.observer.stage("searching" if file == CHECKPOINTS[0] else "searching from the best on other fabrics")
        self.run.observer.size(f"{counted(len(chosen), 'network')}, {_size(chosen[0])} each")
        asked = []
        for each in chosen:
            path = self._path(each, file)
            assert path is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            content = read_bytes(path) if path.exists() else None
            asked.append(SearchRequest(each.name, problems[each.name], each.settings, path.absolute(), content))
        try:
            for number, content in do_all(Searching(), asked, self.run):
                write_atomically(asked[number].path, content)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(_kept(chosen[0])) from stop

    def _find(self, each: Search, problem: Problem, file: str, run: Run, say: Callable[[str], object]) -> SearchResult:
        """Says from where it resumes, and what is kept when it is stopped."""
        others = file != CHECKPOINTS[0]
        run.observer.stage(f"{each.name}, from the best on other fabrics" if others else each.name)
        run.observer.size(_size(each))
        path = self._path(each, file)
        if path is not None and path.exists() and not others:
            known = space(problem, each.settings)
            there = load(path, key_of(problem, each.settings), each.settings, known)
            where = f"the end, {len(there.history.rounds)} rounds" if there.done else f"round {there.round + 1}"
            say(f"Continuing from {where}, {there.history.made:,} proposals, in {path}.")
        try:
            return search(problem, each.settings, run, checkpoint=path)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(_kept(each)) from stop

    def _from_others(self, each: Search, found: Mapping[str, SearchResult]) -> Problem | None:
        """The same problem, begun at the best strategies of the same job on other fabrics; None: there are none."""
        own = found[each.name].strategy
        same = [
            other
            for other in self.searches
            if other.problem.start == each.problem.start and other.problem.workload == each.problem.workload
        ]
        others = {repr(found[other.name].strategy): found[other.name].strategy for other in same}
        others.pop(repr(own), None)
        return replace(each.problem, others=(own, *others.values())) if others else None

    def _path(self, each: Search, file: str) -> Path | None:
        if each.out is not None:
            return each.out / file
        return self.aside / each.name / file if self.is_spread else None


def _size(each: Search) -> str:
    """Return how large a search is."""
    made, rounds = each.settings.proposals, each.settings.rounds
    return f"up to {counted(rounds, 'round')} of {counted(made, 'proposal')}"


def _kept(each: Search) -> str:
    """Return what can be resumed after Ctrl-C, and how."""
    if each.checkpoint is None:
        return "; nothing is kept without out=DIR"
    if not each.checkpoint.exists():
        return " before there was anything to keep"
    again = "the same command" if each.point.config["resume"] else "the same command without resume=false"
    return f"; the search is kept in {each.checkpoint}, {again} resumes it"
