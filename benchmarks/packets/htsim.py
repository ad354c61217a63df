"""Controls of packets, and those of others: the same messages over the same fat-trees.

    python benchmarks/packets/htsim.py htsim=PATH/sim/datacenter/htsim_ndp
    python benchmarks/packets/htsim.py htsim=PATH/sim/datacenter/htsim_ndp cases=incast packets=200 window=30
    python benchmarks/packets/htsim.py htsim=PATH/htsim/sim/build/datacenter/htsim_uec
    python benchmarks/packets/htsim.py htsim=PATH/htsim/sim/build/datacenter/htsim_uec draws=reps slow=1 cases=stride
    python benchmarks/packets/htsim.py htsim=PATH/sim/datacenter/htsim_swift window=100 packets=2000
    python benchmarks/packets/htsim.py hpcc=PATH/simulation/build/scratch/third cases=permutation,stride,ring
    python benchmarks/packets/htsim.py dcqcn=PATH/simulation/build/scratch/third packets=2000 marks=400,400,1

The name of the program says the control. htsim is github.com/Broadcom/csg-htsim (``make -C sim libhtsim.a && make -C
sim/datacenter htsim_ndp htsim_swift``, as ``results/packet_swift.txt`` mends it), that of NSCC
github.com/ultraethernet/uet-htsim (``cmake -S htsim/sim -B htsim/sim/build && cmake --build htsim/sim/build``). HPCC is
compared with its authors' simulator (``peers/hpcc_peer.py``), on the paths that its switches hash, and so is DCQCN, as
``results/packet_dcqcn.txt`` mends it: ``marks`` says from how many kB on packets are marked, from how many all are, and
which share just below it. Links have 100 Gb/s and 1 us, switches store and forward, packets have 4,096 B with their
headers. 8 of them may wait for a port; with NSCC 43, a bandwidth-delay product, of which packets are marked from 9 to
35 on, as htsim sets it; with HPCC, DCQCN and Swift any number. Messages of Swift take the paths that htsim draws.
Prints ``case.metric value`` lines: us until senders know that their message has arrived, in the mean and at most, over
``seeds`` draws; and packets that were trimmed, of the last draw. ``window`` is the first window in packets. With
``draws=reps`` senders recycle entropies, and htsim acknowledges every packet, as ours does. With ``slow=1`` the link
from the first core switch to the first pod has a quarter of its bandwidth.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from peers import hpcc_peer
from peers.hpcc_peer import BUFFER, HEADERS, TELEMETRY, Marks, Peer

from topoflow.demand import Demand
from topoflow.engine.base import Floats, Run, World
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.settings import numbers
from topoflow.fabric.base import Fabric
from topoflow.fabric.fat_tree import FatTree
from topoflow.traffic.base import Traffic, Transfer

PAYLOAD, HEADER = 4032, 64  # B
PACKET = PAYLOAD + HEADER
RATE, LATENCY = 12.5e9, 1e-6  # B/s and s of a link
ROUND_TRIP = 6 * (2 * LATENCY + PACKET / RATE)  # s of the longest on an idle network, but for acknowledgements
DEPTH = 8  # packets that may wait for a port
ENTROPIES = 64  # of a message of NSCC, which switches hash: the default of htsim_uec
SWIFT_DEPTH, SWIFT_SEED = 100_000, 13  # packets, more than all windows; the seed of htsim_swift's paths
NSCC_DEPTH, NSCC_MARKS = 43, (9, 35)  # packets, as htsim_uec prints them for fat-trees of three layers
DCQCN_MARKS = "400,1600,0.2"  # of 100 Gb/s in mix/config.txt of HPCC's simulator
NO_BYTES = 2**40  # more than any message: rates rise by time alone
CASES = ("permutation", "stride", "all_to_all", "ring", "incast")
Pairs = list[tuple[int, int]]


class Setting(NamedTuple):
    """What all messages of a run have in common."""

    peer: str  # "htsim", "hpcc" or "dcqcn"
    program: str
    draws: str  # "": of the control
    slow: bool
    servers: int
    packets: int
    window: int
    marks: Marks  # of DCQCN


class Answer(NamedTuple):
    finish: Floats  # [messages] us
    trimmed: int  # packets
    nodes: list[list[int]]  # of the path of each message; empty: not known


def pairs_of(case: str, servers: int, seed: int) -> Pairs:
    """Return the source and target of each message."""
    every = range(servers)
    if case == "permutation":
        draw = np.random.default_rng(seed)
        while True:
            target = draw.permutation(servers)
            if (target != np.arange(servers)).all():
                return [(server, int(target[server])) for server in every]
    if case == "stride":
        return [(server, (server + servers // 2) % servers) for server in every]
    if case == "all_to_all":
        return [(one, other) for one in every for other in every if one != other]
    return [(server, (server + 1) % servers) for server in every] if case == "ring" else [(i, 0) for i in every if i]


def theirs(setting: Setting, pairs: Pairs, seed: int) -> Answer:
    return htsim(setting, pairs, seed) if setting.peer == "htsim" else ns3(setting, pairs)


def ns3(setting: Setting, pairs: Pairs) -> Answer:
    model, program = model_of(setting), Path(setting.program).resolve()
    if setting.peer == "hpcc":
        control = hpcc_peer.hpcc(model.hpcc_utilization, model.hpcc_stages, model.hpcc_step / ROUND_TRIP)
        peer = Peer(program, PACKET - HEADERS - TELEMETRY, control)
    else:
        times = model.dcqcn_timer, model.dcqcn_alpha_timer, model.dcqcn_notice
        control = hpcc_peer.dcqcn(model.dcqcn_gain, *times, model.dcqcn_recoveries, model.dcqcn_step)
        peer = Peer(program, PACKET - HEADERS, control, setting.marks)
    with tempfile.TemporaryDirectory() as folder:
        answer = peer.run(fat_tree(setting), pairs, setting.packets, Path(folder))
    return Answer(answer.finish * 1e6, 0, answer.nodes)


def htsim(setting: Setting, pairs: Pairs, seed: int) -> Answer:
    program, servers = Path(setting.program).resolve(), setting.servers
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{a}->{b} id {i + 1} start 0 size {setting.packets * PAYLOAD}" for i, (a, b) in enumerate(pairs)]
        matrix = Path(folder) / "messages.cm"
        matrix.write_text("\n".join([f"Nodes {servers}", f"Connections {len(pairs)}", *rows, ""]))
        options = f"-nodes {servers} -tm {matrix} -linkspeed 100000 -end 1000000 -seed {seed}"
        if is_nscc(program):  # its log, which it reads again, must be a file
            balancing = "reps -sack_threshold 1" if setting.draws == "reps" else "oblivious"
            options += f" -mtu {PACKET} -sender_cc_only -sender_cc_algo nscc -load_balancing_algo {balancing}"
            options += f" -paths {ENTROPIES} -failed {int(setting.slow)} -o {folder}/log"
        elif is_swift(program):  # which sends one packet more than its option says, takes no seed and reads its log
            options = f"-nodes {servers} -tm {matrix} -linkspeed 100000 -end 1000000 -tsample 100000 -mtu {PACKET}"
            options += f" -q {SWIFT_DEPTH} -cwnd {setting.window} -flowsize {setting.packets - 1} -o {folder}/log"
        else:  # queues are counted in payloads: DEPTH packets with headers fit into one more
            options += f" -mtu {PAYLOAD} -strat perm -cwnd {setting.window} -q {DEPTH + 1} -o /dev/null"
        command = [str(program), *options.split()]  # which writes idmap.txt where it runs
        text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    if is_swift(program):
        times = dict(re.findall(r"Flow (swift_\d+_\d+) finished at ([\d.]+)", text))
        if len(times) != len(pairs):
            raise RuntimeError(f"htsim: {len(pairs)} messages must finish, got {len(times)}: {text[-500:]}")
        finish = [float(times[f"swift_{source}_{target}"]) for source, target in pairs]
        return Answer(np.array(finish), 0, swift_paths(setting, pairs))
    finish = [float(time) for time in re.findall(r"flow_?[iI]d \d+ .*?finished at ([\d.]+)", text)]
    sent = re.search(r"New: \d+ Rtx: (\d+)", text)
    if len(finish) != len(pairs) or sent is None:
        raise RuntimeError(f"htsim: {len(pairs)} messages must finish, got {len(finish)}: {text[-500:]}")
    return Answer(np.array(finish), int(sent[1]), [])


def is_nscc(program: Path) -> bool:
    return program.name == "htsim_uec"


def is_swift(program: Path) -> bool:
    return program.name == "htsim_swift"


def swift_paths(setting: Setting, pairs: Pairs) -> list[list[int]]:
    """Return the nodes of the path of each message that htsim_swift draws.

    It draws a number for each switch; then for each message a path of acknowledgements, and an order of all paths, of
    which the message takes the first one.
    """
    nodes = fat_tree(setting).nodes
    half = round((4 * setting.servers) ** (1 / 3)) // 2
    switches = len(nodes) - setting.servers
    words = np.random.RandomState(SWIFT_SEED).bytes(4 * (switches + (half * half + 1) * len(pairs)))
    draws = iter((np.frombuffer(words, "<u4")[switches:] & 0x7FFFFFFF).tolist())
    paths = []
    for source, target in pairs:
        edge, far_edge = source // half, target // half
        pod, far_pod = edge // half, far_edge // half
        here, there = f"edge {pod}.{edge % half}", f"edge {far_pod}.{far_edge % half}"
        if edge == far_edge:
            every = [[here]]
        elif pod == far_pod:
            every = [[here, f"aggregation {pod}.{up}", there] for up in range(half)]
        else:
            every = [
                [here, f"aggregation {pod}.{up}", f"core {up}.{core}", f"aggregation {far_pod}.{up}", there]
                for up in range(half)
                for core in range(half)
            ]
        next(draws)
        for left in range(len(every), 0, -1):
            drawn = next(draws) % left
            every[drawn], every[left - 1] = every[left - 1], every[drawn]
        paths.append([source, *(nodes.index(name) for name in every[0]), target])
    return paths


def model_of(setting: Setting) -> Packet:
    usual = Packet(loss="trim", switching="store_and_forward", arbiter="arrival", size=PACKET, flit=HEADER)
    if setting.peer == "hpcc":
        return replace(usual, loss="none", control="hpcc", window="auto", buffer=BUFFER * 2**20 // 8)
    if setting.peer == "dcqcn":
        low, high, most = setting.marks
        marked: dict[str, Any] = {
            "ecn_from": 1000 * low,
            "ecn_to": 1000 * high,
            "ecn_most": most,
            "ecn_at": "departure",
        }
        rates = replace(usual, loss="none", control="dcqcn", buffer=BUFFER * 2**20 // 8, **marked)
        return replace(rates, dcqcn_bytes=NO_BYTES, dcqcn_leap=rates.dcqcn_step)
    if is_nscc(Path(setting.program)):
        low, high = (mark * PACKET for mark in NSCC_MARKS)
        marks: dict[str, Any] = {"ecn_from": low, "ecn_to": high, "ecn_most": 1.0, "ecn_at": "departure"}
        draws = {"draws": setting.draws} if setting.draws else {}
        buffer = NSCC_DEPTH * PACKET
        return replace(usual, control="nscc", window="auto", entropies=ENTROPIES, buffer=buffer, **marks, **draws)
    if is_swift(Path(setting.program)):
        window = setting.window * PACKET
        return replace(usual, loss="none", control="swift", window=window, buffer=SWIFT_DEPTH * PACKET)
    return replace(usual, control="pulls", draws="in_turn", window=setting.window * PACKET, buffer=DEPTH * PACKET)


def fat_tree(setting: Setting) -> Fabric:
    servers = setting.servers
    fabric = FatTree(RATE, 1, LATENCY, radix=round((4 * servers) ** (1 / 3))).build(servers, Demand(servers))
    bandwidth = fabric.bandwidth.copy()
    if setting.slow:
        ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
        names = [(fabric.nodes[source], fabric.nodes[target]) for source, target in ends]
        bandwidth[names.index(("core 0.0", "aggregation 0.0"))] /= 4
    return replace(fabric, bandwidth=bandwidth)


def on_paths(world: World, fabric: Fabric, nodes: list[list[int]]) -> World:
    """Give each message the path through these nodes."""
    link = {ends: link for link, ends in enumerate(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))}
    graph = world.graph
    links = graph.path_links.copy()
    for path, through in zip(graph.path[graph.bytes > 0].tolist(), nodes, strict=True):
        links[graph.path_offsets[path] : graph.path_offsets[path + 1]] = [link[ends] for ends in pairwise(through)]
    return replace(world, graph=replace(graph, path_links=links))


def ours(setting: Setting, pairs: Pairs, seed: int, nodes: list[list[int]]) -> Answer:
    transfers = [Transfer(setting.packets * PACKET, *ends) for ends in pairs]
    traffic, fabric = Traffic.from_tasks("messages", setting.servers, transfers), fat_tree(setting)
    world = place(traffic, fabric, name="messages", routing="ecmp" if nodes else "spray", seed=seed)
    if nodes:
        world = on_paths(world, fabric, nodes)
    model = model_of(setting)
    timeline = model.simulate([world], Run(threads=1))[0]
    back = numbers(world, layout_of(world.graph, model), model).control.back / 1e12
    ports: Any = timeline.ports
    return Answer((timeline.finish + back)[world.graph.bytes > 0] * 1e6, int(ports.lost.sum()), nodes)


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    peer = next((name for name in ("htsim", "hpcc", "dcqcn") if name in options), "htsim")
    program, cases = options.pop(peer, ""), options.pop("cases", ",".join(CASES)).split(",")
    draws, slow = options.pop("draws", ""), bool(int(options.pop("slow", 0)))
    servers, packets = int(options.pop("servers", 16)), int(options.pop("packets", 500))
    window, seeds = int(options.pop("window", 60)), int(options.pop("seeds", 3))
    low, high, most = options.pop("marks", DCQCN_MARKS).split(",")
    if options or not program or not set(cases) <= set(CASES):
        message = f"htsim, hpcc or dcqcn must be a program, cases some of {', '.join(CASES)}"
        sys.exit(f"{message}, got {' '.join(sys.argv[1:])}")
    for case in cases:
        count = packets if case not in ("all_to_all", "incast") else max(1, packets // (servers - 1))
        marks = Marks(int(low), int(high), float(most))
        setting = Setting(peer, program, draws, slow, servers, count, window, marks)
        by_peer: dict[str, list[Answer]] = {peer: [], "ours": []}
        for seed in range(1, seeds + 1):
            pairs = pairs_of(case, servers, seed)
            by_peer[peer].append(theirs(setting, pairs, seed))
            by_peer["ours"].append(ours(setting, pairs, seed, by_peer[peer][-1].nodes))
        mean = {name: np.mean([answer.finish.mean() for answer in answers]) for name, answers in by_peer.items()}
        last = {name: np.mean([answer.finish.max() for answer in answers]) for name, answers in by_peer.items()}
        for name, answers in by_peer.items():
            print(f"{case}.{name}.mean_us {mean[name]:.1f}")
            print(f"{case}.{name}.most_us {last[name]:.1f}")
            if peer == "htsim":
                print(f"{case}.{name}.trimmed {answers[-1].trimmed}")
        print(f"{case}.mean_over_{peer} {mean['ours'] / mean[peer]:.3f}")
        print(f"{case}.most_over_{peer} {last['ours'] / last[peer]:.3f}", flush=True)


if __name__ == "__main__":
    main()
