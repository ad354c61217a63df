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
from topoflow.search.alternate import search as run_search
from topoflow.search.checkpoint import key as key_of
from topoflow.search.checkpoint import load
from topoflow.search.front import chosen
from topoflow.search.judge import check_keeps_circuits
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.result import SearchResult
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
    results: Mapping[str, SearchResult]  # by the names of the searches
    reports: Mapping[str, SearchReport]
    winners: tuple[str, ...]
    out: Path | None

    def keep(self, out: Path) -> None:
        """Write ``result.json``, and ``plan.json`` of every search to its folder as ``write`` names it."""
        for search in self.searches:
            folder = out / search.name if search.point.swept else out
            folder.mkdir(exist_ok=True)
            (folder / "plan.json").write_text(self.results[search.name].plan.to_json(), encoding="utf-8")
        write_result(self.rows, self.reports[self.searches[0].name].command, out)

    def write(self, out: Path, tick: Tick) -> None:
        """Write a folder for every search and an overview of several; ``tick`` gets (pictures done, of how many)."""
        rows = self.rows
        folders = {search.name: out / search.name if search.point.swept else out for search in self.searches}
        for name, result in self.results.items():
            write_plan(result, self.reports[name], folders[name], tick)
        write_result(rows, self.reports[self.searches[0].name].command, out)
        if len(self.searches) > 1:
            write_overview(self.reports, folders, self.winners, out, tick)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the numbers of each search for programs."""
        return [
            row(search.name, search.point, self.results[search.name], search.name in self.winners)
            | memory_row(self.reports[search.name])
            for search in self.searches
        ]


def search_all(
    points: Sequence[Point],
    run: Run,
    command: str,
    out: Path | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Searched:
    """Search for every point, or with a ``study`` for those that it chooses.

    In ``out``, one that was stopped continues; ``say`` is called with where.

    Raises ``ValueError`` in one line, before anything is searched, for what is impossible.
    """
    if is_sampled(points):
        points = sampled(points, run, out)
        say(f"{len(points)} of the points that were tried are searched.")
    searches = tuple(_search(name, point, out) for name, point in zip(names(points), points, strict=True))
    objective = _objective(searches)
    for search in searches:
        with at_point(search.point):
            check_possible(search, objective)
    with TemporaryDirectory(prefix="topoflow-") as folder:
        results = _Finding(searches, run, say, Path(folder)).find()
    buildable = {name: result for name, result in results.items() if not result.fabric.is_ideal} or results
    best = chosen([result.plan for result in buildable.values()], objective)
    winners = tuple(list(buildable)[number] for number in best)
    reports = {search.name: report(search.problem, results[search.name], command) for search in searches}
    return Searched(searches, results, reports, winners, out)


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
    objectives = dict.fromkeys(search.settings.objective for search in searches)
    if len(objectives) > 1:
        raise ValueError(f"search.objective: must be one, as it chooses between searches, got {', '.join(objectives)}")
    return next(iter(objectives))


def check_possible(search: Search, objective: str) -> None:
    """Raise ``ValueError`` for what only the end of a search, or another search, would otherwise find impossible."""
    if search.problem.servers < 2:
        raise ValueError("servers: must be at least 2 for a strategy or a network to be searched, got 1")
    if is_by_address(search.problem.routing):
        requirement = "must be of whole paths (ecmp, spray, ..), as a search bounds the time of what it finds by these"
        raise ValueError(f"routing: {requirement}, got {search.problem.routing}")
    space(search.problem, search.settings).start()
    search.settings.deciding(search.problem.fidelity)
    if isinstance(search.problem.design, WithStrides):
        check_fit(search.problem.design.strides, Job(search.problem.workload, search.problem.start).demand)
    fabric = unwired(search.problem.design, search.problem.servers)
    check_keeps_circuits(fabric)
    if fabric.bill and search.problem.prices is not None:
        search.problem.prices.cost(fabric.bill)
        search.problem.prices.power(fabric.bill)
    elif objective != "time":
        quantity = "power" if objective == "power" else "cost"
        requirement = f"must be time where a network has no bill of materials, as {fabric.name}"
        raise ValueError(f"search.objective: {requirement}, got {objective}, which needs its {quantity}")


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
        for search in self.searches:
            for path in map(self._path, (search, search), CHECKPOINTS):
                if path is not None and not search.point.config["resume"]:
                    path.unlink(missing_ok=True)
        problems = {search.name: search.problem for search in self.searches}
        results = self._run(problems, CHECKPOINTS[0])
        again = {search.name: self._from_others(search, results) for search in self.searches}
        better = self._run({name: problem for name, problem in again.items() if problem is not None}, CHECKPOINTS[1])
        return {
            name: min([result, better.get(name, result)], key=lambda candidate: candidate.plan.iteration_time)
            for name, result in results.items()
        }

    def _run(self, problems: Mapping[str, Problem], file: str) -> dict[str, SearchResult]:
        """Search these ``problems``; return the results by the names of the searches."""
        chosen = [search for search in self.searches if search.name in problems]
        run, say = self.run, self.say
        if self.is_spread and chosen:
            self._spread(chosen, problems, file)
            run, say = replace(run, workers=None), lambda text: None
        return {search.name: self._find(search, problems[search.name], file, run, say) for search in chosen}

    def _spread(self, chosen: Sequence[Search], problems: Mapping[str, Problem], file: str) -> None:
        """Have workers bring checkpoints to the end."""
        self.run.observer.stage("searching" if file == CHECKPOINTS[0] else "searching from the best on other fabrics")
        self.run.observer.size(f"{counted(len(chosen), 'network')}, {_size(chosen[0])} each")
        requests = []
        for search in chosen:
            path = self._path(search, file)
            assert path is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            content = read_bytes(path) if path.exists() else None
            requests.append(
                SearchRequest(search.name, problems[search.name], search.settings, path.absolute(), content)
            )
        try:
            for number, content in do_all(Searching(), requests, self.run):
                write_atomically(requests[number].path, content)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(_resume_hint(chosen[0])) from stop

    def _find(
        self, search: Search, problem: Problem, file: str, run: Run, say: Callable[[str], object]
    ) -> SearchResult:
        """Run one search; say from where it resumes, and what can be resumed when it is stopped."""
        others = file != CHECKPOINTS[0]
        run.observer.stage(f"{search.name}, from the best on other fabrics" if others else search.name)
        run.observer.size(_size(search))
        path = self._path(search, file)
        if path is not None and path.exists() and not others:
            known = space(problem, search.settings)
            saved = load(path, key_of(problem, search.settings), search.settings, known)
            place = f"the end, {len(saved.history.rounds)} rounds" if saved.done else f"round {saved.round + 1}"
            say(f"Continuing from {place}, {saved.history.num_proposals:,} proposals, in {path}.")
        try:
            return run_search(problem, search.settings, run, checkpoint=path)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(_resume_hint(search)) from stop

    def _from_others(self, search: Search, results: Mapping[str, SearchResult]) -> Problem | None:
        """Return the problem, begun at the best strategies of its job on other fabrics; None: there are none."""
        strategy = results[search.name].strategy
        same = [
            other
            for other in self.searches
            if other.problem.start == search.problem.start and other.problem.workload == search.problem.workload
        ]
        others = {repr(results[other.name].strategy): results[other.name].strategy for other in same}
        others.pop(repr(strategy), None)
        return replace(search.problem, others=(strategy, *others.values())) if others else None

    def _path(self, search: Search, file: str) -> Path | None:
        if search.out is not None:
            return search.out / file
        return self.aside / search.name / file if self.is_spread else None


def _size(search: Search) -> str:
    """Return how large a search is."""
    proposals, rounds = search.settings.proposals, search.settings.rounds
    return f"up to {counted(rounds, 'round')} of {counted(proposals, 'proposal')}"


def _resume_hint(search: Search) -> str:
    """Return what can be resumed after Ctrl-C, and how."""
    if search.checkpoint is None:
        return "; nothing is kept without out=DIR"
    if not search.checkpoint.exists():
        return " before there was anything to keep"
    again = "the same command" if search.point.config["resume"] else "the same command without resume=false"
    return f"; the search is kept in {search.checkpoint}, {again} resumes it"
