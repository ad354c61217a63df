"""Every picture of a report: file name, title, caption, and drawing function."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from matplotlib.figure import Figure

from topoflow.processes import start
from topoflow.report.base import Report
from topoflow.report.draw import bars, cdf, gantt, heat_map, ports, price, slots
from topoflow.report.draw.network import topology
from topoflow.report.draw.style import png

T = TypeVar("T")


@dataclass(frozen=True)
class Picture(Generic[T]):
    """One PNG of a report ``T``. ``needs`` returns whether a report has data for the picture."""

    file: str
    title: str
    caption: str
    draw: Callable[[T], Figure]
    needs: Callable[[T], bool] = lambda report: True
    interactive: bool = False  # whether a script of the page draws it instead of the PNG


def draw_all(pictures: Sequence[Picture[T]], report: T, progress: Callable[[int], None]) -> dict[str, bytes]:
    """Return PNG files by name; ``progress`` is called with the number of pictures that are drawn or not needed."""
    return start_drawing(pictures, report, progress)()


def start_drawing(
    pictures: Sequence[Picture[T]], report: T, progress: Callable[[int], None]
) -> Callable[[], dict[str, bytes]]:
    """Draw pictures, start to encode them, and return a function that waits for the PNG files by name.

    Processes encode all pictures at the same time: that takes most of the time. This process draws, since
    parts of the report that it calculates for a picture are needed again.
    """
    figures: dict[str, Figure] = {}
    for done, picture in enumerate(pictures, start=1):
        if picture.needs(report):
            figures[picture.file] = picture.draw(report)
        progress(done)
    names = list(figures)
    processors = os.cpu_count() or 1 if sys.platform == "linux" else 1  # elsewhere, libraries do not allow forks
    if processors == 1:
        return lambda: _encode(figures)
    parts = [{name: figures[name] for name in names[at::processors]} for at in range(min(processors, len(names)))]
    waits = [start(_encode, part, "pictures must be written") for part in parts]

    def wait() -> dict[str, bytes]:
        images = {name: image for drawing in waits for name, image in drawing().items()}
        return {name: images[name] for name in names}

    return wait


def _encode(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    return {name: png(figure) for name, figure in figures.items()}


PICTURES: tuple[Picture[Report], ...] = (
    Picture(
        "iteration_time.png",
        "How long one training step takes",
        "One bar per combination. The dark part is computation on the busiest server, which every network needs. "
        "The coloured part, a colour per fabric, is when that server does not compute: transfers that its computation "
        "does not hide and, in a pipeline, waiting for other stages, which no network takes away.",
        bars.draw,
        interactive=True,
    ),
    Picture(
        "price.png",
        "What the speed costs",
        "One point per combination: its step time against the price of the network's parts. The dashed line joins "
        "the ones worth considering; above it, something else is both faster and cheaper, or memory is too little.",
        price.draw,
        interactive=True,
        needs=lambda report: any(outcome.cost is not None for outcome in report.outcomes),
    ),
    Picture(
        "traffic.png",
        "Who sends how much to whom",
        "Each cell is what the server of that row sends to the server of that column in one step, whichever path "
        "it travels (as Figure 1 of TopoOpt, NSDI 2023). A diagonal line is a ring all-reduce: everyone sends to the "
        "next in the ring. Full rows and columns are servers that hold a part of the model that all others need. "
        "The job fixes how much must be exchanged; a fabric may choose other rings. Of more than 256 servers a row "
        "is several neighbours.",
        heat_map.draw,
        needs=lambda report: any(len(outcome.flows.bytes) for outcome in report.outcomes),
    ),
    Picture(
        "timeline.png",
        "What every server does during the step",
        "Time runs to the right; each server has a lane for computing and one for each kind of sending. Where "
        "sending overlaps with computing it costs nothing; where a server only sends, it waits for the network.",
        gantt.draw,
        interactive=True,
    ),
    Picture(
        "topology.png",
        "How the servers are wired",
        "One panel per network: a torus is a grid, a dragonfly its groups, other switches are in tiers, other servers "
        "on a circle. A line is one link, bent to the right of its direction; its colour says which ring or trees it "
        "is part of, or what it joins. The wider a line, the more it carries in one step; "
        "\N{MULTIPLICATION SIGN}2 stands for two circuits.",
        topology.draw,
        interactive=True,
        needs=lambda report: any(outcome.fabric.links for outcome in report.outcomes),
    ),
    Picture(
        "path_length.png",
        "How far servers are from each other",
        "A curve that rises early is better: most pairs are few links apart. Two servers on one switch are two "
        "links apart; where servers are wired to each other directly, a neighbour is one link away, and the "
        "servers in between relay the rest.",
        cdf.draw_path_length,
    ),
    Picture(
        "link_load.png",
        "How evenly the links are used",
        "Left: how many bytes links carry in one step. Right: how much of their capacity that is. A steep curve "
        "means even use; a long tail to the right means that few links carry most and slow down the rest.",
        cdf.draw_link_load,
        needs=lambda report: any(outcome.fabric.links for outcome in report.outcomes),
    ),
    Picture(
        "failures.png",
        "What a single failure does",
        "Every fiber, or every server, fails by itself; what it carried takes another path, and a job that lost a "
        "server continues with the others, on fewer samples a step. A curve says how many failures make a step at most "
        "so much longer: far left is better. Where it ends below 100 %, the other failures cut a server off.",
        cdf.draw_failures,
        needs=lambda report: bool(report.failures),
    ),
    Picture(
        "ports.png",
        "What ports do",
        "One marker per port, larger and darker where many are alike; nearer to a corner is more of the step. Ports "
        "near the top send all the time: they limit. Those near the right have packets that wait for room elsewhere: "
        "follow them to the ones that limit.",
        ports.draw_time,
        needs=ports.has_ports,
    ),
    Picture(
        "ports_use.png",
        "Where the busy links are",
        "Each cell is the link from the switch of that row to the switch of that column (where there are no switches, "
        "servers), of several the busiest: the share of the step in which it sends.",
        ports.draw_use,
        needs=ports.has_ports,
    ),
    Picture(
        "ports_queues.png",
        "How much waits at the fullest ports",
        "A row per port, those with the most first; time runs to the right, and a cell is the most in its interval: of "
        "the buffer at the end of the link, or where packets may be lost of the port's own queue. What stays full has "
        "more coming than can go on.",
        ports.draw_queues,
        needs=ports.has_queues,
        interactive=True,
    ),
    Picture(
        "ports_groups.png",
        "When each group of servers has what it receives",
        "Servers below the same first switches are a group (of a dragonfly, those of a group of routers; without "
        "switches, each). The messages of a group that is late come over the links that limit.",
        ports.draw_groups,
        needs=ports.has_groups,
    ),
    Picture(
        "ports_latency.png",
        "How long packets and messages take",
        "A packet's latency is counted from when it begins to leave its NIC, a message's from when it is ready to be "
        "sent. Far left is better; a long tail to the right is congestion.",
        ports.draw_latency,
        needs=ports.has_ports,
    ),
    Picture(
        "ports_completion.png",
        "How long messages of each size take",
        "A curve per size of messages, from when a message was ready until its last byte arrived. Short ones wait for "
        "latency and queues, long ones for bandwidth.",
        ports.draw_completion,
        needs=ports.has_messages,
    ),
    Picture(
        "slots_waiting.png",
        "What waits for a slot",
        "Cells that nodes of a network of slots hold, for others or after a grant, after some epochs of the step. "
        "Cells that are still at their servers, or at their rack without a grant, are not counted. "
        "On a logarithmic axis a line has a gap while nothing waits.",
        slots.draw_waiting,
        needs=slots.has_slots,
    ),
    Picture(
        "slots_completion.png",
        "How long messages take on a network of slots",
        "A curve per size of messages, from when a message was ready until its last byte arrived: far left is better. "
        "Short ones wait for slots, long ones for bandwidth.",
        slots.draw_completion,
        needs=slots.has_messages,
    ),
    Picture(
        "slots_schedule.png",
        "The schedule",
        "A row per node, a block per slot of an epoch, in it a square per uplink: its number and colour are the node "
        "that it sends to. A cycle joins every two nodes once; what failed is grey. Only networks of up "
        "to 32 nodes are drawn.",
        slots.draw_schedule,
        needs=slots.has_schedule,
    ),
    Picture(
        "slots_refused.png",
        "What switches refused",
        "Packets that met another one at an output of their switch, or found no room after it. They are sent again in "
        "the next slot. A bar per switch.",
        slots.draw_refused,
        needs=slots.has_refusals,
    ),
)
