"""The shell script of a host: ``sh HOST.sh apply``, ``undo`` or ``show``.

Applied twice it changes nothing the second time; undone it leaves the host as it was. What was there before (settings
of the kernel, classifiers) is kept in a folder under /run, which a restart empties as it empties the settings.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from topoflow.apply.forwarding import Command
from topoflow.apply.hosts import Host

HEAD = """\
#!/bin/sh
# Forwarding of host {name} ({address}): {count} changes.
#   sh {name}.sh show     print what would be done, change nothing
#   sh {name}.sh apply    do it; again: nothing more
#   sh {name}.sh undo     as it was before
# Needs root and iproute2{needs}.
set -eu
state=${{TOPOFLOW_STATE:-/run/topoflow}}/{name}
verb=${{1:-}}

run() {{ if [ "$verb" = show ]; then echo "$*"; else "$@"; fi; }}
kept() {{ echo "$state/$(echo "$1" | tr / _)"; }}
# A setting of the kernel; what it was is kept once.
setting() {{
  if [ "$verb" = show ]; then echo "sysctl -w $1=$2"; return; fi
  [ -e "$(kept "$1")" ] || sysctl -n "$1" > "$(kept "$1")"
  sysctl -q -w "$1=$2"
}}
as_before() {{ if [ -e "$(kept "$1")" ]; then sysctl -q -w "$1=$(cat "$(kept "$1")")"; rm "$(kept "$1")"; fi; }}
# A rule has the number of its table; there is none yet, or it is ours.
rule() {{
  if [ "$verb" = show ]; then echo "ip rule add $* lookup $number priority $number"; return; fi
  ip rule list | grep -q "^$number:" || ip rule add "$@" lookup "$number" priority "$number"
}}
classifier() {{
  if [ "$verb" = show ]; then echo "tc qdisc add dev $1 clsact"; return; fi
  tc qdisc show dev "$1" | grep -q clsact || {{ tc qdisc add dev "$1" clsact; touch "$state/clsact.$1"; }}
}}
no_classifier() {{ if [ -e "$state/clsact.$1" ]; then tc qdisc del dev "$1" clsact; rm "$state/clsact.$1"; fi; }}
# What is gone already (with its interface, say) need not be undone.
gone() {{ "$@" 2>/dev/null || true; }}
"""

CHOICE = """
case "$verb" in
show) apply ;;
apply) mkdir -p "$state"; apply ;;
undo) undo ;;
*) echo "usage: sh $0 show|apply|undo" >&2; exit 2 ;;
esac
"""


def script(host: Host, commands: Sequence[Command]) -> str:
    """The whole script, one change a line."""
    uses_tc = any(each.do[0] == "tc" for each in commands)
    head = HEAD.format(
        name=host.name, address=host.address, count=len(commands), needs=" with tc flower" if uses_tc else ""
    )
    apply = "\n".join(["", "apply() {", *(f"  {line}" for line in _apply(commands)), "  :", "}"])
    undo = "\n".join(["", "undo() {", *(f"  {_undo(each)}" for each in reversed(commands)), '  rm -rf "$state"', "}"])
    return f"{head}{apply}\n{undo}\n{CHOICE}"


def _apply(commands: Sequence[Command]) -> Iterator[str]:
    what = ""
    for each in commands:
        if each.what != what:
            what = each.what
            yield f"# {what}"
        yield _do(each)


def _do(command: Command) -> str:
    words = command.do
    if words[0] == "sysctl":
        key, _, value = words[-1].rpartition("=")
        return shlex.join(["setting", key, value])
    if words[:3] == ("ip", "rule", "add"):
        return f"number={words[-1]} {shlex.join(['rule', *words[3:-4]])}"
    if words[:3] == ("tc", "qdisc", "add"):
        return shlex.join(["classifier", words[4]])
    return shlex.join(["run", *words])


def _undo(command: Command) -> str:
    words = command.undo
    if words[0] == "sysctl":
        return shlex.join(["as_before", words[-1]])
    if words[:3] == ("tc", "qdisc", "del"):
        return shlex.join(["no_classifier", words[4]])
    return shlex.join(["gone", *words])
