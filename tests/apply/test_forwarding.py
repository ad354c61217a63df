"""Laws of the forwarding of hosts: packets take the paths of the plan; scripts can be shown, repeated and undone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plans import plan_of_fabric
from topoflow.apply.forwarding import Command, as_json, forwarding
from topoflow.apply.hosts import Host, Interface, Wire, read_hosts, wires
from topoflow.apply.network import fabric_of, forwarded
from topoflow.apply.script import script
from topoflow.emulate.sandbox import UNSHARE, why_not
from topoflow.fabric.base import Channels, Fabric
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.search.base import Plan

SERVERS = st.integers(2, 7)
OWN = ("10.0.0.2/32", "table", "7000", "proto", "84")


def plan_of(strides: Sequence[int], servers: int, parallel: int = 1) -> Plan:
    """Rings of these strides, each over circuits of its own."""
    group = tuple(range(servers))
    ends = np.array(sorted((i, (i + stride) % servers) for i in group for stride in strides), np.int32)
    nodes = [str(server) for server in group]
    orders = tuple(tuple(stride * at % servers for at in group) for stride in strides)
    fabric = Fabric(
        name="topoopt",
        servers=servers,
        nodes=tuple(nodes),
        source=ends[:, 0],
        target=ends[:, 1],
        bandwidth=np.full(len(ends), parallel * 1e6),
        latency=np.zeros(len(ends)),
        route=ShortestPaths(nodes, ends[:, 0], ends[:, 1], 4),
        degree=parallel * len(strides),
        interface_bandwidth=1e6,
        channels=Channels(rings={group: orders}),
    )
    return plan_of_fabric(fabric)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    servers = draw(SERVERS)
    strides = [1, *draw(st.sets(st.integers(2, max(servers - 1, 2)), max_size=3))]
    coprime = [stride for stride in strides if np.gcd(stride, servers) == 1 and stride < servers]
    return plan_of(coprime, servers, draw(st.integers(1, 2)))


def hosts_of(plan: Plan, partitions: bool) -> list[Host]:
    def interface(server: int, number: int) -> Interface:
        direct = f"eth{number}", f"02:00:00:00:{server:02x}:{number:02x}"
        relay = f"fwd{number}", f"02:00:00:01:{server:02x}:{number:02x}"
        return Interface(*direct, *(relay if partitions else direct))

    return [
        Host(f"s{i}", f"10.0.0.{i + 1}", tuple(interface(i, k) for k in range(plan.degree)))
        for i in range(plan.servers)
    ]


def path_of_packet(
    commands: Sequence[Sequence[Command]], hosts: Sequence[Host], all_wires: Sequence[Wire], source: int, target: int
) -> list[int]:
    """Follow one packet through what hosts were given, as Linux does: rules, tables, neighbours, flower."""
    ends = hosts[source].address, hosts[target].address
    at, entry, passed = source, "", [source]
    while at != target and len(passed) <= len(hosts):
        of_host = [command.do for command in commands[at]]
        flower = [
            do
            for do in of_host
            if do[:3] == ("tc", "filter", "replace") and ends == (do[14], do[16]) and do[4] == entry
        ]
        if flower and at != source:
            (do,) = flower
            device, mac = do[-1], do[do.index("set") + 1]
        else:
            match = ("iif", "lo") if at == source else ("from", ends[0])
            (table,) = {do[6] for do in of_host if do[:3] == ("ip", "rule", "add") and do[3:5] == match}
            routes = [do for do in of_host if do[:4] == ("ip", "route", "replace", f"{ends[1]}/32") and do[5] == table]
            (do,) = routes
            device = do[do.index("dev") + 1]
            (mac,) = {do[5] for do in of_host if do[:4] == ("ip", "neigh", "replace", ends[1]) and do[7] == device}
        (wire,) = [
            wire
            for wire in all_wires
            if wire.source == at and device in (wire.device, wire.relay_device) and mac in (wire.mac, wire.forward_mac)
        ]
        assert mac == (wire.mac if wire.target == target else wire.forward_mac), "others' packets go to the kernel"
        at, entry = wire.target, wire.entry
        passed.append(at)
    return passed


@given(plans(), st.booleans(), st.sampled_from(["kernel", "flower"]))
def test_every_packet_takes_the_path_of_its_pair(plan: Plan, partitions: bool, manner: str) -> None:
    fabric, hosts = forwarded(fabric_of(plan)), hosts_of(plan, partitions)
    all_wires = wires(plan, hosts)
    commands = forwarding(fabric, hosts, all_wires, manner)
    for source in range(plan.servers):
        for target in set(range(plan.servers)) - {source}:
            (path,) = fabric.route(source, target)
            servers = [source, *(int(fabric.target[link]) for link in path)]
            assert path_of_packet(commands, hosts, all_wires, source, target) == servers
            assert tuple(servers) in plan.routes["mp"][source][target]


def test_pairs_are_spread_over_equal_paths() -> None:
    """Eight servers, strides 1 and 7: both paths to the opposite server are four hops; not all pairs take the first."""
    plan = plan_of([1, 7], 8)
    fabric = forwarded(fabric_of(plan))
    load = np.zeros(fabric.links, int)
    for i in range(8):
        for j in set(range(8)) - {i}:
            load[list(fabric.route(i, j)[0])] += 1
    assert load.max() - load.min() <= 2
    assert load.sum() == 8 * (1 + 1 + 2 + 2 + 3 + 3 + 4)


def test_parallel_circuits_share_by_connection() -> None:
    plan = plan_of([1], 3, parallel=2)
    hosts = hosts_of(plan, False)
    commands = forwarding(forwarded(fabric_of(plan)), hosts, wires(plan, hosts))
    (route,) = [command.do for command in commands[0] if command.do[:8] == ("ip", "route", "replace", *OWN)]
    assert route[-10:] == ("nexthop", "dev", "eth0", "weight", "1", "nexthop", "dev", "eth1", "weight", "1")


def test_json_and_script_have_the_same_commands(tmp_path: Path) -> None:
    plan = plan_of([1], 5)
    hosts = hosts_of(plan, True)
    for host, commands in zip(
        hosts, forwarding(forwarded(fabric_of(plan)), hosts, wires(plan, hosts), "flower"), strict=True
    ):
        path = tmp_path / f"{host.name}.sh"
        path.write_text(script(host, commands))
        shown = subprocess.run(["sh", path, "show"], capture_output=True, text=True, check=True).stdout.splitlines()
        plain = json.loads(json.dumps(as_json(host, commands)))
        assert [" ".join(command["do"]).replace("sysctl -q", "sysctl") for command in plain["commands"]] == shown
        refused = subprocess.run(["sh", path, "aply"], capture_output=True, text=True)
        assert refused.returncode == 2
        assert "show|apply|undo" in refused.stderr


PREPARED = """
set -e
mount -t tmpfs none /run
for number in 0 1; do
  ip link add dev eth$number type veth peer name far$number
  ip link set dev far$number up
  ip link set dev eth$number up
done
ip addr add 10.0.0.1/32 dev eth0
settings() { sysctl net.ipv4.conf.all net.ipv4.conf.eth0 net.ipv4.ip_forward; }
routes() { ip -4 route show table all | sed 's/ linkdown//'; }  # the kernel notices carriers, and IPv6, when it likes
state() { ip rule; routes; ip -4 neigh show nud permanent; settings; }
"""
REPEATED = """
state > before
sh s0.sh show > /dev/null; state | diff before -
sh s0.sh apply; state > once
sh s0.sh apply; state | diff once -
if cmp -s before once; then exit 1; fi
for rule in "iif lo" "from 10.0.0.3" "from 10.0.0.4"; do grep -q "$rule .*proto 84" once; done
for target in 2 3 4; do ip route get 10.0.0.$target | grep -q "dev eth0 table"; done
if grep -v "^net[.]" before | grep -v -F -x -f once; then exit 1; fi  # all that was there is there
sh s0.sh undo; state | diff before -
sh s0.sh undo; state | diff before -
"""
OF_THE_HOST = {
    "nothing": "",
    "a rule of our first number": "ip rule add from 10.9.9.9 lookup 7000 priority 7000",
    "a rule of a later number": "ip rule add from 10.9.9.9 lookup main priority 7002",
    "a table of our number": "ip route add 10.9.0.0/16 dev eth1 table 7001",
    "a rule that looks up our number": "ip rule add from 10.9.9.9 lookup 7003 priority 99",
    "many rules": "for at in 7000 7004 7008 7012; do ip rule add from 10.9.9.9 lookup main priority $at; done",
    "neighbours": "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:09 dev eth1 nud permanent; "
    "ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent",
    "the same neighbour": "ip neigh add 10.0.0.2 lladdr 02:00:00:00:01:00 dev eth0 nud permanent",
    "a route": "ip route add 10.0.0.2/32 dev eth1",
    "a routing daemon": "ip route add 10.8.0.0/16 dev eth1 proto bgp; ip rule add prio 500 lookup 9 protocol bgp",
}


def in_a_namespace(folder: Path, lines: str) -> None:
    """Run lines of shell on a host that has two interfaces and the script ``s0.sh`` of a plan of four."""
    if (refusal := why_not()) is not None:
        pytest.skip(refusal)
    plan = plan_of([1], 4)
    hosts = hosts_of(plan, False)
    commands = forwarding(forwarded(fabric_of(plan)), hosts, wires(plan, hosts))
    (folder / "s0.sh").write_text(script(hosts[0], commands[0]))
    done = subprocess.run([*UNSHARE, "sh", "-c", PREPARED + lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", OF_THE_HOST)
def test_a_script_leaves_what_the_host_has_and_can_be_repeated_and_undone(name: str, tmp_path: Path) -> None:
    """In a namespace of its own: shown nothing changes, applied twice is once, undone is as before."""
    in_a_namespace(tmp_path, OF_THE_HOST[name] + REPEATED)


REFUSED = {
    "a rule before ours": (
        "ip rule add lookup main priority 9; ip route add 10.0.0.2/32 dev eth1",
        "must send to 10.0.0.2 by table 7000",
    ),
    "another neighbour": (
        "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:09 dev eth0 nud permanent",
        "has a permanent neighbour of its own",
    ),
    "an interface that is down": ("ip link set dev eth0 down", "not applied; all is undone"),
    "no number free": (
        "for at in $(seq 7002 3 32765); do echo rule add to 10.9.9.9 lookup main priority $at; done | ip -batch -",
        "free priorities of rules from 7000 on, which are taken",
    ),
}


@pytest.mark.parametrize(("setup", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_applied_is_undone_and_said(setup: str, message: str, tmp_path: Path) -> None:
    lines = f"""
    {setup}
    state > before
    if sh s0.sh apply 2> said; then exit 1; fi
    state | diff before -
    grep -q {json.dumps(message)} said
    """
    in_a_namespace(tmp_path, lines)


def hosts_file(folder: Path, plan: Plan, **changes: object) -> Path:
    hosts = [
        {
            "name": host.name,
            "address": host.address,
            "interfaces": [{"device": interface.device, "mac": interface.mac} for interface in host.interfaces],
        }
        for host in hosts_of(plan, False)
    ]
    hosts[1] |= changes
    path = folder / "hosts.json"
    path.write_text(json.dumps({"hosts": hosts}))
    return path


def test_a_hosts_file_reads_back(tmp_path: Path) -> None:
    plan = plan_of([1], 4)
    assert list(read_hosts(hosts_file(tmp_path, plan), plan)) == hosts_of(plan, False)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "s0"}, "names"),
        ({"name": "a; rm -rf /"}, "hosts[1].name"),
        ({"address": "10.0.0.1"}, "addresses"),
        ({"address": "10.0.0.256"}, "hosts[1].address"),
        ({"interfaces": []}, "hosts[1].interfaces"),
        ({"interfaces": [{"device": "$(id)", "mac": "02:00:00:00:00:09"}]}, "hosts[1].interfaces[0].device"),
        ({"interfaces": [{"device": "eth0", "mac": "2"}]}, "hosts[1].interfaces[0].mac"),
        ({"interfaces": [{"device": "eth0", "mac": "02:00:00:00:00:00"}]}, "MACs"),
    ],
)
def test_a_wrong_hosts_file_is_one_line(tmp_path: Path, changes: dict[str, object], field: str) -> None:
    plan = plan_of([1], 4)
    with pytest.raises(ValueError, match="got") as error:
        read_hosts(hosts_file(tmp_path, plan, **changes), plan)
    assert field in str(error.value)
    assert str(tmp_path / "hosts.json") in str(error.value)
    assert "\n" not in str(error.value)


def test_two_interfaces_of_a_host_are_two_devices(tmp_path: Path) -> None:
    plan = plan_of([1, 3], 4)
    same = [{"device": "eth0", "mac": f"02:00:00:00:01:0{k}"} for k in range(2)]
    with pytest.raises(ValueError, match=r"hosts\[1\]\.interfaces: must have different devices, got eth0, eth0$"):
        read_hosts(hosts_file(tmp_path, plan, interfaces=same), plan)


def test_other_sizes_than_the_plans_are_refused(tmp_path: Path) -> None:
    plan = plan_of([1], 4)
    with pytest.raises(ValueError, match=r"hosts: must be the 4 servers of the plan, got 5"):
        read_hosts(hosts_file(tmp_path, plan_of([1], 5)), plan)
    fabric: Fabric = forwarded(fabric_of(plan))
    with pytest.raises(ValueError, match=r"forwarding: must be one of kernel, flower"):
        forwarding(fabric, hosts_of(plan, False), wires(plan, hosts_of(plan, False)), "magic")
    with pytest.raises(ValueError, match=r"plan\.circuits: must join servers"):
        fabric_of(replace(plan, circuits=(), routes={}))
