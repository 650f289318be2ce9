"""The programs of ``tests/why`` say which verdict is expected, in words that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from pgdb.frontend.analysis.why.verdict import VerdictKind
from pgdb.ranks import RankSet
from tests.support.programs import ROOT

PROGRAMS = ROOT / "tests" / "why"
EXPECTED = re.compile(r"why: ([a-z|-]+)(?: ranks=(\S*) victims=(\S*))?")
SUPPORT = {"why.h", "why.inc", "why_begin.inc", "why.py", "pattern.c"}
LEAST = 60


def sources() -> list[Path]:
    return sorted(
        each for each in PROGRAMS.iterdir() if each.is_file() and each.name not in SUPPORT
    )


def test_there_are_programs_in_every_language() -> None:
    assert len(sources()) >= LEAST
    assert {each.suffix for each in sources()} == {".c", ".cc", ".f90", ".py"}


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
def test_program_names_its_verdict(source: Path) -> None:
    match = EXPECTED.search(source.read_text(encoding="utf-8").split("\n", 1)[0])
    assert match is not None
    kinds = match[1].split("|")
    if kinds == ["healthy"]:
        assert match[2] is None
        return
    assert set(kinds) <= {*get_args(VerdictKind), "healthy"}
    ranks = RankSet.parse(match[2])
    victims = RankSet.parse(match[3]) if match[3] else RankSet()
    assert ranks and ranks.isdisjoint(victims)
