"""Checkpoints: the state of a search in one file of plain arrays, so that it can be stopped and resumed.

``meta`` is JSON: which search it is, the stage and the round, the best strategy and the present one of the stage, and
those that their networks are built for. Random
numbers are counted, chains can be made anew from their states, and networks from the demand of a strategy, so nothing
else has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from topoflow import npz
from topoflow.digest import digest, program
from topoflow.fields import Fields, parse_json
from topoflow.search.history import History
from topoflow.search.judge import Wiring
from topoflow.search.problem import Problem, Settings
from topoflow.search.space import Space
from topoflow.search.tempering import Walk
from topoflow.strategy.base import Strategy
from topoflow.strategy.plain import strategy_from_json

ARRAYS = tuple(field.name for field in fields(Walk) if field.name != "step")
FOREIGN = (ValueError, KeyError, TypeError, AttributeError, IndexError)  # what a file of another kind of search raises


@dataclass(frozen=True)
class Setup:
    """A strategy, on the network that is built for ``wiring``."""

    strategy: Strategy
    wiring: Wiring


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a search."""

    stage: int
    round: int  # of all stages
    best: Setup  # of all stages so far
    present: Setup  # from which the next round begins
    walk: Walk | None  # of this round; None: it has not begun
    done: bool  # no stage is left
    history: History


def key(problem: Problem, settings: Settings) -> dict[str, str]:
    """What a checkpoint must agree with, as digests by name, so that what differs can be named.

    The settings' objective is not part of it: it chooses between searches.
    """
    parts = ("workload", "start", "design", "all_reduce", "routing", "seed", "fidelity", "others")
    said: dict[str, object] = {name: getattr(problem, name) for name in parts}
    said |= {f"search.{name}": value for name, value in asdict(settings).items() if name != "objective"}
    return {name: digest(value)[:16] for name, value in {"version of topoflow": program(), **said}.items()}


def save(path: Path, key: dict[str, str], checkpoint: Checkpoint) -> None:
    """Replace the file, at once: whoever is interrupted leaves the old one or the new one."""
    walk = checkpoint.walk
    meta = {
        "key": key,
        "stage": checkpoint.stage,
        "round": checkpoint.round,
        "best": _plain(checkpoint.best),
        "present": _plain(checkpoint.present),
        "walk": None if walk is None else {"step": walk.step},
        "done": checkpoint.done,
        "rounds": checkpoint.history.rounds_to_json(),
    }
    arrays = {} if walk is None else {name: getattr(walk, name) for name in ARRAYS}
    npz.write(path, {"meta": npz.text(meta), "history": checkpoint.history.steps, **arrays})


def _plain(setup: Setup) -> dict[str, Any]:
    wiring = setup.wiring
    plain = {"strategy": wiring.strategy.to_json(), "emphasis": wiring.emphasis, "strides": list(wiring.strides)}
    return {"strategy": setup.strategy.to_json(), "wiring": plain}


def load(path: Path, key: dict[str, str], settings: Settings, space: Space) -> Checkpoint:
    """Raises ``ValueError`` where the file is no checkpoint, that of another search, or of none that there can be."""
    with _undamaged(path):
        arrays = npz.read(path)
        meta = parse_json("meta", str(arrays["meta"]))
        found = dict(meta["key"])
    _check_key(path, key, found)
    with _undamaged(path):
        return _checkpoint(Fields.of("", meta), arrays, settings, space)


@dataclass(frozen=True)
class Seen:
    """What a checkpoint says of itself, whichever search it is of: nothing to go on from, but to be shown."""

    round: int
    done: bool
    strategy: Mapping[str, Any]  # the best so far, as JSON
    history: History


def look(path: Path) -> Seen:
    """Read a checkpoint that another process may be replacing. Raises ``ValueError`` where it is none, ``OSError``."""
    with _undamaged(path):
        arrays = npz.read(path)
        meta = Fields.of("", parse_json("meta", str(arrays["meta"])))
        history = History.from_json(arrays["history"], meta.items("rounds"))
        best = Fields.of("best.", meta.require("best"))
        strategy = Fields.of("best.strategy", best.require("strategy"))
        return Seen(meta.integer("round"), meta.boolean("done"), strategy.values, history)


def _checkpoint(meta: Fields, arrays: Mapping[str, Any], settings: Settings, space: Space) -> Checkpoint:
    """Every field is checked, as that of any file: the checksum says that it is as it was written, not by whom."""
    walk = None if meta.values["walk"] is None else _walk(Fields.of("walk.", meta.values["walk"]), arrays)
    return Checkpoint(
        stage=meta.integer("stage", highest=len(space.stages) - 1),
        round=meta.integer("round", highest=settings.rounds * len(space.stages)),
        best=_setup("best", meta, settings, space, None),
        present=_setup("present", meta, settings, space, walk),
        walk=walk,
        done=meta.boolean("done"),
        history=History.from_json(arrays["history"], meta.items("rounds")),
    )


def _setup(name: str, meta: Fields, settings: Settings, space: Space, walk: Walk | None) -> Setup:
    """One of ``meta``; its strategy is that from which ``walk`` began."""
    setup = Fields.of(f"{name}.", meta.require(name))
    wiring = Fields.of(f"{name}.wiring.", setup.require("wiring"))
    emphasis = wiring.number("emphasis")
    if emphasis not in settings.emphasis:
        wiring.fail("emphasis", f"must be one of {list(settings.emphasis)}")
    strategy = _strategy(setup, f"{name}.strategy", space, walk)
    return Setup(
        strategy,
        Wiring(_strategy(wiring, f"{name}.wiring.strategy", space, None), emphasis, wiring.integers("strides", 1)),
    )


def _strategy(fields: Fields, where: str, space: Space, walk: Walk | None) -> Strategy:
    found = strategy_from_json(fields.require("strategy"), where)
    try:
        space.check(found, walk)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return found


def _walk(plain: Fields, arrays: Mapping[str, Any]) -> Walk:
    return Walk(step=plain.integer("step"), **{name: arrays[name] for name in ARRAYS})


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Turn what reading a file of anything raises into one line."""
    try:
        yield
    except FOREIGN as error:
        raise ValueError(
            f"{path}: must be the checkpoint of a search, got another or a damaged file ({error})"
        ) from error


def _check_key(path: Path, key: dict[str, str], found: dict[str, str]) -> None:
    different = sorted(name for name in key.keys() | found.keys() if key.get(name) != found.get(name))
    if different:
        raise ValueError(
            f"{path}: must be of this search to resume it, got one with another {', '.join(different)}; "
            "give another out, or resume=false to begin anew"
        )
