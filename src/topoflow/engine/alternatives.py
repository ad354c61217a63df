"""The single paths that a path of a world stands for: a fluid takes all of them at once, a packet takes one.

Shapes: P paths, A alternatives, H hops of all alternatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets, offsets, rows_of


@dataclass(frozen=True)
class Alternatives:
    """The alternatives of each path of a graph: one or more chains of links from the source to the target.

    Laws: shares are positive and sum to 1 for each path; the hops and weights of the path are their union.
    """

    offsets: Offsets  # [P+1] first alternative of each path
    hop_offsets: Offsets  # [A+1]
    links: Ints  # [H]
    share: Floats  # [A] of the packets, or of the bytes

    @staticmethod
    def single(hop_offsets: Offsets, links: Ints) -> Alternatives:
        """Return the alternatives of paths [P+1] that are one chain of ``links`` each."""
        paths = len(hop_offsets) - 1
        return Alternatives(np.arange(paths + 1), hop_offsets, links, np.ones(paths))

    def taken(self, paths: Ints | Offsets) -> Alternatives:
        """Return the alternatives of ``paths``, in that order."""
        begins, row = rows_of(self.offsets, paths)
        hop_begins, hop = rows_of(self.hop_offsets, row)
        return Alternatives(begins, hop_begins, self.links[hop], self.share[row])


def joined(parts: Sequence[Alternatives | None], singles: Sequence[tuple[Offsets, Ints]]) -> Alternatives | None:
    """Return one table after the other; ``singles`` are the hops [P+1], [H] of parts of single paths (None)."""
    if all(part is None for part in parts):
        return None
    tables = [Alternatives.single(*hops) if part is None else part for part, hops in zip(parts, singles, strict=True)]
    return Alternatives(
        offsets(np.concatenate([np.diff(table.offsets) for table in tables])),
        offsets(np.concatenate([np.diff(table.hop_offsets) for table in tables])),
        np.concatenate([table.links for table in tables]),
        np.concatenate([table.share for table in tables]),
    )
