"""Times of an MPI library and its host for a message, after SST's firefly.

    eager    receiver  call in 30, call out 30, for each receive of a step, before it sends
             sender    call in 30, set up 130                  call out 30, then its next call
             NIC       a header of 45 B before the message
             receiver                        walk 150, set up 100, call out 30 after it has arrived
    longer   receiver  call in 30, pin, call out 30, for each receive, before it sends
             sender    call in 30, set up 130, pin             call out 30; a blocking send returns 30 after its
                                                               acknowledgement, a step ends after all of them
             request   45 B, a header alone
             receiver            walk 150, set up 100, once it has posted the receive
             get       13 B back
             NIC of the sender   reads from the host 200
             data      after 13 B
             acknowledgement     15 B back
    both     receiver  wait for all: call in 30, after its last call has returned; unpin arrived data; call out 30

Times are ns; pinning takes 3000, plus 100 for each whole page of 4096 B. Memory copies take no time. A rank that only
receives one message in a step calls recv, which is the first call and the wait in one. A collective is one call:
inside of it, nothing is entered or left.

A host does one thing at a time: the calls of a step follow each other, eager messages of a step are matched one after
the other, and longer messages are unpinned one after the other. Four simplifications are ours. Both happen in the
order in which receives were posted; firefly takes the first arrival. Every match walks past one posted receive. A
message that arrives during a call is matched at once; firefly matches it when the call returns. A request is matched
as soon as it is there; firefly first ends the long messages that have arrived, and in a wait unpins them. What was
tried for the first two: ``benchmarks/results/packet_sst.txt``.

Source: SST 16, firefly: ctrlMsgProcessQueuesState.cc and nic.cc with the defaults of its Python scripts; the tapered
dragonfly, III-B, has the parameters of NICs, which ``fidelity=packet`` has.
"""

from __future__ import annotations

import numpy as np

from topoflow.arrays import Floats

NS = 1e-9
CALL, SET_UP = 30 * NS, 130 * NS  # s, to enter or leave a call; to hand a message to the NIC
WALK, RECEIVE = 150 * NS, 100 * NS  # s, to walk past a posted receive; to set up the matching one
READ = 200 * NS  # s, for the NIC to read requested data from the host
HEADER, GET, ACKNOWLEDGEMENT = 45.0, 13.0, 15.0  # B
PIN, PAGE, PIN_PAGE = 3000 * NS, 4096, 100 * NS

MATCHED = WALK + RECEIVE


def pinned(bytes: Floats) -> Floats:
    """Return the seconds [k] to pin messages of ``bytes`` [k]; unpinning takes as long."""
    return PIN + PIN_PAGE * np.floor(bytes / PAGE)
