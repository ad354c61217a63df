"""A picture of a node: GPUs, NVLink, PCIe, CPUs, NICs and their rails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from topoflow.hardware import Device, Node
from topoflow.report.draw.style import COLOURS
from topoflow.units import human

LEAVES = 3.0  # height of GPUs and NICs; CPUs are at 0, PCIe switches between
LINK_COLOURS = {"NVL": "#3CA284", "C2C": "#CC72B4", "PCI": "#717C88", "SYS": "#D55E00"}
SHADES = {"NVS": "#BFE3D5", "GPU": "#D6E6F2", "PCI": "#E4E7EA", "NIC": "#FFFFFF", "CPU": "#F6E3D3"}
MAX_WIDTH = 26.0  # inches
ROOMY = 16  # GPUs: boxes of larger nodes hold numbers only

Places = Mapping[Device, tuple[float, float]]


def draw(node: Node) -> Figure:
    """Return the picture of a node."""
    places = _places(node)
    leaves = max(x for x, _ in places.values()) + 1
    width = min(max(0.85 * leaves, 7.0), MAX_WIDTH)
    figure = Figure(figsize=(width, 5.6), layout="constrained")
    axes = figure.add_subplot()
    mesh = not node.switched
    for link in node.links:
        a, b = (places[end] for end in link.ends)
        bend = 0.2 if link.kind == "SYS" or (link.kind == "NVL" and mesh) else 0.0
        curve = f"arc3,rad={-bend if link.kind == 'NVL' else bend}"
        arrow = FancyArrowPatch(a, b, arrowstyle="-", connectionstyle=curve, color=LINK_COLOURS[link.kind], zorder=1)
        arrow.set_linewidth(2.2 if link.kind in ("NVL", "C2C") else 1.3)
        axes.add_patch(arrow)
    small = len(node.gpus) > ROOMY
    for device, (x, y) in places.items():
        text = str(device.index) if small and device.kind != "NVS" else str(device)
        if device.kind == "NIC" and not small:
            text += "".join(f"\n{human(port.bandwidth * 8, 'b/s')}" for port in node.ports if port.nic == device)
        edge = _rail_colour(node, device)
        box = {"boxstyle": "round,pad=0.35", "facecolor": SHADES[device.kind], "edgecolor": edge, "linewidth": 1.6}
        axes.text(x, y, text, ha="center", va="center", fontsize=7 if small else 9, bbox=box, zorder=3)
    _cables(axes, node, places)
    _legend(axes, node)
    axes.set_xlim(-0.8, leaves - 0.2)
    axes.set_ylim(-0.8, LEAVES + 2.4)
    axes.set_title(f"{node.name}: {len(node.gpus)} {node.gpu or 'GPUs'}", fontsize=11)
    axes.axis("off")
    return figure


def _places(node: Node) -> Places:
    """Place GPUs and NICs in a row, in the order of the trees below the CPUs, and NVSwitches above them."""
    below: dict[Device, list[Device]] = {cpu: [] for cpu in node.of_kind("CPU")}
    tier = dict.fromkeys(below, 0)
    for device in (waiting := list(below)):
        ends = [link.ends for link in node.links if link.kind in ("C2C", "PCI") and device in link.ends]
        far = sorted({end for pair in ends for end in pair} - tier.keys()) if device.kind in ("CPU", "PCI") else []
        below[device] = far
        tier |= dict.fromkeys(far, tier[device] + 1)
        waiting += far
    tiers = 1 + max((tier[device] for device in tier if device.kind == "PCI"), default=0)
    places: dict[Device, tuple[float, float]] = {}

    def place(device: Device) -> float:
        """Return x: the middle of the devices below, or the next place in the row."""
        row = max((x for x, _ in places.values()), default=-1.0)
        x = fmean(place(child) for child in below[device]) if below[device] else math.floor(row) + 1.0
        places[device] = (x, LEAVES * tier[device] / tiers if below[device] else LEAVES)
        return x

    for cpu in node.of_kind("CPU"):
        place(cpu)
    for gpu in node.gpus:  # of a node without CPUs
        places.setdefault(gpu, (float(gpu.index), LEAVES))
    middle = fmean(places[gpu][0] for gpu in node.gpus) if node.gpus else 0.0
    return places | dict.fromkeys(node.of_kind("NVS"), (middle, LEAVES + 2))


def _rail_colour(node: Node, device: Device) -> str:
    rails = [port.rail for port in node.ports if port.nic == device]
    return COLOURS[rails[0] % len(COLOURS)] if rails else "#50565C"


def _cables(axes: Axes, node: Node, places: Places) -> None:
    """Draw the cable of each port, in the colour of its rail."""
    for port in node.ports:
        x, y = places[port.nic]
        axes.plot([x, x], [y, y + 0.5], color=_rail_colour(node, port.nic), linewidth=2.6, zorder=2)
        if len(node.gpus) <= ROOMY:
            axes.text(x, y + 0.55, f"rail {port.rail}", fontsize=8, ha="center", backgroundcolor="white")


def _legend(axes: Axes, node: Node) -> None:
    """Name the kinds of links with the bandwidths that they have."""
    handles = []
    for kind, colour in LINK_COLOURS.items():
        rates = sorted({link.bandwidth for link in node.links if link.kind == kind})
        if rates:
            text = " to ".join(human(rate, "B/s") for rate in dict.fromkeys((rates[0], rates[-1])))
            handles.append(Line2D([], [], color=colour, linewidth=2.2, label=f"{kind} {text}"))
    axes.legend(handles=handles, loc="upper left", frameon=False, fontsize=8, title="each direction", title_fontsize=8)
