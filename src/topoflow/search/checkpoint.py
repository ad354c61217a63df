"""Checkpoints: the state of a search in one file of plain arrays, from which it can be resumed.

``meta`` is JSON: the identity of the search, the stage and the round, the best strategy and the present one of the
stage, and the wirings of their networks. Nothing else has to be stored: random numbers are counter-based, chains follow
from their states, and networks from the demand of a strategy.
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
from topoflow.search.history import SearchHistory
from topoflow.search.judge import Wiring
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.space import Space
from topoflow.search.tempering import Walk
from topoflow.strategy.base import Strategy
from topoflow.strategy.plain import strategy_from_json

ARRAYS = tuple(field.name for field in fields(Walk) if field.name != "step")
FOREIGN_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError)  # raised by files of another search


@dataclass(frozen=True)
class WiredStrategy:
    """A strategy on the network that is built for ``wiring``."""

    strategy: Strategy
    wiring: Wiring


@dataclass(frozen=True)
class Checkpoint:
    """The state of a search."""

    stage: int
    round: int  # counted over all stages
    best: WiredStrategy  # of all stages so far
    present: WiredStrategy  # the next round begins here
    walk: Walk | None  # of this round; None: it has not begun
    done: bool  # all stages are finished
    history: SearchHistory


def key(problem: Problem, settings: SearchSettings) -> dict[str, str]:
    """Return digests, by name, of all that identifies a search, so that an error can name a difference.

    The settings' objective is not part of it: it chooses between searches.
    """
    parts = ("workload", "start", "design", "all_reduce", "routing", "seed", "fidelity", "others")
    identity: dict[str, object] = {name: getattr(problem, name) for name in parts}
    identity |= {f"search.{name}": value for name, value in asdict(settings).items() if name != "objective"}
    return {name: digest(value)[:16] for name, value in {"version of topoflow": program(), **identity}.items()}


def save(path: Path, key: dict[str, str], checkpoint: Checkpoint) -> None:
    """Replace the file atomically: an interruption leaves the old file or the new one."""
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


def _plain(setup: WiredStrategy) -> dict[str, Any]:
    wiring = setup.wiring
    plain = {"strategy": wiring.strategy.to_json(), "emphasis": wiring.emphasis, "strides": list(wiring.strides)}
    return {"strategy": setup.strategy.to_json(), "wiring": plain}


def load(path: Path, key: dict[str, str], settings: SearchSettings, space: Space) -> Checkpoint:
    """Return a checkpoint.

    Raises ``ValueError`` for a file that is no checkpoint, one of another search, or of an impossible state.
    """
    with _undamaged(path):
        arrays = npz.read(path)
        meta = parse_json("meta", str(arrays["meta"]))
        stored = dict(meta["key"])
    _check_key(path, key, stored)
    with _undamaged(path):
        return _checkpoint(Fields.of("", meta), arrays, settings, space)


@dataclass(frozen=True)
class Seen:
    """The content of a checkpoint of any search, to be displayed but not to be resumed."""

    round: int
    done: bool
    strategy: Mapping[str, Any]  # the best so far, as JSON
    history: SearchHistory


def look(path: Path) -> Seen:
    """Read a checkpoint that another process may be replacing. Raises ``ValueError`` for other files, ``OSError``."""
    with _undamaged(path):
        arrays = npz.read(path)
        meta = Fields.of("", parse_json("meta", str(arrays["meta"])))
        history = SearchHistory.from_json(arrays["history"], meta.items("rounds"))
        best = Fields.of("best.", meta.require("best"))
        strategy = Fields.of("best.strategy", best.require("strategy"))
        return Seen(meta.integer("round"), meta.boolean("done"), strategy.values, history)


def _checkpoint(meta: Fields, arrays: Mapping[str, Any], settings: SearchSettings, space: Space) -> Checkpoint:
    """Return a checkpoint after checking every field.

    The checksum only shows that the file is as it was written, not who wrote it.
    """
    walk = None if meta.values["walk"] is None else _walk(Fields.of("walk.", meta.values["walk"]), arrays)
    return Checkpoint(
        stage=meta.integer("stage", highest=len(space.stages) - 1),
        round=meta.integer("round", highest=settings.rounds * len(space.stages)),
        best=_setup("best", meta, settings, space, None),
        present=_setup("present", meta, settings, space, walk),
        walk=walk,
        done=meta.boolean("done"),
        history=SearchHistory.from_json(arrays["history"], meta.items("rounds")),
    )


def _setup(name: str, meta: Fields, settings: SearchSettings, space: Space, walk: Walk | None) -> WiredStrategy:
    """Return a setup of ``meta``; ``walk`` must have begun at its strategy."""
    setup = Fields.of(f"{name}.", meta.require(name))
    wiring = Fields.of(f"{name}.wiring.", setup.require("wiring"))
    emphasis = wiring.number("emphasis")
    if emphasis not in settings.emphasis:
        wiring.fail("emphasis", f"must be one of {list(settings.emphasis)}")
    strategy = _strategy(setup, f"{name}.strategy", space, walk)
    return WiredStrategy(
        strategy,
        Wiring(_strategy(wiring, f"{name}.wiring.strategy", space, None), emphasis, wiring.integers("strides", 1)),
    )


def _strategy(fields: Fields, where: str, space: Space, walk: Walk | None) -> Strategy:
    strategy = strategy_from_json(fields.require("strategy"), where)
    try:
        space.check(strategy, walk)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return strategy


def _walk(plain: Fields, arrays: Mapping[str, Any]) -> Walk:
    return Walk(step=plain.integer("step"), **{name: arrays[name] for name in ARRAYS})


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Turn any error from reading a foreign file into a ``ValueError`` of one line."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise ValueError(
            f"{path}: must be the checkpoint of a search, got another or a damaged file ({error})"
        ) from error


def _check_key(path: Path, key: dict[str, str], stored: dict[str, str]) -> None:
    different = sorted(name for name in key.keys() | stored.keys() if key.get(name) != stored.get(name))
    if different:
        raise ValueError(
            f"{path}: must be of this search to resume it, got one with another {', '.join(different)}; "
            "give another out, or resume=false to begin anew"
        )
