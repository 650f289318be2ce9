"""Ranks that were killed together: which one was the first, or that nobody knows."""

from __future__ import annotations

import asyncio

from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import Event, Exit
from tests.fakes.stopping import StoppingJob, run
from tests.support.answers import ranks

KILLED = Exit(signal="SIGKILL")


def notes_of(*moments: tuple[tuple[str, Event], ...], killed: str = "") -> list[str]:
    """Return the notes of a session about ranks that were killed together."""
    notes: list[str] = []

    async def test(job: StoppingJob, session: Session) -> None:
        if killed:
            await session.ranks(killed).kill()
        for events in moments:
            classes = tuple(EquivalenceClass(ranks(text), event) for text, event in events)
            session.traffic.on_events(classes)
            await asyncio.sleep(0)
        notes.extend(job.notes)

    run(test)
    return [each for each in notes if "were killed together" in each]


def test_ranks_that_were_killed_together_have_no_first() -> None:
    (note,) = notes_of((("0-3", KILLED),))
    assert note.startswith("[0-3] were killed together, so the first is unknown")
    assert not notes_of((("2", Exit(code=3)),), (("0-1,3", KILLED),))
    assert not notes_of((("0-1,3", KILLED), ("2", Exit(code=3))))
    assert not notes_of((("2", KILLED),))
    assert not notes_of((("0-3", KILLED),), killed="0-3")
