"""Tolerances of a comparison: the numbers that count as equal."""

from __future__ import annotations

import math

import msgspec

from pgdb.frontend.analysis.values import exact_of, scalar_of


class Closeness(msgspec.Struct, frozen=True):
    """Tolerances within which two texts count as equal."""

    tolerance: float
    absolute: float

    @property
    def is_exact(self) -> bool:
        """Whether no tolerance is given."""
        return not (self.tolerance or self.absolute)

    def numbers(self, one: float, other: float) -> bool:
        """Return whether two numbers count as equal."""
        if one == other or (math.isnan(one) and math.isnan(other)):
            return True
        return math.isclose(one, other, rel_tol=self.tolerance, abs_tol=self.absolute)

    def texts(self, one: str, other: str) -> bool:
        """Return whether two texts are the same or numbers that count as equal."""
        if one == other:
            return True
        a, b = scalar_of(one), scalar_of(other)
        if a is None or b is None or not self.numbers(a, b):
            return False
        # A long double has more digits than the double that its text would be rounded to.
        return not self.is_exact or a != b or exact_of(one) == exact_of(other)
