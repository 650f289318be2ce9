"""The answer graph returns the classes it was made of, and holds common parts once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import (
    AnswerGraph,
    Call,
    End,
    Line,
    Node,
    PathTable,
    Whole,
    from_graph,
    to_graph,
    to_networkx,
)
from pgdb.merge.rankset_codec import to_partition
from pgdb.merge.templates import Templated, extract_template, fill_template
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Reply
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Done,
    Frame,
    Record,
    Stack,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variable,
    Variables,
    Various,
)
from tests.support.strategies import RECORDS, class_of, class_tuples, merged, rank_sets, templated


def sent(
    classes: Iterable[EquivalenceClass[Record]],
) -> tuple[EquivalenceClass[Record], ...]:
    """Return the classes decoded from the graph of *classes*."""
    arrived, missing = from_graph(to_graph(classes))
    assert not missing
    return arrived


@given(class_tuples(), rank_sets, rank_sets, rank_sets)
def test_round_trip(
    classes: tuple[EquivalenceClass[Record], ...], late: RankSet, lost: RankSet, running: RankSet
) -> None:
    answered = RankSet.union(each.ranks for each in classes)
    missing = Missing(late=late - answered, lost=lost - answered - late)
    missing |= Missing(running=running - answered - late - lost)
    graph = to_graph(classes, missing)
    assert from_graph(graph) == (classes, missing)
    assert len({(node.parent, bytes(node.item)) for node in graph.nodes}) == len(graph.nodes)
    assert all(node.parent < number for number, node in enumerate(graph.nodes))


def test_nothing_at_all() -> None:
    assert from_graph(to_graph(())) == ((), Missing())
    only = Missing(late=RankSet([3]))
    assert from_graph(to_graph((), only)) == ((), only)


@given(
    st.lists(templated, min_size=1, max_size=2),
    st.integers(8, 20),
    st.randoms(use_true_random=False),
)
def test_round_trip_of_many_classes_of_few_templates(
    some: list[Templated], count: int, rng: random.Random
) -> None:
    # Records of one template; their parts differ and may hold addresses.
    parts = ["1", "2", '"a"', '"0x5555555592a0"', "-2.5e3", PLACEHOLDER]
    classes = []
    for rank in range(count):
        template, taken = extract_template(rng.choice(some))
        record = fill_template(template, [rng.choice(parts) for _ in taken])
        classes.append(class_of(RankSet([rank]), record))
    assert sent(classes) == tuple(classes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_round_trip_of_every_kind(kind: type) -> None:
    @given(RECORDS[kind])
    def holds(record: Record) -> None:
        once = (class_of(RankSet([0]), record),)
        assert sent(once) == once

    holds()


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "a", "a\n", "\na", "a\n\nb", "\r\n", "\x0b"])
def test_texts_with_empty_lines(text: str) -> None:
    once: tuple[EquivalenceClass[Record], ...] = (EquivalenceClass(RankSet([0]), Text(text=text)),)
    assert sent(once) == once


FRAME = Frame(level=0, function="main")


def stack(*functions: str) -> Stack:
    """Return a stack, given from the outermost frame."""
    return Stack(
        frames=tuple(
            Frame(level=level, function=function)
            for level, function in enumerate(reversed(functions))
        )
    )


def test_stacks_of_different_depth_share_their_call_path() -> None:
    said: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet([0]), stack("main", "solve", "MPI_Recv")),
        EquivalenceClass(RankSet([1]), stack("main", "solve")),
        EquivalenceClass(RankSet([2]), stack("main", "write")),
        EquivalenceClass(RankSet([3]), stack()),
        EquivalenceClass(RankSet([4]), stack("solve", "main")),
    )
    graph = to_graph(said)
    assert from_graph(graph) == (said, Missing())
    assert len(graph.nodes) == 6  # main, main-solve, …-MPI_Recv, main-write, solve, solve-main
    drawn = to_networkx(said)
    assert drawn.nodes[-1]["ranks"] == "0-4"
    labels = {data["label"]: data["ranks"] for number, data in drawn.nodes(data=True) if number > 0}
    assert labels["MPI_Recv"] == "0" and labels["write"] == "2"
    assert drawn.edges[-1, 0]["ranks"] == "0-2"
    assert drawn.edges[0, 1]["ranks"] == "0-1"


def test_recursion_is_one_node_for_each_depth() -> None:
    said: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet([0]), stack("main", "f", "f", "f")),
        EquivalenceClass(RankSet([1]), stack("main", "f", "f")),
    )
    graph = to_graph(said)
    assert len(graph.nodes) == 4
    assert from_graph(graph) == (said, Missing())


def test_equal_variables_at_one_position_are_sent_once() -> None:
    def variables(last: str) -> Variables:
        return Variables(items=(Variable(name="n", value="8"), Variable(name="x", value=last)))

    few = [class_of(RankSet([rank]), variables(f"v{rank}")) for rank in range(100)]
    assert len(to_graph(few).nodes) == 101


def wire_bytes(classes: Iterable[EquivalenceClass[Record]]) -> int:
    return len(encode(Reply(request_id=1, graph=to_graph(classes))))


def particle(rank: int, size: int) -> Value:
    return Value(text="{" + ", ".join(f"x{at} = {rank}" for at in range(size)) + "}")


def test_classes_of_one_template_are_sent_with_the_template_once() -> None:
    for size in (1, 30):
        classes = [class_of(RankSet([rank]), particle(rank, size)) for rank in range(1000)]
        graph = to_graph(classes)
        assert len(graph.nodes) == len(graph.ends) == 1
        assert from_graph(graph)[0] == tuple(classes)
        # The numbers themselves (3 digits and their length), and some bytes for the ranks.
        assert wire_bytes(classes) < 1000 * (5 * size + 8)


def test_what_all_classes_of_a_template_have_is_sent_once() -> None:
    def value(rank: int) -> Value:
        return Value(text=f'{{id = {rank}, name = "{"n" * 500}", p = 0x5555555592a0}}')

    classes = [class_of(RankSet([rank]), value(rank)) for rank in range(1000)]
    assert sent(classes) == tuple(classes)
    assert wire_bytes(classes) < 1000 * 16


def test_addresses_in_strings_do_not_stand_in_the_way() -> None:
    # A mark in a string is inside a part, so records of one template can have different numbers of
    # slots.
    said_by = ['"at 0x5555555592a0"', '"nowhere"'] * 6
    classes = [
        class_of(RankSet([rank]), Variables(items=(Variable(name=f"v{rank % 3}", value=text),)))
        for rank, text in enumerate(said_by)
    ]
    assert sent(classes) == tuple(classes)


@pytest.mark.slow
def test_a_long_text_costs_no_more_than_its_length() -> None:
    # One path kept for every line would be two thousand million items, which no memory holds.
    def of_lines(count: int) -> tuple[EquivalenceClass[Record], ...]:
        text = "\n".join(str(number) for number in range(10_000, 10_000 + count))
        return (EquivalenceClass(RankSet([0]), Text(text=text)),)

    once = of_lines(60_000)
    assert sent(once) == once
    assert wire_bytes(once) < 11 * wire_bytes(of_lines(6_000))


def end(node: int, shape: Record, **more: Any) -> End:
    return End.of(node, shape, **more)


ONE = to_partition((RankSet([0]),))
WHOLE = Node.of(-1, Whole(record=Value(text=f"{PLACEHOLDER}")))


@pytest.mark.parametrize(
    ("graph", "faulty"),
    [
        (AnswerGraph((Node.of(0, Line(text="a")),), (), ONE), "node 0 has parent 0"),
        (AnswerGraph((Node.of(-2, Line(text="a")),), (), ONE), "node 0 has parent -2"),
        (AnswerGraph((), (end(0, Text(text="")),), ONE), "an end at node 0 of 0"),
        (AnswerGraph((), (end(-2, Text(text="")),), ONE), "an end at node -2 of 0"),
        (AnswerGraph((), (end(-1, Done()),), ONE), "no single record"),
        (
            AnswerGraph((Node.of(-1, Line(text="a")),), (end(0, Value(text="")),), ONE),
            "no single record",
        ),
        (AnswerGraph((), (), ONE), "0 classes, 1 sets"),
        (AnswerGraph((WHOLE,), (end(0, Done()),) * 2, ONE), "2 classes, 1 sets"),
        (AnswerGraph((WHOLE,), (end(0, Done(), count=0),), to_partition(())), "0 classes, 0 sets"),
        (
            AnswerGraph((WHOLE,), (end(0, Done(), count=2), end(0, Done(), count=-1)), ONE),
            "1 classes, 1 sets",
        ),
        (AnswerGraph((), (), ONE, missing=("asleep",)), "no way to be missing"),
        (AnswerGraph((), (), to_partition((RankSet([0]), RankSet([1]))), ("late",)), "2 sets"),
        (AnswerGraph((WHOLE,), (end(0, Done(), parts=("1", "2")),), ONE), "more parts"),
        (AnswerGraph((WHOLE,), (end(0, Done(), parts=(("1", "2"),)),), ONE), "2 records of 1"),
        (AnswerGraph((WHOLE,), (end(0, Done(), slots=((),)),), ONE), "has not 1 rows"),
        (
            AnswerGraph((Node.of(-1, Whole(record=Done())),), (end(0, Done(), parts=("1",)),), ONE),
            "Done has no template",
        ),
        (AnswerGraph((), (end(-1, Text(text=""), parts=("1",)),), ONE), "more parts"),
        (
            AnswerGraph((Node.of(-1, Call(FRAME)),), (end(0, Threads(stacks=())),), ONE),
            "without an e",
        ),
        (AnswerGraph((WHOLE,), (end(0, Threads(stacks=())),), ONE), "not all threads"),
    ],
)
def test_graphs_that_are_none_are_refused(graph: AnswerGraph, faulty: str) -> None:
    with pytest.raises(ProtocolError, match=faulty):
        from_graph(graph)


def test_a_way_to_be_missing_is_reported_once() -> None:
    graph = to_graph((), Missing(late=RankSet([0]), lost=RankSet([1])))
    with pytest.raises(ProtocolError, match="no way to be missing"):
        from_graph(msgspec.structs.replace(graph, missing=("late", "late")))


@pytest.mark.parametrize("shape", [Text(text=""), Stack(frames=()), Variables(items=())])
def test_a_path_of_foreign_items_is_refused(shape: Record) -> None:
    node = Node.of(-1, Whole(record=Value(text="1")))
    with pytest.raises(ProtocolError, match="answer graph"):
        from_graph(AnswerGraph((node,), (end(0, shape),), ONE))


_FAMILY = to_graph(
    [class_of(RankSet([rank]), particle(rank, 2)) for rank in range(9)]
    + [
        class_of(RankSet([20]), stack("main", "f")),
        class_of(RankSet([21, 22]), Text(text="a\nb")),
        class_of(RankSet([23, 24]), Various(template=Value(text=PLACEHOLDER))),
        class_of(RankSet([25]), Threads(stacks=(ThreadStack(stack=stack("main")),), hidden="2")),
    ],
    Missing(late=RankSet([30])),
)
_FAMILY_BYTES = encode(Reply(request_id=1, graph=_FAMILY))


@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_graph_with_broken_bytes_is_a_graph_or_our_error(broken: list[tuple[int, int]]) -> None:
    data = bytearray(_FAMILY_BYTES)
    for where, value in broken:
        data[where % len(data)] = value
    try:
        reply = decode(bytes(data))
        assert not isinstance(reply, Reply) or merged(from_graph(reply.graph)[0]) is not None
    except ProtocolError as error:
        assert "\n" not in str(error)


def test_columns_travel_with_their_template() -> None:
    summed = class_of(RankSet.range(0, 2000), Various(template=particle(7, 1)))
    template = Various(template=Value(text=f"{{x = {PLACEHOLDER}, y = {PLACEHOLDER}}}"))
    both = (class_of(RankSet.range(3000, 6000), template), summed)
    assert len(both[0].columns) == 2 and both[0].columns[0].count == 3000
    assert set(sent(both)) == set(both)


def test_various_and_threads_are_drawn() -> None:
    threads = Threads(
        stacks=(
            ThreadStack(stack=stack("start", "main", "work"), count=1),
            ThreadStack(stack=stack("start", "spin"), count=3),
        )
    )
    said: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet([0, 1]), threads),
        class_of(RankSet([2, 3]), Various(template=Value(text=PLACEHOLDER))),
    )
    drawn = to_networkx(said)
    labels = [data["label"] for number, data in drawn.nodes(data=True) if number >= 0]
    assert labels.count("start") == 2 and "1 thread" in labels and "3 threads" in labels
    assert drawn.nodes[-1]["ranks"] == "0-3"
    assert all(
        drawn.nodes[at]["ranks"] == drawn.edges[edge]["ranks"]
        for edge in drawn.edges
        for at in edge[1:]
    )


def test_levels_are_no_part_of_a_node() -> None:
    nodes = to_graph((EquivalenceClass(RankSet([0]), stack("a", "b")),)).nodes
    calls = [msgspec.msgpack.decode(node.item, type=Call) for node in nodes]
    assert all(call.frame.level == 0 for call in calls)
    assert calls[0].frame.function == "a"


def test_children_that_say_the_same_give_the_same_records() -> None:
    frames = tuple(Frame(level=level, function=f"f{level}", line=level) for level in range(1, 4))
    table = PathTable()
    replies = []
    for first in (0, 100):
        said = tuple(
            EquivalenceClass(
                RankSet([first + at]),
                Stack(frames=(Frame(level=0, function="leaf", line=at + 1), *frames)),
            )
            for at in range(10)
        )
        replies.append((said, to_graph(said)))
    (one, _), (other, _) = (from_graph(graph, table) for _, graph in replies)
    for (said, graph), arrived in zip(replies, (one, other), strict=True):
        # Knowledge from one child does not change the answers of another one.
        assert arrived == from_graph(graph)[0]
        assert {each.record for each in arrived} == {each.record for each in said}
    assert all(a.record is b.record for a, b in zip(one, other, strict=True))
    assert to_graph(other, None, table) == to_graph(other)
