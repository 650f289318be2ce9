"""Results in a notebook: HTML that stays HTML whatever values ranks have, and text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.report.model import Cause, Report
from pgdb.frontend.show import notebook
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Record, Stack, Value

HOSTILE = '<script>alert(1)</script>"\x1b[2J\u202e'


class Balance(HTMLParser):
    """Parser that checks that all elements end, and collects their names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def answer_of(*texts: str, command: str = "print x", missing: Missing | None = None) -> Answer:
    classes: tuple[EquivalenceClass[Record], ...] = tuple(
        EquivalenceClass(RankSet([rank]), Value(text=text)) for rank, text in enumerate(texts)
    )
    ranks = RankSet.range(0, len(texts))
    return Answer(command, ranks, classes, missing or Missing())


def test_an_answer_is_a_table_of_ranks_and_values() -> None:
    answer = answer_of("1", HOSTILE, missing=Missing(late=RankSet([7])))
    shown = answer._repr_html_()
    balance = Balance(shown)
    assert balance.tags.count("tr") == 3 and "script" not in balance.tags
    assert "&lt;script&gt;" in shown and "\\033[2J" in shown and "\u202e" not in shown
    assert "[7]" in shown and "have not answered in time" in shown


def test_print_shows_the_text_that_the_prompt_shows() -> None:
    assert str(answer_of("1", "2")) == "[0] x = 1\n[1] x = 2"


def test_failures_are_marked() -> None:
    failed: EquivalenceClass[Record] = EquivalenceClass(RankSet([0]), Failure(message="no x"))
    shown = Answer("print x", RankSet([0]), (failed,))._repr_html_()
    assert 'class="bad"' in shown and "error: no x" in shown


def test_a_class_that_differs_is_marked() -> None:
    many: EquivalenceClass[Record] = EquivalenceClass(RankSet.range(0, 9), Value(text="1"))
    one: EquivalenceClass[Record] = EquivalenceClass(RankSet([9]), Value(text="2"))
    shown = Answer("print x", RankSet.range(0, 10), (many, one))._repr_html_()
    assert shown.count('class="odd"') == 1


def test_very_many_classes_are_cut() -> None:
    shown = answer_of(*map(str, range(notebook.MOST_ROWS + 5)))._repr_html_()
    assert "5 more" in shown and Balance(shown).tags.count("tr") == notebook.MOST_ROWS + 1


def test_a_tree_is_nested() -> None:
    def stack(*names: str) -> Stack:
        return Stack(tuple(Frame(at, name) for at, name in enumerate(names)))

    classes: list[EquivalenceClass[Record]] = [
        EquivalenceClass(RankSet([0, 1]), stack("f", "main")),
        EquivalenceClass(RankSet([2]), stack(HOSTILE, "main")),
    ]
    shown = CallTree.from_classes(classes)._repr_html_()
    balance = Balance(shown)
    assert balance.tags.count("details") == 1
    assert "script" not in balance.tags
    assert "fewest ranks" in shown


def test_a_comparison_lists_places() -> None:
    found = compare(answer_of("{a = 1, b = 2}"), answer_of("{a = 1, b = 3}"))
    shown = found._repr_html_()
    assert ".b" in shown and Balance(shown).tags.count("tr") == 2
    same = compare(answer_of("1"), answer_of("1"))._repr_html_()
    assert "equal on" in same


def test_a_check_shows_its_verdict() -> None:
    check = Check(requirement=parse("x > 0"), ranks=RankSet([0]), passed=RankSet([0]))
    assert "x &gt; 0" in check._repr_html_()
    assert "x > 0" in str(check)


def test_a_report_is_a_frame_without_rights() -> None:
    report = Report(time=0, title=HOSTILE, cause=Cause(kind="none", what="nothing"), ranks="0")
    shown = report._repr_html_()
    assert Balance(shown).tags == ["iframe"]
    assert shown.startswith("<iframe sandbox srcdoc=")


def test_no_presentation_of_anything_else() -> None:
    with pytest.raises(TypeError, match="int has no presentation"):
        notebook.html(3)
