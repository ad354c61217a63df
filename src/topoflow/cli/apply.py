"""``topoflow apply``: a plan as tables of optical switches, and as scripts of hosts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from topoflow.apply.adapters import adapter
from topoflow.apply.cross_connects import Table, from_json, look_ahead, moves, tables, to_csv, to_json
from topoflow.apply.forwarding import as_json, forwarding
from topoflow.apply.hosts import read_hosts, wires
from topoflow.apply.network import fabric_of, forwarded
from topoflow.apply.orders import read_plan
from topoflow.apply.script import script
from topoflow.files import read_bytes
from topoflow.report.files import check_folder, whole_folder
from topoflow.report.output import Output
from topoflow.search.base import Plan


def run(arguments: argparse.Namespace) -> None:
    """Read and check everything, then write all files or none."""
    plan = read_plan(arguments.plan)
    files = dict(_files(plan, arguments))
    check_folder(arguments.out, "apply")
    with whole_folder(arguments.out) as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    Output().print(f"Wrote {', '.join(files)} to {arguments.out}.", highlight=False)


def _files(plan: Plan, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each file."""
    if arguments.look_ahead is None:
        circuit_tables = tables(plan, arguments.ports)
    else:
        circuit_tables, flips = look_ahead(plan, arguments.ports, arguments.look_ahead)
        yield "flips.json", json.dumps([vars(flip) for flip in flips], indent=1) + "\n"
    yield "circuits.csv", to_csv(circuit_tables)
    yield "circuits.json", to_json(circuit_tables)
    before = {} if arguments.before is None else _read_tables(arguments.before)
    form = adapter(arguments.adapter)
    for table in circuit_tables:
        old = before.get(table.switch, Table(table.switch, table.ports, ()))
        yield f"{table.switch}.{form.SUFFIX}", form.commands(moves(old, table), table.ports)
    if arguments.hosts is not None:
        yield from _hosts(plan, arguments)


def _read_tables(path: Path) -> Mapping[str, Table]:
    return {table.switch: table for table in from_json(read_bytes(path), str(path))}


def _hosts(plan: Plan, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    hosts = read_hosts(arguments.hosts, plan)
    fabric = forwarded(fabric_of(plan))
    of_hosts = forwarding(fabric, hosts, wires(plan, hosts), arguments.forwarding)
    for host, commands in zip(hosts, of_hosts, strict=True):
        yield f"hosts/{host.name}.sh", script(host, commands)
        yield f"hosts/{host.name}.json", json.dumps(as_json(host, commands), indent=1) + "\n"
