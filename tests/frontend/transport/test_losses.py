"""Messages for the loss of an aggregator, and losses during a start."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.frontend.transport.losses import describe
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import PROTOCOL_VERSION, Hello, Joined, Lost, Share
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Record, Stop

# 0 above 1 and 2, 1 above 3 and 4; two ranks each, in order.
TREE = Topology(count=5, fan_out=2)
SHARES = {node: Share.of(node, RankSet([2 * node, 2 * node + 1])) for node in range(5)}
KNOWN = {
    node: Hello(version=PROTOCOL_VERSION, release="", node=node, host=f"h{node}", pid=1)
    for node in range(5)
}
AGAIN = "; 'reattach' attaches to them again"
ORPHANS = "unreachable: a parent aggregator died; reconnecting"


def messages(nodes: tuple[int, ...], ranks: str, why: str = "it closed the link") -> dict[str, str]:
    lost = Lost(nodes=nodes, ranks=RankSet.parse(ranks) if ranks else RankSet(), why=why)
    parts = describe(lost, lost.ranks, topology=TREE, shares=SHARES, known=KNOWN)
    return {str(part): text for part, text in parts}


@pytest.mark.parametrize(
    ("nodes", "ranks", "wanted"),
    [
        (
            (4,),
            "8-9",
            {"8-9": "with aggregator 4 on h4: it closed the link" + AGAIN},
        ),
        (
            (1, 3, 4),
            "2-3,6-9",
            {
                "2-3": "with aggregator 1 on h1: it closed the link" + AGAIN,
                "6-9": ORPHANS,
            },
        ),
        # 3 hung on 0 by then, as 1 was lost before; and both are lost in one.
        (
            (2, 3),
            "4-7",
            {
                "4-5": "with aggregator 2 on h2: it closed the link" + AGAIN,
                "6-7": "with aggregator 3 on h3: it closed the link" + AGAIN,
            },
        ),
        # The lost one's own ranks have ended before; and nobody knows who that was.
        ((1, 3), "6-7", {"6-7": ORPHANS}),
        ((9,), "6-7", {"6-7": "it closed the link"}),
        ((1,), "", {}),
    ],
)
def test_who_is_lost_with_whom(nodes: tuple[int, ...], ranks: str, wanted: dict[str, str]) -> None:
    assert messages(nodes, ranks) == wanted


def test_a_silent_link_may_be_the_hosts() -> None:
    said = messages((2,), "4-5", "nothing heard from it for 20 s")
    assert said == {
        "4-5": "with host h2, or its aggregator: nothing heard from it for 20 s" + AGAIN,
    }


ALL, SECOND = RankSet.parse("0-3"), SHARES[1].ranks
STOP = Stop(reason="attached")


def begun() -> Session:
    """Begin a session that attaches to its ranks."""
    session = new_session("attach", SessionOptions(), SessionDirectory())[0]
    session.opening.begin(ALL)
    session.transport.overlay.root.shares.update((node, SHARES[node]) for node in (0, 1))
    session.transport.overlay.root.joined.update((node, KNOWN[node]) for node in (0, 1))
    return session


def lose_second(session: Session) -> None:
    session.transport.overlay.root.up(Lost(nodes=(1,), ranks=SECOND, why="it closed the link"))


@pytest.mark.parametrize(
    ("who", "lost"),
    [("aggregator", SECOND), ("GDB", SECOND), ("aggregator for a moment", RankSet())],
)
def test_who_has_answered_and_was_lost_while_others_were_attached(who: str, lost: RankSet) -> None:
    """The answer to a start comes when all have answered or are lost."""

    async def start() -> Session:
        session = begun()
        if who == "GDB":
            session.traffic.on_events((EquivalenceClass[Event](SECOND, Gone(why="it was killed")),))
        else:
            lose_second(session)
        if who == "aggregator for a moment":
            # It had no event to announce as it came back: its answer is all that comes.
            session.transport.overlay.root.up(Joined(nodes=(KNOWN[1].pack(),)))
        session.opening.complete(Answer("attach", ALL, (EquivalenceClass[Record](ALL, STOP),)))
        return session

    state = asyncio.run(start()).state
    assert (state.lost, state.stopped) == (lost, ALL - lost)


def test_who_was_lost_again_while_others_were_reattached_is_lost() -> None:
    async def take_back() -> Session:
        session = begun()
        session.opening.complete(Answer("attach", ALL, (EquivalenceClass[Record](ALL, STOP),)))
        session.state.lose(RankSet([0]))
        lose_second(session)
        taken = EquivalenceClass[Record](RankSet([0]) | SECOND, STOP)
        await session.recovery.stopped_again(0, (taken,))
        return session

    state = asyncio.run(take_back()).state
    assert (state.lost, state.stopped) == (SECOND, ALL - SECOND)


def test_who_has_ended_during_the_attach_has_ended_though_its_aggregator_is_lost() -> None:
    ended = EquivalenceClass[Record](RankSet([2]), Exit(code=3))
    classes = (ended, EquivalenceClass[Record](ALL - RankSet([2]), STOP))

    async def start() -> Session:
        session = begun()
        lose_second(session)
        session.opening.complete(Answer("attach", ALL, classes))
        return session

    async def take_back() -> Session:
        session = begun()
        session.opening.complete(Answer("attach", ALL, (EquivalenceClass[Record](ALL, STOP),)))
        lose_second(session)
        await session.recovery.stopped_again(0, classes)
        return session

    for state in (asyncio.run(start()).state, asyncio.run(take_back()).state):
        assert str(state.exited) == "2"
        assert str(state.lost) == "3"
        assert str(state.stopped) == "0-1"
