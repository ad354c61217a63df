"""All readers by name."""

from __future__ import annotations

from damaged.captures import CAPTURES
from damaged.jobs import JOBS
from damaged.networks import NETWORKS
from damaged.reader import Files, Reader
from damaged.results import RESULTS

__all__ = ["READERS", "Files", "Reader"]

READERS = {**CAPTURES, **NETWORKS, **JOBS, **RESULTS}
