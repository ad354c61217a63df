"""Readers of what topoflow writes: plans, tables of switches, and the folders of runs and sweeps."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from damaged.reader import Files, Reader, content

PART = "part-00000000.parquet"
KEY = {"version of topoflow": "of any"}  # of a checkpoint: it is resumed, whatever search it is of


def _use_plan(paths: list[Path]) -> None:
    from topoflow.apply.adapters import adapter, adapters
    from topoflow.apply.cross_connects import Table, moves, tables, to_csv, to_json
    from topoflow.apply.network import fabric_of, forwarded
    from topoflow.apply.orders import orders_of_plan, read_plan

    plan = read_plan(paths[0])
    plan.to_json()
    plan.chosen()
    for table in tables(plan, 16):
        to_csv([table])
        to_json([table])
        for name in adapters():
            adapter(name).commands(moves(Table(table.switch, table.ports, ()), table), table.ports)
    forwarded(fabric_of(plan))
    orders_of_plan(plan, range(plan.servers))


def _use_hosts(paths: list[Path]) -> None:
    from topoflow.apply.forwarding import as_json, forwarding
    from topoflow.apply.hosts import read_hosts, wires
    from topoflow.apply.network import fabric_of, forwarded
    from topoflow.apply.orders import read_plan
    from topoflow.apply.script import script

    hosts_file, plan_file = paths
    plan = read_plan(plan_file)
    hosts = read_hosts(hosts_file, plan)
    fabric = forwarded(fabric_of(plan))
    for manner in ("kernel", "flower"):
        commands = forwarding(fabric, hosts, wires(plan, hosts), manner)
        for host, of_host in zip(hosts, commands, strict=True):
            script(host, of_host)
            json.dumps(as_json(host, of_host))


def _use_circuits(paths: list[Path]) -> None:
    from topoflow.apply.cross_connects import Table, from_json, moves

    for table in from_json(paths[0].read_bytes(), str(paths[0])):
        moves(table, Table(table.switch, table.ports, ()))


def _use_checkpoint(paths: list[Path]) -> None:
    """Show it, then resume from it."""
    from topoflow.search.checkpoint import load, look
    from topoflow.search.space import space

    look(paths[0])
    problem, settings = _search()
    load(paths[0], KEY, settings, space(problem, settings))


@cache
def _search() -> Any:
    from tests.search.conftest import make_problem
    from topoflow.search.problem import SearchSettings

    return make_problem("servers=4", seed=7), SearchSettings(proposals=64, chains=2, rounds=1, decide=2)


def _use_run(paths: list[Path]) -> None:
    """Do what ``topoflow report`` and the pages of ``topoflow serve`` do."""
    from topoflow.browse.find import Listed
    from topoflow.browse.pages import run_page
    from topoflow.browse.rows import list_row
    from topoflow.browse.run import run_at
    from topoflow.browse.words import how_to_continue, missing, state_line

    folder = paths[0].parent.parent if paths[0].parent.name == ".hydra" else paths[0].parent
    run = run_at(folder, folder.name)
    if run is None:
        return
    list_row(Listed.of(run))
    run_page(run, served=False)
    for part in (state_line, missing, how_to_continue):
        part(run)
    _ = run.rows, run.configs, run.verb, run.command, run.best, run.time, run.again, run.found_by_search


def _use_dataset(paths: list[Path]) -> None:
    from topoflow.report.dataset.base import Dataset
    from topoflow.report.dataset.page import dataset_page
    from topoflow.report.dataset.reading import Reader as Rows
    from topoflow.report.dataset.summary import parts, state

    rows = Rows(Dataset.open(paths[0].parent))
    state(rows)
    dataset_page(rows, parts(rows))


def _plan(scratch: Path) -> Iterator[Files]:
    from tests.apply.test_forwarding import plan_of
    from tests.plans import topoopt_plan
    from topoflow.search.alternate import search

    yield {"plan.json": topoopt_plan(5, 2).to_json().encode()}
    yield {"plan.json": plan_of([1, 3], 4).to_json().encode()}
    yield {"plan.json": search(*_search()).plan.to_json().encode()}


def _hosts(scratch: Path) -> Iterator[Files]:
    from tests.apply.test_forwarding import hosts_file, plan_of

    for strides in ([1], [1, 3]):
        plan = plan_of(strides, 4)
        yield {**content(hosts_file(scratch, plan)), "plan.json": plan.to_json().encode()}


def _circuits(scratch: Path) -> Iterator[Files]:
    from tests.plans import topoopt_plan
    from topoflow.apply.cross_connects import tables, to_json

    yield {"circuits.json": to_json(tables(topoopt_plan(5, 2), 8)).encode()}


def _checkpoint(scratch: Path) -> Iterator[Files]:
    from topoflow import npz
    from topoflow.engine.base import Run
    from topoflow.search.alternate import search

    problem, settings = _search()
    path = scratch / "checkpoint.npz"
    for steps in (3, 10**6):
        path.unlink(missing_ok=True)
        with suppress(KeyboardInterrupt):
            search(problem, settings, Run(observer=_Stops(steps)), checkpoint=path)
        arrays = npz.read(path)
        meta = json.loads(str(arrays["meta"]))
        npz.write(path, {**arrays, "meta": npz.text({**meta, "key": KEY})}, compressed=False)
        yield content(path)


class _Stops:
    """An observer that ends a search after some steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def record(self, **values: Any) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def _signed(data: bytes) -> bytes:
    archive = data[: data.rfind(b"PK\x05\x06") + 22] if b"PK\x05\x06" in data else data[:-32]
    return archive + hashlib.sha256(archive).digest()


def _points(scratch: Path) -> Iterator[Files]:
    from tests.browse.test_server import row
    from topoflow.study.figures.points import PointFile

    path = scratch / "checkpoint.jsonl"
    for number in range(3):
        PointFile(path).add(f"{number}", {"series": "a"}, [row("ring", 1.0, None)])
    yield content(path)


def _signed_lines(data: bytes) -> bytes:
    """Return the points with the checksums of what they say now."""
    from topoflow.digest import digest

    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        with suppress(ValueError, AttributeError, TypeError, RecursionError):
            record = json.loads(line)
            record.pop("checksum", None)
            lines[number] = json.dumps(record | {"checksum": digest(record)}).encode()
    return b"\n".join(lines)


def _result(scratch: Path) -> Iterator[Files]:
    from tests.browse.test_server import row
    from topoflow.cli import main

    words = ["servers=4", "workload.tables=2", "workload.rows=1000", f"out={scratch / 'run'}"]
    with patch("topoflow.report.draw.pictures.png", lambda figure: b""):
        assert main(["compare", "fabric=ring,torus", *words]) == 0
    yield content(scratch / "run" / "result.json")
    rows = [row("torus", 2.0, 5.0), row("ring", 1.0, None, servers=4)]
    yield {"result.json": json.dumps({"version": "0", "command": "topoflow compare a=1", "rows": rows}).encode()}


def _progress(scratch: Path) -> Iterator[Files]:
    from tests.browse.test_server import row
    from topoflow import progress

    log = progress.ProgressLog.begin(scratch, verb="search", command="topoflow search", cwd="/")
    for step in range(3):
        log.record(step, {"torus/progress": step / 3, "torus/time": 0.5, "torus/rate": 9.0, "torus/acceptance": 0.5})
        log._flush()
    log.rows([row("torus", 2.0, 5.0)])
    log._file.close()
    yield content(scratch / progress.NAME)


def _hydra(scratch: Path) -> Iterator[Files]:
    text = "hydra:\n  job:\n    name: compare\n  overrides:\n    hydra: []\n    task:\n    - servers=4\n    - a=b\n"
    yield {".hydra/hydra.yaml": text.encode()}


def _study(scratch: Path) -> Iterator[Files]:
    from topoflow.engine.base import Run
    from topoflow.study.configure.grid import grid
    from topoflow.study.searches import check
    from topoflow.study.trials import sampled

    keys = ("servers=4", "workload.tables=4", "workload.rows=1000", "fabric=fat_tree,ring", "bandwidth_gbps=200,25")
    points = grid((*keys, "search.objective=pareto", "study=optuna", "study.startup=2"), check, "search")
    sampled(points, Run(), scratch)
    with closing(sqlite3.connect(scratch / "study.db")) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    yield content(scratch / "study.db")


def _dataset(scratch: Path) -> Iterator[Files]:
    from tests.study.test_dataset import drawn

    dataset, _ = drawn(scratch / "d.parquet", 3, 20)
    yield {f"d.parquet/{name}": data for name, data in content(*sorted(dataset.folder.iterdir())).items()}


def _signed_rows(data: bytes) -> bytes:
    """Return the rows with the digest that they have as points 0 to 19 of the seed."""
    from topoflow.report.dataset.base import NO_DIGEST, Dataset, _digest_in

    stored, hashed = _digest_in(data)
    dataset = Dataset(Path("d.parquet"), 20, (), frozenset(), "", "x")
    digest = dataset._digest(range(20), hashed)
    return hashed.replace(NO_DIGEST.encode(), digest) if len(stored) == len(digest) else data


RESULTS = {
    "plan": Reader(_use_plan, _plan),
    "hosts": Reader(_use_hosts, _hosts),
    "circuits": Reader(_use_circuits, _circuits),
    "checkpoint": Reader(_use_checkpoint, _checkpoint, repair=_signed),
    "points": Reader(_use_run, _points, repair=_signed_lines),
    "result": Reader(_use_run, _result),
    "progress": Reader(_use_run, _progress),
    "hydra": Reader(_use_run, _hydra),
    "study": Reader(_use_run, _study),
    "dataset_manifest": Reader(_use_dataset, _dataset, whole="*/part-*"),
    "dataset_rows": Reader(_use_dataset, _dataset, whole="*/_dataset.json", repair=_signed_rows),
}
