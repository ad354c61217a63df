"""Work of operators: counted in some iterations, and repeated in those that do the same.

To see every operator costs 30 us per operator and more, so that they are counted only as often as is needed:

    iteration     0        1        2         3         4      ...     53       54       ...    70        71       72
    operators  counted  counted  counted  repeated  repeated  ...  counted  repeated  ...   changes  counted  repeated
                                (equal to 1)                     (equal to 2)              (counted (equal to 53)
                                                                                          from there)

Some things are seen in every iteration, and cost little: *marks*. A mark is a call of a module with the shapes of its
inputs, a communication with its sizes, or the end of a compute span. While an iteration has the marks of the last
counted one, the operators between two of its marks are taken to be those between the same marks there. Once two
successive iterations were equal, in marks and in work, operators are no longer counted. They are counted again from the
first mark that differs, and in one iteration after ``MAX_REPEATED`` others, which finds what changes without a mark. A
job that changes soon after counting has ended must be equal for twice as many iterations before it ends again.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

from topoflow.capture import work_rows
from topoflow.capture.base import OperatorWork

COUNTED, REPEATED, CHANGED = "counted", "repeated", "changed"  # how the work of an iteration is known
MAX_REPEATED = 50  # successive iterations in which operators are not counted
MAX_MARKS = 100_000  # of an iteration that is kept; the operators of a longer one are always counted
# FLOPs and bytes by dtype, kernel, shape and FLOPs per byte
Totals = dict[tuple[str, str, tuple[int, ...], float], list[float]]


class IterationWork:
    """The work of operators since the last ``take``. ``wanted``: operators should be counted from now on."""

    def __init__(self) -> None:
        self.wanted = True
        self.counting = True
        self._work: Totals = {}  # since the last mark
        self._before_marks: list[Totals] = []  # since the last ``take``
        self._marks: list[tuple[Hashable, Totals]] | None = None  # of this iteration, with the work before each
        self._known: list[tuple[Hashable, Totals]] = []  # those of the last counted iteration
        self._state = COUNTED  # of this iteration so far
        self._equal = 0  # counted iterations that were each equal to the one before
        self._equal_needed = 1
        self._repeated = 0  # iterations since counting ended

    def begin(self) -> None:
        """Begin the first iteration."""
        self._marks = []

    def count(self, counting: bool) -> None:
        """Note that operators are counted from now on, or are not."""
        self.counting = counting
        self._state = CHANGED if self._marks else COUNTED if counting else REPEATED

    def operator(self, work: OperatorWork) -> None:
        """Add an operator. Those with the same FLOPs per byte are limited by the same on any device, so they add up."""
        dtype, flops, moved, kernel, shape = work
        total = self._work.setdefault((dtype, kernel, shape, flops / moved if moved else inf), [0.0, 0.0])
        total[0] += flops
        total[1] += moved

    def mark(self, key: Hashable) -> None:
        """Note something that is seen in every iteration, whether operators are counted or not."""
        if self._marks is None:
            return
        place = len(self._marks)
        if self._state == REPEATED:
            known, self._work = self._known[place] if place < len(self._known) else (None, {})
            if known != key:
                self._state, self.wanted = CHANGED, True
        if self._work:
            self._before_marks.append(self._work)
        if place < MAX_MARKS:
            self._marks.append((key, self._work))
        self._work = {}

    def cut(self, key: Hashable) -> list[list[object]]:
        """Mark the end of a compute span, and return its work as rows have it."""
        if self._marks is not None:
            self.mark(key)
        if not self._work and not self._before_marks:
            return []
        return [work_rows.written(part) for part in self.take()]

    def take(self) -> list[OperatorWork]:
        """Return the work since the last call."""
        if not self._work and not self._before_marks:
            return []
        sums = self._work
        for totals in self._before_marks:
            for kind, (flops, moved) in totals.items():
                total = sums.setdefault(kind, [0.0, 0.0])
                total[0] += flops
                total[1] += moved
        self._work, self._before_marks = {}, []
        return [
            OperatorWork(dtype, flops, moved, kernel, shape)
            for (dtype, kernel, shape, _), (flops, moved) in sorted(sums.items())
        ]

    def end(self) -> str:
        """End an iteration and begin the next one; return how the work of the one that ended is known."""
        self.mark("end")
        state = self._state
        if self._marks is None:
            return state
        if state == COUNTED:
            is_equal = self._marks == self._known and len(self._marks) < MAX_MARKS
            self._equal = self._equal + 1 if is_equal else 0
            self._known = self._marks
            self.wanted = self._equal < self._equal_needed
            self._repeated = 0
        elif state == REPEATED:
            self._repeated += 1
            self.wanted = self._repeated == MAX_REPEATED
        else:
            settled = self._repeated > self._equal_needed
            self._equal, self._equal_needed = 0, 1 if settled else min(2 * self._equal_needed, MAX_REPEATED)
        self._marks = []
        self._state = COUNTED if self.counting else REPEATED
        return state
