"""Answers kept under a name."""

from __future__ import annotations

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis import saved
from pgdb.frontend.analysis.saved import Saved, SavedAnswers
from tests.support.answers import answer


def test_saved_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SavedAnswers()
    one = Saved("one", answer(("0", "1")), 0.0)
    assert kept.put(one) is None
    assert kept.put(Saved("one", answer(("0", "2")), 0.0)) is one
    for name in ("", "0-3", "a b", "all"):
        with pytest.raises(UsageError, match="cannot be a name"):
            kept.put(Saved(name, one.answer, 0.0))
    monkeypatch.setattr(saved, "MOST_SAVED", 2)
    kept.put(Saved("two", one.answer, 0.0))
    with pytest.raises(CommandError, match="2 answers are kept already"):
        kept.put(Saved("three", one.answer, 0.0))
    monkeypatch.setattr(saved, "MOST_SAVED_BYTES", 1 << 20)
    with pytest.raises(CommandError, match="MiB"):
        kept.put(Saved("two", answer(("0", "x" * (3 << 20))), 0.0))
    assert [each.name for each in kept] == ["one", "two"]
    assert kept.forget("one")
    assert not kept.forget("one")
