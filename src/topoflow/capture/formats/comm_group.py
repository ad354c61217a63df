"""Process groups in a file of their own, ``comm_group.json``, as ASTRA-sim takes them with the traces of all ranks.

    {"1": [0, 1, 2, 3], "2": [2, 3]}        name of a group -> its ranks

Source: astra-sim/astra-sim astra-sim/workload/Workload.cc (initialize_comm_groups).
"""

from __future__ import annotations

from topoflow.capture.merge.parts import InputFile, RankRecord
from topoflow.fields import LARGEST_RANK, Fields


def matches(source: InputFile) -> bool:
    """Return whether it is a JSON object of lists of whole numbers."""
    groups = source.document
    return (
        isinstance(groups, dict)
        and bool(groups)
        and all(
            isinstance(ranks, list) and ranks and all(type(rank) is int for rank in ranks) for ranks in groups.values()
        )
    )


def parse(source: InputFile) -> list[RankRecord]:
    """Return a part without events for each rank, with its groups."""
    fields = Fields.of(f"{source.name}: ", source.document)
    by_rank: dict[int, dict[str, tuple[int, ...]]] = {}
    for name in fields.values:
        ranks = fields.integers(name, highest=LARGEST_RANK)
        if len(set(ranks)) < len(ranks):
            fields.fail(name, "must name each rank once")
        for rank in ranks:
            by_rank.setdefault(rank, {})[name] = ranks
    return [
        RankRecord(source.name, rank, (), "", groups=groups, lists_groups=True)
        for rank, groups in sorted(by_rank.items())
    ]
