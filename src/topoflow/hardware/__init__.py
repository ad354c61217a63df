"""The hardware of a cluster: nodes of GPUs, NVLink, PCIe and NICs."""

from topoflow.hardware.node import Device, Link, Node, Port

__all__ = ["Device", "Link", "Node", "Port"]
