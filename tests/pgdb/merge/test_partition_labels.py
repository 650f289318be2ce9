"""Labels are equivalent to sets of ranks, however they are cut and joined."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import msgspec
import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge import classes as answer
from pgdb.merge import partition_labels, rankset_codec
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.graph import (
    AnswerGraph,
    End,
    Line,
    Node,
    PathTable,
    from_graph,
    read_graph,
    to_graph,
)
from pgdb.merge.partition_labels import Field, Labels
from pgdb.merge.totals import summarize
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Detach, Reply, Request
from pgdb.overlay.router import Gathering
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Done, Frame, Record, Stack, Text, Value, Various
from tests.support.partitions import from_partition
from tests.support.strategies import class_of, class_tuples, partitions

any_partition = partitions(largest=200, most=9).filter(bool)
any_order = st.randoms(use_true_random=False)


@pytest.fixture(autouse=True, params=[5, 1 << 14], ids=["short slices", "long slices"])
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_labels, "SLICE", request.param)
    monkeypatch.setattr(partition_labels, "LONG_SLICE", 2 * request.param)
    monkeypatch.setattr(rankset_codec, "SLICE", request.param)


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send and keep every partition of several sets as labels."""
    monkeypatch.setattr(rankset_codec, "FEW_RANKS", 0)
    monkeypatch.setattr(rankset_codec, "SMALL_PARTITION_BYTES", -1)
    monkeypatch.setattr(rankset_codec, "FEW_BLOCKS", -1)
    monkeypatch.setattr(rankset_codec, "LONG_RUN", 1 << 30)
    monkeypatch.setattr(rankset_codec, "FEW_SETS", 0)
    monkeypatch.setattr("pgdb.overlay.router.LARGE_RANKS", 1)
    yield


for_any = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@for_any
@given(any_partition, any_order)
def test_labels_say_what_the_sets_are(sets: tuple[RankSet, ...], rng: random.Random) -> None:
    found = Labels.of(sets)
    assert found.sets() == sets and found.ranks == RankSet.union(sets)
    assert found.sizes().tolist() == [len(each) for each in sets]
    everybody = list(found.ranks)
    assert found.firsts().tolist() == [everybody.index(each.first) for each in sets]
    order = rng.sample(range(len(sets)), len(sets))
    shuffled = found.renumbered(numpy.array(order, numpy.uint16), len(sets))
    assert [shuffled.sets()[number] for number in order] == list(sets)
    again = shuffled.renumbered(numpy.argsort(order).astype(numpy.uint16), len(sets))
    assert again.sets() == sets
    owner = {rank: number for number, each in enumerate(sets) for rank in each}
    numbers = [owner[rank] for rank in everybody]
    changes = sum(one != other for one, other in itertools.pairwise(numbers))
    assert found.count_changes() == changes


@for_any
@given(any_partition, st.integers(0), st.integers(0))
def test_sets_are_taken_out_and_put_in(sets: tuple[RankSet, ...], which: int, count: int) -> None:
    found = Labels.of(sets)
    number = which % len(sets)
    rest = sets[:number] + sets[number + 1 :]
    if rest:
        left = found.without(number)
        assert left.sets() == rest and left.ranks == RankSet.union(rest)
    count = 1 + count % len(sets)
    first, others = found.split(count)
    assert first.sets() == sets[:count] and others == sets[count:]
    assert first.with_sets(others).sets() == sets


def test_ranks_that_lie_far_apart_are_labelled_without_a_place_for_each_between() -> None:
    sets = (RankSet([0, 1 << 24]), RankSet([5, 1 << 20]))
    assert not Field.suits(RankSet.union(sets))
    assert Labels.of(sets).sets() == sets


# -- on the wire -----------------------------------------------------------------------------------


@for_any
@given(any_partition)
@pytest.mark.usefixtures("_always")
def test_any_partition_comes_back_as_labels(sets: tuple[RankSet, ...]) -> None:
    partition = rankset_codec.to_partition(sets)
    assert bool(partition.labels) == (len(sets) > 2)
    assert from_partition(partition) == sets


def answer_of(label: int) -> Stack:
    """Return a stack whose line identifies the class."""
    frames = [Frame(level=0, function="f", file="a.c", line=label)]
    outer = (Frame(level=level, function=f"outer_{level}", file="a.c") for level in range(1, 9))
    return Stack(frames=(*frames, *outer))


def test_items_that_differ_little_are_deflated() -> None:
    classes = [class_of(RankSet([label]), answer_of(label)) for label in range(500)]
    graph = to_graph(classes, Missing(lost=RankSet([1000])))
    short = graph.deflate()
    assert not short.nodes and short.deflate() is short
    assert len(encode(Reply(request_id=1, graph=short))) < 20_000
    assert 40_000 < len(encode(Reply(request_id=1, graph=graph)))
    reply = decode(encode(Reply(request_id=1, graph=short)))
    assert isinstance(reply, Reply)
    assert from_graph(reply.graph) == (tuple(classes), Missing(lost=RankSet([1000])))


def test_deflated_items_do_not_stand_for_much_more_than_they_are() -> None:
    nodes = (Node.of(-1, Line(text="x" * 50)),) * 100_000
    graph = AnswerGraph(nodes, (End.of(0, Text(text="")),), to_graph(()).partition)
    assert graph.deflate() is graph  # it would be shorter than the limit allows
    bomb = msgspec.structs.replace(
        graph,
        nodes=(),
        ends=(),
        deflated=rankset_codec._deflate(bytes(1 << 16) for _ in range(1000)),
    )
    with pytest.raises(ProtocolError, match="not as long"):
        from_graph(bomb)


@pytest.mark.parametrize(
    "deflated",
    [b"junk", rankset_codec._deflate((b"\x92\x90",)), rankset_codec._deflate((b"\xc0",))],
)
def test_deflated_bytes_of_no_graph_are_refused(deflated: bytes) -> None:
    graph = msgspec.structs.replace(to_graph(()), deflated=deflated)
    with pytest.raises(ProtocolError, match="answer graph"):
        from_graph(graph)


def test_summaries_are_not_deflated() -> None:
    summary = summarize([(RankSet([0]), "1"), (RankSet([1]), "2")])
    various = Various(template=Value(text=PLACEHOLDER))
    once: EquivalenceClass[Record] = EquivalenceClass(RankSet([0, 1]), various, (), (summary,))
    others = [class_of(RankSet([label]), answer_of(label)) for label in range(2, 500)]
    graph = to_graph([once, *others])
    assert graph.deflate() is graph


# -- merging ---------------------------------------------------------------------------------------


def gathered(
    asked: RankSet, parts: list[tuple[tuple[EquivalenceClass[Record], ...], Missing]]
) -> tuple[tuple[EquivalenceClass[Record], ...], Missing, Reply]:
    """Return the merged classes of the children's replies, and the message for the parent."""
    request = Request(request_id=1, ranks=asked, operation=Detach(), timeout_s=1.0)
    twice = [Gathering(request, 1.0) for _ in range(2)]
    for classes, missing in parts:
        reply = decode(encode(Reply(request_id=1, graph=to_graph(classes, missing).deflate())))
        assert isinstance(reply, Reply)
        for each in twice:
            each.add_graph(reply.graph)
    shown, sent = (each.gathered() for each in twice)
    return shown.classes, shown.missing, sent.reply()


def merged_by_sets(
    asked: RankSet, parts: list[tuple[tuple[EquivalenceClass[Record], ...], Missing]]
) -> tuple[tuple[EquivalenceClass[Record], ...], Missing]:
    """Return the same as :func:`gathered`, merged class by class and set by set."""
    request = Request(request_id=1, ranks=asked, operation=Detach(), timeout_s=1.0)
    gathering = Gathering(request, 1.0)
    gathering.merger = Merger()
    for classes, missing in parts:
        gathering.add(classes, missing)
    done = gathering.gathered()
    return done.classes, done.missing


def dealt(
    classes: tuple[EquivalenceClass[Record], ...], rng: random.Random, *, disjoint: bool
) -> list[tuple[tuple[EquivalenceClass[Record], ...], Missing]]:
    """Deal the ranks of *classes* to children; each may lose some, or repeat another child's."""
    everybody = list(RankSet.union(each.ranks for each in classes))
    count = rng.randint(1, 4)
    owner = {rank: rng.randrange(count) for rank in everybody}
    parts = []
    for child in range(count):
        ranks = RankSet(rank for rank in everybody if owner[rank] == child)
        if not disjoint:
            ranks = ranks | RankSet(rng.sample(everybody, rng.randint(0, len(everybody))))
        silent = RankSet(rank for rank in ranks if rng.random() < 0.1)
        reported = [each.part(ranks - silent) for each in classes]
        parts.append(
            (
                tuple(each for each in reported if each.ranks),
                Missing(**{rng.choice(["late", "lost"]): silent}),
            )
        )
    return parts


@for_any
@given(class_tuples(), any_order, st.booleans())
@pytest.mark.usefixtures("_always")
def test_what_children_say_is_merged_the_same_as_labels(
    classes: tuple[EquivalenceClass[Record], ...], rng: random.Random, disjoint: bool
) -> None:
    asked = RankSet.union(each.ranks for each in classes) | RankSet.range(0, 5)
    parts = dealt(classes, rng, disjoint=disjoint) if classes else []
    shown, missing, sent = gathered(asked, parts)
    assert (shown, missing) == merged_by_sets(asked, parts)
    assert from_graph(sent.graph) == (shown, missing)


@for_any
@given(any_partition, any_order, st.integers(1, 8), st.integers(0, 4))
@pytest.mark.usefixtures("_always")
def test_labels_become_summaries_where_there_are_many_answers(
    sets: tuple[RankSet, ...], rng: random.Random, most: int, others: int
) -> None:
    classes: list[EquivalenceClass[Record]] = [
        EquivalenceClass(ranks, Done() if number < others else Value(text=f"{number} of x"))
        for number, ranks in enumerate(sets)
    ]
    asked = RankSet.union(sets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer, "MOST_DISTINCT", most)
        patch.setattr(answer, "FEW_OF_A_TEMPLATE", 0)
        parts = dealt(tuple(classes), rng, disjoint=True)
        shown, missing, sent = gathered(asked, parts)
        assert (shown, missing) == merged_by_sets(asked, parts)
        assert from_graph(sent.graph) == (shown, missing)


@pytest.mark.usefixtures("_always")
def test_no_sets_are_made_on_the_way_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    owner = [rng.randrange(40) for _ in range(6000)]
    parts = []
    for first in range(0, 6000, 2000):
        members: dict[int, list[int]] = {}
        for rank in range(first, first + 2000):
            members.setdefault(owner[rank], []).append(rank)
        classes = [class_of(RankSet(each), answer_of(label)) for label, each in members.items()]
        parts.append(to_graph(classes))
    whole = Gathering(
        Request(request_id=1, ranks=RankSet.range(0, 6000), operation=Detach(), timeout_s=1.0), 1.0
    )

    def refuse(partition_labels: Labels) -> tuple[RankSet, ...]:
        raise AssertionError("sets of ranks were made")

    with monkeypatch.context() as patch:
        patch.setattr(Labels, "sets", refuse)
        for graph in parts:
            whole.add_graph(graph)
        reply = whole.gathered().reply()
    found, _ = from_graph(reply.graph)
    assert [each.record for each in found] == [answer_of(label) for label in dict.fromkeys(owner)]
    assert all(owner[rank] == owner[each.ranks.first] for each in found for rank in each.ranks)


def test_what_was_said_before_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [
        to_graph([class_of(RankSet([100 * child + at]), answer_of(at)) for at in range(20)])
        for child in range(3)
    ]
    table = PathTable()
    first = read_graph(graphs[0], table)
    with monkeypatch.context() as patch:
        patch.setattr("pgdb.merge.graph.path_table.decode_with", lambda *_: pytest.fail("it was"))
        for graph in graphs[1:]:
            assert read_graph(graph, table).said == first.said
