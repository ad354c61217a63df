"""The data of a report's page, as JSON that its scripts draw: rows, timelines, networks, colours."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from topoflow.case.base import Result
from topoflow.report.answer import fits, recommended
from topoflow.report.base import Report
from topoflow.report.draw.network.layout import layout
from topoflow.report.draw.network.topology import wirings
from topoflow.report.draw.ports import with_queues, worlds
from topoflow.report.draw.price import frontier
from topoflow.report.draw.style import KINDS, OTHER_KIND, fabric_looks, kind_colour
from topoflow.report.load import BINS, bytes_over_time
from topoflow.report.tasks import NOTHING, Tasks, drawn, servers_of
from topoflow.units import human

MAX_WORLDS = 6  # timelines and networks of a page
MAX_TASKS = 100_000  # of all timelines of a page
# Of all of a page, compressed: the page stays below 3 MB.
TIMELINE_BYTES, NETWORK_BYTES, LOAD_BYTES = 600_000, 300_000, 300_000
STEPS = 1000  # of what a link can carry in a part of the step: its load over time is a number of these
NS = 1e9  # in a second

MEASURES = {  # numbers of a row that the explorer shows
    "iteration_time": "time of one training step [s]",
    "cost_usd": "price of the network [US dollars]",
    "network_time": "not computing [s]",
    "power_w": "power of the network [W]",
    "bandwidth_tax": "bandwidth tax",
    "path_length_mean": "mean path [links]",
    "memory_per_gpu": "memory per GPU [B]",
    "samples_per_second": "samples per second",
    "mfu": "model FLOPs utilization",
    "servers": "servers",
    "bandwidth": "bandwidth of an interface [B/s]",
    "degree": "interfaces per server",
}

Plain = dict[str, Any]
T = TypeVar("T")


def page_data(report: Report) -> Plain:
    """All that the scripts of the page draw."""
    rows, common = _rows(report)
    return {
        "fabrics": {name: look.colour for name, look in fabric_looks(report.fabrics).items()},
        "kinds": kind_colours(),
        "rows": rows,
        "common": common,
        "measures": [{"key": key, "label": label} for key, label in MEASURES.items()],
        "factors": _factors(report),
        "timelines": timelines(report),
        "networks": networks(report),
        "queues": queues(report),
    }


def kind_colours() -> dict[str, str]:
    """What is computed and sent -> its colour in a timeline."""
    return {kind: kind_colour(kind) for kind in ("compute", *KINDS)} | {"other": OTHER_KIND}


def as_script(data: Plain) -> str:
    """``data`` as the text of a script element, which no name in it can end."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def row_id(report: Report, result: Result) -> str:
    """What a link to the row of a world ends with: its number among the rows of ``result.json``."""
    return f"row-{report.numbers[result.settings.world]}"


def _rows(report: Report) -> tuple[list[Plain], Plain]:
    """The worlds, fastest first, each with what only it has of the configuration; and what all have in common."""
    configs = [dict(result.settings.config) for result in report.outcomes]
    common = {key: value for key, value in configs[0].items() if all(key in c and c[key] == value for c in configs)}
    on_front = {id(result) for job in report.jobs for result in frontier(job)}
    best = {id(recommended(job)[0]) for job in report.jobs if fits(job)}
    job_of = {result.settings.world: number for number, job in enumerate(report.jobs) for result in job}
    rows = []
    for result, label in zip(report.ranking, report.labels(report.ranking), strict=True):
        row = result.row
        rows.append(
            {
                "id": row_id(report, result),
                "world": row.world,
                "label": label,
                "fabric": row.fabric,
                "time": row.iteration_time,
                "compute": row.compute_time,
                "cost": row.cost_usd,
                "on_front": id(result) in on_front,
                "recommended": id(result) in best,
                "job": job_of[result.settings.world],
                "values": {key: getattr(row, key) for key in MEASURES},
                "swept": dict(result.settings.swept),
                "own": {key: value for key, value in result.settings.config.items() if key not in common},
            }
        )
    return rows, common


def _factors(report: Report) -> list[Plain]:
    """The axes of the parallel coordinates: the keys that differ, then time and price."""
    found: list[Plain] = []
    for key in report.swept:
        values = list(
            dict.fromkeys(result.settings.swept[key] for result in report.outcomes if key in result.settings.swept)
        )
        found.append({"key": key, "label": key, "choices": values})
    for key, unit in (("iteration_time", "s"), ("cost_usd", "$")):
        numbers = [value for row in report.rows if (value := getattr(row, key)) is not None]
        if numbers:
            low, high = min(numbers), max(numbers)
            texts = {"low_text": human(low, unit), "high_text": human(high, unit)}
            found.append({"key": key, "label": MEASURES[key], "low": low, "high": high, **texts})
    return found


def timelines(report: Report) -> list[Plain]:
    """Every task that ran of the fastest world, and of others as far as there is room: worlds are whole or absent."""
    shown = drawn(report, MAX_TASKS, MAX_WORLDS)
    shown = tuple(result for result in shown if len(result.traffic) <= MAX_TASKS)
    return fitting(_named(report, shown, map(timeline, shown)), TIMELINE_BYTES, "tasks")


def networks(report: Report) -> list[Plain]:
    """Every wiring once, with the load of its links, as far as there is room."""
    shown = wirings(report)[:MAX_WORLDS]
    return networks_fitting(_named(report, shown, map(network, shown)))


def queues(report: Report) -> list[Plain]:
    """How much waited at the fullest ports over time, of the busiest worlds."""
    shown = with_queues(report)
    labels = report.labels([outcome for outcome, _ in shown])
    return [
        {
            "label": label,
            "names": list(depths.names),
            "interval": depths.interval,
            "depth": depths.depth.astype(np.int64).tolist(),  # whole flits
        }
        for label, (_, depths) in zip(labels, shown, strict=True)
    ]


def timeline(result: Result) -> Plain:
    """Every task of one world that ran."""
    return {"servers": result.fabric.servers, "tasks": _packed(_tasks(result))}


def network(result: Result) -> Plain:
    """The wiring of one world, with the load of its links, also ``over`` time; None: that is not known."""
    links = _packed(_links(result))
    over = _over_time(result) if len(links) <= NETWORK_BYTES else None  # of the others, a page has no room for either
    return {"links": links, "over": None if over is None else _packed(over)}


def _named(report: Report, shown: Sequence[Result], packed: Iterable[Plain]) -> Iterator[Plain]:
    """The packed worlds with their names."""
    return ({"label": a, **b} for a, b in zip(report.labels(shown), packed, strict=True))


def networks_fitting(worlds: Iterable[Plain]) -> list[Plain]:
    """Those for which a page has room; those for whose load over time it has none have "" of it."""
    found = fitting(worlds, NETWORK_BYTES, "links")
    timed = fitting([each for each in found if each["over"]], LOAD_BYTES, "over")
    return [each if each in timed or each["over"] is None else {**each, "over": ""} for each in found]


def fitting(worlds: Iterable[Plain], room: int, key: str) -> list[Plain]:
    """Those whose text ``key`` fits into ``room`` bytes, with that of those before."""
    found = []
    for each in worlds:
        if len(each[key]) <= room:
            room -= len(each[key])
            found.append(each)
    return found


def left_out(report: Report, data: Plain) -> dict[str, str]:
    """Chart -> what of the report it does not draw, in a sentence; "" where it draws all of it."""
    counts = {
        "timeline": (len(data["timelines"]), len(report.outcomes), "worlds", f"{MAX_TASKS:,} tasks", TIMELINE_BYTES),
        "network": (len(data["networks"]), len(wirings(report)), "different networks", "", NETWORK_BYTES),
    }
    found = {}
    for chart, (shown, whole, what, tasks, room) in counts.items():
        limits = ", ".join(filter(None, (f"{MAX_WORLDS} {what}", tasks, f"{room // 1000} kB")))
        found[chart] = f"Drawn are {shown} of {whole} {what}: this page has room for {limits}." if shown < whole else ""
    if len(worlds(report)) > len(data["queues"]):
        found["queues"] = f"Drawn are {len(data['queues'])} of {len(worlds(report))} worlds, the busiest."
    found["network"] = " ".join(filter(None, (found["network"], without_time(data["networks"]))))
    return found


def without_time(networks: Sequence[Plain]) -> str:
    """Which of the networks on a page have no load over time, and why; "" where all have it."""
    reasons = {None: "no paths say which links its bytes cross", "": f"this page has {LOAD_BYTES // 1000} kB for it"}
    missing = {why: [each["label"] for each in networks if each["over"] == over] for over, why in reasons.items()}
    return " ".join(f"Load over time is left out of {', '.join(of)}: {why}." for why, of in missing.items() if of)


def _tasks(result: Result) -> Plain:
    """Columns of the tasks that ran; times in whole ns, names and groups as numbers of lists.

    ``task`` and ``start`` are steps from the value before, which compress better.
    """
    traffic, tasks = result.traffic, Tasks.of(result)
    row_of = dict(zip(tasks.number.tolist(), range(len(tasks)), strict=True)) | {NOTHING: NOTHING}
    start, finish = (np.rint(times * NS).astype(np.int64) for times in (tasks.start, tasks.finish))
    kinds, names, groups = dict[str, int](), dict[str, int](), dict[tuple[int, ...], int]()
    return {
        "task": np.diff(tasks.number, prepend=0).tolist(),
        "start": np.diff(start, prepend=0).tolist(),
        "duration": (finish - start).tolist(),
        "bytes": list(_short(traffic.bytes[tasks.number].tolist())),
        "target": traffic.target[tasks.number].tolist(),
        "waited": [row_of[task] for task in tasks.waited_for.tolist()],
        "kind": _numbers(kinds, tasks.kinds),
        "name": _numbers(names, tasks.names),
        "on": _numbers(groups, (tuple(servers_of(traffic, task)) for task in tasks.number.tolist())),
        "kinds": list(kinds),
        "names": list(names),
        "groups": [list(group) for group in groups],
    }


def _links(result: Result) -> Plain:
    fabric = result.fabric
    found = layout(fabric)
    return {
        "x": list(_short(found.place[:, 0].tolist())),
        "y": list(_short(found.place[:, 1].tolist())),
        "bend": list(_short(found.bend.tolist())),
        "proportions": found.keeps_proportions,
        "names": list(fabric.nodes),
        "source": fabric.source.tolist(),
        "target": fabric.target.tolist(),
        "load": list(_short(result.utilization.tolist())),
        "carried": list(_short(result.timeline.link_bytes.tolist())),
    }


def _over_time(result: Result) -> Plain | None:
    """Load in equal parts of the step, as lists of numbers of ``STEPS`` of what a link can carry in a part.

    ``of`` is the list of every link; links of one load share it. Sums from the start are rounded, so that no rounding
    adds up: the load of parts side by side is right to one of ``STEPS`` of a part.
    """
    load = bytes_over_time(result.timeline, result.iteration_time)
    if load is None:
        return None
    of_part = result.fabric.bandwidth * result.iteration_time / BINS
    by_then = np.rint(np.cumsum(load, axis=0) / of_part * STEPS).astype(np.int64)
    lists, of = np.unique(np.diff(by_then, axis=0, prepend=0).T, axis=0, return_inverse=True)
    return {
        "end": float(f"{result.iteration_time:.6g}"),
        "parts": BINS,
        "steps": STEPS,
        "lists": lists.tolist(),
        "of": of.reshape(-1).tolist(),
    }


def _numbers(seen: dict[T, int], values: Iterable[T]) -> list[int]:
    """The number of each value in the order in which they are first seen; enters new ones."""
    return [seen.setdefault(value, len(seen)) for value in values]


def _short(values: Iterable[float]) -> Iterator[float]:
    """Five digits."""
    return map(float, map(format, values, repeat(".5g")))


def _packed(data: Plain) -> str:
    """JSON, compressed, as text; the same of the same data."""
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode("ascii")
