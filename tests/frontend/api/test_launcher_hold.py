"""The launcher is held while ranks that it ends are looked at, and always goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pgdb.frontend.api.launcher_hold import LauncherHold
from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.session import Session
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop
from tests.fakes.moving import MovingJob, Step, frame, run

TERMINATED = Stop(reason="signal-received", signal="SIGTERM", frame=frame(3))


OWN = 100
"""The process id of a rank that the launcher has started."""


class Launcher:
    """A launcher that notes what is done to it."""

    pid = 7
    has_ended = False

    def __init__(self) -> None:
        self.done: list[tuple[str, Sequence[int]]] = []

    def ancestors_of(self, pid: int) -> tuple[int, ...]:
        return (self.pid,) if pid == OWN else ()

    def pause(self, pids: Sequence[int]) -> None:
        self.done.append(("pause", pids))

    def resume(self, pids: Sequence[int]) -> None:
        self.done.append(("resume", pids))


def held(session: Session, pid: int) -> Launcher:
    """Return the launcher of a session; its ranks are the process *pid*."""
    launcher: Any = Launcher()
    session.launcher_hold = LauncherHold(session._core, lambda: launcher)
    session.table = ProcTable(
        tuple(RankProcess(rank, "h", pid, "") for rank in session.set), source=""
    )
    return launcher  # type: ignore[no-any-return]


def test_it_is_held_until_a_rank_runs() -> None:
    job = MovingJob({0: [None, None], 1: [None, None], 2: [None]})

    async def test(session: Session) -> None:
        launcher, notes = held(session, OWN), list[str]()
        session.subscribe(
            lambda news: notes.append(news.text) if isinstance(news, SessionNotice) else None
        )
        await session.continue_(wait=False)
        job.happen({2: Exit(code=3)})
        assert not launcher.done
        job.happen({0: TERMINATED})
        job.happen({1: TERMINATED})
        assert launcher.done == [("pause", (launcher.pid,))]
        assert len(notes) == 1 and "[2] died" in notes[0] and "while [0] is stopped" in notes[0]
        await session.ranks("1").continue_(wait=False)
        assert launcher.done[1:] == [("resume", (launcher.pid,))]
        job.happen({1: Exit(signal="SIGKILL")})
        assert len(launcher.done) == 2

    run(job, test)


@pytest.mark.parametrize("way", ["detach", "lost", "over"])
def test_it_goes_on_however_the_look_ends(way: str) -> None:
    job = MovingJob({0: [None], 1: [None], 2: [None]})

    async def test(session: Session) -> None:
        launcher = held(session, OWN)
        await session.continue_(wait=False)
        job.happen({2: Exit(signal="SIGKILL"), 0: TERMINATED, 1: TERMINATED})
        assert [what for what, _ in launcher.done] == ["pause"]
        match way:
            case "detach":
                session.state.detach(RankSet([0]))
            case "lost":
                session.state.lose(RankSet([1]))
            case "over":
                session._core.is_over = True
        session._core.wake()
        assert [what for what, _ in launcher.done] == ["pause", "resume"]
        session.launcher_hold.release()  # it is not held any more
        assert [what for what, _ in launcher.done] == ["pause", "resume"]

    run(job, test)


@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (Exit(code=0), TERMINATED),
        (Exit(code=3), replace(TERMINATED, signal="SIGUSR1")),
    ],
)
def test_it_is_not_held_without_a_death_or_its_signal(end: Step, stop: Step) -> None:
    job = MovingJob({0: [None], 1: [None], 2: [None]})

    async def test(session: Session) -> None:
        launcher = held(session, OWN)
        await session.continue_(wait=False)
        job.happen({2: end})
        job.happen({0: stop, 1: stop})
        assert not launcher.done

    run(job, test)


def test_ranks_that_the_launcher_has_not_started_do_not_hold_it() -> None:
    job = MovingJob({0: [None], 1: [None]})

    async def test(session: Session) -> None:
        launcher = held(session, OWN + 1)
        await session.continue_(wait=False)
        job.happen({1: Exit(code=3)})
        job.happen({0: TERMINATED})
        assert not launcher.done

    run(job, test)
