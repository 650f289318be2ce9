"""Jobs of four ranks that meet at a barrier, and the news of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pgdb.frontend.api.notifications import BarrierNews
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text import meeting_text
from pgdb.ranks import RankSet
from tests.fakes.moving import MovingJob, Step, at

CAME = at(48, "meet", breakpoint=1)


def job_of(**paths: list[Step]) -> MovingJob:
    """Return a job of four ranks; all come to the barrier again and again but those given."""
    return MovingJob({rank: paths.get(f"r{rank}", [CAME] * 9) for rank in range(4)})


class Reader:
    """Reader of the news of barriers."""

    def __init__(self, session: Session) -> None:
        self.news: list[BarrierNews] = []
        session.subscribe(self._take)

    def _take(self, notification: object) -> None:
        if isinstance(notification, BarrierNews):
            self.news.append(notification)

    @property
    def lines(self) -> list[str]:
        return [meeting_text.barrier_news(each) for each in self.news]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def held(session: Session, number: int = 1) -> str:
    """Return the ranks that are held for a barrier."""
    return str(session.held_for.get(f"barrier {number}", RankSet()))


async def all_but_one_come(session: Session) -> None:
    """Have ranks 0 to 2 of a job wait at a barrier for rank 3."""
    await session.barrier("meet")
    await session.runs.start("continue", "", session.set)
    await until(lambda: held(session) == "0-2")
