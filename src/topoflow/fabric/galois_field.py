"""Finite fields of q = p^m elements, as numbers 0 .. q - 1 whose digits in base p are the coefficients of polynomials.

    GF(4), x^2 = x + 1      0, 1, 2 = x, 3 = x + 1      2 + 3 = 1, 2 * 3 = 1

Source: Lidl and Niederreiter, Introduction to Finite Fields and Their Applications, 1986, 3.1 (primitive polynomials).
"""

from __future__ import annotations

from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def prime_power(q: int) -> tuple[int, int] | None:
    """Return p and m of q = p^m with a prime p; None where q is no power of a prime."""
    divisor = next((number for number in range(2, int(q**0.5) + 1) if q % number == 0), q)
    power = 1
    while divisor**power < q:
        power += 1
    return (divisor, power) if q > 1 and divisor**power == q else None


class GaloisField:
    """The field of ``q`` elements, with zero 0 and one 1. Raises ``ValueError`` unless q is a prime power."""

    def __init__(self, q: int) -> None:
        factors = prime_power(q)
        if factors is None:
            raise ValueError(f"q: must be a power of a prime, got {q}")
        self.q, (self.p, self.m) = q, factors

    @cached_property
    def powers(self) -> Index:
        """Return [q - 1] the powers 0, 1, .. of a primitive element: every element except 0, once."""
        for low in product(range(self.p), repeat=self.m):
            powers = self._powers_of_x(low)
            if len(powers) == self.q - 1:
                return np.array(powers, np.int64)
        raise AssertionError("every finite field has a primitive element")

    def _powers_of_x(self, low: tuple[int, ...]) -> list[int]:
        """Return 1, x, x^2, .. modulo x^m + the polynomial with these coefficients, until one repeats."""
        digits, powers, seen = [1] + [0] * (self.m - 1), [], set()
        while (number := sum(digit * self.p**place for place, digit in enumerate(digits))) not in seen:
            seen.add(number)
            powers.append(number)
            top = digits[-1]
            digits = [
                (before - top * coefficient) % self.p
                for before, coefficient in zip([0, *digits[:-1]], low, strict=True)
            ]
        return powers if powers[-1] and 0 not in seen else []

    @cached_property
    def _logarithms(self) -> Index:
        """Return [q] the logarithm of each element; that of 0 is not used."""
        logarithm = np.zeros(self.q, np.int64)
        logarithm[self.powers] = np.arange(self.q - 1)
        return logarithm

    def add(self, a: Index, b: Index) -> Index:
        """Return the sums, element by element."""
        return self._by_digits(a, b, 1)

    def subtract(self, a: Index, b: Index) -> Index:
        """Return the differences, element by element."""
        return self._by_digits(a, b, -1)

    def multiply(self, a: Index, b: Index) -> Index:
        """Return the products, element by element."""
        product = self.powers[(self._logarithms[a] + self._logarithms[b]) % (self.q - 1)]
        return np.where((a == 0) | (b == 0), 0, product)

    def _by_digits(self, a: Index, b: Index, sign: int) -> Index:
        total: Index = np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), np.int64)
        for place in self.p ** np.arange(self.m):
            total += (a // place + sign * (b // place)) % self.p * place
        return total
