"""World files that are wrong: one line that names place, field, law and value, and no crash on damaged files."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.twins import fluid as reference
from topoflow.engine.base import Fidelity
from topoflow.engine.bound import Bound
from topoflow.engine.fluid import Fluid
from topoflow.worldfile.world_file import read

Json = dict[str, Any]
EXAMPLES = examples(150)


def error(folder: Path, world: object) -> str:
    """The one line without the folder."""
    path = folder / "world.json"
    path.write_text(world if isinstance(world, str) else json.dumps(world))
    with pytest.raises(ValueError, match=r"world\.json") as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


WORLD: Json = {
    "links": [
        {"src": "a", "dst": "b", "bandwidth": 100, "latency": 0.1},
        {"src": "b", "dst": "c", "bandwidth": 50, "latency": 0.1},
        {"src": "c", "dst": "a", "bandwidth": 100, "latency": 0},
    ],
    "tasks": [
        {"id": "t", "type": "transfer", "path": [0, 1], "bytes": 10},
        {"id": "u", "type": "transfer", "src": "a", "dst": "c", "bytes": 20, "after": ["t"], "start": 1},
        {"id": "v", "type": "compute", "seconds": 1, "server": "a"},
        {
            "id": "w",
            "type": "all_reduce",
            "group": ["a", "b", "c"],
            "bytes": 9,
            "after": ["u", "v"],
            "orders": [["a", "b", "c"]],
        },
        {"id": "x", "type": "broadcast", "group": ["a", "b"], "bytes": 9, "root": "a"},
        {"id": "y", "type": "all_to_all", "group": ["a", "b"], "splits": [[0, 1], [2, 0]]},
        {
            "id": "z",
            "type": "transfer",
            "paths": [{"links": [0, 1], "weight": 0.25}, {"links": [0, 1], "weight": 0.75}],
            "limit": 40,
            "bytes": 10,
        },
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
    path = tmp_path / "world.json"
    path.write_text(json.dumps(WORLD))
    world = read(path).world
    (timeline,) = Fluid().simulate([world])
    assert len(timeline.task_finish) == 7


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
        (("tasks", 5, "splits", 0, 1), -1, "tasks[5].splits[0][1]: must not be negative, got -1"),
        (("tasks", 6, "limit"), 0, "tasks[6].limit: must be positive, got 0"),
        (("tasks", 6, "limit"), float("inf"), "tasks[6].limit: must be positive, got inf"),
        (("tasks", 6, "limit"), "x", "tasks[6].limit: must be a number, got 'x'"),
        (("tasks", 6, "limit"), 1e300, "tasks[6].limit: must be at most 1e+18, got 1e+300"),
        (("tasks", 6, "path"), [0, 1], "tasks[6].paths: must be given without path, got [{'links': [0, 1], "),
        (("tasks", 6, "paths"), [], "tasks[6].paths: must be a list of paths, got []"),
        (("tasks", 6, "paths"), [[0, 1]], "tasks[6].paths[0]: must be an object with links and weight, got [0, 1]"),
        (("tasks", 6, "paths", 1, "links"), [], "tasks[6].paths[1].links: must be a list of links, got []"),
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
        (("links", 1, "bandwidth"), 1e300, "links[1].bandwidth: must be at most 1e+18, got 1e+300"),
        (("links", 1, "latency"), float("nan"), "links[1].latency: must be finite, got nan"),
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


def test_a_circle_of_many_tasks_is_found_at_once(tmp_path: Path) -> None:
    size = 30_000
    transfer = {"type": "transfer", "src": "a", "dst": "b", "bytes": 1}
    tasks = [{**transfer, "id": task, "after": [(task + 1) % size]} for task in range(size)]
    message = error(tmp_path, {"links": [ONE_WAY], "tasks": tasks})
    assert message.startswith("world.json: tasks[0].after: tasks must not wait for each other in a circle")
    assert message.endswith(" ...")


ONE_WAY: Json = {"src": "a", "dst": "b", "bandwidth": 50e9}


def test_an_unreachable_node_is_named_with_its_task(tmp_path: Path) -> None:
    forth, back = (
        {"id": f"{source} to {target}", "type": "transfer", "src": source, "dst": target, "bytes": 1}
        for source, target in ("ab", "ba")
    )
    message = error(tmp_path, {"links": [ONE_WAY], "tasks": [forth, back]})
    assert message == "world.json: tasks[1].dst: must be reached over the links from 'b', got 'a'"
    around = {"id": "around", "type": "all_reduce", "group": ["a", "b"], "bytes": 1}
    message = error(tmp_path, {"links": [ONE_WAY], "tasks": [around]})
    assert message == "world.json: links.route: must connect all servers, got no path from 'b' to 'a'"


def test_a_limit_inside_a_node_is_refused(tmp_path: Path) -> None:
    inside = {"id": "t", "type": "transfer", "src": "a", "dst": "a", "bytes": 1, "limit": 5}
    message = "must be of a transfer between two servers"
    assert error(tmp_path, {"links": [ONE_WAY], "tasks": [inside]}) == f"world.json: task t.limit: {message}, got 5.0"


@pytest.mark.parametrize(
    "text", ["", "{", '{"links": [', "[" * 100_000, "nul", '{"links": [], "links": []}', "[]", "1"]
)
def test_what_is_no_world_is_one_line(tmp_path: Path, text: str) -> None:
    error(tmp_path, text)


@pytest.mark.parametrize("fidelity", [Fluid(), Bound()])
@pytest.mark.parametrize("id", ["second", 7])
def test_what_only_a_simulation_finds_names_the_task_as_the_file_does(
    tmp_path: Path, fidelity: Fidelity, id: str | int
) -> None:
    """An all-reduce is many sends, and the file's order is not the world's: no number of either leads to the task."""
    path, around = tmp_path / "world.json", {**ONE_WAY, "src": "b", "dst": "a"}
    last = {"id": id, "type": "transfer", "path": [2], "bytes": 1, "after": ["first", "sum"]}
    first = {"id": "first", "type": "compute", "seconds": 1}
    sums = {"id": "sum", "type": "all_reduce", "group": ["a", "b"], "bytes": 1e9}
    path.write_text(
        json.dumps({"links": [ONE_WAY, around, ONE_WAY], "tasks": [last, first, {**sums, "orders": [["b", "a"]]}]})
    )
    world = read(path).world
    world = replace(world, capacity=np.append(world.capacity[:2], 5e-324))  # 1 B takes longer than numbers reach
    stuck = next(task for task in range(world.graph.tasks) if world.graph.where(task) == f"task {id}")
    assert stuck > 2
    with pytest.raises(ValueError, match=rf"^world\.json: .*, got .* for task {id}$"):
        fidelity.simulate([world])


@given(st.binary(max_size=300))
@settings(max_examples=EXAMPLES // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bytes"):
        read(path)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(*at, key), *places(value[key], (*at, key))]]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10),
    st.floats(),
    st.sampled_from(["a", "b", "t", "u", "", "ring", "compute", 10**30, 1e308, 5e-324, [], {}, [0], ["a"], ["t", "w"]]),
    st.sampled_from(WORLD["tasks"] + WORLD["links"]),
)


@given(st.lists(st.tuples(st.sampled_from(places(WORLD)), st.one_of(st.just(...), JUNK)), min_size=1, max_size=3))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        (timeline,) = Fluid().simulate([file.world])
    except ValueError as problem:
        message = str(problem)
    else:
        message = "world.json"
        np.testing.assert_allclose(timeline.task_finish, reference.simulate(file.world).task_finish, rtol=1e-9)
    assert "world.json" in message
