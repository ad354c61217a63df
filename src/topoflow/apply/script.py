"""The shell script of a host: ``sh HOST.sh apply``, ``undo`` or ``show``.

A second ``apply`` changes nothing; ``undo`` restores the host. Rules, routes and neighbours carry the protocol number
``PROTOCOL``, and ``undo`` removes only those. Priorities and tables are chosen among the free ones when the script is
applied. Previous settings of the kernel and previous classifiers are recorded in a folder under /run, which a restart
clears together with the settings. If ``apply`` fails, or if packets would not use the plan's tables, the script undoes
its changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from topoflow.apply.forwarding import FIRST_TABLE, PROTOCOL, Command
from topoflow.apply.hosts import Host

ROUTE = ("ip", "route", "replace")
HEAD = """\
#!/bin/sh
# Forwarding of host {name} ({address}): {count} changes.
#   sh {name}.sh show     print what would be done, change nothing
#   sh {name}.sh apply    do it; a second time changes nothing
#   sh {name}.sh undo     restore the host
# Needs root and iproute2 5.0{needs}. Rules, routes and neighbours that it adds have protocol {protocol}.
set -eu
state=${{TOPOFLOW_STATE:-/run/topoflow}}/{name}
verb=${{1:-}}
mine="proto {protocol}"
first={first} count={tables}

die() {{ echo "{name}: $*" >&2; exit 1; }}
run() {{ if [ "$verb" = show ]; then echo "$*"; else "$@"; fi; }}
record() {{ echo "$state/$(echo "$1" | tr / _)"; }}
# Numbers of rules and tables that other programs use.
used() {{
  ip -N -4 rule list | grep -v "$mine" | sed -n 's/^\\([0-9]*\\):.*/\\1/p; s/.*lookup \\([0-9]*\\).*/\\1/p'
  ip -N -4 route show table all | grep -v "$mine" | sed -n 's/.* table \\([0-9]*\\).*/\\1/p'
}}
# Rules and tables get the first free range of numbers base, base + 1, ...
choose() {{
  if [ -e "$state/base" ]; then base=$(cat "$state/base"); return; fi
  base=$first
  for number in $(used | sort -n); do
    if [ "$number" -ge "$base" ] && [ "$number" -lt $((base + count)) ]; then base=$((number + 1)); fi
  done
  [ $((base + count)) -le 32766 ] || die "needs $count free priorities of rules from $first on, which are taken"
  [ "$verb" = show ] || echo "$base" > "$state/base"
}}
# A setting of the kernel; its first previous value is recorded.
setting() {{
  if [ "$verb" = show ]; then echo "sysctl -w $1=$2"; return; fi
  [ -e "$(record "$1")" ] || sysctl -n "$1" > "$(record "$1")"
  sysctl -q -w "$1=$2"
}}
as_before() {{ if [ -e "$(record "$1")" ]; then sysctl -q -w "$1=$(cat "$(record "$1")")"; rm "$(record "$1")"; fi; }}
rule() {{
  if [ "$verb" != show ] && ip -N -4 rule list | grep "^$1:" | grep -q "$mine"; then return; fi
  number=$1; shift
  run ip rule add "$@" lookup "$number" priority "$number" protocol {protocol}
}}
neighbour() {{
  present=$(ip -N -4 neigh show to "$1" dev "$3" nud permanent 2>/dev/null | grep -v "$mine" || true)
  case "$present" in
  "") run ip neigh replace "$1" lladdr "$2" dev "$3" nud permanent protocol {protocol} ;;
  *"lladdr $2 "*) ;;
  *) die "has a permanent neighbour of its own, and needs $1 lladdr $2 dev $3; got $present" ;;
  esac
}}
classifier() {{
  if [ "$verb" = show ]; then echo "tc qdisc add dev $1 clsact"; return; fi
  tc qdisc show dev "$1" | grep -q clsact || {{ tc qdisc add dev "$1" clsact; touch "$state/clsact.$1"; }}
}}
no_classifier() {{ if [ -e "$state/clsact.$1" ]; then tc qdisc del dev "$1" clsact; rm "$state/clsact.$1"; fi; }}
# A filter of an interface, after its preference, which must be unused or ours.
filter() {{
  mark="$state/filter.$1.$2"
  if [ "$verb" != show ] && [ ! -e "$mark" ]; then
    [ -z "$(tc filter show dev "$1" ingress pref "$2")" ] || die "has a filter of its own with pref $2 at $1"
    touch "$mark"
  fi
  shift 2
  run tc "$@"
}}
no_filter() {{
  if [ -e "$state/filter.$1.$2" ]; then tc filter del dev "$1" ingress pref "$2" 2>/dev/null || true; fi
}}
# Packets that the host sends must use its table despite other rules.
check() {{
  ip -N -4 route get "$1" | grep -q "table $base " || die "must send to $1 by table $base, got $(ip -4 route get "$1")"
}}
failed() {{ code=$?; trap - EXIT; echo "{name}: not applied; all is undone" >&2; undo; exit "$code"; }}
"""

CHOICE = """
case "$verb" in
show) choose; apply ;;
apply) mkdir -p "$state"; trap failed EXIT; choose; apply; checks; trap - EXIT ;;
undo) undo ;;
*) echo "usage: sh $0 show|apply|undo" >&2; exit 2 ;;
esac
"""

UNDO = f"""\
  ip -4 rule flush protocol {PROTOCOL}
  ip -4 route flush table all proto {PROTOCOL} 2>/dev/null || true  # there is none
  ip -4 neigh flush nud permanent proto {PROTOCOL} 2>/dev/null || true"""


def script(host: Host, commands: Sequence[Command]) -> str:
    """Return the whole script, one change per line."""
    uses_tc = any(command.do[0] == "tc" for command in commands)
    rules = [command.do for command in commands if command.do[:2] == ("ip", "rule")]
    numbers = [int(words[words.index("lookup") + 1]) for words in rules]
    head = HEAD.format(
        name=host.name,
        address=host.address,
        count=len(commands),
        needs=" with tc flower" if uses_tc else "",
        protocol=PROTOCOL,
        first=FIRST_TABLE,
        tables=max(numbers, default=FIRST_TABLE) - FIRST_TABLE + 1,
    )
    routes = [command.do for command in commands if command.do[:3] == ROUTE]
    targets = [words[3].partition("/")[0] for words in routes if int(words[5]) == FIRST_TABLE]
    undo = [line for command in reversed(commands) if (line := _undo(command))]
    return "\n".join(
        [
            f"{head}",
            *("apply() {", *(f"  {line}" for line in _apply(commands)), "  :", "}", ""),
            *("checks() {", *(f"  check {address}" for address in targets), "  :", "}", ""),
            *("undo() {", UNDO, *(f"  {line}" for line in undo), '  rm -rf "$state"', "}", CHOICE),
        ]
    )


def _apply(commands: Sequence[Command]) -> Iterator[str]:
    what = ""
    for command in commands:
        if command.what != what:
            what = command.what
            yield f"# {what}"
        yield _do(command)


def _do(command: Command) -> str:
    words = command.do
    if words[0] == "sysctl":
        key, _, value = words[-1].rpartition("=")
        return shlex.join(["setting", key, value])
    if words[:3] == ("ip", "rule", "add"):
        end = words.index("lookup")
        return f"rule {_number(words[end + 1])} {shlex.join(words[3:end])}"
    if words[:3] == ROUTE:
        return f"run {shlex.join(words[:5])} {_number(words[5])} {shlex.join(words[6:])}"
    if words[:3] == ("ip", "neigh", "replace"):
        return shlex.join(["neighbour", words[3], words[5], words[7]])
    if words[:3] == ("tc", "qdisc", "add"):
        return shlex.join(["classifier", words[4]])
    return shlex.join(["filter", words[4], words[words.index("pref") + 1], *words[1:]])


def _number(table: str) -> str:
    """Return the number that a table has when the script is applied."""
    return f"$((base + {int(table) - FIRST_TABLE}))"


def _undo(command: Command) -> str:
    """Return the line that undoes a change without a protocol number, "" for a change that has one."""
    words = command.undo
    if words[0] == "sysctl":
        return shlex.join(["as_before", words[-1]])
    if words[:3] == ("tc", "qdisc", "del"):
        return shlex.join(["no_classifier", words[4]])
    if words[0] == "tc":
        return shlex.join(["no_filter", words[4], words[words.index("pref") + 1]])
    return ""
