"""Laws of NCCL's choices and times."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from topoflow.collectives.algorithms import named
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import OPERATIONS, AllowedRun, Choice, Overrides, choose, estimates, why_not
from topoflow.collectives.nccl_time import INSIDE, NETWORKS, NcclPrediction, calibrated, predict, terms
from topoflow.collectives.tuning_tables import ALGORITHMS, tables
from topoflow.hardware import Device, Node, Port
from topoflow.hardware.presets import PRESETS, join, preset, sockets
from topoflow.operations import bus_factor

NVIDIA = [name for name in PRESETS if preset(name).sm]
SIZES = [2**power for power in range(3, 34)]
REDUCING = [op for op in OPERATIONS if op != "all_to_all"]
VERSIONS = ["2.19.3", "2.23.4", "2.27.3", "2.29.2", ""]
NAMES = {name: name.replace("_", "") for name in ALGORITHMS}


@cache
def clusters(name: str, version: str = "") -> list[Communicator]:
    """Return clusters of a node: parts of one, all of it, and several."""
    node = preset(name)
    size = len(node.gpus)
    inside = [Communicator(node, ranks, version=version) for ranks in sorted({2, min(4, size), size})]
    return inside + [Communicator(node, size * nodes, version=version) for nodes in (2, 3, 4, 16, 128)]


def bytes_between(op: str, comm: Communicator, size: int) -> float:
    """Return the bytes that a node must send at least, where switches reduce nothing."""
    if op == "all_to_all":
        return size * (comm.ranks - comm.used) / comm.ranks * comm.used
    return size * bus_factor(op, comm.nodes)


@pytest.mark.parametrize("name", NVIDIA)
@pytest.mark.parametrize("op", OPERATIONS)
def test_no_collective_takes_less_than_its_launch_and_its_bytes_over_a_port(name: str, op: str) -> None:
    for comm in clusters(name):
        for size in SIZES:
            prediction = predict(comm, op, size)
            assert prediction.time > prediction.terms["launch"] > 1e-6
            if comm.nodes > 1:
                assert prediction.time >= bytes_between(op, comm, size) / sum(comm.ports)
            elif prediction.choice.algorithm != "nvls":  # NVSwitches reduce
                assert prediction.time >= size * bus_factor(op, comm.ranks) / comm.link_rate
            assert prediction.busbw == pytest.approx(prediction.algbw * bus_factor(op, comm.ranks))


def random_node(draw: random.Random) -> Node:
    """Return a node with any number of GPUs and NICs at any rates, switched, meshed or on PCIe."""
    gpus, nics, cpus = draw.randint(2, 16), draw.randint(1, 12), draw.randint(1, 4)
    width, rate = draw.randint(1, 18), draw.uniform(5e9, 60e9)
    links = [join(Device("GPU", g), Device("CPU", g % cpus), "PCI", draw.uniform(4e9, 128e9), 16) for g in range(gpus)]
    links += [join(Device("NIC", n), Device("CPU", n % cpus), "PCI", draw.uniform(4e9, 128e9), 16) for n in range(nics)]
    links += sockets(cpus, draw.uniform(5e9, 100e9))
    kind = draw.choice(["switched", "mesh", "PCIe"])
    if kind == "switched":
        links += [join(Device("GPU", g), Device("NVS", 0), "NVL", width * rate, width) for g in range(gpus)]
    elif kind == "mesh":
        pairs = [(a, b) for a in range(gpus) for b in range(a)]
        links += [join(Device("GPU", a), Device("GPU", b), "NVL", width * rate, width) for a, b in pairs]
    ports = tuple(Port(Device("NIC", n), n, draw.uniform(1e9, 100e9)) for n in range(nics))
    sm, cpu = draw.choice([70, 80, 89, 90, 100, 103, 120]), draw.choice(["intel", "amd", "arm", ""])
    return Node("random", "", sm, cpu, tuple(links), ports)


@pytest.mark.parametrize("round", range(40))
def test_the_laws_hold_on_random_nodes(round: int) -> None:
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    node = random_node(draw)
    nodes = draw.choice([1, 1, 2, 3, 5, 16, 100])
    comm = Communicator(node, len(node.gpus) * nodes, version=draw.choice(VERSIONS))
    for op in OPERATIONS:
        for size in SIZES[::4]:
            prediction = predict(comm, op, size, network=draw.choice(list(NETWORKS)))
            assert prediction.time > prediction.terms["launch"], seed
            if nodes > 1:
                assert prediction.time >= bytes_between(op, comm, size) / sum(comm.ports), seed
            elif prediction.choice.algorithm != "nvls":
                assert prediction.time >= size * bus_factor(op, comm.ranks) / comm.link_rate, seed
            assert 1 <= prediction.choice.channels <= 64, seed


@pytest.mark.parametrize("name", NVIDIA)
@pytest.mark.parametrize("op", REDUCING)
def test_a_larger_buffer_takes_longer_with_the_same_algorithm_and_protocol(name: str, op: str) -> None:
    for comm in clusters(name):
        times: dict[tuple[str, str], list[float]] = {}
        for size in SIZES:
            for choice in estimates(comm, op, size, 4, Overrides()):
                times.setdefault((choice.algorithm, choice.protocol), []).append(time(comm, op, size, choice))
        assert times
        for several in times.values():
            assert all(shorter <= longer * (1 + 1e-12) for shorter, longer in pairwise(several))


@pytest.mark.parametrize("name", NVIDIA)
@pytest.mark.parametrize("op", OPERATIONS)
def test_more_nodes_are_never_faster_with_the_same_algorithm_and_protocol(name: str, op: str) -> None:
    size_of_node = len(preset(name).gpus)
    several = [Communicator(preset(name), size_of_node * nodes) for nodes in (2, 4, 8, 32, 128)]
    for size in SIZES[::3]:
        for algorithm, protocol in {(m.algorithm, m.protocol) for m in made_for(several[0], op, size)}:
            times = [time(c, op, size, Choice(algorithm, protocol, several[0].channels, 0.0)) for c in several]
            # NCCL halves the chunks of a tree with LL128 when it has more steps.
            tolerance = 0.04 if (algorithm, protocol) == ("tree", "LL128") else 1e-12
            assert all(fewer <= more * (1 + tolerance) for fewer, more in pairwise(times))


def made_for(comm: Communicator, op: str, size: int) -> list[Choice]:
    if op == "all_to_all":
        return [choose(comm, op, size)]
    return list(estimates(comm, op, size, 4, Overrides()))


def time(comm: Communicator, op: str, size: int, choice: Choice) -> float:
    cost_terms = terms(comm, op, size, choice, INSIDE[calibrated(comm)], NETWORKS["infiniband"])
    return NcclPrediction(op, size, choice, cost_terms, comm.ranks).time


@pytest.mark.parametrize("name", NVIDIA)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_choice_has_the_least_estimate_of_what_may_run(name: str, version: str) -> None:
    for comm in clusters(name, version):
        for op in REDUCING:
            for size in SIZES[::5]:
                choice = choose(comm, op, size)
                all_choices = list(estimates(comm, op, size, 4, Overrides()))
                assert choice in all_choices
                assert choice.estimate == min(option.estimate for option in all_choices)
                assert 1 <= choice.channels <= 64


def test_the_estimate_is_that_of_the_tuner() -> None:
    """A ring of 8 H100 with LL: base 6.6 us, 14 steps of 0.6 us, and min(141, 12 channels * 30 / 2) * 8 / 14 GB/s."""
    comm = Communicator(preset("hgx_h100"), 8)
    assert (comm.graph("ring").channels, comm.graph("ring").speed) == (12, 30)
    expected = (6.6 + 14 * 0.6) * 1e-6 + 2**20 / (141e9 * 8 / 14)
    run = AllowedRun.of(comm, "all_reduce", "ring", "LL")
    assert run.estimate(comm, "all_reduce", 2**20) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "ranks", "channels"), [("dgx_a100", 8, 24), ("hgx_h100", 8, 24), ("hgx_h100", 16, 16), ("hgx_b200", 8, 32)]
)
def test_channels_are_those_that_nccl_reports(name: str, ranks: int, channels: int) -> None:
    assert Communicator(preset(name), ranks).channels == channels


@pytest.mark.parametrize("name", NVIDIA)
def test_an_override_names_the_algorithm_that_runs(name: str) -> None:
    for comm in clusters(name):
        for op, algorithm in [(op, a) for a in ALGORITHMS for op in named(a).OPERATIONS]:
            overrides = Overrides(NAMES[algorithm], "Simple")
            if why_not(comm, op, algorithm, 4):
                with pytest.raises(ValueError, match=f"nothing may run {op}: {algorithm}"):
                    choose(comm, op, 1024, overrides=overrides)
            else:
                choice = choose(comm, op, 1024, overrides=overrides)
                assert (choice.algorithm, choice.protocol) == (algorithm, "Simple")


def test_an_override_with_a_caret_excludes() -> None:
    comm = Communicator(preset("hgx_h100"), 8)
    assert Overrides("^NVLS,Tree,CollNetDirect,CollNetChain").algorithms() == ("ring", "nvls_tree", "pat")
    assert choose(comm, "all_reduce", 2**30).algorithm == "nvls"
    assert choose(comm, "all_reduce", 2**30, overrides=Overrides("^NVLS")).algorithm != "nvls"


@pytest.mark.parametrize("name", NVIDIA)
@pytest.mark.parametrize("algo", ["", "CollNetDirect", "CollNetChain", "NVLS"])
def test_where_switches_reduce_the_buffer_crosses_the_ports_of_a_node_once(name: str, algo: str) -> None:
    """Without them, a node of many sends it nearly twice."""
    comm = Communicator(preset(name), 16 * len(preset(name).gpus), collnet=True)
    if algo == "NVLS" and (comm.node.sm < 90 or not comm.node.switched):
        return
    if algo == "CollNetDirect" and not comm.node.switched:
        return
    for size in SIZES:
        prediction = predict(comm, "all_reduce", size, overrides=Overrides(algo))
        assert prediction.time >= size / sum(comm.ports)
        if algo:
            assert prediction.terms["NIC"] == pytest.approx(size / sum(comm.ports) / NETWORKS["infiniband"].efficiency)
            assert prediction.time > predict(comm, "all_reduce", size // 2, overrides=Overrides(algo)).time


@pytest.mark.parametrize("name", ["dgx_a100", "hgx_h100", "hgx_h200"])
def test_large_all_reduces_of_many_nodes_are_faster_where_switches_reduce(name: str) -> None:
    ranks = 16 * len(preset(name).gpus)
    plain, reduced = (
        predict(Communicator(preset(name), ranks, collnet=on), "all_reduce", 2**30) for on in (False, True)
    )
    assert reduced.choice.algorithm in ("collnet_direct", "nvls")
    assert plain.time / 2 < reduced.time < plain.time


def test_channels_stay_within_their_bounds() -> None:
    node = preset("hgx_h100")
    few, many = Communicator(node, 8, max_channels=4), Communicator(node, 8, min_channels=32)
    for size in SIZES:
        assert choose(few, "all_reduce", size).channels <= 4
        assert choose(many, "all_reduce", size).channels == 32


@pytest.mark.parametrize("name", ["dgx_a100", "hgx_h100", "hgx_b200"])
def test_fewer_channels_are_never_faster(name: str) -> None:
    node, ring = preset(name), Overrides("Ring")
    for ranks in (8, 32):
        for size in SIZES[::3]:
            times = [
                predict(Communicator(node, ranks, max_channels=max_channels), "all_gather", size, overrides=ring).time
                for max_channels in (1, 2, 8, 64)
            ]
            assert all(few >= many * (1 - 1e-12) for few, many in pairwise(times))


@pytest.mark.parametrize(
    ("name", "op", "overrides", "message"),
    [
        ("dgx_a100", "all_reduce", Overrides("NVLS"), "nvls: needs NVSwitches"),
        ("gh200", "all_reduce", Overrides("NVLS"), "nvls: needs NVSwitches"),
        ("l40s", "all_reduce", Overrides("Ring", "LL128"), "LL128: is not enabled over PCI of node l40s"),
        ("hgx_h100", "all_gather", Overrides("Tree"), "tree: has no all_gather"),
        ("hgx_h100", "all_reduce", Overrides("CollNetDirect"), "collnet_direct: needs nodes joined by switches that"),
        ("hgx_h100", "all_reduce", Overrides("Rings"), "NCCL_ALGO: must be of .* got 'rings'"),
        ("hgx_h100", "all_reduce", Overrides("", "LL256"), "NCCL_PROTO: must be of .* got 'll256'"),
        ("hgx_h100", "all_gather", Overrides("PAT"), "pat: runs with one GPU per node, got 8"),
        ("hgx_h100", "broadcast", Overrides(), "operation: must be one of"),
    ],
)
def test_what_a_node_or_an_operation_has_not_is_refused_in_one_line(
    name: str, op: str, overrides: Overrides, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        choose(Communicator(preset(name), len(preset(name).gpus)), op, 1024, overrides=overrides)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        (1, {}, "gpus: must be 2 or more"),
        (12, {}, "gpus: must fill whole nodes of 8, got 12"),
        (8, {"per_node": 9}, "gpus_per_node: must be within 1..8"),
        (8, {"max_channels": 0}, "NCCL_MAX_NCHANNELS"),
        (8, {"version": "1.3"}, "nccl.version"),
        (8, {"version": "two"}, "nccl.version"),
    ],
)
def test_a_communicator_that_cannot_be_is_refused(ranks: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Communicator(preset("hgx_h100"), ranks, **options)


def test_rccl_is_not_nccl() -> None:
    with pytest.raises(ValueError, match=r"node mi300x: sm: .* got MI300X"):
        Communicator(preset("mi300x"), 8)


def test_a_small_element_is_not_reduced_by_nvswitches() -> None:
    comm = Communicator(preset("hgx_h100"), 8)
    assert choose(comm, "all_reduce", 2**30, dtype_bytes=1).algorithm == "ring"


def test_ll128_crosses_c2c_from_the_version_on_that_enables_it() -> None:
    node = preset("gh200")
    assert not Communicator(node, 8, version="2.23.4").ll128
    assert Communicator(node, 8, version="2.28.9").ll128


def test_pat_runs_with_one_gpu_per_node() -> None:
    comm = Communicator(preset("hgx_h100"), 16, 1)
    assert comm.nodes == 16
    prediction = predict(comm, "all_gather", 2**20, overrides=Overrides("PAT"))
    assert prediction.choice.algorithm == "pat"


def test_a_version_takes_the_tables_that_it_has() -> None:
    assert tables("2.23.4").nvls == {}
    assert tables("2.28.9").ring_ll128["blackwell"] == (73.4, 34.6, 73.4)
    assert tables("2.31.0") == tables("") == tables("2.30.7")


def test_two_nodes_use_a_tree_where_a_ring_would_cross_each_port_twice() -> None:
    """Two nodes exchange the buffer once each way; a ring sends it 2 (n - 1) / n times."""
    comm = Communicator(preset("gh200"), 8, version="2.23")
    prediction = predict(comm, "all_reduce", 2**32, network="slingshot")
    assert prediction.choice.algorithm == "tree"
    assert prediction.limit == "NIC"
    assert prediction.terms["NIC"] == pytest.approx(2**32 / (4 * 25e9 * NETWORKS["slingshot"].efficiency))
