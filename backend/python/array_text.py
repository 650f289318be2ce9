"""Texts of arrays of numbers of Python, in GDB's form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.object_text import Shown

MOST_SHOWN = 200
"""Most elements of a container, and most characters of a text, that are shown."""
_FEWEST_REPEATS = 10
"""Shortest run of equal elements that is one text, and the elements that it counts as, as in GDB:
https://sourceware.org/gdb/current/onlinedocs/gdb.html/Print-Settings.html."""


class _Elements(Protocol):
    """The elements of an array, in the order of C, or the first ones."""

    count: int

    def text(self, at: int) -> str:
        """Return the text of an element."""

    def run(self, at: int, end: int) -> int:
        """Return how many elements from *at* on, and before *end*, are equal."""


class _Numbers:
    """Elements in the bytes of an array."""

    def __init__(self, dtype: str, data: bytes) -> None:
        import numpy

        self._values = numpy.frombuffer(data, dtype)
        self._bytes = self._values.itemsize
        self._data = data
        self.count = len(self._values)

    def text(self, at: int) -> str:
        return _number(self._values[at].item())

    def run(self, at: int, end: int) -> int:
        # The bits decide: 0.0 and -0.0 differ, and a NaN equals itself.
        if not self._is_equal(at, 2, end):
            return 1
        low, high = 2, 4
        while self._is_equal(at, high, end):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_equal(at, middle, end):
                low = middle
            else:
                high = middle
        return low

    def _is_equal(self, at: int, count: int, end: int) -> bool:
        """Return whether so many elements from *at* on are equal, all before *end*."""
        if at + count > end:
            return False
        begin, size = at * self._bytes, (count - 1) * self._bytes
        data = memoryview(self._data)
        return data[begin : begin + size] == data[begin + self._bytes : begin + self._bytes + size]


class _Texts:
    """Elements whose texts are known."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.count = len(texts)

    def text(self, at: int) -> str:
        return self._texts[at]

    def run(self, at: int, end: int) -> int:
        same = itertools.takewhile(self._texts[at].__eq__, self._texts[at:end])
        return sum(1 for _ in same)


class _Writer(msgspec.Struct):
    """Writer of elements in the braces of their dimensions."""

    elements: _Elements
    left: int
    """The elements that may still be written; a run counts as ten."""
    at: int = 0

    def nested(self, shape: Sequence[int]) -> str:
        """Return the elements from here on; ``...`` stands for those that are left out."""
        parts: list[str] = []
        if len(shape) > 1:
            for _ in range(shape[0]):
                if self._is_over():
                    return f"{{{', '.join(parts)}...}}"
                parts.append(self.nested(shape[1:]))
            return f"{{{', '.join(parts)}}}"
        end = self.at + shape[0]
        while self.at < end:
            if self._is_over():
                return f"{{{', '.join(parts)}...}}"
            count = self.elements.run(self.at, min(end, self.elements.count))
            text = self.elements.text(self.at)
            if count < _FEWEST_REPEATS:
                count, cost = 1, 1
            else:
                text, cost = f"{text} <repeats {count} times>", _FEWEST_REPEATS
            parts.append(text)
            self.left -= cost
            self.at += count
        return f"{{{', '.join(parts)}}}"

    def _is_over(self) -> bool:
        return self.left <= 0 or self.at >= self.elements.count


def text_of_numbers(place: ArrayPlace, dtype: str, data: bytes, most: int = MOST_SHOWN) -> str:
    """Return the type, the shape and the values of an array.

    :param data: the elements in the order of C, or the first ones.
    """
    return shown_numbers(place, dtype, data, most).text


def shown_numbers(place: ArrayPlace, dtype: str, data: bytes, most: int) -> Shown:
    """Return the text of an array of numbers, and whether some elements are left out."""
    return _in_form(place, _Numbers(dtype, data), most)


def shown_texts(place: ArrayPlace, texts: Sequence[str]) -> Shown:
    """Return the text of an array by the texts of its elements, or of the first ones."""
    return _in_form(place, _Texts(texts), len(texts))


def _in_form(place: ArrayPlace, elements: _Elements, most: int) -> Shown:
    """Return the type, the shape and the elements of an array."""
    if not place.shape:
        return Shown(elements.text(0))
    head = f"{place.kind} of {place.element_name}, shape {shape_text(place.shape)}"
    listed, is_cut = _nested(elements, place.shape, most)
    return Shown(f"{head} = {listed}", is_cut)


def nested_texts(texts: Sequence[str], shape: Sequence[int]) -> str:
    """Return texts in the braces of their dimensions.

    >>> nested_texts(["a", "b", "c"], (2, 2)), nested_texts(["a"] * 12, (12,))
    ('{{a, b}, {c...}}', '{a <repeats 12 times>}')
    """
    return _nested(_Texts(texts), shape, len(texts))[0]


def _nested(elements: _Elements, shape: Sequence[int], most: int) -> tuple[str, bool]:
    """Return elements in the braces of their dimensions, and whether some are left out."""
    count = math.prod(shape)
    if not count:
        return "{}", False
    writer = _Writer(elements, most)
    return writer.nested(shape), writer.at < count


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as Python writes it.

    >>> shape_text((3,)), shape_text((2, 3))
    ('(3,)', '(2, 3)')
    """
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def texts_of(dtype: str, data: bytes, most: int) -> list[str]:
    """Return the texts of the first numbers."""
    import numpy

    return [_number(each) for each in numpy.frombuffer(data, dtype)[:most].tolist()]


def _number(value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, complex):
        return f"{value.real!r} + {value.imag!r}i"
    return repr(value)
