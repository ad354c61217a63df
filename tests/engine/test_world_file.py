"""World files: derived times, one-line errors, and no crash on damaged files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.engine import fluid, reference
from topoflow.engine.world_file import read

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples" / "two_flows.json"
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
    (timeline,), twin = fluid.simulate([file.world]), reference.simulate(file.world)
    np.testing.assert_allclose(timeline.task_finish, twin.task_finish, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(timeline.task_start, twin.task_start, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(timeline.link_bytes, twin.link_bytes, rtol=1e-12)
    return {name: (start, finish) for name, start, finish in file.flows(timeline)}


def error(folder: Path, world: object) -> str:
    """The one line without the folder."""
    path = folder / "world.json"
    path.write_text(world if isinstance(world, str) else json.dumps(world))
    with pytest.raises(ValueError, match=r"world\.json") as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


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
    found = flows(tmp_path, world)
    assert found == {"uneven": (0.0, pytest.approx(21 * US)), "h": (pytest.approx(21 * US), pytest.approx(53 * US))}


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
    found = flows(tmp_path, {"links": links, "tasks": tasks})
    assert [finish for _, finish in found.values()] == pytest.approx([5 * US] * 2 + [15 * US] * 2 + [20 * US] * 2)


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
    found = flows(tmp_path, {"links": [], "tasks": tasks})
    assert list(found) == ["0", "1", "2", "3", "4", "5"]
    assert found["0"] == (5.0, 6.0)


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
    found = flows(tmp_path, world)
    assert found["both"] == (0.0, pytest.approx(2.275, rel=1e-12))
    assert found["then"] == (pytest.approx(2.275), pytest.approx(2.275 + 1.3, rel=1e-12))


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


def test_a_limit_inside_a_node_is_refused(tmp_path: Path) -> None:
    world = {"links": star(2), "tasks": [task("t", "transfer", src=0, dst=0, bytes=1, limit=5)]}
    law = "must be of a transfer between two servers"
    assert error(tmp_path, world) == f"world.json: task t.limit: {law}, got 5.0"


def test_a_transfer_to_oneself_and_a_group_of_one_take_no_time(tmp_path: Path) -> None:
    tasks = [
        task("self", "transfer", src=0, dst=0, bytes=1e6),
        task("one", "all_reduce", group=[1], bytes=1e6),
        task("empty", "all_reduce", group=[0, 1], bytes=0),
    ]
    found = flows(tmp_path, {"links": star(2), "tasks": tasks})
    assert set(found.values()) == {(0.0, 0.0)}


def test_an_empty_world_ends_at_once(tmp_path: Path) -> None:
    assert flows(tmp_path, {"links": star(2), "tasks": []}) == {}


def test_latency_may_be_left_out_and_ids_mix_numbers_and_words(tmp_path: Path) -> None:
    links = [{"src": 1, "dst": "1b", "bandwidth": 10}]
    tasks = [task(7, "transfer", src="1", dst="1b", bytes=10), task("eight", "compute", seconds=1, after=["7"])]
    assert flows(tmp_path, {"links": links, "tasks": tasks}) == {"7": (0.0, 1.0), "eight": (1.0, 2.0)}


WORLD: Json = {
    "links": [link("a", "b", 100, 0.1), link("b", "c", 50, 0.1), link("c", "a", 100, 0)],
    "tasks": [
        task("t", "transfer", path=[0, 1], bytes=10),
        task("u", "transfer", src="a", dst="c", bytes=20, after=["t"], start=1),
        task("v", "compute", seconds=1, server="a"),
        task("w", "all_reduce", group=["a", "b", "c"], bytes=9, after=["u", "v"], orders=[["a", "b", "c"]]),
        task("x", "broadcast", group=["a", "b"], bytes=9, root="a"),
        task("y", "all_to_all", group=["a", "b"], splits=[[0, 1], [2, 0]]),
        task("z", "transfer", paths=[share(0.25, 0, 1), share(0.75, 0, 1)], limit=40, bytes=10),
    ],
}


def changed(at: tuple[Any, ...], value: Any) -> Json:
    """``WORLD`` with the value at ``at`` replaced, or removed for ``...``."""
    world = copy.deepcopy(WORLD)
    holder: Any = world
    for key in at[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[at[-1]]
    else:
        holder[at[-1]] = value
    return world


def test_the_world_of_the_error_tests_is_valid(tmp_path: Path) -> None:
    assert len(flows(tmp_path, WORLD)) == 7


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (("tasks", 0, "bytes"), -5, "tasks[0].bytes: must not be negative, got -5"),
        (("tasks", 0, "bytes"), True, "tasks[0].bytes: must be a number, got True"),
        (("tasks", 0, "bytes"), "x", "tasks[0].bytes: must be a number, got 'x'"),
        (("tasks", 0, "bytes"), float("nan"), "tasks[0].bytes: must be finite, got nan"),
        (("tasks", 0, "bytes"), float("inf"), "tasks[0].bytes: must be finite, got inf"),
        (("tasks", 0, "bytes"), 10**400, "tasks[0].bytes: must be finite, got a whole number of 1329 bits"),
        (("tasks", 0, "bytes"), ..., "tasks[0].bytes: must be given, got nothing"),
        (("tasks", 0, "byte"), 1, "tasks[0].byte: must be a field of a transfer (id, type, after, start, bytes, src, "),
        (("tasks", 0, "path"), [], "tasks[0].path: must be a list of links, got []"),
        (("tasks", 0, "path"), [0, 3], "tasks[0].path[1]: must be a link within 0..2, got 3"),
        (("tasks", 0, "path"), [True], "tasks[0].path[0]: must be a link within 0..2, got True"),
        (("tasks", 0, "path"), [0, 2], "tasks[0].path: link 2 must begin where link 0 ends, at 'b', got 'c'"),
        (("tasks", 0, "path"), [0, 1, 2, 0], "tasks[0].path: must cross a link once, got [0, 1, 2, 0]"),
        (("tasks", 0, "src"), "b", "tasks[0].src: must be the end 'a' of the path, got 'b'"),
        (("tasks", 0, "type"), "transfr", "tasks[0].type: must be transfer, compute, all_reduce, "),
        (("tasks", 0, "type"), ["transfer"], "tasks[0].type: must be transfer, compute, all_reduce, "),
        (("tasks", 0, "id"), None, "tasks[0].id: must be a name or a whole number, got None"),
        (("tasks", 0, "id"), "a\nb", "tasks[0].id: must be printable, got 'a\\nb'"),
        (("tasks", 1, "id"), "t", "tasks[1].id: must be unique, got 't' as in tasks[0]"),
        (("tasks", 1, "src"), "z", "tasks[1].src: must be a node of the links, got 'z'"),
        (("tasks", 1, "src"), ..., "tasks[1].src: must be given, got nothing"),
        (("tasks", 1, "after"), "t", "tasks[1].after: must be a list of ids, got 't'"),
        (("tasks", 1, "after"), ["no"], "tasks[1].after: must be ids of tasks, got 'no'"),
        (("tasks", 1, "start"), -1, "tasks[1].start: must not be negative, got -1"),
        (("tasks", 2, "server"), "z", "tasks[2].server: must be a node of the links, got 'z'"),
        (("tasks", 2, "seconds"), ..., "tasks[2].seconds: must be given, got nothing"),
        (("tasks", 3, "group"), [], "tasks[3].group: must be a list of nodes, got []"),
        (("tasks", 3, "group"), ..., "tasks[3].group: must be a list of nodes, got None"),
        (("tasks", 3, "group"), ["a", "a"], "tasks[3].group: must name each node once, got ['a', 'a']"),
        (("tasks", 3, "group"), ["a", "q"], "tasks[3].group[1]: must be a node of the links, got 'q'"),
        (("tasks", 3, "algorithm"), "tree", "tasks[3].algorithm: all_reduce must run one of ring, "),
        (("tasks", 3, "algorithm"), "halving_doubling", "tasks[3].orders: must belong to one of ring, hierarchical, "),
        (("tasks", 3, "orders"), [["a", "b"]], "tasks[3].orders[0]: must have the nodes of the group, got ['a', 'b']"),
        (("tasks", 3, "local"), 0, "tasks[3].local: must be a whole number within 1..1048576, got 0"),
        (("tasks", 3, "local"), 2, "tasks[3].local: must come with the file's local_bandwidth, got 2 without"),
        (("tasks", 4, "root"), "c", "tasks[4].root: must be in the group, got 'c'"),
        (("tasks", 4, "root"), ..., "tasks[4].root: must be given, got nothing"),
        (("tasks", 5, "splits"), [[0, 1]], "tasks[5].splits: must be 2 lists of 2 numbers, got [[0, 1]]"),
        (("tasks", 5, "splits", 0, 1), -1, "tasks[5].splits[0][1]: must be finite and not negative, got -1"),
        (("tasks", 6, "limit"), 0, "tasks[6].limit: must be positive, got 0"),
        (("tasks", 6, "limit"), float("inf"), "tasks[6].limit: must be positive, got inf"),
        (("tasks", 6, "limit"), "x", "tasks[6].limit: must be a number, got 'x'"),
        (("tasks", 6, "path"), [0, 1], "tasks[6].paths: must be given without path, got [{'links': [0, 1], "),
        (("tasks", 6, "paths"), [], "tasks[6].paths: must be a list of paths, got []"),
        (("tasks", 6, "paths"), [[0, 1]], "tasks[6].paths[0]: must be an object with links and weight, got [0, 1]"),
        (("tasks", 6, "paths"), [share(1, 0), share(1)], "tasks[6].paths[1].links: must be a list of links, got []"),
        (
            ("tasks", 6, "paths", 1, "links"),
            [0, 2],
            "tasks[6].paths[1].links: link 2 must begin where link 0 ends, at ",
        ),
        (("tasks", 6, "paths", 1, "links"), [0, 9], "tasks[6].paths[1].links[1]: must be a link within 0..2, got 9"),
        (("tasks", 6, "paths", 1, "links"), [0], "tasks[6].paths[1]: must begin and end where the first path does, "),
        (("tasks", 6, "paths", 1, "weight"), 0, "tasks[6].paths[1].weight: must be positive, got 0"),
        (("tasks", 6, "paths", 1, "weight"), 0.7, "tasks[6].paths: weights must sum to 1, got 0.95"),
        (("tasks", 6, "paths", 1, "weight"), ..., "tasks[6].paths[1]: must be an object with links and weight, got "),
        (("tasks", 6, "dst"), "b", "tasks[6].dst: must be the end 'c' of the path, got 'b'"),
        (("tasks", 5, "bytes"), 1, "tasks[5].splits: must be given without bytes and without local, got [[0, 1], "),
        (("links", 1, "bandwidth"), -1, "links[1].bandwidth: must be positive, got -1"),
        (("links", 1, "dst"), "b", "links[1]: must join two nodes, got 'b' twice"),
        (("local_bandwidth",), 0, "local_bandwidth: must be positive, got 0"),
        (("links",), ..., "must have links, tasks and maybe local_bandwidth, 'links' is missing"),
        (("task",), [], "must have links, tasks and maybe local_bandwidth, 'task' is unknown"),
        (("tasks",), {}, "tasks: must be a list, got dict"),
        (("tasks", 3), 7, "tasks[3]: must be an object, got 7"),
    ],
)
def test_what_is_wrong_is_named_with_place_field_law_and_value(
    tmp_path: Path, at: tuple[Any, ...], value: Any, message: str
) -> None:
    assert error(tmp_path, changed(at, value)).startswith(f"world.json: {message}")


def test_a_circle_names_its_tasks(tmp_path: Path) -> None:
    message = error(tmp_path, changed(("tasks", 0, "after"), ["w"]))
    assert message.startswith("world.json: tasks[0].after: tasks must not wait for each other in a circle")
    assert message.endswith("got 't' -> 'w' -> 'u' -> 't'")


def test_an_unreachable_node_is_named_with_its_task(tmp_path: Path) -> None:
    links = [link("a", "b")]
    back = task("back", "transfer", src="b", dst="a", bytes=1)
    forth = task("forth", "transfer", src="a", dst="b", bytes=1)
    message = error(tmp_path, {"links": links, "tasks": [forth, back]})
    assert message.endswith("world.json: tasks[1].dst: must be reached over the links from 'b', got 'a'")
    around = task("around", "all_reduce", group=["a", "b"], bytes=1)
    message = error(tmp_path, {"links": links, "tasks": [around]})
    assert message.endswith("world.json: links.route: must connect all servers, got no path from 'b' to 'a'")


@pytest.mark.parametrize(
    "text", ["", "{", '{"links": [', "[" * 100_000, "nul", '{"links": [], "links": []}', "[]", "1"]
)
def test_what_is_no_world_is_one_line(tmp_path: Path, text: str) -> None:
    error(tmp_path, text)


@given(st.binary(max_size=300))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bytes"):
        read(path)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [found for key in keys for found in [(*at, key), *places(value[key], (*at, key))]]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10),
    st.floats(),
    st.sampled_from(["a", "b", "t", "u", "", "ring", "compute", 10**30, 1e308, 5e-324, [], {}, [0], ["a"], ["t", "w"]]),
    st.sampled_from(WORLD["tasks"] + WORLD["links"]),
)


@given(st.lists(st.tuples(st.sampled_from(places(WORLD)), st.one_of(st.just(...), JUNK)), min_size=1, max_size=3))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_world_is_an_error_or_a_right_answer(
    tmp_path: Path, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    world: Any = copy.deepcopy(WORLD)
    for at, value in changes:
        try:
            holder = world
            for key in at[:-1]:
                holder = holder[key]
            if value is ...:
                del holder[at[-1]]
            else:
                holder[at[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            pass  # an earlier change took the place away
    path = tmp_path / "world.json"
    path.write_text(json.dumps(world))
    try:
        file = read(path)
        (timeline,) = fluid.simulate([file.world])
    except ValueError as problem:
        message = str(problem)
    else:
        message = "world.json"
        np.testing.assert_allclose(timeline.task_finish, reference.simulate(file.world).task_finish, rtol=1e-9)
    assert "world.json" in message


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
    found = flows(tmp_path, world)
    for row in world["tasks"]:
        start, finish = found[str(row["id"])]
        assert start >= max([row["start"], *(found[str(name)][1] for name in row["after"])]) * (1 - 1e-12)
        assert finish >= start


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    # "long" begins at 2 s, waits 1 s, has sent 300 B when "short" joins at 6 s; 50 B/s each until "short" is done after
    # 4 s; then long has 1000 - 300 - 200 = 500 B left: 5 s
    found = flows(tmp_path, json.loads(EXAMPLE.read_text()))
    assert found == {"forward": (0.0, 2.0), "long": (2.0, 15.0), "short": (5.0, 10.0)}
