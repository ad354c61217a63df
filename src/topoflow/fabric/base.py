"""Fabric: servers, switches, directed links, routes, bill of materials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import repeat
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand, Group
from topoflow.digest import digest
from topoflow.fields import Deferred, with_fields
from topoflow.hardware.cluster import Cluster
from topoflow.printable import html_table
from topoflow.units import (
    LARGEST_BANDWIDTH,
    SMALLEST_RATE,
    check_bandwidth,
    check_not_negative,
    check_positive,
    counted,
    gbps,
    human,
)

Path = tuple[int, ...]  # links, first to last
Orders = tuple[Group, ...]  # each is a permutation of a group's servers
Route = Callable[[int, int], tuple[Path, ...]]  # paths from server to server; a flow takes one of them
Speed = float | NDArray[np.float64]  # or a column [W, 1], of as many networks
MAX_DIGESTS = 32  # of wirings, with their parts; networks of a sweep share them
SPEEDS = ("bandwidth", "latency", "interface_bandwidth", "bill")  # of a fabric; no path depends on these


@dataclass(frozen=True)
class Item:
    """A line of a bill of materials: ``count`` of ``component``, each for links of ``bandwidth`` B/s.

    Components: nic_port, transceiver, switch_port, patch_panel_port, ocs_port, optical_switch_1x2,
    fast_optical_port, fiber; of nodes gpu_MODEL and host_MODEL. ``bandwidth`` is 0 for components that do not
    depend on it.
    """

    component: str
    count: float
    bandwidth: Speed = 0.0


@dataclass(frozen=True)
class Channels:
    """The orders in which all-reduce groups should reduce on a fabric.

    A group is a tuple of servers, as in Traffic; a group without an entry uses its own order. Neighbours in an order
    may be joined by a circuit or through switches. Each order is a channel that carries an equal part of the bytes.
    """

    rings: Mapping[Group, Orders] = field(default_factory=dict)  # each server sends to the next, the last to the first
    trees: Mapping[Group, Orders] = field(default_factory=dict)  # server at each position of a pair of trees


class LinkControl:
    """The way in which links change while a job runs; a fabric that is not ``Static`` has the initial links."""


@dataclass(frozen=True)
class Static(LinkControl):
    """A control that never changes links."""


@dataclass(frozen=True)
class Fabric(Deferred):
    """A wired and routed network. Nodes 0..servers-1 are servers, the others are switches.

    Links are directed; a cable has two. Constraints: bandwidth > 0, latency >= 0, ends are nodes, no link from a node
    to itself. Shapes: L links, N nodes.
    """

    name: str
    servers: int
    nodes: tuple[str, ...]  # [N] names
    source: NDArray[np.int32]  # [L] node
    target: NDArray[np.int32]  # [L] node
    bandwidth: NDArray[np.float64]  # [L] B/s
    latency: NDArray[np.float64]  # [L] s
    route: Route
    degree: int  # interfaces per server
    interface_bandwidth: float  # B/s of one interface
    bill: tuple[Item, ...] = field(default_factory=tuple)
    channels: Channels = field(default_factory=Channels)
    control: LinkControl = Static()
    is_ideal: bool = False  # nobody can build it; no network has more bandwidth, but direct cables have less latency
    cluster: Cluster | None = None  # the GPUs that are its endpoints; None: endpoints are servers
    folded: int = 1  # GPUs of an endpoint; a flow stands for one of each (``fabric.attached.fold``)
    reduction_route: Route | None = None  # of all-reduces, where circuits were built for them; None: ``route``

    def __post_init__(self) -> None:
        links = len(self.source)
        for name in ("target", "bandwidth", "latency"):
            if (length := getattr(self, name).shape[-1]) != links:
                raise ValueError(f"{self.name}.{name}: expected [L] = [{links}], got [{length}]")
        check_positive(f"{self.name}.servers", self.servers)
        if self.servers > len(self.nodes):
            raise ValueError(f"{self.name}.servers: must be at most the {len(self.nodes)} nodes, got {self.servers}")
        if links and not (self._ends_are_right() and self._speeds_are_right()):
            self._refuse()

    def with_speeds(
        self,
        bandwidth: NDArray[np.float64],
        latency: NDArray[np.float64],
        interface_bandwidth: Speed,
        bill: tuple[Item, ...],
    ) -> Fabric:
        """Return the same network with other ``SPEEDS``, whose laws alone are checked; it shares the rest.

        Speeds may be columns: [W, L] of links, [W, 1] of interfaces and items.
        """
        assert bandwidth.shape[-1] == latency.shape[-1] == self.links
        interface = interface_bandwidth if isinstance(interface_bandwidth, np.ndarray) else float(interface_bandwidth)
        fabric = with_fields(self, bandwidth=bandwidth, latency=latency, interface_bandwidth=interface, bill=bill)
        if self.links and not fabric._speeds_are_right():
            fabric._refuse()
        return fabric

    def rows(self, count: int) -> list[Fabric]:
        """Return the ``count`` networks of which the speeds of this one are columns. They share all else."""
        self.wiring  # noqa: B018  computed once for all
        base = with_fields(self, ["bill"])
        of_links = (speed if speed.ndim == 2 else repeat(speed, count) for speed in (self.bandwidth, self.latency))
        bills = (partial(_bill_of, self.bill, row) for row in range(count))
        speeds = zip(*of_links, numbers(self.interface_bandwidth, count), bills, strict=False)
        return [
            with_fields(base, bandwidth=bandwidth, latency=latency, interface_bandwidth=interface, make_bill=bill)
            for bandwidth, latency, interface, bill in speeds
        ]

    def __repr__(self) -> str:
        switches = len(self.nodes) - self.servers
        what = f"{self.servers} {self.endpoint}s, {switches} switches"
        return f"<{self.name}: {what}, {self.links} links of {self._speed}>"

    def _repr_html_(self) -> str:
        parts = (("part", f"{item.count:,} x {item.component}") for item in self.bill)
        latency = "" if not self.links else f", {human(float(self.latency.max()), 's')} each at most"
        rows = [
            (f"{self.endpoint}s", f"{self.servers:,}, with {counted(self.degree, 'interface')} each"),
            ("switches", f"{len(self.nodes) - self.servers:,}"),
            ("links", f"{self.links:,} of {self._speed}{latency}"),
            *parts,
        ]
        return html_table(self.name, rows)

    @property
    def _speed(self) -> str:
        rates = np.unique(self.bandwidth)
        speed = " to ".join(f"{rate / gbps(1):g}" for rate in rates[[0, -1]][: len(rates)]) if self.links else "no"
        return f"{speed} Gb/s"

    def _speeds_are_right(self) -> bool:
        """Return whether bandwidths and latencies are within their bounds; nan is not."""
        least, most = partial(np.minimum.reduce, axis=None), partial(np.maximum.reduce, axis=None)
        inside = least(self.bandwidth) >= SMALLEST_RATE and most(self.bandwidth) <= LARGEST_BANDWIDTH
        return bool(inside and least(self.latency) >= 0 and most(self.latency) < np.inf)

    def _ends_are_right(self) -> bool:
        """Return whether links join two nodes each."""
        joins_two = bool(np.all(self.source != self.target))
        return joins_two and self._ends.min() >= 0 and int(self._ends.max()) < len(self.nodes)

    def _refuse(self) -> None:
        """Raise ``ValueError`` for the constraint that the first wrong link violates."""
        inside = (self._ends >= 0) & (self._ends < len(self.nodes))
        right = inside.all(axis=0) & (self.source != self.target)
        right &= (self.bandwidth >= SMALLEST_RATE) & (self.bandwidth <= LARGEST_BANDWIDTH)
        right &= (self.latency >= 0) & (self.latency < np.inf)
        link = int(np.argmin(right))
        ends = (int(self.source[link]), int(self.target[link]))
        where = f"{self.name}.links[{link}]"
        if min(ends) < 0 or max(ends) >= len(self.nodes):
            raise ValueError(f"{where}: ends must be within 0..{len(self.nodes) - 1}, got {ends}")
        if ends[0] == ends[1]:
            raise ValueError(f"{where}: must join two nodes, got {self.nodes[ends[0]]!r} twice")
        check_bandwidth(f"{where}.bandwidth", float(self.bandwidth[link]))
        check_not_negative(f"{where}.latency", float(self.latency[link]))

    @property
    def _ends(self) -> NDArray[np.int32]:
        """Return [2, L] the nodes that links join."""
        return np.stack([self.source, self.target])

    @property
    def links(self) -> int:
        return len(self.source)

    @property
    def endpoint(self) -> str:
        """Return what an endpoint is called: ``server``, ``GPU``, ``node`` or ``pipeline rank``."""
        if self.cluster is None:
            return "server"
        return self.cluster.endpoint(self.folded)

    @property
    def is_folded(self) -> bool:
        """Return whether an endpoint stands for several GPUs."""
        return self.folded > 1

    @cached_property
    def wiring(self) -> str:
        """Return the digest of everything but ``SPEEDS``: networks with the same wiring have the same paths."""
        parts = _wired(self)
        key = tuple([part if type(part) in BY_VALUE else id(part) for part in parts])
        if key not in _digests:
            if len(_digests) >= MAX_DIGESTS:
                _digests.clear()
            _digests[key] = parts, digest([*parts])
        return _digests[key][1]

    def link_name(self, link: int) -> str:
        """Return the name of a link by its ends: ``leaf 0 to spine 1``."""
        return f"{self.nodes[self.source[link]]} to {self.nodes[self.target[link]]}"

    @property
    def for_reductions(self) -> Fabric:
        """Return the fabric with the routes of all-reduces."""
        return self if self.reduction_route is None else replace(self, route=self.reduction_route, reduction_route=None)

    @property
    def is_static(self) -> bool:
        """Return whether links stay the same while a job runs."""
        return isinstance(self.control, Static)

    @property
    def has_switches(self) -> bool:
        """Return whether some nodes are not servers."""
        return len(self.nodes) > self.servers


def numbers(column: Speed | None, count: int) -> Iterable[Any]:
    """Return the numbers of a column; of one number for all networks, this."""
    return column.ravel().tolist() if isinstance(column, np.ndarray) else repeat(column, count)


def _bill_of(bill: tuple[Item, ...], row: int) -> tuple[Item, ...]:
    """Return a row of a bill of materials whose bandwidths are columns."""
    return tuple(
        replace(item, bandwidth=float(item.bandwidth[row, 0])) if isinstance(item.bandwidth, np.ndarray) else item
        for item in bill
    )


WIRED = tuple(spec.name for spec in fields(Fabric) if spec.name not in SPEEDS)
BY_VALUE = (int, str, bool)
_wired: Callable[[Fabric], tuple[Any, ...]] = attrgetter(*WIRED)
_digests: dict[tuple[int | str, ...], tuple[tuple[Any, ...], str]] = {}  # by the identity of the parts, which are kept


class FabricDesign(Protocol):
    """The interface of a file of ``fabric/``: a frozen dataclass that wires and routes ``servers`` servers."""

    def build(self, servers: int, demand: Demand) -> Fabric: ...
