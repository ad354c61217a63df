"""Local ports: how the ranks of one server share the bandwidth between them.

A rank has one port to send on and one to receive on, each of ``local_bandwidth``. A send inside a server is a delay, so
its share of both ports is fixed before anything runs. The sends of a port are divided into chains, in which each send
waits for the one before. Every chain has an equal share of the port, and a send has the smaller one of the shares that
its two ports give it. Chains of a port:

    ring                  1    all sends of a port
    two rings at once     2    all sends of a ring
    halving_doubling      1    the pieces S/2, S/4, .., S/4, S/2
    all_to_all          n-1    a send each: none waits for another
    double_binary_tree  2-4    the chunks on an edge of a tree

At most one send of a chain runs at a time. So a port never carries more than its bandwidth, whatever the sends wait for
besides. Max-min fair rates on the same ports are never lower than these shares, so that no collective is faster here
than on a switch with the same ports; where chains run at the same time from beginning to end it takes as long.

Shapes: F sends.
"""

from __future__ import annotations

import numpy as np

from topoflow.arrays import Mask
from topoflow.collectives.schedule import Index, SendSchedule, SteadyStreams


def slowdowns(sends: SendSchedule | SteadyStreams, inside: Mask) -> Index:
    """Return how many times as long as alone each send [F] takes, if it is ``inside`` a server."""
    slowdown = np.ones(len(inside), np.int64)
    if not inside.any():
        return slowdown
    for port in (sends.source, sends.target):
        chains = np.unique(_chains(sends, port)[inside])
        slowdown = np.maximum(slowdown, np.bincount(port[chains], minlength=port.max() + 1)[port])
    return slowdown


def _chains(sends: SendSchedule | SteadyStreams, port: Index) -> Index:
    """Return the first send of the chain that each send [F] is part of; a chain is on one ``port``."""
    first = np.arange(len(port))
    if isinstance(sends, SteadyStreams):
        return first
    waiter, awaited = np.repeat(first, np.diff(sends.after_offsets)), sends.after
    same = port[waiter] == port[awaited]
    previous = np.full(len(port), -1)
    previous[waiter[same]] = awaited[same]  # of several, the last
    waiter = np.flatnonzero(previous >= 0)
    next_ = np.full(len(port), -1)
    next_[previous[waiter[::-1]]] = waiter[::-1]  # of several that wait for one send, the first
    continues = waiter[next_[previous[waiter]] == waiter]
    first[continues] = previous[continues]
    while (first[first] != first).any():
        first = first[first]
    return first
