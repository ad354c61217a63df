"""RESTCONF (RFC 8040) with Polatis' YANG module ``optical-switch``: one request per line, as JSON.

    {"method": "POST", "path": "/api/data/optical-switch:cross-connects",
     "body": {"optical-switch:pair": [{"ingress": 1, "egress": 13}]}}
    {"method": "DELETE", "path": "/api/data/optical-switch:cross-connects/pair=1"}

Source: the requests of public programs that drive these switches. Not tried on a device.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from topoflow.apply.cross_connects import Move

SUFFIX = "jsonl"
PATH = "/api/data/optical-switch:cross-connects"


def commands(moves: Sequence[Move], ports: int) -> str:
    """Return the requests as text, in the order in which they must be made."""
    return "".join(f"{json.dumps(_request(move))}\n" for move in moves)


def _request(move: Move) -> dict[str, object]:
    first, second = move.pair
    if move.what == "disconnect":
        return {"method": "DELETE", "path": f"{PATH}/pair={first}"}
    body = {"optical-switch:pair": [{"ingress": first, "egress": second}]}
    return {"method": "POST", "path": PATH, "body": body}
