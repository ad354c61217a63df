"""``topoflow serve``: a real server, asked by sockets as a browser, or an attacker, would."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest

from topoflow import progress
from topoflow.browse.find import found_in, inside
from topoflow.cli import main

SERVE = "import sys; from topoflow.cli import main; sys.exit(main(sys.argv[1:]))"
SECRET = "nobody else's business"


@dataclass
class Served:
    """A server that runs, and how to ask it."""

    process: subprocess.Popen[str]
    root: Path
    port: int
    token: str
    cookie: str = ""

    @classmethod
    @contextmanager
    def of(cls, root: Path, *words: str) -> Iterator[Served]:
        """Serve ``root``, by a process whose command line is in front of ``words``."""
        command = [*(words or (sys.executable, "-c", SERVE)), "serve", str(root), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "127.0.0.1" not in line:  # "has no runs yet"
                line = process.stdout.readline()
            match = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+) until Ctrl-C", line)
            assert match is not None, line
            served = cls(process, root, int(match[1]), match[2])
            _, headers, _ = served.ask(f"/?token={served.token}")
            served.cookie = headers["Set-Cookie"].partition(";")[0]
            try:
                yield served
            finally:
                process.kill()

    def ask(self, path: str, host: str | None = None, method: str = "GET") -> tuple[int, dict[str, str], str]:
        """Status, headers and text of the answer to a request with this very path."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host=host is not None)
        if host:
            connection.putheader("Host", host)
        if self.cookie:
            connection.putheader("Cookie", f"other=1; {self.cookie}")
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return answer.status, dict(answer.headers), text


def write_run(folder: Path, command: str, rows: list[dict[str, object]], **others: object) -> None:
    folder.mkdir(parents=True)
    result = {"version": "0", "command": command, "rows": rows, **others}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "report.html").write_text(f"<!DOCTYPE html><title>{folder.name}</title>")


def row(fabric: str, time: float, cost: float | None, **config: object) -> dict[str, object]:
    shared = {"world": fabric, "fabric": fabric, "iteration_time": time, "cost_usd": cost}
    return {**shared, "network_time": time / 2, "power_w": 1.0, "config": {"fabric": {"_target_": fabric}, **config}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two comparisons, a job of a multirun, a search that was cut off, and what is nobody's business."""
    folder = tmp_path_factory.mktemp("serve")
    runs = folder / "runs"
    slow = [row("ideal", 0.9, 1.0, degree=4), row("torus", 2.0, 5.0, degree=4), row("ring", 3.0, None, degree=4)]
    fast = [row("torus", 1.0, 9.0, degree=8), row("fat_tree", 4.0, 2.0, degree=8)]
    write_run(runs / "slow", "topoflow compare <b>degree=4</b>", slow, recommended=["torus"])
    write_run(runs / "fast", "topoflow compare degree=8", fast)
    write_run(runs / "multirun" / "0", "topoflow compare seed=0", [row("torus", 1.5, 1.0)])
    (runs / "cut").mkdir()
    log = progress.ProgressLog.begin(runs / "cut", verb="search", command="topoflow search", cwd="/somewhere")
    log.record(1, {"torus/progress": 0.5, "torus/time": 0.25, "torus/rate": 10.0, "torus/acceptance": 0.5})
    log._flush()
    log._file.close()
    (folder / "secret.json").write_text(SECRET)
    (runs / "slow" / "secret.json").symlink_to(folder / "secret.json")
    (runs / "out").symlink_to(folder)
    (runs / "slow" / ".hidden.json").write_text(SECRET)
    (runs / "slow" / "key.pem").write_text(SECRET)
    return runs


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Served]:
    with Served.of(root) as server:
        yield server


def test_all_runs_are_listed_the_latest_first(served: Served) -> None:
    status, _, text = served.ask("/live")
    assert status == 200
    rows = {listed["name"]: listed["html"] for listed in json.loads(text)["rows"]}
    assert set(rows) == {"slow", "fast", "multirun/0", "cut"}
    assert "<td>torus</td><td data-value='2.0'>2 s</td>" in rows["slow"], "what it recommends, not the bound"
    assert "&lt;b&gt;degree=4&lt;/b&gt;" in rows["slow"], "text of a file is no HTML"
    assert "<td>torus</td><td data-value='1.0'>1 s</td>" in rows["fast"]
    assert "cut off" in rows["cut"]
    assert "data-value='0.25'" in rows["cut"]
    times = [run.changed for run in found_in(served.root).runs]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", ["slow", "fast", "multirun/0", "cut"])
def test_every_run_has_a_page(name: str, served: Served) -> None:
    status, headers, text = served.ask(f"/run/{quote(name)}")
    assert status == 200
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    if name == "cut":
        assert "was cut off: searching torus (50% done)" in text
        assert "cd /somewhere &amp;&amp; topoflow search" in text
    else:
        assert f"/files/{name}/report.html" in text
        status, headers, text = served.ask(f"/files/{name}/report.html")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts"), "it is a page of no site"


def test_two_runs_are_compared(served: Served) -> None:
    status, _, text = served.ask("/pair?run=slow&run=fast")
    assert status == 200
    assert "<td>torus</td><td>2 s</td><td>1 s</td><td>0.500x</td><td>$5</td><td>$9</td>" in text
    assert "<td>fat_tree</td><td>-</td><td>4 s</td><td>-</td><td>-</td><td>$2</td>" in text
    assert "<td>degree</td><td>4</td><td>8</td>" in text
    assert served.ask("/pair?run=slow")[0] == 404
    assert served.ask("/pair?run=slow&run=absent")[0] == 404


OUTSIDE = [
    "../secret.json",
    "%2e%2e/secret.json",
    "slow/../../secret.json",
    "slow/%2e%2e/%2e%2e/secret.json",
    "..%2fsecret.json",
    "slow/secret.json",
    "out/secret.json",
    "slow/.hidden.json",
    "slow/key.pem",
    "slow",
    "",
    "slow/report.html%00.png",
    "%ff",
]


@pytest.mark.parametrize("name", [*OUTSIDE, "{absolute}", "/{absolute}"])
def test_nothing_outside_of_the_folder_is_served(name: str, served: Served) -> None:
    name = name.replace("{absolute}", str(served.root.parent / "secret.json"))
    for page in ("files", "run", "live"):
        if page != "files" and name in ("", "slow"):
            continue
        status, _, text = served.ask(f"/{page}/{name}")
        assert status == 404
        assert SECRET not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1]", "localhost:x"]
)
def test_another_name_of_this_server_is_refused(host: str, served: Served) -> None:
    for path in ("/", "/live", "/files/slow/result.json", "/scripts/runs.js"):
        status, _, text = served.ask(path, host)
        assert status == 403
        assert text.startswith("Host: must be 127.0.0.1 or localhost, got ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8765"])
def test_a_local_name_is_answered_whatever_the_port(host: str, served: Served) -> None:
    """At the end of a tunnel of ssh the port is another."""
    assert served.ask("/", host)[0] == 200


def test_a_request_without_or_with_two_hosts_is_refused(served: Served) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=120) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
            assert b" 403 " in connection.recv(100)


@pytest.mark.parametrize("path", ["/", "/live", "/run/slow", "/files/slow/result.json", "/scripts/runs.js", "/absent"])
def test_who_has_no_token_reads_nothing(path: str, served: Served) -> None:
    """Other users of this machine reach the same port."""
    name = served.cookie.partition("=")[0]
    for cookie, query in (("", ""), (f"{name}=", ""), (f"{name}=\xe9", "?token=%ff"), ("topoflow=x", "?token=")):
        status, headers, text = replace(served, cookie=cookie).ask(path + query)
        assert status == 403
        assert text == "token: must be that of the address which `topoflow serve` has printed: open that one\n"
        assert "Set-Cookie" not in headers


def test_an_address_with_the_token_leads_to_one_without(served: Served) -> None:
    stranger = replace(served, cookie="")
    status, headers, _ = stranger.ask(f"/pair?run=slow&token={served.token}&run=fast")
    assert (status, headers["Location"]) == (303, "/pair?run=slow&run=fast")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert stranger.ask(f"//evil.example/?token={served.token}")[1]["Location"] == "/evil.example/"
    assert replace(served, cookie=headers["Set-Cookie"].partition(";")[0]).ask(headers["Location"])[0] == 200


def test_a_page_that_is_open_is_sent_what_changed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_run(tmp_path / name, f"topoflow compare {name}", [])
    with Served.of(tmp_path) as served:

        def look(address: str) -> tuple[list[str], list[str], bool, str]:
            answer = json.loads(served.ask(address)[2])
            return sorted(listed["name"] for listed in answer["rows"]), answer["gone"], answer["whole"], answer["live"]

        rows, removed, complete, live = look("/live")
        assert (rows, removed, complete) == (["a", "b", "c"], [], True)
        assert look(live) == ([], [], False, live)
        write_run(tmp_path / "d", "topoflow compare d", [])
        (tmp_path / "a" / "result.json").unlink()
        (tmp_path / "a" / "report.html").unlink()
        rows, removed, complete, later = look(live)
        assert (rows, removed, complete) == (["d"], ["a"], False)
        assert look(later) == ([], [], False, later)
        assert look(live)[:3] == (["d"], ["a"], False), "another page may be open"
        for other in ("/live?since=1", "/live?since=99999999999999999999", "/live?since=x"):
            assert look(other)[:3] == (["b", "c", "d"], [], True), "the version of another server"


def test_many_clients_at_once_are_answered(served: Served) -> None:
    """Those that say nothing hold a thread each, of which there are more."""
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=120) for _ in range(300)]
    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(lambda _: served.ask("/live")[0], range(200))) == {200}
    for connection in silent:
        connection.close()


def test_nothing_is_written_or_run(served: Served) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert served.ask("/files/slow/result.json", method=method)[0] == 501
    status, headers, text = served.ask("/files/slow/result.json", method="HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) == (served.root / "slow" / "result.json").stat().st_size


def test_the_port_of_another_program_is_named(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(served.root), "--port", str(served.port)]) == 2
    message = (
        f"port: must be free, as another --port or --port 0 for any, got {served.port}, which another program uses"
    )
    assert capsys.readouterr().err == f"topoflow serve: {message}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}/absent"], "folder: must be one with runs (written with out=), got {}/absent, no such folder"),
        (["{}/secret.json"], "folder: must be one with runs (written with out=), got {}/secret.json, a file"),
        (["{}", "--port", "70000"], "port: must be within 0..65535, 0 for any that is free, got 70000"),
        (["{}", "--host", "0.0.0.0"], "host: must be 127.0.0.1 or localhost, as runs are shown to this machine alone "
         "(from another, ssh -L PORT:localhost:PORT MACHINE), got '0.0.0.0'"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_one_line(
    words: list[str], message: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *(word.replace("{}", str(root.parent)) for word in words)]) == 2
    assert capsys.readouterr().err == f"topoflow serve: {message.replace('{}', str(root.parent))}\n"


def test_ctrl_c_ends_an_empty_server(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "has no runs yet" in process.stdout.readline()
        assert "until Ctrl-C" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120) == ("", "")
        assert process.returncode == 0


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.json").write_text("{}")
    (tmp_path / "b.json").symlink_to(tmp_path / "a" / "x.json")
    assert inside(tmp_path, "b.json") == (tmp_path / "a" / "x.json").resolve()
    assert inside(tmp_path, "a/../a/x.json") is None
