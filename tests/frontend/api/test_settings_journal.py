"""The journal of GDB settings, and the form of frames that follows from it."""

from __future__ import annotations

import pytest

from pgdb.frontend.api.settings_journal import SettingsJournal
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Console
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value

RANKS = RankSet(range(4))


def given(*lines: tuple[str, RankSet]) -> SettingsJournal:
    """Return a journal of lines that ranks have carried out."""
    journal = SettingsJournal()
    for line, ranks in lines:
        record: Record = Value(text="")
        journal.take(line, Console(command=line), [EquivalenceClass(ranks=ranks, record=record)])
    return journal


@pytest.mark.parametrize("word", ["print", "pr", "p", "prin"])
def test_another_form_of_frames_holds_until_it_is_auto_again(word: str) -> None:
    lines = [(f"set {word} frame-info short-location", RANKS)]
    assert given(*lines).shows_frames_otherwise(RANKS)
    lines.append((f"set {word} frame-info auto", RANKS))
    assert not given(*lines).shows_frames_otherwise(RANKS)
    lines.append(("set print frame-i source-line", RANKS))
    assert given(*lines).shows_frames_otherwise(RANKS)


def test_the_form_of_frames_is_that_of_the_ranks_asked() -> None:
    journal = given(
        ("set print frame-info location", RankSet([1, 2])),
        ("set print frame-info a", RankSet([2])),
        ("set print frame-arguments all", RANKS),
    )
    shown = [journal.shows_frames_otherwise(RankSet([rank])) for rank in RANKS]
    assert shown == [False, True, False, False]


def test_a_form_that_gdb_has_refused_changes_nothing() -> None:
    journal = SettingsJournal()
    line = "set print frame-info nosuch"
    refused = EquivalenceClass[Record](ranks=RANKS, record=Failure(message="Undefined item"))
    journal.take(line, Console(command=line), [refused])
    assert not journal.shows_frames_otherwise(RANKS)
