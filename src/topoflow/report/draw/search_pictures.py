"""Every picture of a search's report."""

from __future__ import annotations

from matplotlib.figure import Figure

from topoflow.report.draw import history
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_cdf, draw_heat_maps
from topoflow.report.draw.network.topology import Drawn, draw_networks
from topoflow.report.draw.pictures import Picture
from topoflow.report.search_report import SearchReport


def draw_found(report: SearchReport) -> Figure:
    """Draw the network of the result."""
    after = report.after
    name = f"{after.fabric.name}, {after.fabric.servers} servers"
    if report.wired_otherwise:
        name += f"\n{report.wired_otherwise}"
    network = Drawn(name, after.fabric, after.timeline.link_bytes)
    return draw_networks("The network that was found", [network])


def draw_traffic(report: SearchReport) -> Figure:
    """Draw the traffic between servers, before and after, on one colour scale."""
    before, after = report.before, report.after
    began, ends = report.sends
    names = (f"before: {before.strategy.name}\n{began}", f"found: {after.strategy.name}\n{ends}")
    sent = (before.flow_matrix, after.flow_matrix)
    return draw_heat_maps("Traffic between servers", dict(zip(names, sent, strict=True)))


def draw_load(report: SearchReport) -> Figure:
    """Draw the distribution of link loads, before and after."""
    ends = {"before": report.before, "found": report.after}
    used = {name: 100 * result.utilization for name, result in ends.items() if result.fabric.links}
    of_capacity = Axis("of what the link could carry in the step [%]")
    return draw_cdf("How evenly links are used", {"": used}, of_capacity, "links")


PICTURES: tuple[Picture[SearchReport], ...] = (
    Picture(
        "topology.png",
        "The network",
        "Servers that are wired to each other stand on a circle or a grid; a line is one link, bent to its right. "
        "Its colour says what it is wired for: a ring or a pair of double binary trees (+p: in the order "
        "in which every p-th server is next), one of a pair of opposite links, or a cable between two tiers of "
        "switches. The wider, the more it carries in one step; \N{MULTIPLICATION SIGN}2 stands for two circuits.",
        draw_found,
        interactive=True,
    ),
    Picture(
        "traffic.png",
        "Who sends how much to whom, before and after",
        "Each cell is what the server of that row sends to the server of that column in one step, whichever path it "
        "travels (as Figure 9 of TopoOpt, NSDI 2023). Before is the strategy that the search began with on the network "
        "that is built for it, as it was simulated. All-reduces are spread over the rings or trees that a network has "
        "for them. Full rows and columns are servers that hold a part of the model that all others need.",
        draw_traffic,
        needs=lambda report: bool(report.before.flow_matrix.any() or report.after.flow_matrix.any()),
    ),
    Picture(
        "history.png",
        "How the search went",
        "Each proposal changes where one layer is held and is screened by an estimate of the time that a step takes "
        "then, which is quick to have. The first diamond is what the search began with, simulated. At the end of a "
        "round (vertical lines) the best are simulated, and networks are built for them. Every second round of a "
        "network without switches may be screened on an ideal switch, where steps are quicker than those simulated. A "
        "green line is a round that ended with another topology.",
        lambda report: history.draw(report.history, report.before.iteration_time),
        interactive=True,
        needs=lambda report: report.history.searched,
    ),
    Picture(
        "link_load.png",
        "How evenly the links are used",
        "A steep curve means even use; a long tail to the right means that few links carry most and slow down the "
        "rest. Use is of a shorter step where the search found one.",
        draw_load,
        needs=lambda report: bool(report.before.fabric.links or report.after.fabric.links),
    ),
)
