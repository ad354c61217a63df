"""``topoflow node``: the devices and links of a node, as a table and a picture."""

from __future__ import annotations

import argparse
from collections import Counter

from rich.table import Table

from topoflow.files import write_atomically
from topoflow.hardware import Device, Node
from topoflow.hardware.presets import load
from topoflow.report.draw.node import draw
from topoflow.report.draw.style import png
from topoflow.report.output import Output
from topoflow.units import human


def run(arguments: argparse.Namespace) -> None:
    """Print the node; draw it where ``--out`` names a file."""
    node = load(arguments.node)
    if arguments.out is not None and arguments.out.suffix != ".png":
        raise ValueError(f"--out: must be a file NAME.png, got {arguments.out}")
    console = Output(highlight=False)
    console.print(f"{node.name}: {summary(node)}")
    for note in node.notes:
        console.print(f"Note: {note}.")
    console.print(links(node))
    if node.gpus:
        console.print(gpus(node))
    if arguments.out is not None:
        write_atomically(arguments.out, png(draw(node)))
        console.print(f"Open {arguments.out}.")


def summary(node: Node) -> str:
    """Return the number of devices of each kind."""
    counts = Counter(device.kind for device in node.devices)
    named = [f"{counts['GPU']} {node.gpu or 'GPUs'}"]
    named += [f"{counts[kind]} {kind}" for kind in ("NVS", "PCI", "CPU", "NIC") if counts[kind]]
    return ", ".join([*named, f"{node.rails} rails"])


def links(node: Node) -> Table:
    """Return the links, alike ones in one row."""
    table = Table("link", "between", "count", "width", "bandwidth each way", "latency", title="Links")
    rows = Counter(
        (link.kind, " - ".join(end.kind for end in sorted(link.ends)), link.width, link.bandwidth, link.latency)
        for link in node.links
    )
    for (kind, ends, width, bandwidth, latency), count in rows.items():
        table.add_row(kind, ends, str(count), str(width), human(bandwidth, "B/s"), human(latency, "s"))
    return table


def gpus(node: Node) -> Table:
    """Return the ports that each GPU uses, and how it reaches them."""
    table = Table("GPU", "NVLink", "NIC", "path", "rail", "port", title="GPUs")
    for gpu in node.gpus:
        nvlink = human(node.nvlink_bandwidth(gpu), "B/s")
        for port in node.ports_of(gpu) or (None,):
            cells = ("", "", "", "") if port is None else _port(node, gpu, port.nic)
            table.add_row(str(gpu.index), nvlink, *cells)
    return table


def _port(node: Node, gpu: Device, nic: Device) -> tuple[str, str, str, str]:
    port = next(port for port in node.ports if port.nic == nic)
    return (str(nic.index), node.path_kind(gpu, nic), str(port.rail), human(port.bandwidth * 8, "b/s"))
