"""Work in files: ``[dtype, FLOP, bytes]`` of operators; of kernels with measured rates also their name and sizes."""

from __future__ import annotations

from topoflow.capture.base import KERNELS, OperatorWork
from topoflow.fields import Fields
from topoflow.units import DTYPE_BYTES

PLAIN = 3  # values of work without a kernel


def written(work: OperatorWork) -> list[object]:
    """Return the values of a row."""
    return [*work[:PLAIN], work.kernel, list(work.shape)] if work.kernel else list(work[:PLAIN])


def read(row: Fields, index: int, entry: object) -> OperatorWork:
    """Return the work of one entry of a row's ``work``; ValueError."""
    values = entry if isinstance(entry, list) and len(entry) in (PLAIN, len(OperatorWork._fields)) else ()
    fields = Fields(f"{row.place}work[{index}].", dict(zip(OperatorWork._fields, values, strict=False)))
    flops, moved, dtype = fields.number("flops"), fields.number("moved"), fields.text("dtype")
    if flops < 0 or moved < 0 or (flops > 0 and dtype not in DTYPE_BYTES):
        row.fail("work", "must be dtype, FLOP and bytes, not negative, of each kind of operators")
    if not fields.has("kernel"):
        return OperatorWork(dtype, flops, moved)
    kernel, shape = fields.text("kernel"), fields.integers("shape", 1)
    if len(shape) != KERNELS.get(kernel):
        fields.fail("kernel", f"must be one of {', '.join(KERNELS)}, with {KERNELS.get(kernel, 3)} sizes")
    return OperatorWork(dtype, flops, moved, kernel, shape)
