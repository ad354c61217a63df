"""Values that the running ranks of a prediction send each other: files in a folder, one per message.

A message has the ranks that send and receive it, and its number between them. A receive is due when the script waits:
it asks for the rank that sends, if that does not run yet, and waits until the message is there. If ``stands_for`` maps
the two ranks to others that have run, it takes their message.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from topoflow.capture.record.c10d import OperatorSignature, tensors_of

PATIENCE = 60.0  # s without a message that is waited for
POLL = 0.005  # s
WANTED = "wanted"  # files whose names end in the ranks that someone waits for


class Mailbox:
    """The messages of one rank."""

    def __init__(self, folder: Path, rank: int, stands_for: Callable[[int], int]) -> None:
        self._folder = folder
        self._rank = rank
        self._stands_for = stands_for
        self._numbers: Counter[str] = Counter()
        self._due: list[tuple[str, int, torch.Tensor]] = []

    def exchange(self, call: OperatorSignature, group: ProcessGroup, arguments: Mapping[str, Any]) -> None:
        """Write what this rank sends; note what it receives."""
        ranks = dist.get_process_group_ranks(group)
        other = ranks[arguments[call.other]]
        for tensor in tensors_of(arguments[call.inputs or call.outputs]):
            if call.op == "broadcast":
                key = f"broadcast-{other}-{len(ranks)}-{ranks[0]}-{ranks[-1]}"
                path = self._folder / f"{key}-{self._number(key)}"
                if other == self._rank:
                    _write(path, tensor)
                elif path.exists():
                    _read(path, tensor)
            elif call.op == "send":
                self.send(other, tensor)
            else:
                self.receive(other, tensor)

    def send(self, receiver: int, tensor: torch.Tensor) -> None:
        """Write a message."""
        key = f"message-{self._rank}-{receiver}"
        _write(self._folder / f"{key}-{self._number(key)}", tensor)

    def receive(self, sender: int, tensor: torch.Tensor) -> None:
        """Note that ``tensor`` is to get the next message."""
        self._due.append((f"-{self._number(f'message-{sender}-{self._rank}')}", sender, tensor))

    def wait(self) -> None:
        """Read the messages that are due."""
        while self._due:
            number, sender, tensor = self._due.pop(0)
            message_file = self._folder / f"message-{sender}-{self._rank}{number}"
            same_file = self._folder / f"message-{self._stands_for(sender)}-{self._stands_for(self._rank)}{number}"
            until = time.monotonic() + PATIENCE
            while not message_file.exists() and not same_file.exists():
                (self._folder / f"{WANTED}-{sender}").touch()
                if time.monotonic() > until:
                    raise ValueError(f"rank {self._rank} waits for a message of rank {sender}, which sends none")
                time.sleep(POLL)
            _read(message_file if message_file.exists() else same_file, tensor)

    def _number(self, key: str) -> int:
        self._numbers[key] += 1
        return self._numbers[key]


def _write(path: Path, tensor: torch.Tensor) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(tensor.contiguous().numpy().tobytes())
    os.replace(part, path)


def _read(path: Path, tensor: torch.Tensor) -> None:
    if tensor.numel():
        tensor.copy_(torch.frombuffer(bytearray(path.read_bytes()), dtype=tensor.dtype).reshape(tensor.shape))
