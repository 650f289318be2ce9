"""What the loss of an aggregator is told as, and that it is not forgotten."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.answers import Answer
from pgdb.frontend.losses import describe
from pgdb.frontend.options import SessionOptions
from pgdb.frontend.session import Session
from pgdb.frontend.starting.directory import SessionDirectory
from pgdb.merge.answer import EquivalenceClass
from pgdb.overlay.messages import PROTOCOL_VERSION, Hello, Lost, Share
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Gone, Record, Stop

# 0 above 1 and 2, 1 above 3 and 4; two ranks each, in order.
TREE = Topology(count=5, fan_out=2)
SHARES = {node: Share.of(node, RankSet([2 * node, 2 * node + 1])) for node in range(5)}
KNOWN = {
    node: Hello(version=PROTOCOL_VERSION, release="", node=node, host=f"h{node}", pid=1)
    for node in range(5)
}
AGAIN = "; 'reattach' gets hold of them again"
ORPHANS = "with the aggregators above theirs, for now: these look for another way"


def told(nodes: tuple[int, ...], ranks: str, why: str = "it closed the link") -> dict[str, str]:
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
    assert told(nodes, ranks) == wanted


def test_a_silent_link_may_be_the_hosts() -> None:
    said = told((2,), "4-5", "nothing heard from it for 20 s")
    assert said == {
        "4-5": "with host h2, or its aggregator: nothing heard from it for 20 s" + AGAIN,
    }


@pytest.mark.parametrize("who", ["aggregator", "GDB"])
def test_who_has_answered_and_was_lost_while_others_were_taken_hold_of_is_lost(who: str) -> None:
    """The answer to a start comes when all have answered or are lost."""
    lost = RankSet.parse("2-3")
    stop = Stop(reason="attached")

    async def start() -> Session:
        session = Session("attach", SessionOptions(), SessionDirectory())
        session.begin(RankSet.parse("0-3"))
        if who == "aggregator":
            session.overlay.root.up(Lost(nodes=(1,), ranks=lost, why="it closed the link"))
        else:
            session._events((EquivalenceClass[Event](lost, Gone(why="it was killed")),))
        classes = (EquivalenceClass[Record](RankSet.parse("0-3"), stop),)
        session.started(Answer("attach", RankSet.parse("0-3"), classes))
        return session

    session = asyncio.run(start())
    assert (str(session.state.stopped), str(session.state.lost)) == ("0-1", "2-3")
    (told,) = session.start_told()
    assert [str(each.ranks) for each in told.classes] == ["0-1"]
    # Its own way back is the stop that is told again.
    session.state.apply((EquivalenceClass[Event](lost, stop),))
    assert str(session.state.stopped) == "0-3"
