"""Cross-connect tables of optical switches, and the moves from one table to another.

A switch of N ports has N input ports, 1..N, and N output ports, N+1..2N. A circuit is simplex and joins an input port
to an output port. The transmit fiber of server i enters at port i + 1; its receive fiber leaves at port N + i + 1:

    0 -> 1 -> 2 -> 0 on a switch of 8 ports: 1,10  2,11  3,9
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topoflow.fields import Fields, parse_json
from topoflow.search.base import Plan, Switch

Pair = tuple[int, int]  # input port, output port
HEADER = ("switch", "in", "out")
FORMAT = "topoflow cross-connects 1"


@dataclass(frozen=True)
class Table:
    """The circuits of one switch of ``ports`` ports, sorted by input port.

    Input ports are within 1..N and output ports within N+1..2N; none is used twice. Raises ``ValueError`` otherwise.
    """

    switch: str
    ports: int
    pairs: tuple[Pair, ...]

    def __post_init__(self) -> None:
        for side, first in ((0, 1), (1, self.ports + 1)):
            used = [pair[side] for pair in self.pairs]
            for port in used:
                if not first <= port < first + self.ports:
                    rule = f"must be within {first}..{first + self.ports - 1}"
                    raise ValueError(f"{self.switch}.{HEADER[1 + side]}: {rule}, got {port}")
                if used.count(port) > 1:
                    raise ValueError(f"{self.switch}.{HEADER[1 + side]}: must be used once, got {port} twice")
        object.__setattr__(self, "pairs", tuple(sorted(self.pairs)))


@dataclass(frozen=True)
class Move:
    """One operation of a switch: "connect" a pair of ports, or "disconnect" it."""

    what: str
    pair: Pair


def tables(plan: Plan, ports: int, names: Sequence[str] | None = None) -> tuple[Table, ...]:
    """Return a table for each optical switch of ``plan``; ``names`` are the names of the switches.

    Raises ``ValueError`` for a plan without circuits, and for a plan with more servers than a switch has ports.
    """
    if not plan.circuits:
        raise ValueError(f"plan.circuits: must join servers, got none: {plan.fabric} has switches of its own")
    if plan.servers > ports:
        raise ValueError(f"ports: must be at least the {plan.servers} servers of the plan, got {ports}")
    switch_names = names or [f"switch{number}" for number in range(plan.degree)]
    return tuple(
        Table(name, ports, _pairs(switch, ports)) for name, switch in zip(switch_names, plan.circuits, strict=True)
    )


def _pairs(switch: Switch, ports: int) -> tuple[Pair, ...]:
    return tuple((source + 1, ports + target + 1) for source, target in enumerate(switch) if target is not None)


def moves(old: Table, new: Table) -> list[Move]:
    """Return the moves from ``old`` to ``new``, in order, during which no port is ever in two circuits.

    Circuits of both tables are not touched, so that the number of moves is minimal; a circuit of ``old`` is
    disconnected just before its ports are needed, so that few circuits are down at once. Raises ``ValueError`` for
    tables of different sizes.
    """
    if old.ports != new.ports:
        raise ValueError(f"{new.switch}.ports: must be the {old.ports} of the table before, got {new.ports}")
    unchanged = set(old.pairs) & set(new.pairs)
    obsolete = set(old.pairs) - unchanged
    steps = []
    for pair in (pair for pair in new.pairs if pair not in unchanged):
        for blocking in sorted(other for other in obsolete if other[0] == pair[0] or other[1] == pair[1]):
            obsolete.remove(blocking)
            steps.append(Move("disconnect", blocking))
        steps.append(Move("connect", pair))
    return steps + [Move("disconnect", pair) for pair in sorted(obsolete)]


@dataclass(frozen=True)
class Flip:
    """The 1x2 switch of an interface, which sends its light to one of two panels."""

    server: int
    interface: int
    panel: str


def look_ahead(plan: Plan, ports: int, side: str) -> tuple[tuple[Table, ...], list[Flip]]:
    """Return the next job's circuits, on the panels that the running job does not use, and the flips that start it.

    Interface k has a panel ``ka`` and a panel ``kb``; ``side``, "a" or "b", is the side of the next job. Its tables may
    be set up while the other side carries traffic. Source: TopoOpt, appendix C. Raises ``ValueError`` like ``tables``.
    """
    if side not in ("a", "b"):
        raise ValueError(f"look_ahead: must be a or b, got {side!r}")
    names = [f"panel{number}{side}" for number in range(plan.degree)]
    flips = [Flip(server, number, name) for number, name in enumerate(names) for server in range(plan.servers)]
    return tables(plan, ports, names), flips


def to_csv(switches: Iterable[Table]) -> str:
    """Return the tables as CSV, ``switch,in,out``, with a line for each circuit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((table.switch, *pair) for table in switches for pair in table.pairs)
    return text.getvalue()


def to_json(switches: Sequence[Table]) -> str:
    """Return the tables as JSON, with the port count of each switch."""
    entries = [
        {"switch": table.switch, "ports": table.ports, "circuits": [list(pair) for pair in table.pairs]}
        for table in switches
    ]
    return json.dumps({"format": FORMAT, "switches": entries}, indent=1) + "\n"


def from_json(text: str | bytes, where: str) -> tuple[Table, ...]:
    """Parse the tables. Raises ``ValueError`` that names ``where``, the field, the rule and the value."""
    top = Fields.of(f"{where}: ", parse_json(where, text, unique=True))
    if top.require("format") != FORMAT:
        top.fail("format", f"must be {FORMAT!r}")
    parsed = []
    for number, item in enumerate(top.items("switches")):
        fields = Fields.of(f"{where}: switches[{number}].", item)
        circuits = fields.items("circuits")
        pairs = [Fields(fields.place, {"circuits": pair}).integers("circuits", 1) for pair in circuits]
        if any(len(pair) != 2 for pair in pairs):
            fields.fail("circuits", "must be pairs of ports")
        try:
            parsed.append(Table(fields.text("switch"), fields.integer("ports", 1), tuple((a, b) for a, b in pairs)))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    return tuple(parsed)
