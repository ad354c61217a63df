"""Small worlds made by hand, whose every number can be found on paper, and what a page and a picture must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from tests.report import chromium
from tests.twins.fluid import simulate
from topoflow.case.base import Case, CaseSettings, Job, Result
from topoflow.case.failures import Failures, Slowdowns
from topoflow.case.rows import compute_time, host_time
from topoflow.demand import Demand
from topoflow.engine.lowering.placement import Lowering, place
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.prices import Prices
from topoflow.report.base import Report
from topoflow.search.history import SearchHistory, SearchRound
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer
from topoflow.units import human
from topoflow.workload.base import RecordedJob

# 4 servers. Two compute 2 s and 1 s, then server 0 sends 6 B to server 2; all reduce 4 B meanwhile.
TRAFFIC = Traffic.from_tasks(
    "job",
    4,
    (
        Compute(2.0, 0, name="forward"),
        Compute(1.0, 1, name="forward"),
        Transfer(6.0, 0, 2, after=(0,), name="activation"),
        Collective("all_reduce", 4.0, (0, 1, 2, 3), after=(1,), name="gradient"),
        Compute(0.5, 0, after=(2,), name="backward"),
    ),
)


def ring_fabric(bandwidth: float = 1.0) -> Fabric:
    """0 -> 1 -> 2 -> 3 -> 0, one link each: from 0 to 2 server 1 relays."""

    def route(source: int, target: int) -> tuple[tuple[int, ...], ...]:
        return (tuple((source + hop) % 4 for hop in range((target - source) % 4)),)

    return Fabric(
        name="ring",
        servers=4,
        nodes=("a", "b", "c", "d"),
        source=np.array([0, 1, 2, 3], np.int32),
        target=np.array([1, 2, 3, 0], np.int32),
        bandwidth=np.full(4, bandwidth),
        latency=np.zeros(4),
        route=route,
        degree=1,
        interface_bandwidth=bandwidth,
        bill=(Item("nic_port", 4, bandwidth),),
    )


def star_fabric(bandwidth: float = 1.0) -> Fabric:
    """Four servers on one switch: link s goes up from server s, link 4 + s down to it."""
    return Fabric(
        name="star",
        servers=4,
        nodes=("a", "b", "c", "d", "switch"),
        source=np.array([0, 1, 2, 3, 4, 4, 4, 4], np.int32),
        target=np.array([4, 4, 4, 4, 0, 1, 2, 3], np.int32),
        bandwidth=np.full(8, bandwidth),
        latency=np.zeros(8),
        route=lambda source, target: ((source, 4 + target),),
        degree=1,
        interface_bandwidth=bandwidth,
    )


def failures_of(fabric: Fabric, whole: float) -> Failures:
    """Link i is i + 1 fibers, of which one makes an iteration longer by i tenths; the last one cuts a server off."""
    count = np.arange(1, fabric.links + 1)
    names = tuple(f"{fabric.nodes[a]} to {fabric.nodes[b]}" for a, b in zip(fabric.source, fabric.target, strict=True))
    failed = whole * np.array([*(0.9 + 0.1 * count[:-1]), np.inf])
    return Failures("fiber", names, count, Slowdowns(whole, failed))


@dataclass(frozen=True)
class ToyJob:
    """A job whose traffic and memory are given."""

    traffic: Traffic
    memory: float | None = None  # B
    gpu_memory: float = float("inf")  # B
    recorded: RecordedJob | None = None
    strategy: Strategy | None = None
    landed: tuple[int, ...] | None = None
    workload: object = None  # which has no layers
    share: float = 1.0  # of the GPU's memory, that may be planned with
    work: None = None
    fits = Job.fits

    @property
    def compute_time(self) -> float:
        return compute_time(self.traffic)

    @property
    def host_time(self) -> float:
        return host_time(self.traffic)

    @property
    def usable_memory(self) -> float:
        return self.share * self.gpu_memory

    @property
    def room(self) -> str:
        return human(self.usable_memory, "B")

    @property
    def demand(self) -> Demand:
        return self.traffic.demand()


def prices_of(fabric: Fabric, cost: float) -> Prices:
    """Prices by which the parts of ``fabric``, all of one kind, cost ``cost`` USD and draw a tenth of that in W."""
    (item,) = fabric.bill
    unit_cost = cost / item.count
    return Prices({item.component: {"each": unit_cost}}, {item.component: {"each": unit_cost / 10}})


class Page(HTMLParser):
    """What a page would load, and the words on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.script = tag in ("script", "style")
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self.script = False

    def handle_data(self, data: str) -> None:
        self.words += "" if self.script else data


@pytest.fixture(scope="session")
def read_page() -> Callable[[Path], Page]:
    """``read_page(file)`` has ``sources``, ``tags`` and ``words``."""
    return lambda file: Page(file.read_text())


@pytest.fixture(scope="session")
def check_page() -> Callable[[Path, int], None]:
    """``check_page(file, pictures)``: a page that shows so many pictures and loads nothing."""

    def check(file: Path, pictures: int) -> None:
        page = Page(file.read_text())
        loaded = [source for source in page.sources if not source.startswith("#")]  # a place on the page itself
        assert len(loaded) == pictures
        assert all(source.startswith("data:image/png;base64,") for source in loaded)
        without_scripts = re.sub(r"<script>.*?</script>", "", file.read_text(), flags=re.DOTALL)
        assert not re.search(r"@import|url\(", without_scripts)

    return check


@pytest.fixture(scope="session")
def check_picture() -> Callable[[Path], None]:
    """``check_picture(file)``: it is large enough, shows something, and nothing is cut off at its edge."""

    def check(file: Path) -> None:
        image = matplotlib.image.imread(file)
        height, width = image.shape[:2]
        assert width >= 600
        assert height >= 300
        assert len(np.unique((255 * image[:, :, :3]).astype(int) @ [1, 256, 65536])) > 10
        edge = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        assert (edge[:, :3] == 1).all(), "nothing may touch the edge: it would be cut off"

    return check


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, one for all pages."""
    yield from chromium.start()


@pytest.fixture(scope="session")
def traffic() -> Traffic:
    return TRAFFIC


@pytest.fixture(scope="session")
def fabrics() -> dict[str, Callable[[float], Fabric]]:
    return {"ring": ring_fabric, "star": star_fabric}


@pytest.fixture(scope="session")
def make_outcome() -> Callable[..., Result]:
    """``make_outcome(fabric, traffic=TRAFFIC, cost=None, strategy=None, **swept)``: one world, simulated by the
    plain-Python twin."""

    def make(
        fabric: Fabric,
        traffic: Traffic = TRAFFIC,
        cost: float | None = None,
        strategy: Strategy | None = None,
        **swept: str,
    ) -> Result:
        swept = {"fabric": fabric.name, **swept}
        name = ",".join(f"{key}={value}" for key, value in swept.items())
        settings = CaseSettings(
            world=name,
            workload="toy",
            strategy="by_hand",
            fabric=fabric.name,
            prices="by_hand",
            latency=0.0,
            fidelity="fluid",
            swept=swept,
            config={"workload": {"size": 1}},
        )
        if cost is not None and not fabric.bill:
            fabric = replace(fabric, bill=(Item("nic_port", fabric.servers),))
        world = place(traffic, fabric, name=name)
        intact = simulate(world)
        prices = None if cost is None else prices_of(fabric, cost)
        case = Case(settings, ToyJob(traffic, strategy=strategy), fabric, Lowering(all_reduce="ring"), world, prices)
        return Result(case, intact, (failures_of(fabric, intact.makespan),))

    return make


@pytest.fixture(scope="session")
def report(make_outcome: Callable[..., Result]) -> Report:
    """Two fabrics at two bandwidths; the ring costs 1000 $ per B/s, the star has no price."""
    outcomes = [
        make_outcome(fabric(bandwidth), cost=cost, bandwidth_gbps=str(bandwidth))
        for fabric, per in ((ring_fabric, 1000.0), (star_fabric, None))
        for bandwidth in (1.0, 4.0)
        for cost in [None if per is None else per * bandwidth]
    ]
    return Report(tuple(outcomes), "topoflow compare fabric=ring,star bandwidth_gbps=1,4")


@pytest.fixture(scope="session")
def make_history() -> Callable[..., SearchHistory]:
    """``make_history(steps=40, chains=4, rounds=2)``: a search whose best descends by 1 ms a step."""

    def make(steps: int = 40, chains: int = 4, rounds: int = 2) -> SearchHistory:
        count = steps * rounds
        best = 0.2 - 0.001 * np.arange(count)
        proposals = chains * np.arange(1.0, count + 1)
        round = np.repeat(np.arange(float(rounds)), steps)
        columns = round, proposals, best, best + 0.01, np.full(count, 0.25), np.full(count, 1000.0)
        ends = [
            SearchRound(number, steps, (0.2,), (0.19,), 0.18, True, number == 0, (1e-5, 2e-3))
            for number in range(rounds)
        ]
        return SearchHistory(np.column_stack(columns), tuple(ends))

    return make
