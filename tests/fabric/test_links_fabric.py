"""A user's list of links: what is read, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.link_list import read_links
from topoflow.fabric.links import Links


def row(src: object, dst: object, bandwidth: object = 1e9, latency: object = 1e-6) -> dict[str, object]:
    return {"src": src, "dst": dst, "bandwidth": bandwidth, "latency": latency}


# a - switch - b, both ways; the names come in no useful order
PAIR = [row("switch", "a"), row("a", "switch"), row("b", "switch", 2e9), row("switch", "b", 2e9)]


def write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def build(file: str, servers: int, hosts: Sequence[str | int] | None = None) -> Fabric:
    return Links(file, hosts).build(servers, Demand(servers))


def test_links_keep_their_order_and_hosts_become_the_servers(tmp_path: Path) -> None:
    fabric = build(write(tmp_path / "n.json", {"links": PAIR}), 2, ["b", "a"])
    assert fabric.nodes == ("b", "a", "switch")
    assert fabric.source.tolist() == [2, 1, 0, 2]
    assert fabric.target.tolist() == [1, 2, 2, 0]
    assert fabric.bandwidth.tolist() == [1e9, 1e9, 2e9, 2e9]
    assert fabric.route(0, 1) == ((2, 0),)
    assert (fabric.degree, fabric.interface_bandwidth) == (1, 2e9)


def test_hosts_are_the_given_ones_else_the_files_else_all_in_order(tmp_path: Path) -> None:
    named = write(tmp_path / "named.json", {"links": PAIR, "servers": ["a", "b"]})
    assert build(named, 2).nodes == ("a", "b", "switch")
    assert build(named, 2, ["b", "switch"]).nodes == ("b", "switch", "a")
    assert build(write(tmp_path / "bare.json", {"links": PAIR}), 3).nodes == ("switch", "a", "b")


def test_nodes_that_may_be_switches_are_not_taken_for_servers(tmp_path: Path) -> None:
    file = write(tmp_path / "bare.json", {"links": PAIR})
    message = f"fabric.hosts: must say which of the 3 nodes of {file} are the 2 servers"
    for hosts in (None, []):
        with pytest.raises(ValueError, match=re.escape(message)):
            build(file, 2, hosts)


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    lines = ["dst,src,latency,bandwidth", *(f"{r['dst']}, {r['src']},{r['latency']},{r['bandwidth']}" for r in PAIR)]
    one = build(write(tmp_path / "n.csv", "\n".join(lines)), 2, ["a", "b"])
    other = build(write(tmp_path / "n.json", {"links": PAIR}), 2, ["a", "b"])
    assert (one.nodes, one.bill) == (other.nodes, other.bill)
    for field in ("source", "target", "bandwidth", "latency"):
        assert np.array_equal(getattr(one, field), getattr(other, field))


def test_numbers_may_be_names(tmp_path: Path) -> None:
    assert build(write(tmp_path / "n.json", {"links": [row(0, 1), row(1, "0")]}), 2, [0, 1]).nodes == ("0", "1")


def test_two_directions_share_a_cable_and_parallel_links_do_not(tmp_path: Path) -> None:
    links = [row("a", "b"), row("b", "a"), row("a", "b")]  # one duplex cable, one simplex: a sends on 2 ports
    bill = build(write(tmp_path / "n.json", {"links": links}), 2).bill
    assert {(item.component, item.count) for item in bill} == {("nic_port", 4), ("transceiver", 4), ("fiber", 2)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be JSON, got Expecting"),
        ("[]", "must be an object with 'links', got list"),
        ("{}", "must have 'links', got []"),
        ('{"links": []}', "links: must have at least one link, got none"),
        ('{"links": {}}', "links: must be a list, got dict"),
        ('{"links": [], "links": []}', "must be JSON, got 'links' twice"),
        ({"links": PAIR, "hosts": []}, "keys must be links and servers, got 'hosts'"),
        ({"links": [*PAIR, 5]}, "links[4]: must be an object with src, dst, bandwidth, latency, got 5"),
        ({"links": [{"src": "a", "dst": "b", "bandwidth": 1}]}, "links[0]: must have src, dst, bandwidth, latency, "),
        ({"links": [row("a", "b") | {"weight": 1}]}, "'weight' is unknown"),
        (
            {"links": [{"src": "a", "dst": "b", "bandwith": 1, "latency": 0}]},
            "'bandwidth' is missing and 'bandwith'",
        ),
        ({"links": [row("a", "b", -1)]}, "links[0].bandwidth: must be positive, got -1"),
        ({"links": [row("a", "b", 0)]}, "links[0].bandwidth: must be positive, got 0"),
        ({"links": [row("a", "b", float("nan"))]}, "links[0].bandwidth: must be positive, got nan"),
        ({"links": [row("a", "b", "fast")]}, "links[0].bandwidth: must be a number, got 'fast'"),
        ({"links": [row("a", "b", True)]}, "links[0].bandwidth: must be a number, got True"),
        ({"links": [row("a", "b", 10**400)]}, "links[0].bandwidth: must be finite, got a whole number of 1329 bits"),
        ({"links": [row("a", "b", 1, -1e-6)]}, "links[0].latency: must not be negative, got -1e-06"),
        ({"links": [row("a", "a")]}, "links[0]: must join two nodes, got 'a' twice"),
        ({"links": [row(None, "b")]}, "links[0].src: must be a name or a whole number, got None"),
        ({"links": PAIR, "servers": ["a", "c"]}, "servers[1]: must be an end of a link, got 'c'"),
        ({"links": PAIR, "servers": ["a", "a"]}, "servers: must name each host once, got 'a' twice"),
        ({"links": PAIR, "servers": ["a"]}, "must have a host for each of 2 servers, got 1"),
        ({"links": PAIR, "servers": "ab"}, "servers: must be a list of names, got 'ab'"),
        ({"links": PAIR[:2]}, None),
        ({"links": PAIR[:1]}, "links: hosts must reach each other, got no path from 'a' to 'switch'"),
    ],
)
def test_a_wrong_json_list_is_one_line_with_file_place_law_and_value(
    tmp_path: Path, content: object, message: str | None
) -> None:
    file = write(tmp_path / "net.json", content)
    if message is None:
        assert build(file, 2).servers == 2
        return
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build(file, 2)
    assert str(error.value).startswith(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: columns must be src,dst,bandwidth,latency, got ''"),
        ("src,dst,bandwidth\na,b,1", "line 1: columns must be src,dst,bandwidth,latency, got 'src,dst,bandwidth'"),
        ("src,src,bandwidth,latency\na,b,1,0", "line 1: columns must be"),
        ("src,dst,bandwidth,latency\na,b,1", "line 2: must have 4 cells, got 3"),
        ("src,dst,bandwidth,latency\na,b,1,0\n\nb,a,x,0", "line 4.bandwidth: must be a number, got 'x'"),
        ("src,dst,bandwidth,latency\na,b,inf,0", "line 2.bandwidth: must be positive, got inf"),
        ("src,dst,bandwidth,latency\n,b,1,0", "line 2.src: must be a name or a whole number, got ''"),
        ("src,dst,bandwidth,latency\n", "must have at least one link, got none"),
        ('src,dst,bandwidth,latency\n"a,b,1,0', "must be CSV, got "),
    ],
)
def test_a_wrong_csv_list_is_one_line_with_file_place_law_and_value(tmp_path: Path, content: str, message: str) -> None:
    file = write(tmp_path / "net.csv", content)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build(file, 2)
    assert str(error.value).startswith(file)


def test_a_host_that_no_link_joins_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"links\.hosts\[1\]: must be an end of a link, got 'c'"):
        build(write(tmp_path / "n.json", {"links": PAIR}), 2, ["a", "c"])


def test_a_deep_file_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be JSON of a sane depth"):
        read_links(Path(write(tmp_path / "deep.json", "[" * 100_000)))
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"b\.json: must be UTF-8, got byte 0xff at 0"):
        read_links(tmp_path / "b.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*PAIR[0], "links"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(content=st.binary(max_size=60) | st.builds(lambda rows: json.dumps({"links": rows}).encode(), st.lists(JSON)))
@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_any_bytes_are_a_list_of_links_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any.{suffix}"
    path.write_bytes(content)
    assert outcome(path).startswith((str(path), "LinkList"))


def outcome(path: Path) -> str:
    """What reading gives: a list or the message of the error."""
    try:
        return type(read_links(path)).__name__
    except ValueError as error:
        return str(error)


# What str.isprintable allows: other characters would break lines of messages and tables.
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=4)


@given(pairs=st.lists(st.tuples(NAMES, NAMES).filter(lambda p: p[0] != p[1]), min_size=1, max_size=8))
@settings(max_examples=50)
def test_every_name_survives(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.getbasetemp() / "names.json"
    path.write_text(json.dumps({"links": [row(*pair) for pair in pairs]}))
    links = read_links(path)
    ends = zip(links.source.tolist(), links.target.tolist(), strict=True)
    assert [(links.nodes[a], links.nodes[b]) for a, b in ends] == pairs


def test_a_second_cable_of_a_server_carries_no_traffic_of_others(tmp_path: Path) -> None:
    both = [("a", "x"), ("b", "x"), ("x", "y"), ("y", "z"), ("z", "c"), ("c", "y"), ("c", "x"), ("z", "d")]
    ends = [*both, *((end, start) for start, end in both)]
    rows = [{"src": start, "dst": end, "bandwidth": 1e9, "latency": 0.0} for start, end in ends]
    path = tmp_path / "links.json"
    path.write_text(json.dumps({"links": rows, "servers": ["a", "b", "c", "d"]}))

    def nodes_between(source: int, target: int, **keys: bool) -> set[str]:
        fabric = Links(str(path), **keys).build(4, Demand(4))
        paths = fabric.route(source, target)
        return {fabric.nodes[int(fabric.target[link])] for one in paths for link in one[:-1]}

    assert nodes_between(0, 3) == {"x", "y", "z"}, "the way through c is as long, but c is a server"
    assert nodes_between(0, 3, servers_forward=True) == {"x", "y", "z", "c"}
    assert nodes_between(0, 2) == {"x"}, "its own traffic takes either cable"


def test_servers_forward_where_there_is_no_switch(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("src,dst,bandwidth,latency\na,b,1e9,0\nb,c,1e9,0\nc,a,1e9,0\n")
    assert len(build(str(path), 3).route(0, 2)[0]) == 2
    with pytest.raises(ValueError, match=r"no path from 'a' to 'c', unless servers forward"):
        Links(str(path), servers_forward=False).build(3, Demand(3))
