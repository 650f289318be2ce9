"""Small messages that stand for something huge are refused before they grow."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest

from pgdb.errors import ProtocolError
from pgdb.merge import graph as graphs
from pgdb.merge import rankset_codec
from pgdb.merge.graph import AnswerGraph, End, Line, Node, from_graph
from pgdb.merge.rankset_codec import Partition, pack, to_partition
from pgdb.overlay import message_codec
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import MAX_NODES, Lost, Table
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Text, Value
from tests.support.partitions import from_partition


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Nothing here takes more than some megabytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def as_sent(**fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    ("node", "count", "fan_out"),
    [(0, 2**60, 2), (0, MAX_NODES + 1, 2), (0, 4, 0), (4, 4, 2), (-1, 4, 2), (0, 0, 2)],
)
def test_a_place_in_no_tree_is_refused(node: int, count: int, fan_out: int) -> None:
    table = {"type": "Table", "node": node, "count": count, "fan_out": fan_out, "addresses": ()}
    with pytest.raises(ProtocolError, match="no place in a tree"):
        decode(as_sent(**table))


def test_a_tree_has_an_address_for_each_node() -> None:
    assert decode(encode(Table(node=1, count=2, fan_out=2, addresses=("a:1", "b:1"))))
    with pytest.raises(ProtocolError, match="an address for each node"):
        decode(as_sent(type="Table", node=1, count=2, fan_out=2, addresses=["a:1"]))


def test_the_sets_of_a_message_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    scattered = RankSet.range(0, 60_000, 2)
    size = scattered.size_bytes
    assert 4_000 < size < 70_000
    message = Lost(nodes=(), ranks=scattered, why="")
    monkeypatch.setattr(message_codec, "MAX_SETS_BYTES", size)
    for _ in range(3):  # what one message has used is there again for the next
        assert decode(encode(message)) == message
    monkeypatch.setattr(message_codec, "MAX_SETS_BYTES", size - 1)
    with pytest.raises(ProtocolError, match="rank sets are too large"):
        decode(encode(message))


@pytest.mark.parametrize("text", ["0-9,5", "5,0-9", "3,3", "0-100/2,1-99/2", "4-6,0-2"])
def test_a_set_is_written_in_order_and_apart(text: str) -> None:
    with pytest.raises(ProtocolError, match="no folded text"):
        rankset_codec.unpack(text)


def test_what_is_written_is_in_order_and_apart() -> None:
    for ranks in (RankSet([1, 3, 5, 7, 8, 9, 20]), RankSet.range(0, 99, 7) | RankSet([3])):
        assert rankset_codec.unpack(pack(ranks)) == ranks


def test_a_partition_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = to_partition([RankSet([rank]) for rank in range(9)])
    assert len(from_partition(partition)) == 9
    monkeypatch.setattr(rankset_codec, "MAX_SETS", 8)
    with pytest.raises(ProtocolError, match="9 sets"):
        from_partition(partition)


def chain(length: int) -> AnswerGraph:
    """Return texts of 1, 2, 3 … lines, each the beginning of the next: the square of its size."""
    ranks = tuple(RankSet([rank]) for rank in range(length))
    return AnswerGraph(
        nodes=tuple(Node.of(at - 1, Line(text="x")) for at in range(length)),
        ends=tuple(End.of(at, Text(text="")) for at in range(length)),
        partition=Partition(RankSet.range(0, length), length, 0, ranks[1:]),
    )


def test_paths_that_are_the_square_of_a_message_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classes, _ = from_graph(chain(9))
    assert [each.record for each in classes][8] == Text(text="\n".join("x" * 9))
    monkeypatch.setattr("pgdb.merge.graph.decode.MAX_ITEMS", 100_000)
    with pytest.raises(ProtocolError, match="items"):
        from_graph(chain(600))


def test_rows_that_are_the_square_of_a_message_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgdb.merge.graph.decode.MAX_ITEMS", 10_000)
    count = 200
    ranks = tuple(RankSet([rank]) for rank in range(count))
    values = tuple(str(rank) for rank in range(count))
    end = End.of(0, Value(text=""), count=count, parts=(values,), slots=("",) * 100)
    graph = AnswerGraph(
        nodes=(Node.of(-1, graphs.Whole(record=Value(text=PLACEHOLDER))),),
        ends=(end,),
        partition=Partition(RankSet.range(0, count), count, 0, ranks[1:]),
    )
    with pytest.raises(ProtocolError, match="items"):
        from_graph(graph)
    few = End.of(0, Value(text=""), count=count, parts=(values,))
    assert len(from_graph(msgspec.structs.replace(graph, ends=(few,)))[0]) == count


@pytest.mark.parametrize(
    ("dtype", "shape", "start"),
    [("O8", (1,), 0), ("<f", (1,), 0), ("f8", (1,), 0), ("<U8", (1,), 0), ("<f8", (-1,), 0),
     ("<f8", (1,) * 40, 0), ("<f8", (1,), -1)],
)  # fmt: skip
def test_what_is_no_block_of_numbers_is_refused(
    dtype: str, shape: tuple[int, ...], start: int
) -> None:
    record = {"type": "block", "dtype": dtype, "shape": shape, "data": b"", "start": start}
    form = {"type": "done"}
    graph = {
        "nodes": [[-1, {"type": "whole", "record": record}]],
        "ends": [[0, form, 1, [], [], []]],
        "partition": ["0", 1, 0, [], []],
        "missing": [],
    }
    with pytest.raises(ProtocolError, match="no block of numbers"):
        from_graph(decode(as_sent(type="Reply", request_id=1, graph=graph)).graph)  # type: ignore[union-attr]
    record.update(dtype="<f8", shape=(1,), start=0)
    assert from_graph(decode(as_sent(type="Reply", request_id=1, graph=graph)).graph)  # type: ignore[union-attr]
