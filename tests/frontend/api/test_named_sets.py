"""Sets of ranks that programs name: texts are read, anything else is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.named_sets import NamedSets
from tests.support.answers import ranks


def sets() -> NamedSets:
    return NamedSets(lambda text: ranks(text))


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
