"""Locations of ``pgdb run --gdb``, and the checks there."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.element_checks import Failing
from pgdb.frontend.run.places import Place, check_in_words, pairs_of, read_place
from pgdb.ranks import RankSet

PLACE = Place("solve.c:5", check="x in 0..1")
ALL = RankSet(range(4))
UNKNOWN = Failing(ALL, 'No symbol "x" in current context.', is_error=True)


@pytest.mark.parametrize(
    ("failing", "ranks", "words"),
    [
        ([Failing(RankSet([2]), "3.5")], "2", "does not hold at solve.c:5 on [2]: 3.5"),
        (
            [Failing(RankSet([0]), "3.5"), Failing(RankSet([1, 2]), "nan")],
            "0-2",
            "does not hold at solve.c:5 on [0-2]: [0] 3.5, [1-2] nan",
        ),
        # A condition that was not evaluated has not failed.
        (
            [UNKNOWN],
            "",
            'could not be checked at solve.c:5 on [0-3]: No symbol "x" in current context.',
        ),
        (
            [Failing(RankSet([3]), "9"), Failing(RankSet([0]), "No symbol", is_error=True)],
            "3",
            "does not hold at solve.c:5 on [3]: 9",
        ),
    ],
)
def test_a_check_in_words(failing: list[Failing], ranks: str, words: str) -> None:
    found = Check(parse(PLACE.check), ALL, RankSet(), tuple(failing))
    expected = RankSet.parse(ranks) if ranks else RankSet()
    assert check_in_words(PLACE, found) == (expected, f"x in 0..1 {words}")


def test_expressions_at_lines_of_python_are_pythons() -> None:
    place = read_place("it.py:6,n,py:x[1,2]", "--break-at")
    assert place.expressions == ("py:n", "py:x[1,2]")
    (checked,) = pairs_of(["n in 0..5"], ["it.py:6"])
    assert checked.check == "py:n in 0..5"
    assert pairs_of(["n in 0..5"], ["it.c:6"])[0].check == "n in 0..5"
    with pytest.raises(UsageError, match="traces are for compiled code; --break-at"):
        read_place("it.py:6,n", "--trace-at", is_trace=True)
