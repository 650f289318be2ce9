"""Commands that wait for ranks which wait for held ones."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands import waiting
from pgdb.frontend.show.shown import Waiting, progress_text
from pgdb.ranks import RankSet
from pgdb.records import Frame
from tests.fakes.moving import MovingJob, at, run
from tests.fakes.recorded import User
from tests.support.why_calls import outside, recv


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PROGRESS_S", 0.0)
    monkeypatch.setattr(waiting, "LOOK_S", 0.0)


WAY_OUT = "'release' lets held ranks run, after Ctrl-C or a time limit has ended this wait"


class Notes:
    """The notes of a session."""

    def __init__(self, session: Session) -> None:
        self.texts: list[str] = []
        session.subscribe(self._take)

    def _take(self, notification: object) -> None:
        if isinstance(notification, SessionNotice):
            self.texts.append(notification.text)


def job_in_calls() -> MovingJob:
    """Return a job whose ranks 2 and 3 run for ever."""
    job = MovingJob({rank: [None] * 999 for rank in range(4)})
    job.frames[3] = Frame(level=0, function="PMPI_Recv", library="/lib/libmpi.so")
    job.calls = {2: outside(), 3: recv(0)}
    return job


def test_a_rank_that_waits_for_a_held_one_is_named_once() -> None:
    job = job_in_calls()

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        await user.type("hold 0-1")
        command = asyncio.create_task(user.type("continue"))
        while not notes.texts or len(job.interrupted) < 5:
            await asyncio.sleep(0)
        assert not command.done()
        (text,) = notes.texts
        assert text.startswith("[3] is in MPI_Recv from 0 with tag 1 in MPI_COMM_WORLD")
        assert f"may wait for [0], which is held; {WAY_OUT}" in text
        while len(job.resumed) <= len(job.interrupted):  # a look is in progress
            await asyncio.sleep(0)
        job.happen({2: at(9), 3: at(9)})
        await command

    run(job, test)


def test_progress_counts_no_rank_that_was_held_before_the_command() -> None:
    job = job_in_calls()

    async def test(session: Session) -> None:
        user = User(session)
        shown: list[Waiting] = []
        display = user.dispatcher.display
        display.waiting = lambda each: shown.append(each) if each else None  # type: ignore[method-assign]
        await user.type("hold 0")
        command = asyncio.create_task(user.type("continue"))
        while not shown:
            await asyncio.sleep(0)
        assert str(shown[0].running) == "1-3" and str(shown[0].ranks) == "1-3"
        session.state.hold(RankSet([1]), "barrier 1")
        job.happen({1: at(9)})
        while str(shown[-1].running) != "2-3":
            await asyncio.sleep(0)
        assert str(shown[-1].ranks) == "1-3"
        while len(job.resumed) <= len(job.interrupted):  # a look is in progress
            await asyncio.sleep(0)
        job.happen({2: at(9), 3: at(9)})
        await command

    run(job, test)


def shown_progress(user: User) -> list[Waiting]:
    """Return the progress that is shown from now on."""
    shown: list[Waiting] = []
    display = user.dispatcher.display
    display.waiting = lambda each: shown.append(each) if each else None  # type: ignore[method-assign]
    return shown


@pytest.mark.parametrize("word", ["next", "step", "finish", "until"])
def test_steps_name_the_held_ranks_that_they_may_wait_for(word: str) -> None:
    job = MovingJob({rank: [None] for rank in range(4)})

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        shown = shown_progress(user)
        await user.type("hold 2-3")
        command = asyncio.create_task(user.type(word))
        while len(shown) < 3:
            await asyncio.sleep(0)
        assert (str(shown[-1].running), str(shown[-1].held)) == ("0-1", "2-3")
        assert not shown[-1].stopped
        assert progress_text(shown[-1]).endswith("; [2-3] are held")
        assert notes.texts == [
            f"[0-1] in the '{word}' from f at a.c:1: if they wait in MPI, it may be for [2-3], "
            f"which are held; {WAY_OUT}"
        ]
        assert job.interrupted == []  # an interrupt would end the steps
        job.happen({0: at(9), 1: at(9)})
        await command

    run(job, test)


def test_progress_names_the_ranks_that_have_stopped_elsewhere() -> None:
    job = MovingJob({rank: [None] for rank in range(4)})

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        shown = shown_progress(user)
        command = asyncio.create_task(user.type("proc 0-1 continue"))
        while len(shown) < 2:
            await asyncio.sleep(0)
        assert progress_text(shown[-1]) == "2 of 2 still running: [0-1], for 0 s; [2-3] are stopped"
        # A rank of the command that has stopped is counted, and not named.
        job.happen({1: at(9)})
        while str(shown[-1].running) != "0":
            await asyncio.sleep(0)
        assert progress_text(shown[-1]) == "1 of 2 still running: [0], for 0 s; [2-3] are stopped"
        assert not notes.texts
        job.happen({0: at(9)})
        await command

    run(job, test)


def test_held_ranks_are_no_reason_for_a_wait_for_another_rank() -> None:
    job = job_in_calls()
    job.calls[3] = recv(1)

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        await user.type("hold 0")
        command = asyncio.create_task(user.type("proc 2-3 continue"))
        while len(job.interrupted) < 3:
            await asyncio.sleep(0)
        assert not notes.texts
        job.calls[3] = recv(0)
        while not notes.texts:
            await asyncio.sleep(0)
        assert "may wait for [0], which is held" in notes.texts[0]
        while len(job.resumed) <= len(job.interrupted):  # a look is in progress
            await asyncio.sleep(0)
        job.happen({2: at(9), 3: at(9)})
        await command

    run(job, test)


@pytest.mark.parametrize("line", ["set look-at-running off", "proc 0-1 print 1"])
def test_no_rank_is_stopped_where_none_is_held_or_the_user_does_not_want_it(line: str) -> None:
    job = job_in_calls()

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        await user.type(line)
        if "off" in line:
            await user.type("hold 0-1")
        command = asyncio.create_task(user.type("continue"))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not notes.texts and not job.interrupted
        job.happen({rank: at(9) for rank in session.state.running})
        await command

    run(job, test)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("continue", "[3] is in MPI, and may wait there for [0-1], which are stopped"),
        ("next", "[2-3] may wait in MPI for [0-1], which are stopped"),
    ],
)
def test_a_wait_that_has_ended_names_the_stopped_ranks(word: str, text: str) -> None:
    job = job_in_calls()

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        user.dispatcher.workspace.run_timeout_s = 0.2
        await user.type(f"proc 2-3 {word}")
        assert f"{text}; 'proc 0-1 continue' lets them run" in notes.texts

    run(job, test)


def test_a_wait_for_all_names_no_stopped_ranks() -> None:
    job = job_in_calls()

    async def test(session: Session) -> None:
        user, notes = User(session), Notes(session)
        user.dispatcher.workspace.run_timeout_s = 0.2
        command = asyncio.create_task(user.type("continue"))
        while not job.resumed:
            await asyncio.sleep(0)
        job.happen({0: at(9)})
        await command
        assert not any("which is stopped" in each for each in notes.texts)

    run(job, test)
