"""Frames as text: long names of C++, and the number of frames of a stack."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.function_names import short_name, without_parameters
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.event_text import event
from pgdb.frontend.show.text.layout import Layout
from pgdb.frontend.show.text.stack_text import frame_count, stack
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Stop

LONG = (
    "exchange<double, advance(Domain&, Mesh<double>, std::array<Field<int, 2>, 2>)::<lambda(int)> >"
    "(Mesh<double> &, const struct {...} &, int)"
)
SHORT = "exchange<…>(…)"


@pytest.mark.parametrize(
    ("name", "without", "short"),
    [
        (LONG, LONG.partition("(Mesh<double> &")[0] + "(…)", SHORT),
        ("main", "main", "main"),
        ("f()", "f()", "f()"),
        ("operator<", "operator<", "operator<"),
        ("a::operator<<(int)", "a::operator<<(…)", "a::operator<<(…)"),
        (
            "std::function<void (int)>::operator()(int) const",
            "std::function<void (int)>::operator()(…) const",
            "std::function<…>::operator()(…) const",
        ),
        (
            "main::{lambda(int)#1}::operator()(int) const",
            "main::{lambda(int)#1}::operator()(…) const",
            "main::{lambda(…)#1}::operator()(…) const",
        ),
        (
            "(anonymous namespace)::f<int>(T)",
            "(anonymous namespace)::f<int>(…)",
            "(anonymous namespace)::f<…>(…)",
        ),
        ("(solve > sweep) × 12",) * 3,
        ("?? (from app+0x12)",) * 3,
        ("broken<int(>",) * 3,
    ],
)
def test_a_name_without_parameters_and_template_arguments(
    name: str, without: str, short: str
) -> None:
    assert without_parameters(name) == without
    assert short_name(name) == short


def test_a_long_name_is_short_until_all_is_asked_for() -> None:
    long = Frame(level=0, function=LONG, file="a.cc", line=3)
    said = Stack(frames=(long, Frame(level=1, function="main")))
    layout = Layout()
    assert stack(said, layout).splitlines() == [f"#0  {SHORT} () at a.cc:3", "#1  main ()"]
    assert layout.is_shortened
    assert stack(said, Layout(whole=True)).startswith(f"#0  {LONG} () at a.cc:3")
    assert event(Stop(reason="breakpoint-hit", breakpoint=1, frame=long)) == (
        f"Breakpoint 1, {SHORT} () at a.cc:3"
    )


@pytest.mark.parametrize(
    ("hidden", "more", "text"),
    [
        ("", False, "2 frames"),
        ("7", False, "9 frames"),
        ("…", False, "at least 2 frames"),
        ("3", True, "at least 5 frames"),
    ],
)
def test_all_frames_are_counted(hidden: str, more: bool, text: str) -> None:
    frames = (Frame(level=0, function="PMPI_Recv"), Frame(level=1, function="main"))
    assert frame_count(Stack(frames=frames, hidden=hidden, more=more)) == text


def test_source_lines_of_selected_frames_have_their_ranks() -> None:
    def selected(ranks: str, line: int) -> EquivalenceClass[Record]:
        frame = Frame(level=0, function="f", file="a.c", fullname="/a.c", line=line)
        return EquivalenceClass(ranks=RankSet.parse(ranks), record=Stack(frames=(frame,)))

    def shown(*classes: EquivalenceClass[Record]) -> list[str]:
        said = Answer("up", RankSet.parse("0-3"), classes)
        text = render.answer(said, read_source=lambda path, line: f"code {line} of {path}")
        return [each for each in text.split("\n") if "code" in each]

    assert shown(selected("0-3", 7)) == ["7\tcode 7 of /a.c"]
    # Below frames of several classes the number alone does not say whose line it is.
    assert shown(selected("0,2-3", 9), selected("1", 7)) == [
        "[0,2-3] 9\tcode 9 of /a.c",
        "[1]     7\tcode 7 of /a.c",
    ]
