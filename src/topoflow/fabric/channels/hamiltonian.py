"""Ring orders of all servers of a torus along its cables."""

from __future__ import annotations

Order = tuple[int, ...]
Place = tuple[int, int]  # row, column


def torus_rings(dims: tuple[int, ...]) -> tuple[Order, ...]:
    """Return Hamiltonian cycles that share no link, of a torus with one or two dimensions of more than one server.

    - If one dimension divides the other: the Lee-distance Gray code, row r entered at column -r, and the cycle of the
      unused cables if they form a single one, as in a square: every cable then carries an all-reduce in each direction.
      Source: Bae & Bose, Edge Disjoint Hamiltonian Cycles in k-Ary n-Cubes and Hypercubes, IEEE ToC 52 (10), 2003.
    - Otherwise, if one dimension is even: back and forth along the rows.
    - Otherwise none: odd sizes that do not divide each other, or three dimensions or more.

         0 -- 1 -- 2             3 x 3, the Gray code:  0 1 2, down, 5 3 4, down, 7 8 6, down to 0
                   |             unused cables:         0 2 8 7 1 4 5 3 6 ..
       --3 -- 4    5 --          2 x 4, back and forth: 0 1 2 3, down, 7 6 5 4, up to 0
    """
    sizes = tuple(size for size in dims if size > 1)
    if len(sizes) == 1:
        return both_directions(tuple(range(sizes[0])))
    if len(sizes) != 2:
        return ()
    return tuple(order for places in _cycles(*sizes) for order in both_directions(_numbers(places, sizes[1])))


def both_directions(order: Order) -> tuple[Order, ...]:
    """Return a ring in both directions; two servers have one direction only, one server has none."""
    return (order, order[::-1]) if len(order) > 2 else (order,) if len(order) == 2 else ()


def _numbers(places: list[Place], columns: int) -> Order:
    return tuple(row * columns + column for row, column in places)


def _cycles(rows: int, columns: int) -> list[list[Place]]:
    return (
        _gray(rows, columns)
        or _flip(_gray(columns, rows))
        or _back_and_forth(rows, columns)
        or _flip(_back_and_forth(columns, rows))
    )


def _flip(cycles: list[list[Place]]) -> list[list[Place]]:
    """Return the same cycles with rows and columns exchanged."""
    return [[(column, row) for row, column in cycle] for cycle in cycles]


def _gray(rows: int, columns: int) -> list[list[Place]]:
    if columns < 3 or rows % columns:
        return []
    gray = [(row, (column - row) % columns) for row in range(rows) for column in range(columns)]
    unused = _unused_cycle(gray, rows, columns)
    return [gray, unused] if len(unused) == len(gray) else [gray]


def _back_and_forth(rows: int, columns: int) -> list[list[Place]]:
    if rows % 2:
        return []
    forward = list(range(columns))
    return [[(row, column) for row in range(rows) for column in (forward, forward[::-1])[row % 2]]]


def _unused_cycle(gray: list[Place], rows: int, columns: int) -> list[Place]:
    """Return the cycle through (0, 0) of the cables that the cycle ``gray`` does not use, two at each place."""
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
        first, second = neighbours(place)
        before, place = place, second if first == before else first
    return cycle
