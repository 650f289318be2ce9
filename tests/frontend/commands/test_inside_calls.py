"""Steps of ranks inside a call: the note names all of them, and how the call is completed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.session import Session
from pgdb.records import Frame, Stop
from tests.fakes.moving import MovingJob, at, frame, run
from tests.fakes.recorded import User


def inside(function: str) -> Stop:
    """Return the stop of a rank that was interrupted inside a call."""
    return Stop(reason="interrupted", inside=function, frame=frame(36, "act"))


def notes_of(stops: dict[int, Stop], test: Callable[[User], Awaitable[object]]) -> list[str]:
    """Let ranks stop, type what *test* types, and return the notes."""
    job = MovingJob({rank: [stop, at(2), at(3)] for rank, stop in stops.items()})
    notes: list[str] = []

    async def work(session: Session) -> None:
        user = User(session)
        await user.type("continue")
        session.subscribe(
            lambda each: notes.append(each.text) if isinstance(each, SessionNotice) else None
        )
        await test(user)

    run(job, work)
    return notes


@pytest.mark.parametrize("word", ["next", "step", "until", "next 3", "next --lockstep"])
def test_all_ranks_inside_a_call_are_named(word: str) -> None:
    stops = {0: inside("PMPI_Recv"), 1: inside("PMPI_Recv"), 2: inside("usleep"), 3: at(7)}
    if "--lockstep" in word:
        del stops[3]
    first = word.split()[0]
    assert notes_of(stops, lambda user: user.type(word)) == [
        f"[0-2] are inside [0-1] PMPI_Recv, [2] usleep: '{first}' steps the innermost frame "
        "there; 'down' and 'finish' run to the end of the call"
    ]


def test_one_call_is_named_once_and_only_for_its_ranks() -> None:
    stops = {0: inside("PMPI_Recv"), 1: at(7)}
    assert notes_of(stops, lambda user: user.type("next")) == [
        "[0] is inside PMPI_Recv: 'next' steps the innermost frame there; 'down' and "
        "'finish' run to the end of the call"
    ]
    assert notes_of(stops, lambda user: user.type("proc 1 next")) == []


def test_the_note_comes_once() -> None:
    async def twice(user: User) -> None:
        await user.type("next")
        await user.type("next")

    assert len(notes_of({0: inside("PMPI_Recv")}, twice)) == 1


@pytest.mark.parametrize("line", ["continue", "finish", "stepi", "until 40"])
def test_other_run_commands_have_no_note(line: str) -> None:
    assert notes_of({0: inside("PMPI_Recv")}, lambda user: user.type(line)) == []


def test_python_frames_and_fatal_signals_have_no_note() -> None:
    python = Frame(level=0, function="train", file="train.py", line=3, language="python")
    for stop in (
        Stop(reason="interrupted", inside="time_sleep", frame=python),
        Stop(reason="signal-received", signal="SIGABRT", inside="abort", frame=frame(3)),
    ):
        assert notes_of({0: stop}, lambda user: user.type("next")) == []
