"""The answer graph gives back what it was made of, and holds what is common once."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge.answer import EquivalenceClass
from pgdb.merge.graph import (
    AnswerGraph,
    Call,
    End,
    Line,
    Node,
    Whole,
    from_graph,
    to_graph,
    to_networkx,
)
from pgdb.ranks import RankSet
from pgdb.records import Done, Frame, Record, Stack, Text, Value, Variable, Variables
from tests.support.strategies import RECORDS, rank_sets, records

classes = st.lists(
    st.builds(
        lambda ranks, record, slots: EquivalenceClass(ranks, record, slots),
        rank_sets,
        records,
        st.lists(st.sampled_from(["", "0x7ffe12345678"]), max_size=2).map(tuple),
    ),
    max_size=6,
).map(tuple)


@given(classes)
def test_round_trip(classes: tuple[EquivalenceClass[Record], ...]) -> None:
    graph = to_graph(classes)
    assert from_graph(graph) == classes
    assert len(set(graph.nodes)) == len(graph.nodes)
    assert all(node.parent < number for number, node in enumerate(graph.nodes))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_round_trip_of_every_kind(kind: type) -> None:
    @given(RECORDS[kind])
    def holds(record: Record) -> None:
        once = (EquivalenceClass(RankSet([0]), record),)
        assert from_graph(to_graph(once)) == once

    holds()


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "a", "a\n", "\na", "a\n\nb", "\r\n", "\x0b"])
def test_texts_with_empty_lines(text: str) -> None:
    once: tuple[EquivalenceClass[Record], ...] = (EquivalenceClass(RankSet([0]), Text(text=text)),)
    assert from_graph(to_graph(once)) == once


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
    assert from_graph(graph) == said
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
    assert from_graph(graph) == said


def test_equal_variables_at_one_position_are_sent_once() -> None:
    def variables(last: str) -> Variables:
        return Variables(items=(Variable(name="n", value="8"), Variable(name="x", value=last)))

    graph = to_graph(EquivalenceClass(RankSet([rank]), variables(str(rank))) for rank in range(100))
    assert len(graph.nodes) == 101


def test_a_long_text_costs_no_more_than_its_length() -> None:
    # One path kept for every line would be two thousand million items.
    text = "\n".join(str(number) for number in range(60_000))
    once: tuple[EquivalenceClass[Record], ...] = (EquivalenceClass(RankSet([0]), Text(text=text)),)
    began = time.process_time()
    assert from_graph(to_graph(once)) == once
    assert time.process_time() - began < 5.0


def end(node: int, shape: Record) -> End:
    return End(node=node, shape=shape, ranks=RankSet([0]))


@pytest.mark.parametrize(
    ("graph", "faulty"),
    [
        (AnswerGraph(nodes=(Node(0, Line(text="a")),), ends=()), "node 0 has parent 0"),
        (AnswerGraph(nodes=(Node(-2, Line(text="a")),), ends=()), "node 0 has parent -2"),
        (AnswerGraph(nodes=(), ends=(end(0, Text(text="")),)), "an end at node 0 of 0"),
        (AnswerGraph(nodes=(), ends=(end(-2, Text(text="")),)), "an end at node -2 of 0"),
        (AnswerGraph(nodes=(), ends=(end(-1, Done()),)), "no single record"),
        (
            AnswerGraph(nodes=(Node(-1, Line(text="a")),), ends=(end(0, Value(text="")),)),
            "no single record",
        ),
    ],
)
def test_graphs_that_are_none_are_refused(graph: AnswerGraph, faulty: str) -> None:
    with pytest.raises(ProtocolError, match=faulty):
        from_graph(graph)


@pytest.mark.parametrize("shape", [Text(text=""), Stack(frames=()), Variables(items=())])
def test_a_path_of_foreign_items_is_refused(shape: Record) -> None:
    node = Node(-1, Whole(record=Value(text="1")))
    with pytest.raises(ProtocolError, match="answer graph"):
        from_graph(AnswerGraph(nodes=(node,), ends=(end(0, shape),)))


def test_levels_are_no_part_of_a_node() -> None:
    items = [
        node.item for node in to_graph((EquivalenceClass(RankSet([0]), stack("a", "b")),)).nodes
    ]
    assert all(isinstance(item, Call) and item.frame.level == 0 for item in items)
    assert msgspec.structs.asdict(items[0])["frame"].function == "a"
