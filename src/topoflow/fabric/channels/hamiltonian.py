"""Ring orders over all servers of a torus, along its cables."""

from __future__ import annotations

Order = tuple[int, ...]
Place = tuple[int, int]  # row, column


def torus_rings(dims: tuple[int, ...]) -> tuple[Order, ...]:
    """Hamiltonian cycles of a torus of one or two dimensions (of more than one server each) that share no link.

    - Where one dimension divides the other: the Lee-distance Gray code, row r entered at column -r, and the cables
      it leaves over where these are one cycle too, as in a square: every cable then carries an all-reduce each way.
      Source: Bae & Bose, Edge Disjoint Hamiltonian Cycles in k-Ary n-Cubes and Hypercubes, IEEE ToC 52 (10), 2003.
    - Else, where one dimension is even: to and fro along the rows.
    - Else none: odd sizes that do not divide each other, three dimensions or more.

         0 -- 1 -- 2             3 x 3, the Gray code:  0 1 2, down, 5 3 4, down, 7 8 6, down to 0
                   |             the rest:              0 2 8 7 1 4 5 3 6 ..
       --3 -- 4    5 --          2 x 4, to and fro:     0 1 2 3, down, 7 6 5 4, up to 0
    """
    sizes = tuple(size for size in dims if size > 1)
    if len(sizes) == 1:
        return both_directions(tuple(range(sizes[0])))
    if len(sizes) != 2:
        return ()
    return tuple(order for places in _cycles(*sizes) for order in both_directions(_numbers(places, sizes[1])))


def both_directions(order: Order) -> tuple[Order, ...]:
    """A ring and the same ring backwards; two servers have one direction only, one has none."""
    return (order, order[::-1]) if len(order) > 2 else (order,) if len(order) == 2 else ()


def _numbers(places: list[Place], columns: int) -> Order:
    return tuple(row * columns + column for row, column in places)


def _cycles(rows: int, columns: int) -> list[list[Place]]:
    return (
        _gray(rows, columns)
        or _flip(_gray(columns, rows))
        or _to_and_fro(rows, columns)
        or _flip(_to_and_fro(columns, rows))
    )


def _flip(cycles: list[list[Place]]) -> list[list[Place]]:
    """The same cycles where rows are columns."""
    return [[(column, row) for row, column in cycle] for cycle in cycles]


def _gray(rows: int, columns: int) -> list[list[Place]]:
    if columns < 3 or rows % columns:
        return []
    gray = [(row, (column - row) % columns) for row in range(rows) for column in range(columns)]
    rest = _rest(gray, rows, columns)
    return [gray, rest] if len(rest) == len(gray) else [gray]


def _to_and_fro(rows: int, columns: int) -> list[list[Place]]:
    if rows % 2:
        return []
    there = list(range(columns))
    return [[(row, column) for row in range(rows) for column in (there, there[::-1])[row % 2]]]


def _rest(gray: list[Place], rows: int, columns: int) -> list[Place]:
    """The cycle through (0, 0) of the cables that the cycle ``gray`` leaves over; each place has two of them."""
    used = {frozenset(pair) for pair in zip(gray, gray[1:] + gray[:1], strict=True)}

    def neighbours(place: Place) -> list[Place]:
        row, column = place
        around = [(row, (column + 1) % columns), (row, (column - 1) % columns)]
        around += [((row + 1) % rows, column), ((row - 1) % rows, column)]
        return [other for other in around if frozenset((place, other)) not in used]

    cycle = [(0, 0)]
    before, place = cycle[0], neighbours(cycle[0])[0]
    while place != cycle[0]:
        cycle.append(place)
        one, other = neighbours(place)
        before, place = place, other if one == before else one
    return cycle
