"""How fast a large Kineto profile is imported, and in how much memory.

    python benchmarks/captures/import_kineto.py PROFILE [megabytes=300]

The events of a real profile are repeated, each time later and with other correlations and steps. Prints ``path.metric
value`` lines: the size of the file, MB for each second of CPU time, and the peak memory of the process by the size.
"""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from topoflow.capture.event_list import event_list
from topoflow.capture.load import load
from topoflow.files import read_bytes

CORRELATIONS = 10_000_000  # of one repetition, at most
NUMBER = re.compile(rb'"(ts|correlation|External id|id)": (\d+)')
STEP = re.compile(rb"ProfilerStep#(\d+)")


def grow(profile: Path, megabytes: float, into: BinaryIO) -> None:
    data = read_bytes(profile)
    section = event_list(data)
    assert section is not None, f"{profile} is no Kineto profile"
    events = data[section.start : section.end]
    times = [int(value) for key, value in NUMBER.findall(events) if key == b"ts"]
    span = max(times) - min(filter(None, times)) + 1000
    steps = {int(number) for number in STEP.findall(events)} or {0}
    repetitions = max(1, round(megabytes * 1e6 / len(events)))
    into.write(data[: section.start])
    for number in range(repetitions):
        moved = {b"ts": number * span}

        def move(match: re.Match[bytes], number: int = number, moved: dict[bytes, int] = moved) -> bytes:
            return b'"%b": %d' % (match[1], int(match[2]) + moved.get(match[1], number * CORRELATIONS))

        def count(match: re.Match[bytes], number: int = number) -> bytes:
            return b"ProfilerStep#%d" % (int(match[1]) + number * (max(steps) - min(steps) + 1))

        into.write((b"," if number else b"") + STEP.sub(count, NUMBER.sub(move, events.rstrip())))
    into.write(data[section.end :])


def main(profile: str, megabytes: str = "300") -> None:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        grow(Path(profile), float(megabytes.removeprefix("megabytes=")), file)
        file.flush()
        size = Path(file.name).stat().st_size
        began = time.process_time()
        load([Path(file.name)], sizes_required=False)
        seconds = time.process_time() - began
    name = f"import_kineto.{Path(profile).name.split('.')[0]}"
    print(f"{name}.megabytes {size / 1e6:.0f}")
    print(f"{name}.megabytes_per_second {size / 1e6 / seconds:.1f}")
    print(f"{name}.memory_ratio {1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / size:.2f}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_file():
        sys.exit(__doc__)
    main(*sys.argv[1:])
