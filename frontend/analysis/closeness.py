"""Tolerances of a comparison: the numbers that count as equal."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec

from pgdb.frontend.analysis.values import Exact, complex_of, exact_of


class Closeness(msgspec.Struct, frozen=True):
    """Tolerances within which two texts count as equal."""

    tolerance: float
    absolute: float

    @property
    def is_exact(self) -> bool:
        """Whether no tolerance is given."""
        return not (self.tolerance or self.absolute)

    def numbers(self, one: Exact, other: Exact) -> bool:
        """Return whether two numbers count as equal; no number is rounded to a double.

        >>> Closeness(0, 0).numbers(2**53, 2**53 + 1), Closeness(0, 1).numbers(2**53, 2**53 + 1)
        (False, True)
        """
        if one == other or (_is_nan(one) and _is_nan(other)):
            return True
        if self.is_exact or not (is_finite(one) and is_finite(other)):
            return False
        if math.inf in (self.tolerance, self.absolute):
            return True
        a, b = Fraction(one), Fraction(other)
        size = abs(a - b)
        return size <= self.absolute or size <= Fraction(self.tolerance) * max(abs(a), abs(b))

    def texts(self, one: str, other: str) -> bool:
        """Return whether two texts are the same or numbers that count as equal."""
        if one == other:
            return True
        a, b = exact_of(one), exact_of(other)
        if a is not None and b is not None:
            return self.numbers(a, b)
        return self._complex_texts(one, other)

    def _complex_texts(self, one: str, other: str) -> bool:
        a, b = complex_of(one), complex_of(other)
        if a is None or b is None:
            return False
        exact = Closeness(0.0, 0.0)
        if all(exact.numbers(mine, theirs) for mine, theirs in zip(a, b, strict=True)):
            return True
        if self.is_exact or not all(is_finite(each) for each in (*a, *b)):
            return False
        size, larger = complex_distance(a, b)
        return size <= max(self.absolute, self.tolerance * larger)


EXACT = Closeness(0.0, 0.0)
"""No tolerance."""


def is_finite(number: Exact) -> bool:
    """Return whether a number is neither a NaN nor an infinity."""
    return not isinstance(number, float) or math.isfinite(number)


def complex_distance(one: tuple[Exact, Exact], other: tuple[Exact, Exact]) -> tuple[float, float]:
    """Return the absolute difference of two finite complex numbers, and the larger magnitude.

    A number above the range of a double is infinitely far from any other.
    """
    try:
        size = math.hypot(*(Fraction(b) - Fraction(a) for a, b in zip(one, other, strict=True)))
        return size, max(math.hypot(*one), math.hypot(*other))
    except OverflowError:
        return math.inf, 1.0


def _is_nan(number: Exact) -> bool:
    return number != number
