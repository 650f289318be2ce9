"""Answers with values that are not normalized, and their rendering as text."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.text import render
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.totals import summarize
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Stack, Text, Value, Variables, Various

PARTICLE = "{{id = {}, x = {{1, {}, 3}}, name = \"{}\", '\\000' <repeats 11 times>}}"


def answer(command: str, *pairs: tuple[str, str | Record]) -> Answer:
    """Return an answer with one class for each pair; a text stands for a value with that text."""
    classes = tuple(
        EquivalenceClass[Record](
            ranks=RankSet.parse(ranks), record=Value(said) if isinstance(said, str) else said
        )
        for ranks, said in pairs
    )
    return Answer(command, RankSet.union(each.ranks for each in classes), classes)


def by_rank(command: str, said: Sequence[str | Record]) -> Answer:
    """Return an answer to which each rank, from 0 on, has contributed one text or record."""
    return answer(command, *((str(rank), each) for rank, each in enumerate(said)))


def shown(said: Answer, *, width: int = 80, whole: bool = False) -> list[str]:
    """Return an answer's lines, which are within the width."""
    lines = render.answer(said, number=5, width=width, whole=whole).split("\n")
    assert whole or not width or max(map(len, lines)) <= width
    return lines


def various(form: Record, *columns: Sequence[str]) -> EquivalenceClass[Record]:
    """Return a class as an aggregator sums it up; each column has a text of each rank."""
    summaries = tuple(
        summarize([(RankSet([rank]), text) for rank, text in enumerate(texts)]) for texts in columns
    )
    count = len(columns[0]) if columns else 2000
    assert isinstance(form, Stack | Value | Variables | Text | Failure)
    return EquivalenceClass(
        ranks=RankSet.range(0, count), record=Various(template=form), columns=summaries
    )


def fields(rank: int, **odd: str) -> str:
    """Return a structure of which each field differs between all ranks, except for *odd* ones."""
    named = {f"f{number}": f"{rank + number}.5" for number in range(40)}
    return (
        "{" + ", ".join(f"{name} = {odd.get(name, value)}" for name, value in named.items()) + "}"
    )
