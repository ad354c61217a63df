"""A server of the runs of a folder, for the browser of this machine alone.

    /                  runs, datasets    /live              the same as JSON, for a page that is open
    /run/NAME          one run           /live/NAME         what the page of a run that works replaces
    /pair?run=A&run=B  two of them       /files/NAME/FILE   a file of a run
    /scripts/NAME.js   scripts of pages  /dataset/NAME      what a dataset says, as `topoflow report` writes it

It listens on the loopback interface, and answers only who asks for it by a name of that, so that no page of another
site can reach it by a name of its own that leads here (DNS rebinding), and only who has the token of the address that
it prints, so that no other user of this machine can: a browser keeps the token in a cookie. It reads, and only files
of its folder. Pages run the scripts of topoflow alone; a file of a run may run its own, but as a page of no site
(``sandbox``), which reads nothing from here. The page of a dataset has its scripts inside, and is one of these.
"""

from __future__ import annotations

import errno
import json
import mimetypes
import os
import secrets
import shutil
import sys
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from topoflow.browse.datasets import dataset_page
from topoflow.browse.find import dataset_in, inside, lies_in
from topoflow.browse.listing import Listing
from topoflow.browse.pages import OWN_SCRIPTS, list_page, message_page, pair_page, run_data, run_page
from topoflow.browse.run import RunFolder, problem, run_at
from topoflow.report.page.bokeh import texts
from topoflow.report.page.elements import script

ADDRESS = "127.0.0.1"
LOCAL_NAMES = (ADDRESS, "localhost")
FILES = {".html", ".json", ".jsonl", ".png", ".csv", ".parquet", ".yaml", ".log"}  # kinds that a run writes
# Of our own pages: scripts from here, styles of BokehJS, pictures that it saves.
OF_PAGES = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
OF_FILES = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; frame-ancestors 'none'"
)
MAX_THREADS = 1024  # each answers one request; one that says nothing holds a thread for ``timeout``
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
JSON, SCRIPT = "application/json", "text/javascript; charset=utf-8"


class Absent(Exception):
    """Raised if a requested page or file does not exist; the message says what does."""


class Server(ThreadingHTTPServer):
    """Serves the runs of ``root``; a thread for each request; these end with the server.

    Requests that come while all threads are busy wait in the queue of the system.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, root: Path, host: str, port: int) -> None:
        """Raises ``ValueError`` in one line for a folder, host or port that cannot be."""
        if host not in LOCAL_NAMES:
            requirement = f"must be {' or '.join(LOCAL_NAMES)}, as runs are shown to this machine alone"
            hint = "from another, ssh -L PORT:localhost:PORT MACHINE"
            raise ValueError(f"host: {requirement} ({hint}), got {host!r}")
        if not 0 <= port < 2**16:
            raise ValueError(f"port: must be within 0..65535, 0 for any that is free, got {port}")
        if not root.is_dir():
            got = "a file" if root.exists() else "no such folder"
            raise ValueError(f"folder: must be one with runs (written with out=), got {root}, {got}")
        self.root = root
        self.listing = Listing(root)
        self.token = secrets.token_urlsafe(24)
        self._free_threads = BoundedSemaphore(MAX_THREADS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            reason = "which another program uses" if error.errno == errno.EADDRINUSE else "which this user may not"
            requirement = "must be free, as another --port or --port 0 for any"
            raise ValueError(f"port: {requirement}, got {port}, {reason}") from error

    @property
    def address(self) -> str:
        """The address that a browser opens first."""
        return f"http://{ADDRESS}:{self.server_address[1]}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie with the token: browsers keep those of all ports of a machine together."""
        return f"topoflow-{sha256(self.token.encode()).hexdigest()[:8]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, as soon as one is free."""
        self._free_threads.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free_threads.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_threads.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has left is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 10  # s that a connection may say nothing

    @property
    def root(self) -> Path:
        return self.server.root

    def do_GET(self) -> None:
        try:
            address = urlsplit(self.path)
            if not self._is_local():
                message = f"Host: must be {' or '.join(LOCAL_NAMES)}, got {self.headers.get('Host')!r}\n"
                self._send(HTTPStatus.FORBIDDEN, TEXT, message.encode())
            elif self._has_token(parse_qs(address.query).get("token", [])):
                self._keep_token(address)
            elif self._has_token(self._cookies()):
                self._answer(address)
            else:
                message = "token: must be that of the address which `topoflow serve` has printed: open that one\n"
                self._send(HTTPStatus.FORBIDDEN, TEXT, message.encode())
        except Absent as absent:
            self._send(HTTPStatus.NOT_FOUND, HTML, _bytes(message_page("Not here", str(absent))))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # whatever a damaged file makes a reader raise
            page = message_page("This cannot be shown", problem(error))
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, HTML, _bytes(page))

    do_HEAD = do_GET

    def _has_token(self, candidates: list[str]) -> bool:
        """Return whether one of the texts is the token; the time that it takes does not say how much of it is."""
        return any(secrets.compare_digest(candidate.encode(), self.server.token.encode()) for candidate in candidates)

    def _cookies(self) -> list[str]:
        """Return what the browser has kept as the token of this server."""
        pairs = (cookie.strip().partition("=") for cookie in self.headers.get("Cookie", "").split(";"))
        return [value for name, _, value in pairs if name == self.server.cookie]

    def _keep_token(self, address: SplitResult) -> None:
        """Have the browser keep the token, and ask again without it: an address is read, shared and logged."""
        query = "&".join(parameter for parameter in address.query.split("&") if not parameter.startswith("token="))
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/{address.path.lstrip('/')}{query and '?'}{query}")
        self.send_header("Set-Cookie", f"{self.server.cookie}={self.server.token}; Path=/; HttpOnly; SameSite=Lax")
        self._end_headers(0, {})

    def _is_local(self) -> bool:
        """Return whether the browser asked for this server by a local name, with any port (of a tunnel)."""
        hosts = self.headers.get_all("Host") or []
        name, _, port = hosts[0].partition(":") if len(hosts) == 1 else ("", "", "")
        return name.lower() in LOCAL_NAMES and (not port or port.isdecimal())

    def _answer(self, address: SplitResult) -> None:
        page, _, name = address.path.lstrip("/").partition("/")
        name = unquote(name, errors="surrogateescape")
        if page == "files":
            self._file(name)
        elif page == "scripts":
            self._page(self._script(name), SCRIPT)
        elif page == "live":
            data = run_data(self._run(name), served=True) if name else self._listed(parse_qs(address.query))
            self._page(json.dumps(data, allow_nan=False), JSON)
        elif page == "run":
            self._page(run_page(self._run(name), served=True))
        elif page == "dataset":
            self._page(self._dataset(name), policy=OF_FILES)
        elif page == "pair":
            names = parse_qs(address.query).get("run", [])
            names = [unquote(name, errors="surrogateescape") for name in names]  # as the list's marks have them
            if len(names) != 2:
                raise Absent(f"Two runs can be compared, got {len(names)}.")
            self._page(pair_page(self._run(names[0]), self._run(names[1])))
        elif not page:
            self._page(list_page(self.root, self.server.listing.since(0)))
        else:
            raise Absent(f"There is no page {address.path!r}.")

    def _listed(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return what changed in the list since the version that is asked for, else all of it."""
        version = query.get("since", ["0"])[0]
        return self.server.listing.since(int(version) if version.isdecimal() else 0)

    def _run(self, name: str) -> RunFolder:
        folder = inside(self.root, name)
        run = None if folder is None or not folder.is_dir() else run_at(folder, name, self.root)
        if run is None:
            raise Absent(f"There is no run {name!r} in this folder.")
        return run

    def _dataset(self, name: str) -> str:
        """The page of a dataset."""
        dataset = dataset_in(self.root, name)
        if dataset is None or not lies_in(self.root, dataset):
            raise Absent(f"There is no dataset {name!r} in this folder, with all of its files.")
        return dataset_page(dataset)

    def _script(self, name: str) -> str:
        if name == "bokeh.js":
            return "\n;\n".join(texts())
        if name.removesuffix(".js") in OWN_SCRIPTS:
            return script(name.removesuffix(".js"))
        raise Absent(f"There is no script {name!r}.")

    def _file(self, name: str) -> None:
        """A file of a run, as a browser shows it, or downloads it."""
        path = inside(self.root, name)
        if path is None or path.suffix not in FILES or not path.is_file():
            raise Absent(f"There is no file {name!r} of a run in this folder.")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        with path.open("rb") as file:
            self._begin(HTTPStatus.OK, f"{kind}; charset=utf-8", os.fstat(file.fileno()).st_size, OF_FILES)
            if self.command != "HEAD":
                shutil.copyfileobj(file, self.wfile)

    def _page(self, text: str, kind: str = HTML, policy: str = OF_PAGES) -> None:
        self._send(HTTPStatus.OK, kind, _bytes(text), policy)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, policy: str = OF_PAGES) -> None:
        self._begin(status, kind, len(content), policy)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, length: int, policy: str) -> None:
        self.send_response(status)
        self._end_headers(length, {"Content-Type": kind, "Content-Security-Policy": policy})

    def _end_headers(self, length: int, headers: dict[str, str]) -> None:
        """Send the headers that all answers have; the connection ends with the answer, and its thread is free."""
        common = {
            "Content-Length": str(length),
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
            "Connection": "close",
        }
        for header, value in (headers | common).items():
            self.send_header(header, value)
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """Requests are not printed."""

    def version_string(self) -> str:
        return "topoflow"


def _bytes(text: str) -> bytes:
    """Return a page as UTF-8; bytes of a name that are none are shown as escapes."""
    return text.encode("utf-8", "backslashreplace")
