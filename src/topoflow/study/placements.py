"""Place requests for machines, and measure how local their network is: MOTION's Figure 3, or for any requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from topoflow.engine.observer import Observer, PartialObserver
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars, draw_steps
from topoflow.scheduling.base import RESOURCES, GroupedCluster, Request
from topoflow.scheduling.policies import policies, policy_named
from topoflow.scheduling.scheduler import FRAGMENTATION, Outcome, PlacementSchedule, schedule
from topoflow.study.configure.build import build
from topoflow.study.configure.keys import check_keys
from topoflow.study.configure.os_errors import named, of_group
from topoflow.study.configure.point import Point, at_point
from topoflow.study.figures.base import FigurePicture, Heading, Row, distinct, number, where
from topoflow.units import check_among, check_seed, counted

CONFIG = "place"
KEYS = ("requests", "cluster", "policy", "seed", "out")
LABEL = ("requests", "cluster", "policy", "seed")
MOTION = "MOTION (Maniotis et al., JOCN 2022) 4.A, Figure 3"
DAY = 86400.0  # s
BARS = 14  # at most, in a picture over time
GROUPS = 5  # requests in more groups than this are one class of the pictures
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)  # machines, the most of each class
PLACED, DENIED = "placed", "denied: "


def check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/place.yaml`` does not have, before it is used."""
    check_keys(config, KEYS)
    check_among("policy", config["policy"], policies())
    check_seed("seed", config["seed"])


@dataclass(frozen=True)
class PlacedRequests:
    """The requests of one point on its cluster."""

    label: Mapping[str, str | int]
    cluster: GroupedCluster
    schedule: PlacementSchedule

    @property
    def rows(self) -> list[Row]:
        """One for each request, in the order of arrival."""
        return [{**self.label, **self._row(outcome)} for outcome in self.schedule.outcomes]

    def _row(self, outcome: Outcome) -> Row:
        request = outcome.request
        return {
            "request": request.name,
            "arrival": request.arrival,
            "lifetime": request.lifetime if np.isfinite(request.lifetime) else None,
            "machines": request.machines,
            "cores": request.machines * request.cores,
            "fewest_groups": self.cluster.fewest_groups(request),
            "groups": outcome.groups,
            "servers": len(outcome.servers),
            "denied": outcome.denied,
        }

    @property
    def utilization(self) -> list[Row]:
        """Return a row for each time at which a request starts or ends: the share in use of each resource."""
        has = {name: index for index, name in enumerate(RESOURCES) if self.cluster.capacity[index]}
        return [
            {**self.label, "time": time, **{name: used[index] for name, index in has.items()}}
            for time, used in zip(self.schedule.time.tolist(), self.schedule.utilization.tolist(), strict=True)
        ]

    @property
    def placements(self) -> list[Mapping[str, object]]:
        """Return the servers of each request that was not denied."""
        return [
            {
                **self.label,
                "request": outcome.request.name,
                "cluster_servers": self.cluster.servers,
                "servers": outcome.servers,
                "machines": outcome.machines,
            }
            for outcome in self.schedule.outcomes
            if not outcome.denied
        ]


def place(points: Sequence[Point], observer: Observer) -> list[PlacedRequests]:
    """Place each point's requests on its cluster. Raises ``ValueError`` in one line that names the point."""
    requests_of: dict[str, tuple[Request, ...]] = {}
    placed = []
    for before, point in enumerate(points):
        with at_point(point):
            key = json.dumps([point.config["requests"], point.config["seed"]], sort_keys=True)
            if key not in requests_of:
                requests_of[key] = _requests(point)
            cluster: GroupedCluster = build(point, "cluster")
            part = PartialObserver(observer, before * len(requests_of[key]), len(points) * len(requests_of[key]))
            observer.size(f"{counted(len(requests_of[key]), 'request')} for {counted(cluster.servers, 'server')}")
            scheduled = schedule(cluster, requests_of[key], policy_named(point.config["policy"]), part.advance)
            placed.append(PlacedRequests(_label(point), cluster, scheduled))
    return placed


def _requests(point: Point) -> tuple[Request, ...]:
    with named(of_group("requests", point.config["requests"])):
        requests: tuple[Request, ...] = build(point, "requests").build(point.config["seed"])
    if not requests:
        raise ValueError("requests: must be at least one, got none")
    return requests


def _label(point: Point) -> Mapping[str, str | int]:
    return {key: point.choices.get(key, point.config[key]) for key in LABEL}


@dataclass(frozen=True)
class Locality:
    """The pictures and the table of several ``placed``; requests of several seeds count together."""

    placed: Sequence[PlacedRequests]
    title: str = "Where requests are placed"

    @property
    def source(self) -> str:
        """Return the study whose requests these are, else their names."""
        names = {str(result.label["requests"]) for result in self.placed}
        return MOTION if names == {"motion"} else f"requests of {', '.join(sorted(names))}"

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Shares of the requests, by requests, cluster and policy."""
        return [self._shares(label, mine) for label, mine in _by(rows, "requests", "cluster", "policy").items()]

    def _shares(self, label: tuple[Any, ...], rows: Sequence[Row]) -> Row:
        settings = dict(zip(("requests", "cluster", "policy"), label, strict=True))
        schedules = [
            result.schedule for result in self.placed if all(result.label[key] == settings[key] for key in settings)
        ]
        placed = [row for row in rows if not row["denied"]]
        causes = Counter(str(row["denied"]) for row in rows if row["denied"])
        extra = [number(row, "groups") / number(row, "fewest_groups") for row in placed]
        return {
            **settings,
            "count": len(rows),
            "could_be_one_group": _share(rows, lambda row: row["fewest_groups"] == 1),
            "one_group": _share(rows, lambda row: row["groups"] == 1),
            "groups_mean": fmean(number(row, "groups") for row in placed) if placed else None,
            "groups_over_fewest": fmean(extra) if extra else None,
            "cores_mean": fmean(float(scheduled.mean_utilization[0]) for scheduled in schedules),
            "cores_peak": fmean(float(scheduled.until_last_arrival.utilization[:, 0].max()) for scheduled in schedules),
            "denied_share": _share(rows, lambda row: bool(row["denied"])),
            **{f"denied_{cause}": count / len(rows) for cause, count in sorted(causes.items())},
        }

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "count": Heading("requests in all"),
            "could_be_one_group": Heading("one group holds it", "%"),
            "one_group": Heading("got one group", "%"),
            "groups_mean": Heading("groups, mean"),
            "groups_over_fewest": Heading("over the fewest that hold it, mean", "x"),
            "cores_mean": Heading("cores in use, mean", "%"),
            "cores_peak": Heading("at most", "%"),
            "denied_share": Heading("denied", "%"),
            **{f"denied_{cause}": Heading(f"for lack of {cause}", "%") for cause in RESOURCES},
            f"denied_{FRAGMENTATION}": Heading("for fragmentation", "%"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        after = f"After {self.source}."
        return [
            FigurePicture.of("sizes.png", f"How many machines requests are for. {after}", self._sizes(rows)),
            FigurePicture.of(
                "groups.png",
                f"In how many groups requests are, and would be if they were alone. {after}",
                self._groups(rows),
            ),
            FigurePicture.of(
                "denials.png",
                f"What became of requests, by the time of their arrival. {after}",
                self._denials(rows),
            ),
            FigurePicture.of("cores.png", f"Share of all cores that is in use. {after}", self._cores()),
        ]

    def _sizes(self, rows: Sequence[Row]) -> Any:
        parts = {}
        for (requests,), mine in _by(rows, "requests").items():
            once = _first(mine, "cluster", "policy")
            parts[str(requests)] = {"requests": _percent(once, lambda row: _size(int(number(row, "machines"))))}
        return draw_bars("Sizes of requests", parts, Axis("requests [%]"), "machines")

    def _groups(self, rows: Sequence[Row]) -> Any:
        classes = [str(count) for count in range(1, GROUPS + 1)] + [f"over {GROUPS}", "denied"]
        parts: dict[str, dict[str, Mapping[str, float]]] = {}
        for (requests, cluster), mine in _by(rows, "requests", "cluster").items():
            series = f"{requests}, {cluster}" if len(distinct(rows, "requests")) > 1 else str(cluster)
            once = _first(mine, "policy")
            parts.setdefault("as few as hold it", {})[series] = _percent(
                once, lambda row: _group(row, "fewest_groups"), classes
            )
            for (policy,), of in _by(mine, "policy").items():
                parts.setdefault(str(policy), {})[series] = _percent(of, lambda row: _group(row, "groups"), classes)
        return draw_bars("Groups of a request", parts, Axis("requests [%]"), "groups")

    def _denials(self, rows: Sequence[Row]) -> Any:
        causes = [PLACED, *(f"{DENIED}{cause}" for cause in sorted({str(row["denied"]) for row in rows} - {""}))]
        first = min(number(row, "arrival") for row in rows)
        days = 1 + int(max(number(row, "arrival") - first for row in rows) // DAY)
        width = -(-days // BARS)  # days
        bars = range(0, days, width)
        parts = {}
        for label, mine in _by(rows, "requests", "cluster", "policy").items():
            count = Counter((_became(row), int((number(row, "arrival") - first) // (width * DAY))) for row in mine)
            parts[_title(label, rows)] = {
                cause: {str(1 + day): float(count[cause, bar]) for bar, day in enumerate(bars)} for cause in causes
            }
        what = "day of arrival" if width == 1 else f"day of arrival, the first of {width}"
        return draw_bars("What became of requests", parts, Axis("requests"), what)

    def _cores(self) -> Any:
        parts: dict[str, dict[str, tuple[Any, Any]]] = {}
        for result in self.placed:
            label, until_last_arrival = result.label, result.schedule.until_last_arrival
            series = f"{label['cluster']}, seed {label['seed']}" if self._seeds > 1 else str(label["cluster"])
            line = (until_last_arrival.time / DAY, 100 * until_last_arrival.utilization[:, 0])
            parts.setdefault(f"{label['requests']}, {label['policy']}", {})[series] = line
        return draw_steps("Cores in use until the last request", parts, Axis("time [days]"), Axis("of all cores [%]"))

    @property
    def _seeds(self) -> int:
        return len({result.label["seed"] for result in self.placed})


def _by(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    rows_by_values: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        rows_by_values.setdefault(tuple(row[key] for key in keys), []).append(row)
    return rows_by_values


def _first(rows: Sequence[Row], *keys: str) -> list[Row]:
    """The rows with the values that the first has: requests are the same whatever their cluster and policy."""
    return where(rows, **{key: rows[0][key] for key in keys})


def _share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> float:
    return sum(map(holds, rows)) / len(rows)


def _percent(rows: Sequence[Row], class_of: Callable[[Row], str], classes: Sequence[str] = ()) -> dict[str, float]:
    """Percent of the rows by class; without ``classes``: those that there are, in ascending order of their numbers."""
    count = Counter(map(class_of, rows))
    order = classes or sorted(count, key=lambda name: int(name.partition("-")[0]))
    return {name: 100 * count[name] / len(rows) for name in order}


def _size(machines: int) -> str:
    """The class of a number of machines: "51-100"."""
    bound = int(np.searchsorted(SIZES, machines))
    if bound == len(SIZES):
        return f"{SIZES[-1] + 1}-"
    low = SIZES[bound - 1] + 1 if bound else 1
    return f"{low}-{SIZES[bound]}" if low < SIZES[bound] else str(low)


def _group(row: Row, key: str) -> str:
    if key == "groups" and row["denied"]:
        return "denied"
    count = int(number(row, key))
    return str(count) if count <= GROUPS else f"over {GROUPS}"


def _became(row: Row) -> str:
    return f"{DENIED}{row['denied']}" if row["denied"] else PLACED


def _title(label: tuple[Any, ...], rows: Sequence[Row]) -> str:
    """Without the requests, where all are the same."""
    return ", ".join(map(str, label if len(distinct(rows, "requests")) > 1 else label[1:]))
