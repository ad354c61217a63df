"""Executor: who does work on many items, each by itself: this process, or workers on other machines.

    work     what is done for each item, and how its answer becomes arrays
    item     a world, a point of a figure, ladders of a search, a search

No answer depends on the executor, nor on how it cuts the items into pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import NDArray

if TYPE_CHECKING:
    from topoflow.engine.base import Run

Arrays = Mapping[str, NDArray[Any]]  # of one answer, by name; no objects among them
I = TypeVar("I")  # noqa: E741  an item
I_contra = TypeVar("I_contra", contravariant=True)
A = TypeVar("A")  # an answer


class Work(Protocol[I_contra, A]):
    """A frozen dataclass that a worker can be sent, as can its items."""

    @property
    def is_batch(self) -> bool:
        """Whether many items at once take less than one after the other."""
        ...

    def keys(self, items: Sequence[I_contra]) -> list[str | None]:
        """Digests of all that each answer depends on, to keep it by; None: it is not kept."""
        ...

    def weight(self, item: I_contra) -> float:
        """About how long it takes, compared with others of the same work; more than 0."""
        ...

    def name(self, item: I_contra) -> str:
        """What a person calls it."""
        ...

    def do(self, items: Sequence[I_contra], run: Run) -> list[A]:
        """Their answers; ``run.observer`` is informed how many are done. Raises ``ValueError`` for what is wrong."""
        ...

    def pack(self, item: I_contra, answer: A) -> Arrays:
        """The answer without what ``item`` has already."""
        ...

    def unpack(self, item: I_contra, arrays: Arrays) -> A:
        """The answer, as it was packed."""
        ...


class Executor(Protocol):
    """Does work. ``Local`` is one; a cluster is another."""

    @property
    def workers(self) -> int:
        """How many pieces of work it does at the same time, at least 1."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether it is this process."""
        ...

    @property
    def is_prompt(self) -> bool:
        """Whether a piece of work begins at once, rather than when a queue has come to it."""
        ...

    def keeping_nothing(self) -> Executor:
        """The same without a folder of answers: whoever asks for them keeps them."""
        ...

    def map(self, work: Work[I, A], items: Sequence[I], run: Run) -> Iterator[tuple[int, A]]:
        """The number and the answer of each item, as they are found; ``run.observer`` is informed how many are.

        Raises ``ValueError`` as ``work.do`` does, of several pieces of work that of the first; and where workers end
        again and again.
        """
        ...
