"""Times of an MPI library and its host for a message, after SST's firefly.

    eager    receiver  call in 30, call out 30, for each receive of a step, before it sends
             sender    call in 30, set up 130                  call out 30, then its next call
             NIC       a header of 45 B before the message
             receiver                        walk 150, set up 100, call out 30 after it has arrived
    longer   receiver  call in 30, pin, call out 30, for each receive, before it sends
             sender    call in 30, set up 130, pin             call out 30; the last send of a step returns 30 after
                                                               the acknowledgement, the step ends with those of all
             request   45 B: a header alone
             receiver            walk 150, set up 100, once it has posted the receive
             get       13 B back
             NIC of the sender   reads from the host 200
             data      with 13 B before it
             acknowledgement     15 B back
    both     receiver  wait for all: call in 30, after its last send has returned; unpin what has come; call out 30

Times are ns; pinning takes 3000 and 100 for each whole page of 4096 B. Memory copies take nothing. A rank that does
nothing in a step but receive one message calls recv, which is the first call and the wait in one.

A host does one thing at a time: the calls of a step follow each other, eager messages of a step are matched one after
the other, and longer ones are unpinned one after the other. Ours: both in the order in which they were posted, where
firefly takes what has come first; one posted receive is walked, whatever else is posted; and what comes while a call
takes its time is matched at once, where firefly does so when the call returns.

Source: SST 16, firefly: ctrlMsgProcessQueuesState.cc and nic.cc with the defaults of its Python scripts; the tapered
dragonfly, III-B, has the parameters of NICs, which ``fidelity=packet`` has.
"""

from __future__ import annotations

import numpy as np

from topoflow.arrays import Floats

NS = 1e-9
CALL, SET_UP = 30 * NS, 130 * NS  # s, in and out of a call each; before a message is handed to the NIC
WALK, RECEIVE = 150 * NS, 100 * NS  # s, past a posted receive; of the one that matches
READ = 200 * NS  # s, the NIC from the host, before it sends what was asked for
HEADER, GET, ACKNOWLEDGEMENT = 45.0, 13.0, 15.0  # B
PIN, PAGE, OF_A_PAGE = 3000 * NS, 4096, 100 * NS

POSTED = 2 * CALL  # s, a call that posts a receive, but for pinning
SENT = 2 * CALL + SET_UP  # s, a call that sends
BEFORE = CALL + SET_UP  # s of it until the NIC has the message
MATCHED = WALK + RECEIVE


def pinned(bytes: Floats) -> Floats:
    """Return the seconds [k] to pin messages of ``bytes`` [k], and again to unpin them."""
    return PIN + OF_A_PAGE * np.floor(bytes / PAGE)
