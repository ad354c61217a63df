"""World files: what they say is what runs, against times that are derived."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twins import fluid as reference
from topoflow.engine.fluid import Fluid
from topoflow.worldfile.world_file import read

FOLDER = Path(__file__).resolve().parent
EXAMPLE = FOLDER.parent.parent / "examples" / "two_flows.json"
US = 1e-6
Json = dict[str, Any]


def link(source: Any, target: Any, bandwidth: Any = 50e9, latency: Any = 0.5 * US) -> Json:
    return {"src": source, "dst": target, "bandwidth": bandwidth, "latency": latency}


def star(members: int) -> list[Json]:
    """Nodes 0..n-1 around a switch "s"; 0.5 us a link."""
    return [link(node, "s") for node in range(members)] + [link("s", node) for node in range(members)]


def task(name: Any, kind: str, **fields: Any) -> Json:
    return {"id": name, "type": kind, **fields}


def share(weight: Any, *links: Any) -> Json:
    """One of several paths of a transfer."""
    return {"links": [*links], "weight": weight}


def flows(folder: Path, world: Json) -> dict[str, tuple[float, float]]:
    """Start and finish by id; the kernel and its twin must agree."""
    path = folder / "world.json"
    path.write_text(json.dumps(world))
    file = read(path)
    (timeline,), twin = Fluid().simulate([file.world]), reference.simulate(file.world)
    np.testing.assert_allclose(timeline.task_finish, twin.task_finish, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(timeline.task_start, twin.task_start, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(timeline.link_bytes, twin.link_bytes, rtol=1e-12)
    return {name: (start, finish) for name, start, finish in file.flows(timeline)}


def test_two_flows_share_a_link_and_the_longer_gets_it_all_when_the_shorter_is_done(tmp_path: Path) -> None:
    # 100 B/s: 50 each; the 100 B are gone after 2 s, the other has 300 - 100 = 200 B left: 2 s more
    world = {
        "links": [link("a", "b", 100, 0)],
        "tasks": [task("x", "transfer", path=[0], bytes=100), task("y", "transfer", path=[0], bytes=300)],
    }
    assert flows(tmp_path, world) == {"x": (0.0, 2.0), "y": (0.0, 4.0)}


def test_latency_of_the_path_comes_before_the_bytes(tmp_path: Path) -> None:
    # 1 MB / 50 GB/s = 20 us per hop; 2 * (20 + 0.5) = 41 us when the second hop waits for the first ...
    chain = {
        "links": [link("a", "b"), link("b", "c")],
        "tasks": [task(1, "transfer", path=[0], bytes=1e6), task(2, "transfer", path=[1], bytes=1e6, after=[1])],
    }
    assert flows(tmp_path, chain)["2"] == (pytest.approx(20.5 * US), pytest.approx(41 * US))
    # ... and one flow over both streams: 0.5 + 0.5 + 20 = 21 us
    chain["tasks"] = [task(1, "transfer", src="a", dst="c", bytes=1e6)]
    assert flows(tmp_path, chain) == {"1": (0.0, pytest.approx(21 * US))}


@pytest.mark.parametrize(
    ("kind", "fields", "seconds"),
    [
        # n = 4, S = 1 MB, 50 GB/s, 1 us from node to node: S/4 takes 5 us
        ("all_reduce", {}, 6 * 6 * US),  # a ring: 2 (4-1) (1 + 5) us
        ("all_reduce", {"algorithm": "ring", "orders": [[0, 1, 2, 3], [3, 2, 1, 0]]}, 6 * 6 * US),
        ("all_reduce", {"algorithm": "halving_doubling"}, (4 + 2 * 15) * US),  # 2 log2(4) us, twice 3/4 S
        ("all_gather", {}, 3 * 6 * US),
        ("reduce_scatter", {}, 3 * 6 * US),
        ("all_to_all", {}, 16 * US),  # 3/4 S leave each port: 1 + 15 us
        ("broadcast", {"root": 2}, (4 - 2 + 2) * 11 * US),  # 2 chunks of 0.5 MB (1 + 10 us) along 3 hops
        ("reduce", {"root": 2}, (4 - 2 + 2) * 11 * US),
        ("gather", {"root": 2}, 16 * US),
        ("scatter", {"root": 2}, 16 * US),
    ],
)
def test_collectives_take_their_closed_forms(tmp_path: Path, kind: str, fields: Json, seconds: float) -> None:
    world = {"links": star(4), "tasks": [task("c", kind, group=[0, 1, 2, 3], bytes=1e6, **fields)]}
    assert flows(tmp_path, world) == {"c": (0.0, pytest.approx(seconds, rel=1e-9))}


def test_splits_and_members_that_share_a_node(tmp_path: Path) -> None:
    # splits: node 0 sends 1 MB to 1: 1 + 20 us. local: inside (2-1)/2 MB / 100 GB/s = 5 us, a ring of 2: 2 (1 + 10),
    # and inside again: 32 us
    world = {
        "local_bandwidth": 100e9,
        "links": star(2),
        "tasks": [
            task("uneven", "all_to_all", group=[0, 1], splits=[[0, 1e6], [0, 0]]),
            task("h", "all_reduce", group=[0, 1], bytes=1e6, local=2, algorithm="hierarchical", after=["uneven"]),
        ],
    }
    times = flows(tmp_path, world)
    assert times == {"uneven": (0.0, pytest.approx(21 * US)), "h": (pytest.approx(21 * US), pytest.approx(53 * US))}


def test_a_hierarchical_all_reduce_over_links_inside_servers_is_three_phases_of_tasks(tmp_path: Path) -> None:
    # Servers {a0, a1} and {b0, b1}: 100 GB/s inside, 50 GB/s between a_i and b_i, no latency. S = 1 MB:
    # inside 0.5 MB / 100 GB/s = 5 us; between, each on its half: 2 * 0.25 MB / 50 GB/s = 10 us; inside 5 us
    def pair(one: str, other: str, bandwidth: float) -> list[Json]:
        return [link(one, other, bandwidth, 0), link(other, one, bandwidth, 0)]

    inside = [["a0", "a1"], ["b0", "b1"]]
    between = [["a0", "b0"], ["a1", "b1"]]
    tasks = [task(f"scatter {g}", "reduce_scatter", group=g, bytes=1e6) for g in inside]
    first = [row["id"] for row in tasks]
    tasks += [task(f"reduce {g}", "all_reduce", group=g, bytes=0.5e6, after=first) for g in between]
    second = [row["id"] for row in tasks[2:]]
    tasks += [task(f"gather {g}", "all_gather", group=g, bytes=1e6, after=second) for g in inside]
    links = [row for g in inside for row in pair(*g, 100e9)] + [row for g in between for row in pair(*g, 50e9)]
    times = flows(tmp_path, {"links": links, "tasks": tasks})
    assert [finish for _, finish in times.values()] == pytest.approx([5 * US] * 2 + [15 * US] * 2 + [20 * US] * 2)


def test_computes_of_a_server_run_one_at_a_time_in_the_order_of_the_file(tmp_path: Path) -> None:
    world = {
        "links": [link("a", "b", 100, 0)],
        "tasks": [
            task("late", "compute", server="a", seconds=1, after=["move"]),
            task("next", "compute", server="a", seconds=2),  # waits for "late", which is listed before
            task("other", "compute", server="b", seconds=4),
            task("plain", "compute", seconds=8),
            task("move", "transfer", src="a", dst="b", bytes=100, start=10),
        ],
    }
    assert flows(tmp_path, world) == {
        "late": (11.0, 12.0),
        "next": (12.0, 14.0),
        "other": (0.0, 4.0),
        "plain": (0.0, 8.0),
        "move": (10.0, 11.0),
    }


def test_rows_come_in_the_order_of_the_file_whatever_depends_on_what(tmp_path: Path) -> None:
    tasks = [task(name, "compute", seconds=1, after=[name + 1] if name < 5 else []) for name in range(6)]
    times = flows(tmp_path, {"links": [], "tasks": tasks})
    assert list(times) == ["0", "1", "2", "3", "4", "5"]
    assert times["0"] == (5.0, 6.0)


def test_the_shortest_path_of_the_lowest_links_is_taken(tmp_path: Path) -> None:
    # two ways of two hops: over links 1, 3 (10 B/s) and over 0, 2 (100 B/s); link 0 is the lower
    links = [link("a", "x", 100, 0), link("a", "y", 10, 0), link("x", "b", 100, 0), link("y", "b", 10, 0)]
    world = {"links": links, "tasks": [task("t", "transfer", src="a", dst="b", bytes=100)]}
    assert flows(tmp_path, world) == {"t": (0.0, 1.0)}


def test_a_transfer_over_several_paths_is_one_flow(tmp_path: Path) -> None:
    # From a to c: 0, 1 by way of b, or 2. A quarter of r on 40 B/s and three quarters on 60 B/s: r = 80 B/s, 160 B in
    # 2 s, behind (0.1 + 0.1) / 4 + 0.3 * 3/4 = 0.275 s. The other flow on link 2 comes when it is over.
    links = [link("a", "b", 40, 0.1), link("b", "c", 40, 0.1), link("a", "c", 60, 0.3)]
    world = {
        "links": links,
        "tasks": [
            task("both", "transfer", paths=[share(0.25, 0, 1), share(0.75, 2)], bytes=160, src="a", dst="c"),
            task("then", "transfer", path=[2], bytes=60, after=["both"]),
        ],
    }
    times = flows(tmp_path, world)
    assert times["both"] == (0.0, pytest.approx(2.275, rel=1e-12))
    assert times["then"] == (pytest.approx(2.275), pytest.approx(2.275 + 1.3, rel=1e-12))


def test_a_limit_is_kept_and_leaves_the_rest_to_others(tmp_path: Path) -> None:
    # 100 B/s: 20 and 80
    world = {
        "links": [link("a", "b", 100, 0)],
        "tasks": [
            task("slow", "transfer", src="a", dst="b", limit=20, bytes=100),
            task("fast", "transfer", path=[0], bytes=400),
        ],
    }
    assert flows(tmp_path, world) == {"slow": (0.0, pytest.approx(5.0)), "fast": (0.0, pytest.approx(5.0))}


def test_a_transfer_to_oneself_and_a_group_of_one_take_no_time(tmp_path: Path) -> None:
    tasks = [
        task("self", "transfer", src=0, dst=0, bytes=1e6),
        task("one", "all_reduce", group=[1], bytes=1e6),
        task("empty", "all_reduce", group=[0, 1], bytes=0),
    ]
    times = flows(tmp_path, {"links": star(2), "tasks": tasks})
    assert set(times.values()) == {(0.0, 0.0)}


def test_an_empty_world_ends_at_once(tmp_path: Path) -> None:
    assert flows(tmp_path, {"links": star(2), "tasks": []}) == {}


def test_latency_may_be_left_out_and_ids_mix_numbers_and_words(tmp_path: Path) -> None:
    links = [{"src": 1, "dst": "1b", "bandwidth": 10}]
    tasks = [task(7, "transfer", src="1", dst="1b", bytes=10), task("eight", "compute", seconds=1, after=["7"])]
    assert flows(tmp_path, {"links": links, "tasks": tasks}) == {"7": (0.0, 1.0), "eight": (1.0, 2.0)}


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    """A ring of nodes with some chords, and tasks of all kinds in a random order of the file."""
    nodes = draw(st.integers(2, 6))
    rate, wait = st.sampled_from([1.0, 2.0, 7.0]), st.sampled_from([0.0, 0.25, 1.0])
    ends = [(node, (node + 1) % nodes) for node in range(nodes)]
    ends += [(a, b) for a, b in draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=4)) if a != b]
    links = [link(f"n{a}", f"n{b}", draw(rate), draw(wait)) for a, b in ends]
    tasks = []
    for name in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["transfer", "compute", "all_reduce", "all_to_all", "all_gather", "reduce"]))
        group = [f"n{node}" for node in draw(st.permutations(range(nodes)))[: draw(st.integers(2, nodes))]]
        size = draw(st.sampled_from([0, 1, 5, 12.5]))
        fields: Json = {"group": group, "bytes": size}
        if kind == "transfer":
            fields = {"src": group[0], "dst": group[-1], "bytes": size}
        elif kind == "compute":
            fields = {"seconds": size} | ({"server": group[0]} if draw(st.booleans()) else {})
        elif kind == "reduce":
            fields["root"] = group[-1]
        elif kind == "all_reduce":
            fields["algorithm"] = draw(st.sampled_from(["ring", "halving_doubling", "double_binary_tree"]))
        after = draw(st.lists(st.integers(0, name - 1), max_size=2)) if name else []
        tasks.append(task(name, kind, **fields, after=after, start=draw(st.sampled_from([0, 1.5]))))
    return {"links": links, "tasks": tasks}


@given(worlds())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kernel_and_twin_agree_on_any_world_file(tmp_path: Path, world: Json) -> None:
    times = flows(tmp_path, world)
    for row in world["tasks"]:
        start, finish = times[str(row["id"])]
        assert start >= max([row["start"], *(times[str(name)][1] for name in row["after"])]) * (1 - 1e-12)
        assert finish >= start


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    # "long" begins at 2 s, waits 1 s, has sent 300 B when "short" joins at 6 s; 50 B/s each until "short" is done after
    # 4 s; then long has 1000 - 300 - 200 = 500 B left: 5 s
    times = flows(tmp_path, json.loads(EXAMPLE.read_text()))
    assert times == {"forward": (0.0, 2.0), "long": (2.0, 15.0), "short": (5.0, 10.0)}
