"""Values that differ everywhere, whole or part by part."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.diff import compare
from pgdb.frontend.analysis.values import parse
from pgdb.frontend.analysis.whole_or_parts import are_clearer_whole
from pgdb.ranks import RankSet

LONG = ", ".join(f"{each}.0625" for each in range(40))


@pytest.mark.parametrize(
    ("texts", "is_whole"),
    [
        (("{x = 1, y = 2}", "{x = 3, y = 4}"), True),
        ((f"{{n = 1, v = {{{LONG}}}}}", f"{{n = 2, v = {{7, {LONG}}}}}"), False),
        ((f"( n = 1, v = ({LONG}) )", f"( n = 2, v = (7, {LONG}) )"), False),
        ((f"{{n = 1, v = {{{LONG}}}}}", f"{{n = 1, v = {{7, {LONG}}}}}"), False),
        ((f"{{{LONG}}}", "{" + LONG.replace("625", "626") + "}"), True),
        (("{x = 1, y = 2}", "{x = 1, y = 4}"), False),
        (("1", "2"), True),
        (("{\n  x = 1,\n  y = 2\n}", "{\n  x = 3,\n  y = 4\n}"), False),
    ],
)
def test_long_structures_are_shown_by_part(texts: tuple[str, ...], is_whole: bool) -> None:
    nodes = [(RankSet([rank]), parse(text)) for rank, text in enumerate(texts)]
    assert are_clearer_whole(nodes, compare(nodes)) is is_whole
