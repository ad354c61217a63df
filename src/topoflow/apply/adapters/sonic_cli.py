"""Shell commands of SONiC for optical circuit switches, one per line.

    config ocs cross-connect add 1A-5B update     connect port 1 of side A, where light comes in, to port 5 of side B
    config ocs cross-connect delete 1A-5B         disconnect them

Ports of side B are numbered from 1: output port N + 5 of a switch of N ports is 5B. Source: sonic-net/sonic-mgmt
ansible/library/ocs_cross_connect.py, tests/ocs; SAI's definitions (opencomputeproject/SAI doc/OCS). Not tried on a
device.
"""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.apply.cross_connects import Move

SUFFIX = "sonic"


def commands(moves: Sequence[Move], ports: int) -> str:
    """Return the commands as text, in the order in which they must be run."""
    return "".join(f"config ocs cross-connect {_verb(move, ports)}\n" for move in moves)


def _verb(move: Move, ports: int) -> str:
    first, second = move.pair
    name = f"{first}A-{second - ports}B"
    return f"add {name} update" if move.what == "connect" else f"delete {name}"
