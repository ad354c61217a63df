"""From an Operation, as a file records it, to a Communication: what follows is derived, what does not is an error."""

from __future__ import annotations

from topoflow.capture.base import POINT_TO_POINT, Communication
from topoflow.capture.merge.parts import RecordedOperation, Unrecorded
from topoflow.units import DTYPE_BYTES


def complete(operation: RecordedOperation, rank: int, world_size: int) -> Communication:
    """Return the Communication that ``rank`` did.

    Raises ``Unrecorded`` with its place if sizes are unknown, another ``ValueError`` if they are impossible.
    """
    place, op = operation.place, operation.op
    group = operation.group or ()
    if operation.group_size not in (None, len(group)):
        raise ValueError(f"{place}: group must have {operation.group_size} ranks, as its file says, got {len(group)}")
    dtype = operation.dtype if operation.dtype is not None or op != "barrier" else "uint8"
    bytes_in, bytes_out = _sizes(operation, rank, len(group))
    if dtype is None or bytes_in is None or bytes_out is None:
        missing = "size" if bytes_in is None or bytes_out is None else "dtype"
        raise Unrecorded(
            f"{place}: {op} must have a {missing}, got none: profile with record_shapes=True, "
            f"or give the execution trace of rank {rank} as well"
        )
    if op == "all_to_all" and len(group) > 1 and None in (operation.splits_in, operation.splits_out):
        raise Unrecorded(
            f"{place}: all_to_all must have splits, got none: give the execution trace of the rank as well"
        )
    if op in POINT_TO_POINT and operation.peer is None:
        raise Unrecorded(f"{place}: peer: a {op} must name its peer, got none")
    communication = _communication(operation, rank, world_size, dtype, bytes_in, bytes_out)
    _check_sizes(communication, place)
    return communication


def unsized(operation: RecordedOperation, rank: int, world_size: int) -> Communication:
    """Return the Communication that ``rank`` did without its size, which no file records."""
    return _communication(operation, rank, world_size, "", 0, 0)


def _communication(
    operation: RecordedOperation, rank: int, world_size: int, dtype: str, bytes_in: int, bytes_out: int
) -> Communication:
    place = operation.place
    try:
        communication = Communication(
            op=operation.op,
            group=operation.group or (),
            dtype=dtype,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            iteration=operation.iteration,
            splits_in=(dtype and operation.splits_in) or (),
            splits_out=(dtype and operation.splits_out) or (),
            peer=operation.peer,
            tag=operation.tag,
            root=operation.root,
            issue=operation.issue,
            start=operation.start,
            end=operation.end,
            group_name=operation.group_name,
            after=operation.after,
            waits=operation.waits,
            delay=operation.delay,
        )
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    _check_members(communication, rank, world_size, place)
    return communication


def _sizes(operation: RecordedOperation, rank: int, members: int) -> tuple[int | None, int | None]:
    """Input and output bytes, one derived from the other where the collective fixes it."""
    into, out = operation.bytes_in, operation.bytes_out
    match operation.op:
        case "barrier":
            return into or 0, out or 0
        case "send":
            return into, 0
        case "recv":
            return 0, out
        case "all_reduce" | "broadcast" | "reduce":
            return (out if into is None else into), (into if out is None else out)
        case "all_gather":
            return into, into * members if out is None and into is not None else out
        case "reduce_scatter":
            if out is None and into is not None and into % members == 0:
                out = into // members
            return out * members if into is None and out is not None else into, out
        case "gather":
            return into, (into * members if rank == operation.root else 0) if out is None and into is not None else out
        case "scatter":
            return (out * members if rank == operation.root else 0) if into is None and out is not None else into, out
    return into, out


def _check_members(communication: Communication, rank: int, world_size: int, place: str) -> None:
    group = communication.group
    if rank not in group or min(group) < 0 or max(group) >= world_size:
        raise ValueError(
            f"{place}: group must hold rank {rank} and be within 0..{world_size - 1}, got {list(group)[:8]}"
        )
    if communication.peer is not None and (communication.peer not in group or communication.peer == rank):
        raise ValueError(f"{place}: peer must be another rank of its group, got {communication.peer}")
    if communication.root is not None and communication.root not in group:
        raise ValueError(f"{place}: root must be a rank of its group, got {communication.root}")


def _check_sizes(communication: Communication, place: str) -> None:
    into, out, members = communication.bytes_in, communication.bytes_out, len(communication.group)
    fits = {
        "all_reduce": into == out,
        "broadcast": into == out,
        "all_gather": out == into * members,
        "reduce_scatter": into == out * members,
    }.get(communication.op, True)
    if not fits:
        raise ValueError(
            f"{place}: {communication.op} of {members} ranks must have fitting sizes, got {into} B in and {out} B out"
        )
    if communication.op == "all_to_all" and members > 1:
        element = DTYPE_BYTES[communication.dtype]
        for splits, size in ((communication.splits_in, into), (communication.splits_out, out)):
            if splits and (len(splits) != members or sum(splits) * element != size):
                raise ValueError(f"{place}: splits must be {members} that add up to {size} B, got {list(splits)[:8]}")
            if not splits and size % (members * element):
                raise ValueError(f"{place}: all_to_all without splits must divide by {members} ranks, got {size} B")
