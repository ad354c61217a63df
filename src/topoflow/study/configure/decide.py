"""Decide: what a configuration leaves to the size of a job (``auto``), once the job is known."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from topoflow.engine.base import AUTO, SizedFidelity
from topoflow.engine.lowering.placement import Lowering
from topoflow.engine.lowering.sizes import MAX_STEPS, concurrent_sends, ring_sends
from topoflow.study.configure.build import build, fidelity_of
from topoflow.study.configure.point import FIDELITY, Point
from topoflow.traffic.base import Traffic

LOWERING = ("all_reduce", "routing", "rings", "seed", "nccl")  # keys that say how traffic becomes a world


def lowering_of(point: Point) -> Lowering:
    """How the traffic of a point becomes a world."""
    plain = {key: point.config[key] for key in LOWERING if key != "nccl"}
    return Lowering(**plain, nccl=build(point, "nccl"))


def decided(point: Point, traffic: Traffic) -> tuple[Point, tuple[str, ...]]:
    """``point`` with a value for each ``auto``, for the job ``traffic``, and a line for each that is inexact."""
    asked = lowering_of(point)
    lowering = asked.decided(traffic)
    point = replace(point, config={**point.config, "rings": lowering.rings})
    notes = []
    if asked != lowering and lowering.rings == "flows":
        sends = ring_sends(traffic, lowering.all_reduce)
        notes.append(
            f"rings=flows was chosen, which may be 3 % off; with rings=steps its rings are up to {sends:,} sends, "
            f"not at most {MAX_STEPS:,}."
        )
    return _with_fidelity(point, concurrent_sends(traffic, lowering.all_reduce), notes), tuple(notes)


def _with_fidelity(point: Point, sends: int, notes: list[str]) -> Point:
    """Return ``point`` with the settings of its fidelity decided for a job of that many concurrent ``sends``."""
    asked = fidelity_of(point)
    if not isinstance(asked, SizedFidelity):
        return point
    found: Any = asked.decided(sends)
    name = point.config[FIDELITY]  # of its file, whose settings these are
    chosen = {each.name: getattr(found, each.name) for each in fields(found) if getattr(asked, each.name) == AUTO}
    exact = {each.name: each.default for each in fields(found)}
    for key, value in chosen.items():
        if value != exact[key]:
            notes.append(f"{name}.{key}={value} was chosen for up to {sends:,} concurrent sends.")
    if FIDELITY in point.objects:
        return replace(point, objects={**point.objects, FIDELITY: found})
    return replace(point, config={**point.config, name: {**point.config[name], **chosen}})
