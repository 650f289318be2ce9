"""Nodes that are lost, come back, or say what they may not."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pgdb.errors import LinkError
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import to_graph
from pgdb.overlay.messages import (
    FRONT_END,
    Announce,
    AnyMessage,
    Evaluate,
    Events,
    Heartbeat,
    Lost,
    Reply,
    Request,
    Setup,
)
from pgdb.ranks import RankSet
from pgdb.records import Event, Gone, Stop
from tests.fakes.node_tree import (
    ALL,
    DEADLINE_S,
    Tree,
    ask,
    first_words,
    in_both_sizes,
    joined,
    losses,
    missing,
    output,
    replies,
    reported,
    run,
    said,
)


@in_both_sizes
def test_a_lost_leaf_is_reported_and_costs_only_its_own_answers() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        nodes[6].silent = RankSet([12])
        root.start_request(
            Request(request_id=1, ranks=ALL, operation=Evaluate(expression="x"), timeout_s=10.0)
        )
        await nodes[6].crash()
        await root.wait(lambda taken: bool(replies(taken, 1)))
        reply = replies(root.taken, 1)[0]
        assert missing(reply).ranks <= RankSet([12, 13]) and 12 in missing(reply).lost
        (loss,) = losses(root.taken)
        assert loss.nodes == (6,) and loss.ranks == RankSet([12, 13])
        assert root.router.ranks == ALL - loss.ranks
        after = await ask(root, ALL, number=2)
        assert missing(after) == Missing(lost=RankSet([12, 13]))

    run(test)


@in_both_sizes
def test_a_lost_middle_node_takes_its_subtree_and_the_orphans_come_back() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        await nodes[1].crash()
        await root.wait(lambda taken: bool(losses(taken)))
        (loss,) = losses(root.taken)
        assert loss.nodes == (1, 3, 4)
        assert loss.ranks == RankSet.parse("2-3,6-9")
        reply = await ask(root, ALL, number=1)
        assert missing(reply) == Missing(lost=loss.ranks)

        before = len(root.taken)
        for orphan in (3, 4):
            task = nodes[orphan].task
            assert task is not None
            await task
            nodes[orphan].task = asyncio.create_task(nodes[orphan].serve_parent(nodes[0].address))
        await root.wait(lambda taken: joined(taken[before:]) == {3, 4})
        again = await ask(root, ALL, number=2)
        assert missing(again) == Missing(lost=RankSet([2, 3]))
        assert said(again) == {"0,4-12/2": "0", "1,5-13/2": "1"}

    run(test)


@pytest.mark.parametrize("dies", [1, 3])
def test_events_of_lost_ranks_come_before_their_loss(dies: int) -> None:
    """A stop that came after it would make a lost rank count as stopped."""

    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        # Events wait for further ones at each node, here as long as the test takes.
        for node in nodes.values():
            node.event_window_s = DEADLINE_S
        stop = EquivalenceClass[Event](RankSet([6]), Stop(reason="breakpoint-hit"))
        nodes[3].up(Events(classes=(stop,)))
        await nodes[1].wait_event()
        nodes[1].flush_events()
        await nodes[0].wait_event()
        await nodes[dies].crash()
        await root.wait(lambda taken: bool(losses(taken)))
        kinds = [type(each) for each in root.taken if isinstance(each, Events | Lost)]
        assert kinds == [Events, Lost]

    run(test)


def test_events_come_before_the_states_that_are_announced_after_them() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        for node in nodes.values():
            node.event_window_s = DEADLINE_S
        stop = EquivalenceClass[Event](RankSet([6]), Stop(reason="breakpoint-hit"))
        gone = EquivalenceClass[Event](RankSet([6]), Gone(why="it was killed"))
        nodes[3].up(Events(classes=(stop,)))
        nodes[3].up(Announce(nodes=(3,), classes=(gone,)))
        await root.wait(lambda taken: any(isinstance(each, Announce) for each in taken))
        kinds = [type(each) for each in root.taken if isinstance(each, Events | Announce)]
        assert kinds == [Events, Announce]

    run(test)


def test_orphans_that_come_back_before_the_loss_is_seen_are_not_lost() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        # Only the link 1-3 breaks. Node 3 moves to its grandparent while 1 still lives, notices the
        # break, and reports a loss that is out of date.
        before = len(root.taken)
        second = asyncio.create_task(nodes[3].serve_parent(nodes[0].address))
        await root.wait(lambda taken: 3 in joined(taken[before:]))
        assert nodes[0].router.child_ranks(1) == RankSet.parse("2-3,8-9")
        link = nodes[1]._channels[3]
        link._writer.transport.abort()
        async with nodes[1].changed:
            await nodes[1].changed.wait_for(lambda: 3 not in nodes[1]._channels)
        await ask(root, RankSet([2]), number=1)  # comes up behind node 1's word of the loss
        reply = await ask(root, ALL, number=2)
        assert not missing(reply), "the ranks of node 3 are reached through node 0"
        assert losses(root.taken) == []
        nodes[0]._channels[3].close()
        await second

    run(test)


def test_nobody_waits_for_what_orphans_were_asked_on_a_way_that_they_have_left() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        nodes[3].silent = RankSet([6, 7])
        root.start_request(
            Request(request_id=1, ranks=ALL, operation=Evaluate(expression="x"), timeout_s=1000.0)
        )
        before = len(root.taken)
        # Node 3 notices first that 1 is gone. Nobody knows whether 1 had forwarded the request.
        second = asyncio.create_task(nodes[3].serve_parent(nodes[0].address))
        await root.wait(lambda taken: 3 in joined(taken[before:]))
        await nodes[1].crash()
        await root.wait(lambda taken: bool(replies(taken, 1)))
        lost = missing(replies(root.taken, 1)[0])
        assert RankSet([6, 7]) <= lost.lost and not lost.late
        assert root.router.ranks >= RankSet([6, 7])
        nodes[0]._channels[3].close()
        await second

    run(test)


def test_what_a_node_that_comes_back_has_not_noticed_yet_is_not_believed() -> None:
    """Hosts are cut off: the nodes outside notice first, and move elsewhere with their subtrees."""

    async def test(nodes: Tree) -> None:
        root, all_ranks = nodes[FRONT_END], RankSet(range(30))
        before = len(root.taken)
        # Node 3, with 7 and 8 below it, leaves 1 for 0, and 1 does not know it yet.
        second = asyncio.create_task(nodes[3].serve_parent(nodes[0].address))
        await root.wait(lambda taken: {3, 7, 8} <= joined(taken[before:]))
        assert 3 in nodes[1]._channels
        before = len(root.taken)
        assert nodes[1].parent is not None and nodes[1].task is not None
        nodes[1].parent._writer.transport.abort()
        await root.wait(lambda taken: bool(losses(taken)))
        await nodes[1].task
        nodes[1].task = asyncio.create_task(nodes[1].serve_parent(nodes[0].address))
        await root.wait(lambda taken: 1 in joined(taken[before:]))
        assert joined(root.taken[before:]) == {1, 4, 9, 10}
        assert nodes[0].router.child_ranks(3) == RankSet.parse("6-7,14-17")
        assert nodes[0].router.child_ranks(1) == RankSet.parse("2-3,8-9,18-21")
        await ask(root, all_ranks, number=1)
        assert not missing(replies(root.taken, 1)[0])
        # Its late report about them is not a loss.
        before = len(root.taken)
        nodes[1]._channels[3]._writer.transport.abort()
        async with nodes[1].changed:
            await nodes[1].changed.wait_for(lambda: 3 not in nodes[1]._channels)
        await ask(root, RankSet([2]), number=2)
        await ask(root, all_ranks, number=3)
        assert not missing(replies(root.taken, 3)[0])
        assert losses(root.taken[before:]) == []
        nodes[0]._channels[3].close()
        await second

    run(test, count=15)


def test_a_node_that_comes_back_with_its_subtree_brings_all_of_it() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        before = len(root.taken)
        assert nodes[1].parent is not None
        nodes[1].parent._writer.transport.abort()
        await root.wait(lambda taken: bool(losses(taken)))
        assert nodes[1].task is not None
        await nodes[1].task
        nodes[1].task = asyncio.create_task(nodes[1].serve_parent(root.address))
        await root.wait(lambda taken: 1 in joined(taken[before:]))
        reply = await ask(root, ALL, number=1)
        assert not missing(reply)

    run(test)


def test_requests_under_way_through_a_lost_node_do_not_wait_for_their_deadline() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        nodes[3].silent = RankSet([6, 7])
        root.start_request(
            Request(request_id=1, ranks=ALL, operation=Evaluate(expression="x"), timeout_s=1000.0)
        )
        await root.wait(lambda taken: True)
        await nodes[1].crash()
        await root.wait(lambda taken: bool(replies(taken, 1)))
        lost = missing(replies(root.taken, 1)[0])
        assert RankSet([6, 7]) <= lost.lost and not lost.late

    run(test)


def test_another_release_is_reported_and_not_admitted() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        hello = nodes[0].hello(node=9, host="old-host", release="PGDB 0.1 on Python 3.6")
        channel = await first_words(nodes, hello)
        with pytest.raises(LinkError):
            await channel.receive()
        await root.wait(lambda taken: bool(losses(taken)))
        (loss,) = losses(root.taken)
        assert loss.nodes == (9,) and not loss.ranks
        assert "host old-host runs PGDB 0.1 on Python 3.6" in loss.why
        assert 9 not in nodes[0]._channels

    run(test, count=1)


def test_a_child_must_begin_with_hello() -> None:
    async def test(nodes: Tree) -> None:
        channel = await first_words(nodes, Heartbeat(), Announce(nodes=(), classes=()))
        with pytest.raises(LinkError):
            await channel.receive()
        assert losses(nodes[FRONT_END].taken) == []

    run(test, count=1)


@pytest.mark.parametrize(
    "message",
    [
        Setup(shares=(), gdb="gdb"),
        Request(request_id=1, ranks=RankSet([0]), operation=Evaluate(expression="x"), timeout_s=1),
        Reply(request_id=1, graph=msgspec.structs.replace(to_graph(()), ends=(0,))),
    ],
    ids=["setup", "request", "no graph"],
)
def test_a_child_that_sends_what_it_may_not_is_lost(message: AnyMessage) -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        channel = await first_words(nodes, nodes[0].hello(node=9))
        await root.wait(lambda taken: 9 in joined(taken))
        channel.send(message)
        with pytest.raises(LinkError):
            await channel.receive()
        await root.wait(lambda taken: bool(losses(taken)))
        assert losses(root.taken)[0].nodes == (9,)

    run(test, count=1)


def test_a_child_that_comes_twice_is_lost_only_with_its_last_link() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        hello = nodes[0].hello(node=9)
        first = await first_words(nodes, hello)
        await root.wait(lambda taken: 9 in joined(taken))
        before = len(root.taken)
        second = await first_words(nodes, hello)
        await root.wait(lambda taken: 9 in joined(taken[before:]))
        first.close()
        await first.wait_closed(5.0)
        second.send(Events(classes=(EquivalenceClass(RankSet([5]), output("alive")),)))
        await root.wait(lambda taken: reported(taken, 5) == ["alive"])
        assert losses(root.taken) == []
        second.close()
        await root.wait(lambda taken: bool(losses(taken)))
        await second.wait_closed(5.0)

    run(test, count=1)


@in_both_sizes
def test_messages_on_the_old_link_of_a_child_do_no_harm() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        hello = nodes[0].hello(node=9)
        first = await first_words(nodes, hello)
        await root.wait(lambda taken: 9 in joined(taken))
        before = len(root.taken)
        second = await first_words(nodes, hello)
        await root.wait(lambda taken: 9 in joined(taken[before:]))
        second.close()
        await second.wait_closed(5.0)
        await root.wait(lambda taken: bool(losses(taken)))
        trouble: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: trouble.append(what))
        first.send(Lost(nodes=(10,), ranks=RankSet(), why="late word"))
        with pytest.raises(LinkError):
            await asyncio.wait_for(first.receive(), 1.0)
        await first.wait_closed(5.0)
        assert not trouble

    run(test, count=1)
