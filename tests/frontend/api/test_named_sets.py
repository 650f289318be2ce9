"""Sets of ranks that programs name: texts are read, anything else is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.ranks import RankSet
from tests.support.answers import ranks


def sets() -> NamedSets:
    def check(found: RankSet) -> RankSet:
        if found.last > 3:
            raise RankSetError(f"no rank {found.last}")
        return found

    return NamedSets(ranks, check)


def test_each_way_to_name_a_set_reads_a_text() -> None:
    named = sets()
    named["a"] = "0-1"
    named.update({"b": "2"}, c="3")
    named |= {"d": ranks("0")}
    assert named.setdefault("e", "1") == ranks("1")
    assert named.setdefault("e", "2") == ranks("1")
    texts = {name: str(each) for name, each in named.items()}
    assert texts == {"a": "0-1", "b": "2", "c": "3", "d": "0", "e": "1"}


@pytest.mark.parametrize("wrong", [3, None, [0, 1], {1}])
def test_anything_else_is_refused(wrong: Any) -> None:
    named = sets()
    message = r"^sets\['q'\] is .*, and neither a text nor a RankSet$"
    with pytest.raises(UsageError, match=message):
        named["q"] = wrong
    with pytest.raises(UsageError, match=message):
        named.update(q=wrong)
    with pytest.raises(UsageError, match=message):
        named.setdefault("q", wrong)
    with pytest.raises(UsageError, match=message):
        named |= {"q": wrong}
    with pytest.raises(UsageError, match=r"^sets: 3 is no name of a set, and not a text$"):
        named[3] = ranks("0")  # type: ignore[index]
    assert named == {}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *((each, "is a set of PGDB's own") for each in ("all", "held", "stopped", "bp1", "world1")),
        *((each, "cannot be the name of a set") for each in ("a b", "", "1", "-", "@x", "a\n")),
    ],
)
def test_names_are_those_of_defset(name: str, error: str) -> None:
    named = sets()
    for assign in (lambda: named.update({name: "0"}), lambda: named.setdefault(name, "0")):
        with pytest.raises(UsageError, match=error):
            assign()
    assert named == {}


def test_a_set_has_ranks_of_the_job() -> None:
    named = sets()
    with pytest.raises(RankSetError, match="no rank 7"):
        named["big"] = ranks("0,7")
    named.take_over({"before": ranks("0,7")})
    assert named == {"before": ranks("0,7")}
