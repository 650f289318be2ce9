"""Trees of nodes in one process, over real links: join, ask, events, loss, coming back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.channel import connect
from pgdb.overlay.event_buffer import EventBuffer
from pgdb.overlay.messages import (
    FRONT_END,
    AnyMessage,
    Events,
    Notice,
    Request,
    Resume,
    Setup,
    Shutdown,
)
from pgdb.ranks import RankSet
from pgdb.records import Exit, Output, Record, Running, Stop, Value
from tests.fakes.node_tree import (
    ALL,
    CREDENTIALS,
    DEADLINE_S,
    Node,
    Tree,
    ask,
    in_both_sizes,
    joined,
    losses,
    missing,
    output,
    replies,
    reported,
    run,
    said,
    setup_of,
)


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
        root.event_window_s = 0.3
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
            node.event_window_s = 10 * DEADLINE_S
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
            each.event_window_s = 10 * DEADLINE_S
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


@pytest.mark.slow
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


def test_what_ranks_have_printed_comes_before_their_next_answer() -> None:
    async def test(nodes: Tree) -> None:
        root = nodes[FRONT_END]
        for node in nodes.values():
            node.event_window_s = 3600.0
        nodes[5].add_event(RankSet([10]), output("printed"), ())
        await ask(root, ALL, number=1)
        assert reported(root.taken, 10) == ["printed"]
        assert root.taken[-1] in replies(root.taken, 1)

    run(test)


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
