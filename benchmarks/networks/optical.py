"""Who wins where: optical networks and a fat-tree over the bytes of a job and the share of all-to-all in them.

    python benchmarks/networks/optical.py                         every size, every share
    python benchmarks/networks/optical.py servers=16 sizes=1e5,1e7 shares=0,1

A step is an all-reduce, then an all-to-all, of all servers; ``size`` is what each server sends in both together, and
``share`` the part of the all-to-all. Nothing is computed. Each network runs in the fidelity that fits it
(``fidelity=fitting``), with 4 interfaces of 100 Gb/s; FOSquare has 3 within the rack and 1 between racks. Prints the
seconds of a step, the fastest network, and the cost and power of each.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from topoflow.demand import Demand
from topoflow.engine.base import Timeline
from topoflow.engine.fitting import Fitting
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.base import Collective, Traffic

FABRICS = ("sirius", "fosquare", "topoopt", "ocs_reconfig", "fat_tree")
SIZES = (1e4, 1e5, 1e6, 1e7, 1e8)  # B
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def step(servers: int, size: float, share: float) -> Traffic:
    """One step: a ring all-reduce of S bytes sends 2 (n-1)/n S, an all-to-all of S (n-1)/n S."""
    everyone = tuple(range(servers))
    sent = servers / (servers - 1) * size
    reduces = [Collective("all_reduce", (1 - share) * sent / 2, everyone)] if share < 1 else []
    exchanges = [Collective("all_to_all", share * sent, everyone, tuple(range(len(reduces))))] if share > 0 else []
    return Traffic.from_tasks(f"{size:g} B, {share:g} all-to-all", servers, [*reduces, *exchanges])


def networks(servers: int, demand: Demand) -> dict[str, tuple[Fabric, float, float]]:
    """Each network as it is built for a job, with its cost (USD) and power (W)."""
    by_fabric = {}
    for point in grid([f"fabric={','.join(FABRICS)}", f"servers={servers}"], check):
        fabric, prices = build(point, "fabric").build(servers, demand), build(point, "prices")
        by_fabric[point.choices["fabric"]] = fabric, prices.cost(fabric.bill), prices.power(fabric.bill)
    return by_fabric


def measure(servers: int, size: float, share: float) -> dict[str, Timeline]:
    job = step(servers, size, share)
    built = networks(servers, job.demand())
    worlds = [place(job, fabric, name=name, routing="ecmp") for name, (fabric, _, _) in built.items()]
    return dict(zip(built, simulate(worlds, Fitting()), strict=True))


def main(arguments: Sequence[str]) -> None:
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := set(options) - {"servers", "sizes", "shares"}:
        raise SystemExit(f"{min(unknown)}: no such key; must be one of servers, sizes, shares")
    servers = int(options.get("servers", "16"))
    for name, (_, cost, power) in networks(servers, step(servers, 1e6, 0.5).demand()).items():
        print(f"{name}.cost_usd {cost:.0f}\n{name}.power_w {power:.0f}")
    for size in numbers(options, "sizes", SIZES):
        for share in numbers(options, "shares", SHARES):
            report(size, share, measure(servers, size, share))


def report(size: float, share: float, timelines: Mapping[str, Timeline]) -> None:
    prefix = f"{size:g}B.{share:g}"
    for name, timeline in timelines.items():
        print(f"{prefix}.{name}_s {timeline.makespan:.6g}", flush=True)
        if timeline.slots is not None and timeline.slots.refused.any():
            refused = timeline.slots.refused.sum()
            print(f"{prefix}.{name}_refused {refused / (refused + timeline.slots.hops):.3g}")
    print(f"{prefix}.fastest {min(timelines, key=lambda name: timelines[name].makespan)}", flush=True)


def numbers(options: Mapping[str, str], key: str, default: Sequence[float]) -> list[float]:
    return [float(number) for number in np.array(options[key].split(","))] if key in options else list(default)


if __name__ == "__main__":
    main(sys.argv[1:])
