"""The program inside the sandbox: builds the network, runs the job, and exits; all that it made is removed with it.

It is process 1 of a process namespace, with its own network and mount namespaces: when it exits, the kernel ends its
processes and removes the network (``pid_namespaces(7)``, ``network_namespaces(7)``). It starts in the namespace of the
control network, where torchrun runs and the ranks' rendezvous takes place.

    control   mgmt (bridge) --- mgmt of every server               not shaped
    server i  to<j> --- from<i> of server j                        for a link from i to j, shaped at to<j> by tbf
              uplink --- port<i> of the switch                     with a switch, for to/from; shaped at both ends
              host                                                 holds the server's address
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTROL = "10.78.0.254"
PORT = 29500
NETNS = Path("/run/netns")
# Windows that cover the bytes in flight but not more than the queues hold: as in a lossless fabric, nothing is lost.
WINDOW = 4 * 2**20  # B
QUEUE = 64 * 2**20  # B
PRIORITY = -5  # niceness, so that other work of this machine disturbs less
SETTINGS = (
    f"net.ipv4.tcp_rmem=4096 {WINDOW} {WINDOW}",
    f"net.ipv4.tcp_wmem=4096 {WINDOW} {WINDOW}",
    "net.ipv4.tcp_slow_start_after_idle=0",  # there are pauses between iterations, and no other traffic
    "net.ipv4.tcp_no_metrics_save=1",
    "net.ipv6.conf.all.disable_ipv6=1",
)


@dataclass(frozen=True)
class ShapedNetwork:
    """The network to build. Rates are B/s; a rate of 0 is not shaped."""

    servers: int
    links: Sequence[tuple[int, int, float]]  # source, target, rate; the switch is number ``servers``
    mtu: int
    scripts: Sequence[str]  # forwarding script of every server; empty with a switch

    def build(self) -> None:
        """Build the network. Raises ``CalledProcessError`` where a program refuses."""
        names = [f"s{server}" for server in range(self.servers)]
        for name in [*names, "switch"]:
            run(["ip", "netns", "add", name])
        batch(["ip"], self._devices())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._configure, range(self.servers)))
        batch(["ip", "-n", "switch"], [line for at, line in self._addresses() if at == self.servers])
        batch(["tc", "-n", "switch"], [line for at, line in self._rates() if at == self.servers])

    def _devices(self) -> Iterable[str]:
        """Yield the lines of ``ip`` that make the devices, to run in the control network."""
        yield "link set dev lo up"
        yield "link add dev mgmt type bridge"
        yield f"addr add {CONTROL}/24 dev mgmt"
        yield "link set dev mgmt up"
        for server in range(self.servers):
            yield f"link add dev m{server} type veth peer name mgmt netns s{server}"
            yield f"link set dev m{server} master mgmt up"
        for source, target, _ in self.links:
            if self.servers not in (source, target):
                ends = f"to{target} netns s{source} mtu {self.mtu}", f"from{source} netns s{target} mtu {self.mtu}"
                yield f"link add dev {ends[0]} type veth peer name {ends[1]} address {mac(source, target)}"
            elif target == self.servers:
                ends = f"uplink netns s{source} mtu {self.mtu}", f"port{source} netns switch mtu {self.mtu}"
                yield f"link add dev {ends[0]} type veth peer name {ends[1]}"

    def _configure(self, server: int) -> None:
        name = f"s{server}"
        run(["ip", "netns", "exec", name, "sysctl", "-q", "-w", *SETTINGS])
        batch(["ip", "-n", name], [line for at, line in self._addresses() if at == server])
        batch(["tc", "-n", name], [line for at, line in self._rates() if at == server])
        if self.scripts:
            run(["ip", "netns", "exec", name, "sh", self.scripts[server], "apply"])

    def _addresses(self) -> Iterable[tuple[int, str]]:
        """Yield (namespace, line of ``ip``) for addresses."""
        has_switch = any(target == self.servers for _, target, _ in self.links)
        for server in range(self.servers):
            yield server, "link set dev lo up"
            yield server, f"addr add 10.78.0.{server + 1}/24 dev mgmt"
            yield server, "link set dev mgmt up"
            if has_switch:
                yield server, f"addr add {address(server)}/24 dev uplink"
            else:
                yield server, "link add dev host type veth peer name nobody"
                yield server, f"addr add {address(server)}/32 dev host"
                yield server, "link set dev nobody up"
                yield server, "link set dev host up"
        if has_switch:
            yield self.servers, f"link add dev bridge mtu {self.mtu} type bridge"
            yield self.servers, "link set dev bridge up"
        for source, target, _ in self.links:
            if target == self.servers:
                yield source, "link set dev uplink gso_max_segs 1 up"
                yield self.servers, f"link set dev port{source} master bridge up"
            elif source != self.servers:
                yield source, f"link set dev to{target} gso_max_segs 1 up"
                yield target, f"link set dev from{source} up"

    def _rates(self) -> Iterable[tuple[int, str]]:
        """Yield (namespace, line of ``tc``) for rates.

        A burst is two packets, or the bytes of 10 ms, a tick of a slow clock.
        """
        for source, target, rate in self.links:
            device = (
                "uplink" if target == self.servers else f"port{target}" if source == self.servers else f"to{target}"
            )
            if rate:
                burst = max(2 * (self.mtu + 14), round(rate / 100))
                yield source, f"qdisc add dev {device} root tbf rate {round(8 * rate)}bit burst {burst} limit {QUEUE}"


def address(server: int) -> str:
    """Return the address to which the job's data for a server are sent."""
    return f"10.77.0.{server + 1}"


def mac(source: int, target: int) -> str:
    """Return the MAC address of the receiving end of a link."""
    return f"02:00:00:00:{source:02x}:{target:02x}"


def run(command: Sequence[str], text: str | None = None) -> None:
    """Run a program; its output goes to stderr. Raises ``CalledProcessError``."""
    subprocess.run(command, input=text, text=True, check=True, stdout=sys.stderr)


def batch(command: Sequence[str], lines: Iterable[str]) -> None:
    """Run many lines of ``ip`` or ``tc`` in one process."""
    run([*command, "-batch", "-"], "\n".join(lines) + "\n")


def main(folder: Path) -> int:
    """Build the network of ``network.json``, run ``command.json``, and return the job's exit code."""
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    run(["mount", "-t", "tmpfs", "topoflow", "/run"])  # names of namespaces are visible in this mount namespace only
    NETNS.mkdir()
    plain: dict[str, Any] = json.loads((folder / "network.json").read_text())
    ShapedNetwork(**plain).build()
    command: dict[str, Any] = json.loads((folder / "command.json").read_text())
    environment = {**os.environ, **command["environment"]}
    with (folder / "job.log").open("w") as log:
        return subprocess.run(command["arguments"], env=environment, stdout=log, stderr=log).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
