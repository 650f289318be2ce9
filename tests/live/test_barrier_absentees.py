"""Barriers that cannot fill: each way in which a rank stays away is named while the others wait."""

from __future__ import annotations

import re
import threading

import pytest

import pgdb
from pgdb.frontend.api.notifications import BarrierNews
from tests.conftest import Build
from tests.support.programs import Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 3
NEWS_DEADLINE_S = 300.0
_HELD = r"and may wait for \[0-1\], which are held"
_FIRST = r"and may wait for \[0\], which is held"


@pytest.fixture
def absent(build: Build) -> Program:
    return build("absent.c", "-pthread")


@pytest.mark.parametrize(
    ("mode", "kind", "text"),
    [
        ("busy", "running", r"computes, in stay_away at absent.c:\d+"),
        ("sleep", "running", r"sleeps .*in stay_away at absent.c:\d+"),
        ("barrier", "in MPI", rf"is in MPI_Barrier in MPI_COMM_WORLD .*{_HELD}"),
        ("finalize", "in MPI", rf"is in MPI_Finalize, .*{_HELD}"),
        ("poll", "in MPI", rf"polls in MPI_Test for a receive from 0 with tag 3, .*{_FIRST}"),
        ("ssend", "in MPI", rf"is in MPI_Ssend to 0 with tag 4 .*{_FIRST}"),
        ("any", "in MPI", rf"is in MPI_Recv from any rank with tag 5 .*{_HELD}"),
        ("lock", "", r"waits for a lock that it holds itself in \w*mutex_lock, in stay_away .*"),
        ("semaphore", "", r"waits .*in stay_away at absent.c:\d+"),
        ("exit", "ended", r"has ended with status 0"),
    ],
)
def test_a_rank_that_stays_away_is_named(
    mpi: Mpi, absent: Program, mode: str, kind: str, text: str
) -> None:
    found: list[pgdb.Barrier] = []
    has_news = threading.Event()

    def listen(news: pgdb.Notification) -> None:
        if isinstance(news, BarrierNews):
            found.append(news.barrier)
            ways = [each for each in news.barrier.absent if RANKS - 1 in each.ranks]
            if any(re.search(text, each.text) for each in ways):
                has_news.set()

    with pgdb.launch(mpi.line(RANKS, absent, mode), on_event=listen) as session:
        number = session.barrier("meet").number
        session.continue_(wait=False)
        assert has_news.wait(NEWS_DEADLINE_S), found
        now = session.wait_barrier(number, timeout_s=0.1)
        if mode == "exit":
            # The launcher may end the others before they come.
            assert now.met == 1 or RANKS - 1 in session.named_set("exited")
            return
        assert (now.met, str(now.arrived)) == (0, "0-1")
        (way,) = (each for each in found[-1].absent if RANKS - 1 in each.ranks)
        assert way.kind == kind or not kind, way
        # Nobody has to wait for it: the others can be released, with or without the barrier.
        assert str(session.ranks("0").release()) == "0"
        with pytest.raises(pgdb.CommandError, match=r"no rank of \[0\] is held; held are \[1\]"):
            session.ranks("0").release()
        session.delete(number)
        assert not session.held_for


def test_a_caller_that_waits_hears_of_a_chain_behind_a_held_rank(mpi: Mpi, absent: Program) -> None:
    """Each rank waits for the one before it, and rank 1 for rank 0; none comes to the barrier."""
    with pgdb.launch(mpi.line(RANKS, absent, "chain")) as session:
        session.break_at(absent.at("chain"), temporary=True)
        session.continue_()
        session.ranks("0").hold()
        number = session.barrier("meet").number
        session.continue_(wait=False)
        found = session.wait_barrier(number, timeout_s=NEWS_DEADLINE_S)
        assert (found.met, str(found.arrived)) == (0, "")
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [
            ("held", "0"),
            ("in MPI", "1"),
            ("in MPI", "2"),
        ]
        assert "may wait for [0], which is held" in found.absent[1].text
        assert "may wait for [1]" in found.absent[2].text
        session.ranks("0").release()
        session.ranks("0").continue_(wait=False)
        assert session.wait_barrier(number, timeout_s=NEWS_DEADLINE_S).met == 1


def test_a_caller_that_waits_hears_of_a_ring_behind_a_held_rank(mpi: Mpi, ring: Program) -> None:
    """Ranks 1 and 2 have received and sent, and wait in calls that fit each other."""
    with pgdb.launch(mpi.line(RANKS, ring)) as session:
        session.break_at(ring.at("step"), temporary=True)
        session.continue_()
        session.ranks("0").hold()
        number = session.barrier(ring.at("sleep"), condition="received == 1e9").number
        session.continue_(wait=False)
        found = session.wait_barrier(number, timeout_s=NEWS_DEADLINE_S)
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [
            ("held", "0"),
            ("in MPI", "1"),
            ("in MPI", "2"),
        ]
        assert found.absent[2].text.endswith("and may wait for [1]")
