"""Reader of a file of jobs that share a cluster: the endpoints that each job has, and its keys.

An example with two jobs. GPUs are numbered in the cluster, and the first GPU of a list is rank 0 of its job:

    pretraining: {placement: 0-15, model: llama3_8b, global_batch: 32, strategy.tensor: 4}
    ablation: {placement: "16-19,24-27", model: llama2_7b, global_batch: 16, strategy.tensor: 4}

A job has ``request`` in place of ``placement`` where ``topoflow place`` placed it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from topoflow.fields import decode, shorten
from topoflow.files import read_bytes
from topoflow.scheduling.placement_file import read_placement
from topoflow.units import check_among

PLACES = ("placement", "request")
KEYS = ("model", "workload", "strategy", "recipe", "global_batch", "micro_batch", "efficiency")  # or keys of these
RANGE = re.compile(r"(\d+)(?:-(\d+))?")
MAX_GPUS = 2**20  # of a list


@dataclass(frozen=True)
class SharingJob:
    """A job of a cluster: its GPUs in the order of its ranks, and ``keys`` as arguments of ``topoflow compare``."""

    name: str
    gpus: tuple[int, ...]
    keys: tuple[str, ...]


def read_jobs(file: Path, gpus: int, per_node: int, placement: str | None = None) -> list[SharingJob]:
    """Return the jobs of a file on a cluster of ``gpus``, ``per_node`` of each node.

    ``placement`` is the file that places the requests that jobs name; a server of it is a node. Raises ``ValueError``
    in one line with the file, the job and the key.
    """
    try:
        text = decode(str(file), read_bytes(file))
        _check_no_alias(str(file), text)
        _check_unique(str(file), yaml.compose(text, yaml.SafeLoader))
        content = yaml.safe_load(text)
    except OSError as error:
        raise ValueError(f"jobs: must be a file that can be read, got {file} ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise ValueError(f"{file}{line}: must be YAML of plain values, got {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{file}: must be YAML, got {' '.join(str(error).split())}") from error
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{file}: must have the keys of each job by its name, got {shorten(content)}")
    jobs = []
    owner: dict[int, str] = {}
    for name, keys in content.items():
        place = f"{file}: {name}"
        if not isinstance(keys, Mapping) or len(keys.keys() & set(PLACES)) != 1:
            raise ValueError(f"{place}: must have placement or request, and keys of the job, got {shorten(keys)}")
        job_gpus = _gpus(place, keys, per_node, placement)
        for gpu in job_gpus:
            if gpu >= gpus:
                raise ValueError(f"{place}.placement: must be of the GPUs 0..{gpus - 1} of the cluster, got {gpu}")
            if gpu in owner:
                raise ValueError(f"{place}.placement: must be GPUs of one job, got {gpu} that {owner[gpu]} has")
            owner[gpu] = str(name)
        jobs.append(SharingJob(str(name), job_gpus, tuple(_arguments(place, keys))))
    return jobs


def _arguments(place: str, keys: Mapping[Any, Any]) -> Sequence[str]:
    arguments = []
    for key, value in keys.items():
        if key in PLACES:
            continue
        check_among(f"{place}: a key of a job", str(key).lstrip("+").partition(".")[0], KEYS)
        if isinstance(value, list | dict):
            raise ValueError(f"{place}.{key}: must be text or a number, as on a command line, got {shorten(value)}")
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        arguments.append(f"{key}={text}")
    return arguments


def _gpus(place: str, keys: Mapping[Any, Any], per_node: int, placement: str | None) -> tuple[int, ...]:
    """Return the GPUs of a job, in the order of its ranks."""
    if "request" in keys:
        if placement is None:
            raise ValueError(f"{place}.request: must be with placement=FILE of topoflow place, got {keys['request']}")
        servers = read_placement(placement, str(keys["request"])).servers
        return tuple(server * per_node + gpu for server in servers for gpu in range(per_node))
    rule = "must be numbers and ranges of GPUs, as 0-15,24-31"
    job_gpus: list[int] = []
    for part in str(keys["placement"]).split(","):
        match = RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or len(job_gpus) + last - first >= MAX_GPUS:
            raise ValueError(f"{place}.placement: {rule}, got {shorten(keys['placement'])}")
        job_gpus.extend(range(first, last + 1))
    return tuple(job_gpus)


def _check_no_alias(place: str, text: str) -> None:
    """Raise ``ValueError`` for an alias: a few lines of them can stand for more values than memory holds."""
    for token in yaml.scan(text, yaml.SafeLoader):
        if isinstance(token, yaml.AliasToken):
            raise ValueError(f"{place}:{token.start_mark.line + 1}: must have no alias, got *{token.value}")


def _check_unique(place: str, node: Any) -> None:
    """Raise ``ValueError`` for a key that stands twice in a mapping, of which YAML's loader takes the last."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            raise ValueError(
                f"{place}:{key.start_mark.line + 1}: must have each key once, got {shorten(key.value)} twice"
            )
        seen.add(str(key.value))
        _check_unique(place, value)
