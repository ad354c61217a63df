"""The number of points of a sweep: few enough to list them."""

from __future__ import annotations

MOST_POINTS = 2**17  # of a sweep; each takes milliseconds to compose and some to simulate
MOST_SAMPLED = 2**24  # of a sweep whose points a study samples, or whose rows are a dataset
INSTEAD = (
    "sweep fewer values of a key, write the rows to a dataset with topoflow compare out=NAME.parquet, or let "
    f"topoflow search study=optuna choose, both of up to {MOST_SAMPLED}"
)
FEWER = "sweep fewer values of a key"


def check_total(points: float, most: int) -> None:
    """Raise ``ValueError`` for more than ``most`` points."""
    if not points <= most:  # nan, too
        requirement = f"must be of at most {most} points ({INSTEAD if most < MOST_SAMPLED else FEWER})"
        raise ValueError(f"sweep: {requirement}, got {points:.6g}")
