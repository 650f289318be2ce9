"""Answers as arrays of numbers, fields, and values of one rank."""

from __future__ import annotations

import math

import pytest

from pgdb.errors import NoAnswerError
from pgdb.frontend.analysis.answers import Answer
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Value
from tests.support.rendered import PARTICLE, answer, various


def test_numbers_and_fields_as_arrays() -> None:
    said = answer(
        "print p",
        ("0-6,8-9", PARTICLE.format(5, 2.5, "even")),
        ("7", PARTICLE.format(6, "nan", "x")),
    )
    fields = said.fields()
    assert list(fields) == [".id", ".x[0]", ".x[1]", ".x[2]", ".name"]
    assert fields[".id"].ranks.tolist() == list(range(10))
    assert fields[".id"].values.tolist() == [5] * 7 + [6] + [5] * 2
    assert math.isnan(fields[".x[1]"].values[7]) and fields[".x[1]"].values.dtype == float
    assert fields[".name"].values[0].startswith('"even"')
    ranks, values = answer("print x", ("1,3", "5"), ("0", "nan"), ("2", "x")).numbers()
    assert ranks.tolist() == [0, 1, 3]
    assert values[1:].tolist() == [5, 5]
    ranks, values = answer("print x", ("0", str(1 << 80)), ("1", "1")).numbers()
    assert values.tolist() == [float(1 << 80), 1.0]
    assert [len(each) for each in answer("print x", ("0", "x")).numbers()] == [0, 0]


def test_no_single_value_of_a_summary() -> None:
    said = Answer("print x", RankSet.range(0, 2), (various(Value(PLACEHOLDER), ["1", "2"]),))
    with pytest.raises(NoAnswerError, match="summary only"):
        said.for_rank(1)
    assert said.values == {}
