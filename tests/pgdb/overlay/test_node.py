"""Trees of nodes in one process, over real links: join, ask, events, loss, coming back."""

from __future__ import annotations

import asyncio
import importlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdb.errors import LinkError
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import from_graph, to_graph
from pgdb.overlay.channel import Channel, Listener, connect, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import (
    FRONT_END,
    PROTOCOL_VERSION,
    Announce,
    AnyMessage,
    Evaluate,
    Events,
    Heartbeat,
    Hello,
    Joined,
    Lost,
    Notice,
    Reply,
    Request,
    Resume,
    Setup,
    Share,
    Shutdown,
)
from pgdb.overlay.node import LARGE_RANKS, EventBuffer, TreeNode, release
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Exit, Output, Record, Running, Stop, Value

CREDENTIALS = make_credentials()
DEADLINE_S = 20.0


class Node(TreeNode):
    """A node whose own ranks answer with their number; it records its messages for the test."""

    def __init__(self, number: int, topology: Topology) -> None:
        super().__init__(number, topology)
        self.parent: Channel | None = None
        self.joins = 0
        self.taken: list[AnyMessage] = []
        self.changed = asyncio.Condition()
        self.silent = RankSet()
        self.listener: Listener | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        assert self.listener is not None
        return f"127.0.0.1:{self.listener.port}"

    def up(self, message: AnyMessage) -> None:
        if self.parent is not None:
            self.parent.send(message)
        self.taken.append(message)
        self._loop.create_task(self._notify())

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        for rank in ranks - self.silent:
            record = Value(text=str(rank % 2))
            said: EquivalenceClass[Record] = EquivalenceClass(RankSet([rank]), record)
            for gathered in self.router.add_answer(request.request_id, said):
                self.answered(gathered)

    def hello(self, **changes: Any) -> Hello:
        below = {node for nodes in self._nodes_below.values() for node in nodes}
        hello = Hello(
            version=PROTOCOL_VERSION,
            release=release(),
            node=self.number,
            host="h",
            pid=1,
            joins=self.joins,
            below=tuple(self._hellos[node] for node in sorted(below)),
        )
        return msgspec.structs.replace(hello, **changes)

    async def serve_parent(self, address: str) -> None:
        """Make this node a child of the one at *address* until that link ends."""
        channel = self.parent = await connect(address, CREDENTIALS)
        self.joins += 1
        channel.send(self.hello())
        try:
            while True:
                message = await channel.receive()
                if isinstance(message, Request):
                    self.start_request(message)
                elif isinstance(message, Setup):
                    self.apply_setup(message)
        except LinkError:
            pass
        finally:
            if self.parent is channel:
                self.parent = None
            channel.close()
            await channel.wait_closed(5.0)

    async def wait(self, holds: Callable[[list[AnyMessage]], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: holds(self.taken))

    async def crash(self) -> None:
        """End all links at once without a message, as the death of a process does."""
        assert self.listener is not None and self.parent is not None
        await self.listener.close()
        for channel in (self.parent, *self._channels.values()):
            channel._writer.transport.abort()


Tree = dict[int, Node]


def run(test: Callable[[Tree], Coroutine[Any, Any, None]], *, count: int = 7) -> None:
    """Run *test* on a binary tree of *count* nodes, each with two ranks, below a front end."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S), tree(count) as nodes:
            await test(nodes)

    asyncio.run(bounded())


def setup_of(count: int) -> Setup:
    return Setup(
        shares=tuple(
            Share.of(node, RankSet([2 * node, 2 * node + 1]), (1, 1)) for node in range(count)
        ),
        gdb="gdb",
    )


@asynccontextmanager
async def tree(count: int) -> AsyncIterator[Tree]:
    topology = Topology(count=count, fan_out=2)
    nodes = {number: Node(number, topology) for number in range(FRONT_END, count)}
    for node in nodes.values():
        node.listener = await listen("127.0.0.1", CREDENTIALS, node.serve_child)
    try:
        for number in range(count):
            nodes[number].task = asyncio.create_task(
                nodes[number].serve_parent(nodes[topology.parent(number)].address)
            )
        root = nodes[FRONT_END]
        await root.wait(lambda taken: joined(taken) == set(range(count)))
        root.apply_setup(setup_of(count))
        await settled(nodes.values())
        yield nodes
    finally:
        for node in nodes.values():
            if node._event_timer is not None:
                node._event_timer.cancel()
            if node._deadline_timer is not None:
                node._deadline_timer.cancel()
            assert node.listener is not None
            await node.listener.close()
            for channel in list(node._channels.values()):
                channel.close()
        tasks = [node.task for node in nodes.values() if node.task is not None]
        await asyncio.gather(*tasks)


async def settled(nodes: Iterable[Node]) -> None:
    """Wait until every node has the setup: then it knows its own ranks."""
    while not all(node.number == FRONT_END or node.router.own for node in nodes):
        await asyncio.sleep(0)


def joined(taken: list[AnyMessage]) -> set[int]:
    return {
        Hello.unpack(data).node for each in taken if isinstance(each, Joined) for data in each.nodes
    }


def replies(taken: list[AnyMessage], number: int) -> list[Reply]:
    return [each for each in taken if isinstance(each, Reply) and each.request_id == number]


def losses(taken: list[AnyMessage]) -> list[Lost]:
    return [each for each in taken if isinstance(each, Lost)]


def said(reply: Reply) -> dict[str, str]:
    found = {}
    for each in from_graph(reply.graph)[0]:
        assert isinstance(each.record, Value)
        found[str(each.ranks)] = each.record.text
    return found


def missing(reply: Reply) -> Missing:
    return from_graph(reply.graph)[1]


async def ask(root: Node, ranks: RankSet, *, number: int, timeout_s: float = 10.0) -> Reply:
    root.start_request(
        Request(
            request_id=number,
            ranks=ranks,
            operation=Evaluate(expression="x"),
            timeout_s=timeout_s,
        )
    )
    await root.wait(lambda taken: bool(replies(taken, number)))
    return replies(root.taken, number)[0]


ALL = RankSet.range(0, 14)


@pytest.fixture(params=[LARGE_RANKS, 1], ids=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every reply count as small, or as large."""
    monkeypatch.setattr("pgdb.overlay.node.LARGE_RANKS", request.param)
    monkeypatch.setattr("pgdb.overlay.router.LARGE_RANKS", request.param)
    # A session has loaded it long before the first answer, too.
    importlib.import_module("numpy")


in_both_sizes = pytest.mark.usefixtures("size")


@in_both_sizes
def test_a_request_reaches_all_ranks_and_the_answers_are_merged() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        assert root.router.ranks == ALL
        reply = await ask(root, ALL, number=1)
        assert said(reply) == {"0-12/2": "0", "1-13/2": "1"}
        assert not missing(reply) and not reply.late
        some = await ask(root, RankSet([3, 12]), number=2)
        assert said(some) == {"3": "1", "12": "0"}

    run(test)


def test_ranks_that_there_are_not_are_lost_at_once() -> None:
    async def test(nodes: Tree) -> None:
        reply = await ask(nodes[FRONT_END], RankSet([0, 99]), number=1)
        assert said(reply) == {"0": "0"} and missing(reply) == Missing(lost=RankSet([99]))

    run(test)


@in_both_sizes
def test_silent_ranks_are_reported_at_the_deadline_and_answer_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgdb.overlay.router.LEVEL_MARGIN_S", 0.3)

    async def test(nodes: Tree) -> None:
        root, leaf = nodes[FRONT_END], nodes[5]
        leaf.silent = RankSet([10])
        reply = await ask(root, ALL, number=1, timeout_s=0.3)
        assert missing(reply) == Missing(late=RankSet([10]))
        assert said(reply) == {"0-8/2,12": "0", "1-13/2": "1"}
        late: EquivalenceClass[Record] = EquivalenceClass(RankSet([10]), Value(text="7"))
        for gathered in leaf.router.add_answer(1, late):
            leaf.answered(gathered)
        await root.wait(lambda taken: len(replies(taken, 1)) == 2)
        second = replies(root.taken, 1)[1]
        assert second.late and said(second) == {"10": "7"}

    run(test)


def test_what_is_set_up_later_goes_to_those_it_is_for() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        took: list[int] = []
        for number in range(7):
            apply = nodes[number].apply_setup

            def noted(setup: Setup, *, number: int = number, apply: Any = apply) -> None:
                took.append(number)
                apply(setup)

            nodes[number].apply_setup = noted  # type: ignore[method-assign]
        root.apply_setup(msgspec.structs.replace(setup_of(7), shares=setup_of(7).shares[5:6]))
        while 5 not in took:
            await asyncio.sleep(0)
        assert took == [0, 2, 5]
        assert said(await ask(root, ALL, number=1)) == {"0-12/2": "0", "1-13/2": "1"}

    run(test)


def test_one_whose_place_was_filled_anew_is_sent_away() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        await nodes[1].crash()
        await root.wait(lambda taken: bool(losses(taken)))
        assert set(losses(root.taken)[0].nodes) == {1, 3, 4}
        for generation in (1, 0):
            channel = await connect(nodes[0].address, CREDENTIALS)
            channel.send(nodes[1].hello(generation=generation, below=()))
            if generation:
                await root.wait(lambda taken: joined(taken[-1:]) == {1})
            else:
                assert isinstance(await channel.receive(), Shutdown)
                channel.close()

    run(test)


def output(text: str) -> Output:
    return Output(text=text)


def reported(taken: list[AnyMessage], rank: int) -> list[str]:
    return [
        each.record.text
        for message in taken
        if isinstance(message, Events)
        for each in message.classes
        if rank in each.ranks and isinstance(each.record, Output)
    ]


def test_events_of_all_levels_arrive_in_order_for_each_rank() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        for number in range(7):
            for step in range(20):
                for rank in (2 * number, 2 * number + 1):
                    text = "same" if step % 3 == 0 else f"{step}"
                    nodes[number].add_event(RankSet([rank]), output(text), ())
                if step % 5 == 0:
                    await asyncio.sleep(0)
        await root.wait(lambda taken: all(len(reported(taken, rank)) == 20 for rank in ALL))
        expected = ["same" if step % 3 == 0 else f"{step}" for step in range(20)]
        for rank in ALL:
            assert reported(root.taken, rank) == expected
        # Merging leaves far fewer messages than the 280 events of the ranks.
        assert sum(isinstance(each, Events) for each in root.taken) < 280

    run(test)


def test_equal_events_of_many_ranks_become_one_class() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        root._event_window_s = 0.3
        for number in range(7):
            nodes[number].add_event(RankSet([2 * number, 2 * number + 1]), Running(run=1), ())
        await root.wait(lambda taken: any(isinstance(each, Events) for each in taken))
        (events,) = [each for each in root.taken if isinstance(each, Events)]
        assert events.classes == (EquivalenceClass(ALL, Running(run=1)),)

    run(test)


def stop_of(run: int) -> Stop:
    return Stop(reason="end-stepping-range", run=run)


async def set_going(root: Node, nodes: Iterable[Node], ranks: RankSet) -> None:
    """Resume *ranks* by a step, and wait until their nodes know it."""
    step = Resume(command="step")
    root.start_request(Request(request_id=1, ranks=ranks, operation=step, timeout_s=10.0))
    await root.wait(lambda taken: bool(replies(taken, 1)))
    for node in nodes:
        assert node._going == ranks & node.router.ranks


def test_stops_are_reported_at_once_when_the_last_running_rank_has_stopped() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        for node in nodes.values():
            node._event_window_s = 10 * DEADLINE_S
        await set_going(root, nodes.values(), RankSet([0, 1, 3]))
        nodes[0].add_event(RankSet([0]), stop_of(1), ())
        nodes[1].add_event(RankSet([3]), stop_of(1), ())
        # Node 1 waits for no rank any longer; node 0 waits for rank 1.
        while nodes[0]._going != RankSet([1]):
            await asyncio.sleep(0)
        assert not any(isinstance(each, Events) for each in nodes[0].taken + root.taken)
        nodes[0].add_event(RankSet([1]), stop_of(1), ())
        await root.wait(lambda taken: any(isinstance(each, Events) for each in taken))
        (events,) = [each for each in root.taken if isinstance(each, Events)]
        assert events.classes == (EquivalenceClass(RankSet([0, 1, 3]), stop_of(1)),)

    run(test, count=2)


def test_what_a_rank_prints_at_a_stop_comes_with_the_stop() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        await set_going(root, nodes.values(), ALL)
        for number in range(7):
            for rank in (2 * number, 2 * number + 1):
                nodes[number].add_event(RankSet([rank]), stop_of(1), ())
                nodes[number].add_event(RankSet([rank]), output("1: x = 5"), ())
        await root.wait(lambda taken: all(reported(taken, rank) for rank in ALL))
        came = RankSet()
        for events in (each for each in root.taken if isinstance(each, Events)):
            stopped = RankSet.union(
                each.ranks for each in events.classes if isinstance(each.record, Stop)
            )
            printed = RankSet.union(
                each.ranks for each in events.classes if isinstance(each.record, Output)
            )
            assert stopped == printed
            came |= stopped
        assert came == ALL

    run(test)


def test_what_a_rank_prints_or_that_it_runs_on_does_not_end_the_window() -> None:
    async def test(nodes: Tree) -> None:
        root, node = nodes[FRONT_END], nodes[0]
        for each in nodes.values():
            each._event_window_s = 10 * DEADLINE_S
        await set_going(root, nodes.values(), RankSet([0, 1]))
        node.add_event(RankSet([0]), stop_of(1), ())
        # The commands of its breakpoint let it run on.
        node.add_event(RankSet([0]), Running(run=1), ())
        node.add_event(RankSet([1]), stop_of(1), ())
        node.add_event(RankSet([1]), output("x"), ())
        assert node._going == RankSet([0])
        timer = node._event_timer
        assert timer is not None
        assert timer.when() > asyncio.get_running_loop().time() + DEADLINE_S
        node.add_event(RankSet([0]), Exit(code=0, run=1), ())
        await root.wait(lambda taken: reported(taken, 1) == ["x"])

    run(test, count=1)


def test_notices_reach_the_top_once_for_each_host() -> None:
    async def test(nodes: Tree) -> None:
        for number in (3, 4):
            nodes[number].host = f"node{number}"
            for _ in range(2):
                nodes[number].add_notice("no nursery here")
        root = nodes[FRONT_END]
        await root.wait(lambda taken: noticed(taken)["no nursery here"] == ["node3", "node4"])
        nodes[5].add_notice("another", ("elsewhere",))
        nodes[3].add_notice("no nursery here")
        await root.wait(lambda taken: noticed(taken)["another"] == ["elsewhere"])
        assert noticed(root.taken)["no nursery here"] == ["node3", "node4"]

    run(test)


def noticed(taken: list[AnyMessage]) -> defaultdict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for each in taken:
        if isinstance(each, Notice):
            found[each.text] = sorted([*found[each.text], *each.hosts])
    return found


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


async def first_words(nodes: Tree, *messages: AnyMessage) -> Channel:
    channel = await connect(nodes[0].address, CREDENTIALS)
    for each in messages:
        channel.send(each)
    return channel


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


@given(
    st.lists(
        st.tuples(
            st.frozensets(st.integers(0, 4), min_size=1),
            st.sampled_from(["a", "b", "c"]),
        ),
        max_size=20,
    )
)
@settings(max_examples=100)
def test_the_event_buffer_keeps_the_order_and_the_number_of_each_ranks_events(
    events: list[tuple[frozenset[int], str]],
) -> None:
    buffer = EventBuffer()
    expected: dict[int, list[str]] = {}
    for ranks, text in events:
        buffer.add(RankSet(ranks), output(text), ())
        for rank in ranks:
            expected.setdefault(rank, []).append(text)
    assert bool(buffer) == bool(events)
    found: dict[int, list[str]] = {}
    for batch in buffer.take():
        seen = RankSet()
        for each in batch:
            assert each.ranks.isdisjoint(seen)
            seen = seen | each.ranks
            for rank in each.ranks:
                assert isinstance(each.record, Output)
                found.setdefault(rank, []).append(each.record.text)
    assert found == expected
    assert not buffer and buffer.take() == []


def test_the_setup_says_to_each_node_what_is_below_it() -> None:
    async def test(nodes: Tree) -> None:
        for number, node in nodes.items():
            below = set(range(7)) if number == FRONT_END else set(node.topology.subtree(number))
            assert set(node.shares) == below
            # The node needs only the process ids of its own ranks.
            assert {each for each, share in node.shares.items() if share.pids} <= {number}
            if number != FRONT_END:
                assert node.shares[number].pids == (1, 1)

    run(test)
