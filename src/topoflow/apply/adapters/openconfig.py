"""OpenConfig: one gNMI change per line, as JSON, with the model ``openconfig-optical-switch``.

    {"update": "/optical-switch/port-connections/port-connection[slot=1][port=1]",
     "val": {"slot": "1", "port": "1", "config": {"slot": "1", "port": "1", "peer-slot": "1", "peer-port": "13"}}}
    {"delete": "/optical-switch/port-connections/port-connection[slot=1][port=1]"}

OpenConfig has published no model of an optical cross-connect. This model was proposed to it in 2024 (openconfig/public,
pull request 1187) and closed; only its tree was published, without an example. The switch is assumed to be in slot 1.
Not tried on a device.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from topoflow.apply.cross_connects import Move

SUFFIX = "gnmi.jsonl"
PATH = "/optical-switch/port-connections/port-connection"
SLOT = "1"


def commands(moves: Sequence[Move], ports: int) -> str:
    """Return the changes as text, in the order in which they must be made."""
    return "".join(f"{json.dumps(_change(move))}\n" for move in moves)


def _change(move: Move) -> dict[str, object]:
    first, second = map(str, move.pair)
    path = f"{PATH}[slot={SLOT}][port={first}]"
    if move.what == "disconnect":
        return {"delete": path}
    keys = {"slot": SLOT, "port": first}
    return {"update": path, "val": {**keys, "config": {**keys, "peer-slot": SLOT, "peer-port": second}}}
