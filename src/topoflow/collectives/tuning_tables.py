"""The constants of NCCL's tuner, by the version that brought them.

Source: NVIDIA/nccl, ``src/graph/tuning.cc`` of the tags v2.23.4-1, v2.25.1-1, v2.28.9-1, v2.30.7-1. Latencies are in
us, bandwidths in GB/s; a triple is (LL, LL128, Simple) or (one node, two nodes, four and more), as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Algorithm = Literal["ring", "tree", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
Protocol = Literal["LL", "LL128", "Simple"]
# In the order of NCCL's enumeration.
ALGORITHMS: tuple[Algorithm, ...] = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
Tier = Literal["NVL", "PCI", "NET"]
Triple = tuple[float, float, float]
GENERATIONS = ("volta", "ampere", "hopper", "blackwell")

BASE: Mapping[Algorithm, Triple] = {  # us
    "tree": (6.8, 14.0, 8.4),
    "ring": (6.6, 14.0, 8.4),
    "collnet_direct": (0, 0, 0),
    "collnet_chain": (0, 0, 0),
    "nvls": (0, 0, 0),
    "nvls_tree": (0, 0, 0),
    "pat": (8.0, 8.0, 8.0),
}
HOP: Mapping[Tier, Mapping[Algorithm, Triple]] = {  # us
    "NVL": {
        "tree": (0.6, 1.25, 4.0),
        "ring": (0.6, 1.9, 3.4),
        "collnet_direct": (0, 0, 3.7),
        "collnet_chain": (0, 0, 2.8),
        "nvls": (0, 0, 25),
        "nvls_tree": (0, 0, 25),
        "pat": (0, 0, 4.0),
    },
    "PCI": {
        "tree": (1.0, 1.9, 4.0),
        "ring": (1.0, 2.5, 5.7),
        "collnet_direct": (0, 0, 3.7),
        "collnet_chain": (0, 0, 2.8),
        "nvls": (0, 0, 0),
        "nvls_tree": (0, 0, 0),
        "pat": (0, 0, 4.0),
    },
    "NET": {
        "tree": (5.0, 8.5, 14.0),
        "ring": (2.7, 4.0, 14.0),
        "collnet_direct": (0, 0, 31),
        "collnet_chain": (0, 0, 30),
        "nvls": (0, 0, 18),
        "nvls_tree": (0, 0, 14),
        "pat": (0, 0, 14),
    },
}
TREE_CORRECTION: Mapping[Protocol, tuple[float, ...]] = {  # of a tree's bandwidth at 64 B, 128 B, ... 256 MiB
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, *(0.6,) * 6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, *(0.5,) * 4, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
}
PLATEAU = 1.4  # times the latency of a ring with Simple between nodes
OLD_PLATEAU = 1.9  # before Ampere


@dataclass(frozen=True)
class TuningTables:
    """The constants of one version of NCCL."""

    version: tuple[int, ...]  # the first that has these values
    nvls_tree_network_hop: float  # us
    pat: float  # part of the bandwidth that PAT reaches
    nvls: Mapping[str, float]  # part of the bandwidth that NVLS reaches, by generation; empty: an older formula
    # Bandwidths by generation: of LL in all channels (several nodes: by the vendor of the CPU, in the rows of the
    # generations), and of one channel with a ring or tree of LL128, a tree, and an NVLS tree.
    ll: Mapping[str, Triple]
    ring_ll128: Mapping[str, Triple]
    tree_ll128: Mapping[str, Triple]
    tree: Mapping[str, Triple]
    nvls_tree: Mapping[str, Triple]


def _by_generation(*rows: Triple) -> Mapping[str, Triple]:
    return dict(zip(GENERATIONS, rows, strict=True))


_ANY = (1e9, 1e9, 1e9)
_V2_23 = TuningTables(
    version=(2, 0),
    nvls_tree_network_hop=14.0,
    pat=0.85,
    nvls={},
    ll=_by_generation((39, 39, 20.4), (87.7, 22.5, 19), (141, 45, 35), (141, 45, 35)),
    ring_ll128=_by_generation((20, 20, 20), (20, 20, 20), (36.7, 36.7, 36.7), (36.7, 36.7, 36.7)),
    tree_ll128=_by_generation((20, 20, 20), (20, 20, 20), (36.7, 36.7, 29), (36.7, 36.7, 29)),
    tree=_by_generation((26.5, 18.5, 10), (24, 23.6, 17.8), (38.7, 41.4, 36), (38.7, 41.4, 36)),
    nvls_tree=_by_generation(_ANY, _ANY, _ANY, _ANY),
)
_V2_25 = replace(
    _V2_23,
    version=(2, 25),
    pat=0.75,
    ll={**_V2_23.ll, "blackwell": (282, 90, 70)},
    ring_ll128={**_V2_23.ring_ll128, "blackwell": (73.4, 73.4, 73.4)},
    tree_ll128={**_V2_23.tree_ll128, "blackwell": (73.4, 73.4, 58)},
    tree={**_V2_23.tree, "blackwell": (77.4, 82.8, 72)},
)
_V2_28 = replace(
    _V2_25,
    version=(2, 28),
    nvls_tree_network_hop=20.9,
    nvls={"hopper": 0.85, "blackwell": 0.74},
    ring_ll128={**_V2_25.ring_ll128, "blackwell": (73.4, 34.6, 73.4)},
    tree_ll128={**_V2_25.tree_ll128, "blackwell": (55.6, 31.67, 20)},
    tree={**_V2_25.tree, "blackwell": (70, 42.8, 24)},
    nvls_tree=_by_generation((26.5, 18.5, 10), (24, 23.6, 17.8), (0, 57.7, 45.5), (0, 96, 43.8)),
)
_V2_30 = replace(
    _V2_28,
    version=(2, 30),
    ring_ll128={**_V2_28.ring_ll128, "blackwell": (40, 40, 40)},
    nvls_tree={**_V2_28.nvls_tree, "blackwell": (0, 96, 80)},
)
TABLES = (_V2_23, _V2_25, _V2_28, _V2_30)


def tables(version: str) -> TuningTables:
    """Return the newest tables that ``version`` has ("2.27.3"; "" is the newest); raise ``ValueError`` for others."""
    if not version:
        return TABLES[-1]
    try:
        number = tuple(int(part) for part in version.split("."))
    except ValueError:
        raise ValueError(f"nccl.version: must be a version such as 2.27.3, got {version!r}") from None
    if not (2, 0) <= number < (3, 0):
        raise ValueError(f"nccl.version: must be a version such as 2.27.3, got {version!r}")
    return next(table for table in reversed(TABLES) if table.version <= number)
