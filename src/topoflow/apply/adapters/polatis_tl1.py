"""The TL1 dialect of Polatis' switches: one command per line, ``VERB::PORTS:CTAG:;``.

    ENT-PATCH::1,13:1:;     connect port 1 to port 13
    DLT-PATCH::1:2:;        disconnect what port 1 is connected to

Source: the commands of public programs that drive these switches; commands have the form of Telcordia GR-831.
Not tried on a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.apply.cross_connects import Move

SUFFIX = "tl1"


def commands(moves: Sequence[Move], ports: int) -> str:
    """Return the session between login and logout; the tag (CTAG) of a command is its number."""
    return "".join(f"{_verb(move)}:{number}:;\n" for number, move in enumerate(moves, 1))


def _verb(move: Move) -> str:
    first, second = move.pair
    return f"ENT-PATCH::{first},{second}" if move.what == "connect" else f"DLT-PATCH::{first}"
