"""Datasets on the pages of a folder of runs: listed, opened, and nothing outside of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from tests.browse.test_server import row, write_run
from tests.report.chromium import at, check_console, check_contrast, needs_browser, start, until
from topoflow.browse.find import found_in
from topoflow.browse.server import Server
from topoflow.report.dataset.base import MANIFEST

for needed in ("pyarrow", "duckdb"):
    pytest.importorskip(needed, reason="needs the extra dataset")

from tests.study.test_dataset import drawn  # noqa: E402

POINTS = 40
PART = "part-00000000.parquet"
SECRET = "nobody else's business"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, two datasets, one that is damaged, and links to what lies elsewhere."""
    folder = tmp_path_factory.mktemp("datasets")
    runs = folder / "runs"
    write_run(runs / "one", "topoflow compare", [row("torus", 2.0, 5.0)])
    drawn(runs / "all.parquet", 3, POINTS)
    drawn(runs / "sweeps" / "<a*>.parquet", 4, POINTS)
    outside, _ = drawn(folder / "outside.parquet", 5, POINTS)
    (runs / "link.parquet").symlink_to(outside.folder)
    linked, _ = drawn(runs / "part.parquet", 6, POINTS)
    (linked.folder / PART).unlink()
    (linked.folder / PART).symlink_to(outside.path(0))
    (folder / "secret.json").write_text(f'{{"command": "{SECRET}"}}')
    (runs / "manifest.parquet").mkdir()
    (runs / "manifest.parquet" / MANIFEST).symlink_to(folder / "secret.json")
    (runs / "bad.parquet").mkdir()
    (runs / "bad.parquet" / MANIFEST).write_text("{")
    return runs


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with Server(root, "127.0.0.1", 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server: Server, path: str, host: str = "localhost") -> tuple[int, str, str]:
    """Status, policy and text of the answer."""
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
    connection.request("GET", path, headers={"Host": host, "Cookie": f"{server.cookie}={server.token}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Security-Policy"], text


def test_datasets_are_listed_with_how_much_is_written(root: Path, server: Server) -> None:
    listing = found_in(root)
    assert [run.name for run in listing.runs] == ["one"], "what is in a dataset is no run"
    assert set(listing.datasets) == {
        "all.parquet",
        "sweeps/<a*>.parquet",
        "part.parquet",
        "manifest.parquet",
        "bad.parquet",
    }
    _, _, text = ask(server, "/live")
    assert f"{POINTS} of {POINTS}" in text
    assert "/dataset/sweeps/%3Ca%2A%3E.parquet" in text
    assert "sweeps/&lt;a*&gt;.parquet</a>" in text, "a name is no HTML"
    assert "bad.parquet/_dataset.json: must be what `topoflow compare` writes" in text
    assert "manifest.parquet</td><td colspan=3>its files are not in this folder" in text
    assert SECRET not in text


@pytest.mark.parametrize("name", ["all.parquet", "sweeps/<a*>.parquet"])
def test_a_dataset_opens_as_a_page_of_no_site(name: str, server: Server) -> None:
    status, policy, text = ask(server, f"/dataset/{quote(name)}")
    assert status == 200
    assert policy.startswith("sandbox allow-scripts"), "its scripts are inside: it may not ask the server for runs"
    assert f"{POINTS} of the {POINTS} points of the sweep are written" in text


@pytest.mark.parametrize(
    "name",
    [
        "link.parquet",
        "part.parquet",
        "manifest.parquet",
        "../outside.parquet",
        "%2e%2e/outside.parquet",
        "all.parquet/../../outside.parquet",
        "{absolute}",
        "one",
        "absent.parquet",
        "",
        "%ff.parquet",
    ],
)
def test_no_dataset_outside_of_the_folder_is_read(name: str, root: Path, server: Server) -> None:
    name = name.replace("{absolute}", str(root.parent / "outside.parquet"))
    status, _, text = ask(server, f"/dataset/{name}")
    assert status == 404
    assert "points of the sweep" not in text
    assert SECRET not in text


def test_a_damaged_dataset_is_one_line(server: Server) -> None:
    status, _, text = ask(server, "/dataset/bad.parquet")
    assert status == 500
    assert "_dataset.json: must be what `topoflow compare` writes" in text


def test_another_name_of_this_server_gets_no_dataset(server: Server) -> None:
    assert ask(server, "/dataset/all.parquet", "evil.example")[0] == 403


def test_a_dataset_that_grows_has_another_page(tmp_path: Path) -> None:
    from topoflow.browse.datasets import dataset_page

    dataset, _ = drawn(tmp_path / "d.parquet", 7, 5000)  # two files
    last = dataset.path(dataset.written[-1][0])
    content = last.read_bytes()
    last.unlink()
    assert "4,096 of the 5,000 points" in dataset_page(dataset)
    last.write_bytes(content)
    assert "5,000 of the 5,000 points" in dataset_page(dataset)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from start()


@needs_browser
def test_a_click_on_a_dataset_draws_it(browser: Any, server: Server) -> None:
    at(browser, server.address)
    check_contrast(browser)
    links = browser.find_elements("css selector", "#datasets a")
    assert [link.text for link in links] == ["all.parquet", "part.parquet", "sweeps/<a*>.parquet"]
    links[0].click()
    until(browser, "return location.pathname === '/dataset/all.parquet' && window.topoflow?.ready === true")
    assert set(browser.execute_script("return topoflow.charts.map((each) => each.id)")) == {"scatter", "parallel"}
    check_console(browser)
