"""Decide: what a configuration leaves to the size of a job (``auto``), once the job is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from topoflow.engine.base import AUTO, ChoosingFidelity, Fidelity, SizedFidelity
from topoflow.engine.lowering.placement import Lowering
from topoflow.engine.lowering.sizes import MAX_STEPS, concurrent_sends, ring_sends
from topoflow.fields import with_fields
from topoflow.study.configure.build import build, fidelity_of
from topoflow.study.configure.point import FIDELITY, Point
from topoflow.traffic.base import Traffic

LOWERING = ("all_reduce", "routing", "rings", "seed", "nccl")  # keys that say how traffic becomes a world


def lowering_of(point: Point) -> Lowering:
    """How the traffic of a point becomes a world."""
    plain = {key: point.config[key] for key in LOWERING if key != "nccl"}
    return Lowering(**plain, nccl=build(point, "nccl"))


@dataclass(frozen=True)
class Decision:
    """The values that the size of a job decides for a point, and how its world is made and simulated with them."""

    config: Mapping[str, Any]  # in place of each ``auto``
    objects: Mapping[str, Any]  # in place of those made in Python
    lowering: Lowering
    fidelity: Fidelity
    notes: tuple[str, ...]  # a line for each that is inexact, and the calibration of NCCL

    @cached_property
    def chooses(self) -> ChoosingFidelity | None:
        """Return the fidelity where it simulates each world in one of others."""
        return self.fidelity if isinstance(self.fidelity, ChoosingFidelity) else None

    def of(self, point: Point) -> Point:
        """Return ``point`` with these values."""
        if not self.objects and self.config.items() <= point.config.items():
            return point
        config, objects = {**point.config, **self.config}, {**point.objects, **self.objects}
        return with_fields(point, config=config, objects=objects)


def decided(point: Point, traffic: Traffic) -> Decision:
    """Decide each ``auto`` of ``point`` for the job ``traffic``."""
    configured = lowering_of(point)
    lowering = configured.decided(traffic)
    notes = []
    if configured != lowering and lowering.rings == "flows":
        sends = ring_sends(traffic, lowering.all_reduce)
        notes.append(
            f"rings=flows was chosen, which may be 3 % off; with rings=steps its rings are up to {sends:,} sends, "
            f"not at most {MAX_STEPS:,}."
        )
    fidelity, settings = _decided_fidelity(point, concurrent_sends(traffic, lowering.all_reduce), notes)
    if lowering.nccl.loaded is not None:
        notes.append(f"{lowering.nccl.loaded.note}.")
    objects = {FIDELITY: fidelity} if FIDELITY in point.objects else {}
    return Decision({"rings": lowering.rings, **settings}, objects, lowering, fidelity, tuple(notes))


def _decided_fidelity(point: Point, sends: int, notes: list[str]) -> tuple[Fidelity, Mapping[str, Any]]:
    """Return the fidelity of a job with that many concurrent ``sends``, and its values of the configuration."""
    configured = fidelity_of(point)
    if not isinstance(configured, SizedFidelity):
        return configured, {}
    fidelity: Any = configured.decided(sends)
    name = point.config[FIDELITY]  # of its file, whose settings these are
    chosen = {
        field.name: getattr(fidelity, field.name)
        for field in fields(fidelity)
        if getattr(configured, field.name) == AUTO
    }
    exact = {field.name: field.default for field in fields(fidelity)}
    for key, value in chosen.items():
        if value != exact[key]:
            notes.append(f"{name}.{key}={value} was chosen for up to {sends:,} concurrent sends.")
    return fidelity, {} if FIDELITY in point.objects else {name: {**point.config[name], **chosen}}
