"""Laws of optical switches: tables hold the plan's circuits, moves never use a port twice, forms are as published."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plans import topoopt_plan
from topoflow.apply.adapters import adapter, adapters
from topoflow.apply.cross_connects import Move, Table, from_json, look_ahead, moves, tables, to_csv, to_json
from topoflow.cli import main

PORTS = 8


@st.composite
def table(draw: st.DrawFn) -> Table:
    """Any partial permutation of the ports."""
    out = draw(st.permutations(range(PORTS + 1, 2 * PORTS + 1)))
    used = draw(st.sets(st.integers(1, PORTS)))
    return Table("switch0", PORTS, tuple((port, out[port - 1]) for port in used))


@given(table(), table())
def test_moves_lead_from_one_table_to_the_other_without_using_a_port_twice(old: Table, new: Table) -> None:
    circuits = set(old.pairs)
    steps = moves(old, new)
    for move in steps:
        if move.what == "disconnect":
            circuits.remove(move.pair)
        else:
            circuits.add(move.pair)
        assert len({a for a, _ in circuits}) == len({b for _, b in circuits}) == len(circuits)
    assert circuits == set(new.pairs)
    assert len(steps) == len(set(old.pairs) ^ set(new.pairs)), "a circuit of both tables is not touched"


@given(table(), table())
def test_a_circuit_goes_down_for_the_next_one_that_comes_up(old: Table, new: Table) -> None:
    """It has one of its ports; those that no new circuit needs go down last."""
    waiting: list[Move] = []
    for move in moves(old, new):
        waiting.append(move)
        if move.what == "connect":
            assert all(set(earlier.pair) & set(move.pair) for earlier in waiting)
            waiting = []


@given(table())
def test_a_table_reads_back(switch_table: Table) -> None:
    assert from_json(to_json([switch_table]), "circuits.json") == (switch_table,)
    rows = list(csv.DictReader(io.StringIO(to_csv([switch_table]))))
    assert [(int(row["in"]), int(row["out"])) for row in rows] == list(switch_table.pairs)


def test_tables_hold_the_circuits_of_the_plan() -> None:
    plan = topoopt_plan(5, 2)
    for switch, switch_table in zip(plan.circuits, tables(plan, PORTS), strict=True):
        assert switch_table.pairs == tuple((i + 1, PORTS + j + 1) for i, j in enumerate(switch) if j is not None)


def test_the_next_job_is_set_up_on_panels_that_the_running_one_does_not_use() -> None:
    running, _ = look_ahead(topoopt_plan(5, 2), PORTS, "a")
    following, flips = look_ahead(topoopt_plan(5, 2), PORTS, "b")
    assert not {switch_table.switch for switch_table in running} & {switch_table.switch for switch_table in following}
    assert {(flip.server, flip.interface) for flip in flips} == {(i, k) for i in range(5) for k in range(2)}
    assert {flip.panel for flip in flips} == {switch_table.switch for switch_table in following}


MOVES = [Move("disconnect", (1, 17)), Move("connect", (1, 13)), Move("connect", (5, 9))]
OPENCONFIG = "/optical-switch/port-connections/port-connection"
FORMS = {  # what public programs send to such switches; of OpenConfig, the tree that was proposed to it
    "sonic_cli": [
        "config ocs cross-connect delete 1A-9B",
        "config ocs cross-connect add 1A-5B update",
        "config ocs cross-connect add 5A-1B update",
    ],
    "openconfig": [
        {"delete": f"{OPENCONFIG}[slot=1][port=1]"},
        {
            "update": f"{OPENCONFIG}[slot=1][port=1]",
            "val": {
                "slot": "1",
                "port": "1",
                "config": {"slot": "1", "port": "1", "peer-slot": "1", "peer-port": "13"},
            },
        },
        {
            "update": f"{OPENCONFIG}[slot=1][port=5]",
            "val": {"slot": "1", "port": "5", "config": {"slot": "1", "port": "5", "peer-slot": "1", "peer-port": "9"}},
        },
    ],
    "polatis_tl1": ["DLT-PATCH::1:1:;", "ENT-PATCH::1,13:2:;", "ENT-PATCH::5,9:3:;"],
    "polatis_restconf": [
        {"method": "DELETE", "path": "/api/data/optical-switch:cross-connects/pair=1"},
        {
            "method": "POST",
            "path": "/api/data/optical-switch:cross-connects",
            "body": {"optical-switch:pair": [{"ingress": 1, "egress": 13}]},
        },
        {
            "method": "POST",
            "path": "/api/data/optical-switch:cross-connects",
            "body": {"optical-switch:pair": [{"ingress": 5, "egress": 9}]},
        },
    ],
}


@pytest.mark.parametrize("name", adapters())
def test_an_adapter_has_the_published_form(name: str) -> None:
    lines: list[Any] = adapter(name).commands(MOVES, PORTS).splitlines()
    assert ([json.loads(line) for line in lines] if "jsonl" in adapter(name).SUFFIX else lines) == FORMS[name]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (((0, 9),), "within 1..8"),
        (((1, 8),), "within 9..16"),
        (((1, 9), (1, 10)), "used once"),
        (((1, 9), (2, 9)), "used once"),
    ],
)
def test_a_wrong_table_is_one_line(pairs: tuple[tuple[int, int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Table("switch0", PORTS, pairs)


def test_the_command_writes_all_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "plan.json", tmp_path / "out"
    path.write_text(topoopt_plan(5, 2).to_json())
    for words, field in (
        (["--ports", "4"], "ports"),
        (["--adapter", "smoke_signals"], "adapter"),
        (["--look-ahead", "c"], "look_ahead"),
        (["--hosts", str(tmp_path / "missing.json")], "missing.json"),
        (["--before", str(path)], "format"),
    ):
        assert main(["apply", str(path), "--out", str(out), *words]) == 2
        error = capsys.readouterr().err
        assert field in error
        assert error.count("\n") == 1
        assert not out.exists()
    assert main(["apply", str(path), "--out", str(out)]) == 0
    assert {file.name for file in out.iterdir()} == {"circuits.csv", "circuits.json", "switch0.tl1", "switch1.tl1"}
    again = tmp_path / "again"
    assert main(["apply", str(path), "--out", str(again), "--before", str(out / "circuits.json")]) == 0
    assert (again / "switch0.tl1").read_text() == ""
