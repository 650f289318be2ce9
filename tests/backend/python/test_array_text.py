"""Texts of arrays of Python, in GDB's form."""

import numpy
import pytest

from pgdb.backend.python import array_text
from pgdb.backend.python.arrays import ArrayPlace


def shown(values: numpy.ndarray, most: int = 200, kept: int | None = None) -> tuple[str, bool]:
    place = ArrayPlace("ndarray", values.dtype.str, values.shape, values.strides, 0)
    data = values.tobytes()
    size = len(data) if kept is None else kept * values.itemsize
    text = array_text.shown_numbers(place, values.dtype.str, data[:size], most)
    return text.text.partition(" = ")[2], text.is_cut


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.0] * 9, "{" + ", ".join(["0.0"] * 9) + "}"),
        ([0.0] * 1000, "{0.0 <repeats 1000 times>}"),
        ([1.0] + [0.0] * 10 + [2.0], "{1.0, 0.0 <repeats 10 times>, 2.0}"),
        ([0.0] * 10 + [-0.0] * 11, "{0.0 <repeats 10 times>, -0.0 <repeats 11 times>}"),
        ([float("nan")] * 12, "{nan <repeats 12 times>}"),
        ([], "{}"),
    ],
)
def test_equal_elements_are_one_text(values: list[float], text: str) -> None:
    assert shown(numpy.array(values)) == (text, False)


def test_each_length_of_a_run_is_shown() -> None:
    for count in range(10, 300):
        values = numpy.array([3] * 5 + [7] * count + [8])
        assert shown(values)[0] == f"{{3, 3, 3, 3, 3, 7 <repeats {count} times>, 8}}"


def test_a_run_ends_with_its_row() -> None:
    row = "{0 <repeats 12 times>}"
    assert shown(numpy.zeros((3, 12), int)) == (f"{{{row}, {row}, {row}}}", False)


def test_a_run_counts_as_ten_elements() -> None:
    text, is_cut = shown(numpy.zeros((30, 50), int))
    assert (text.count("<repeats 50 times>"), is_cut) == (20, True)
    assert text.endswith("}...}")


def test_elements_that_were_not_read_are_left_out() -> None:
    assert shown(numpy.zeros(1000, int), kept=200) == ("{0 <repeats 200 times>...}", True)
    assert shown(numpy.arange(4), kept=2) == ("{0, 1...}", True)


def test_dimensions_without_elements() -> None:
    assert shown(numpy.zeros((2, 0))) == ("{}", False)
