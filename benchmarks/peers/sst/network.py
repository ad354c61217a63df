"""What the Structural Simulation Toolkit runs: a dragonfly of merlin's routers, whose hosts replay traces with firefly.

    sst network.py --model-options=WORLD.json

WORLD.json has the keys that ``peers.sst_peer`` writes. SST imports this file with its own Python. Its statistics go to
the file that is named there, one line for each counter.
"""

import json
import sys

import sst
from sst.ember import EmberMPIJob
from sst.merlin.base import PlatformDefinition, System
from sst.merlin.interface import LinkControl, ReorderLinkControl
from sst.merlin.topology import topoDragonFly


class PalmTree(topoDragonFly):
    """Global cables as topoflow lays them: port j of a group leads j + 1 groups back, for each turn."""

    def __init__(self, world: dict) -> None:
        topoDragonFly.__init__(self)
        self._declareParams("main", ["global_route_mode"])  # the Python of SST 16 calls it global_routes, its C++ so
        self.global_route_mode = self.global_routes = "relative"
        others, cables = world["groups"] - 1, world["global_links"]
        ports = -(-others * cables // world["routers"]) * world["routers"]
        leads = [turn * others + others - 1 - port for turn in range(cables) for port in range(others)]
        self.global_link_map = leads + [-1] * (ports - len(leads))
        self.hosts_per_router, self.routers_per_group = world["nodes"], world["routers"]
        self.intergroup_links, self.num_groups = cables, world["groups"]
        self.algorithm, self.adaptive_threshold = world["algorithm"], world["threshold"]


def build(world: dict) -> None:
    PlatformDefinition.setCurrentPlatform("firefly-defaults")
    topology = PalmTree(world)
    topology.link_latency = world["link_latency"]
    router = topology.router
    router.link_bw = router.xbar_bw = world["bandwidth"]
    router.flit_size, router.num_vns = world["flit"], 1
    router.input_latency = router.output_latency = world["port_latency"]
    router.input_buf_size = router.output_buf_size = world["buffer"]
    router.xbar_arb = "merlin.xbar_arb_lru"

    interface = ReorderLinkControl()
    inner = interface.network_interface = LinkControl()
    inner.link_bw = world["bandwidth"]
    inner.input_buf_size = inner.output_buf_size = world["buffer"]

    job = EmberMPIJob(0, topology.getNumNodes())
    job.network_interface = interface
    for name, value in world["nic"].items():
        setattr(job.nic, name, value)
    for group in ("ctrl", "functionsm"):
        for name, value in world[group].items():
            job.os.addParam(group + "." + name, value)
    job.addMotif("Init")
    job.addMotif("SIRIUSTrace traceprefix=" + world["traces"])

    job.enableMotifLog(world["log"])

    if world["statistics"]:
        sst.setStatisticLoadLevel(9)
        sst.setStatisticOutput("sst.statOutputCSV", {"filepath": world["statistics"], "separator": ","})
        counts = {"type": "sst.AccumulatorStatistic", "rate": "0ns"}
        router.enableAllStatistics(counts, True)
        inner.enableAllStatistics(counts)

    system = System()
    system.setTopology(topology)
    system.allocateNodes(job, "linear")
    system.build()


with open(sys.argv[1]) as file:
    build(json.load(file))
