"""The data of a report's page as JSON for its scripts: rows, timelines, networks, colours."""

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
from topoflow.report.draw.style import HOST, KINDS, OTHER_KIND, fabric_looks, kind_colour
from topoflow.report.load import BINS, bytes_over_time
from topoflow.report.tasks import NOTHING, Tasks, drawn, servers_of
from topoflow.units import human

MAX_WORLDS = 6  # timelines and networks of a page
MAX_TASKS = 100_000  # of all timelines of a page
# Compressed sizes of all charts of a page, which stays below 3 MB.
TIMELINE_BYTES, NETWORK_BYTES, LOAD_BYTES = 600_000, 300_000, 300_000
STEPS = 1000  # load over time is in units of 1 / STEPS of a link's capacity in a part of the step
NS = 1e9  # ns per second

MEASURES = {  # numbers of a row that the explorer shows
    "iteration_time": "time of one training step [s]",
    "cost_usd": "price [US dollars]",
    "usd_per_step": "price of a step [US dollars]",
    "usd_per_million_tokens": "price of a million tokens [US dollars]",
    "goodput": "goodput",
    "network_time": "exposed communication [s]",
    "power_w": "power [W]",
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
    """Return all data that the scripts of the page draw."""
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
    """Return kind of task -> its colour in a timeline."""
    return {kind: kind_colour(kind) for kind in ("compute", *KINDS)} | {"other": OTHER_KIND, "host": HOST}


def as_script(data: Plain) -> str:
    """Return ``data`` as the text of a script element, which no string in it can end."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def row_id(report: Report, result: Result) -> str:
    """Return the fragment of a link to the row of a world, with its number in ``result.json``."""
    return f"row-{report.numbers[result.settings.world]}"


def _rows(report: Report) -> tuple[list[Plain], Plain]:
    """Return the worlds, fastest first, each with its part of the configuration, and the common configuration."""
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
                "host": row.host_time,
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
    """Return the axes of the parallel coordinates: the keys that differ, then time and price."""
    axes: list[Plain] = []
    for key in report.swept:
        values = list(
            dict.fromkeys(result.settings.swept[key] for result in report.outcomes if key in result.settings.swept)
        )
        axes.append({"key": key, "label": key, "choices": values})
    return axes + axes_of_numbers([vars(row) for row in report.rows])


def axes_of_numbers(rows: Sequence[Plain]) -> list[Plain]:
    """Return the axes of time and price, each from its least value to its largest."""
    axes = []
    for key, unit in (("iteration_time", "s"), ("cost_usd", "$")):
        numbers = [row[key] for row in rows if row[key] is not None]
        if numbers:
            low, high = min(numbers), max(numbers)
            texts = {"low_text": human(low, unit), "high_text": human(high, unit)}
            axes.append({"key": key, "label": MEASURES[key], "low": low, "high": high, **texts})
    return axes


def timelines(report: Report) -> list[Plain]:
    """Return all tasks of the fastest world, and of others while there is room; worlds are complete or absent."""
    shown = drawn(report, MAX_TASKS, MAX_WORLDS)
    shown = tuple(result for result in shown if len(result.traffic) <= MAX_TASKS)
    return fitting(_named(report, shown, map(timeline, shown)), TIMELINE_BYTES, "tasks")


def networks(report: Report) -> list[Plain]:
    """Return every wiring once, with the load of its links, while there is room."""
    shown = wirings(report)[:MAX_WORLDS]
    return networks_fitting(_named(report, shown, map(network, shown)))


def queues(report: Report) -> list[Plain]:
    """Return the waiting bytes at the fullest ports over time, for the busiest worlds."""
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
    """Return every task of one world that ran."""
    return {"servers": result.fabric.servers, "tasks": _packed(_tasks(result))}


def network(result: Result) -> Plain:
    """Return the wiring of one world, with the load of its links and, if known, ``over`` time."""
    links = _packed(_links(result))
    over = _over_time(result) if len(links) <= NETWORK_BYTES else None  # larger ones do not fit in a page anyway
    return {"links": links, "over": None if over is None else _packed(over)}


def _named(report: Report, shown: Sequence[Result], packed: Iterable[Plain]) -> Iterator[Plain]:
    """Return the packed worlds with their names."""
    return ({"label": a, **b} for a, b in zip(report.labels(shown), packed, strict=True))


def networks_fitting(worlds: Iterable[Plain]) -> list[Plain]:
    """Return the networks that fit in a page; if only the load over time does not fit, it is ""."""
    shown = fitting(worlds, NETWORK_BYTES, "links")
    timed = fitting([network for network in shown if network["over"]], LOAD_BYTES, "over")
    return [network if network in timed or network["over"] is None else {**network, "over": ""} for network in shown]


def fitting(worlds: Iterable[Plain], room: int, key: str) -> list[Plain]:
    """Return the worlds whose texts ``key`` together fit into ``room`` bytes, in their order."""
    shown = []
    for world in worlds:
        if len(world[key]) <= room:
            room -= len(world[key])
            shown.append(world)
    return shown


def left_out(report: Report, data: Plain) -> dict[str, str]:
    """Return chart -> a sentence about what it does not draw; "" if it draws everything."""
    counts = {
        "timeline": (len(data["timelines"]), len(report.outcomes), "worlds", f"{MAX_TASKS:,} tasks", TIMELINE_BYTES),
        "network": (len(data["networks"]), len(wirings(report)), "different networks", "", NETWORK_BYTES),
    }
    notes = {}
    for chart, (shown, total, what, tasks, room) in counts.items():
        limits = ", ".join(filter(None, (f"{MAX_WORLDS} {what}", tasks, f"{room // 1000} kB")))
        notes[chart] = f"Drawn are {shown} of {total} {what}: this page has room for {limits}." if shown < total else ""
    if len(worlds(report)) > len(data["queues"]):
        notes["queues"] = f"Drawn are {len(data['queues'])} of {len(worlds(report))} worlds, the busiest."
    notes["network"] = " ".join(filter(None, (notes["network"], without_time(data["networks"]))))
    return notes


def without_time(networks: Sequence[Plain]) -> str:
    """Describe which networks of a page have no load over time, and why; "" if all have it."""
    reasons = {None: "no paths say which links its bytes cross", "": f"this page has {LOAD_BYTES // 1000} kB for it"}
    missing = {
        reason: [network["label"] for network in networks if network["over"] == over]
        for over, reason in reasons.items()
    }
    return " ".join(
        f"Load over time is left out of {', '.join(labels)}: {reason}." for reason, labels in missing.items() if labels
    )


def _tasks(result: Result) -> Plain:
    """Return columns of the tasks that ran; times in whole ns, names and groups as indices of lists.

    ``task`` and ``start`` are differences to the previous value, which compress better.
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
    places = layout(fabric)
    return {
        "x": list(_short(places.place[:, 0].tolist())),
        "y": list(_short(places.place[:, 1].tolist())),
        "bend": list(_short(places.bend.tolist())),
        "proportions": places.keeps_proportions,
        "names": list(fabric.nodes),
        "source": fabric.source.tolist(),
        "target": fabric.target.tolist(),
        "load": list(_short(result.utilization.tolist())),
        "carried": list(_short(result.timeline.link_bytes.tolist())),
    }


def _over_time(result: Result) -> Plain | None:
    """Return the load in equal parts of the step, as lists in units of 1 / ``STEPS`` of a link's capacity in a part.

    ``of`` is the index of every link's list; links with equal load share a list. Sums from the start are rounded, so
    that errors do not add up: the load of consecutive parts is correct to 1 / ``STEPS`` of a part.
    """
    load = bytes_over_time(result.timeline, result.iteration_time)
    if load is None:
        return None
    of_part = result.fabric.bandwidth * result.iteration_time / BINS
    by_then = np.rint(np.cumsum(load, axis=0) / of_part * STEPS).astype(np.int64)
    lists, list_of = np.unique(np.diff(by_then, axis=0, prepend=0).T, axis=0, return_inverse=True)
    return {
        "end": float(f"{result.iteration_time:.6g}"),
        "parts": BINS,
        "steps": STEPS,
        "lists": lists.tolist(),
        "of": list_of.reshape(-1).tolist(),
    }


def _numbers(seen: dict[T, int], values: Iterable[T]) -> list[int]:
    """Return the index of each value in the order of first appearance; add new values to ``seen``."""
    return [seen.setdefault(value, len(seen)) for value in values]


def _short(values: Iterable[float]) -> Iterator[float]:
    """Round values to five digits."""
    return map(float, map(format, values, repeat(".5g")))


def _packed(data: Plain) -> str:
    """Return compressed JSON as text; equal data give equal texts."""
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode("ascii")
