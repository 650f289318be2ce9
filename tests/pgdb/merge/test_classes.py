"""Merging answers is algebra: any tree shape, any order, duplicates, the empty answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge import classes as answer
from pgdb.merge.classes import EquivalenceClass, Merger, Missing, fill_record
from pgdb.merge.graph import from_graph, to_graph
from pgdb.merge.normalize import DIFFERENT, DIFFERENT_SLOT, normalize_record
from pgdb.merge.summary import Summary
from pgdb.merge.templates import count_placeholders, extract_template, nothing_common
from pgdb.merge.totals import summarize
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Reply
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Frame,
    Record,
    Stack,
    Text,
    Value,
    Variable,
    Variables,
    Various,
)
from tests.support.strategies import leaf_records, merged, rank_sets, records

Answer = tuple[EquivalenceClass[Record], ...]


def answer_of(rank: int, record: Record) -> Answer:
    normalized = normalize_record(record)
    merger: Merger[Record] = Merger()
    merger.add(RankSet([rank]), normalized.record, normalized.slots)  # type: ignore[arg-type]
    return merger.classes


def sent(classes: Answer) -> Answer:
    """Return the classes that arrive at the other end of an edge of the tree."""
    message = decode(encode(Reply(request_id=1, graph=to_graph(classes))))
    assert isinstance(message, Reply)
    arrived, missing = from_graph(message.graph)
    assert not missing
    return arrived


def bits(classes: Answer) -> bytes:
    """Return an encoded answer: 1 and 1.0 are equal, but their encodings differ."""
    return encode(Reply(request_id=1, graph=to_graph(classes))) + repr(classes).encode()


def merge_by_a_tree(
    leaves: Sequence[Answer], rng: random.Random, send: Callable[[Answer], Answer]
) -> Answer:
    """Merge in a random order, by a tree of a random shape."""
    left = list(leaves)
    rng.shuffle(left)
    while len(left) > 1:
        take = [left.pop() for _ in range(min(len(left), rng.randint(1, 4)))]
        left.insert(rng.randrange(len(left) + 1), send(merged(*take)))
    return left[0]


# Few different records among many ranks, so that classes have members.
said = st.lists(leaf_records, min_size=1, max_size=4).flatmap(
    lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=12)
)


@given(said, st.randoms(use_true_random=False))
def test_any_tree_shape_and_order_gives_the_same(records: list[Record], rng: random.Random) -> None:
    leaves = [answer_of(rank, record) for rank, record in enumerate(records)]
    at_once = merged(*leaves)
    assert merge_by_a_tree(leaves, rng, lambda classes: classes) == at_once
    assert merge_by_a_tree(leaves, rng, sent) == at_once


@given(said)
def test_every_rank_is_in_exactly_one_class_with_what_it_said(records: list[Record]) -> None:
    classes = merged(*(answer_of(rank, record) for rank, record in enumerate(records)))
    assert sum(len(each.ranks) for each in classes) == len(records)
    assert RankSet.union(each.ranks for each in classes) == RankSet.range(0, len(records))
    for each in classes:
        for rank in each.ranks:
            normalized = normalize_record(records[rank])
            assert normalized.record == each.record
            for ours, theirs in zip(each.slots, normalized.slots, strict=True):
                assert ours in (DIFFERENT_SLOT, theirs)
        if len(each.ranks) == 1:
            normalized = normalize_record(records[each.ranks.first])
            assert each.filled == fill_record(normalized.record, normalized.slots)
    assert [each.ranks.first for each in classes] == sorted(each.ranks.first for each in classes)


@given(said, said)
def test_the_laws_of_a_merge(one: list[Record], other: list[Record]) -> None:
    a = merged(*(answer_of(rank, record) for rank, record in enumerate(one)))
    b = merged(*(answer_of(100 + rank, record) for rank, record in enumerate(other)))
    assert merged(a, b) == merged(b, a)
    assert merged(a, ()) == a == merged((), a)
    assert merged(a, a) == a
    assert merged(merged(a, b), a) == merged(a, b)


@given(rank_sets, rank_sets, leaf_records, leaf_records)
def test_ranks_that_come_twice_keep_what_they_said_first(
    first: RankSet, second: RankSet, one: Record, other: Record
) -> None:
    merger: Merger[Record] = Merger()
    merger.add(first, one)
    merger.add(second, other)
    assert merger.ranks == first | second
    by_rank = {rank: each.record for each in merger.classes for rank in each.ranks}
    assert by_rank == dict.fromkeys(second, other) | dict.fromkeys(first, one)


def test_an_empty_merge_is_false_and_has_no_classes() -> None:
    merger: Merger[Record] = Merger()
    assert not merger
    merger.add(RankSet(), Value(text="1"))
    assert not merger and merger.classes == ()
    merger.add(RankSet([1]), Value(text="1"))
    assert merger


def test_failures_are_distinguished() -> None:
    failed: EquivalenceClass[Record] = EquivalenceClass(RankSet([1]), Failure(message="no"))
    worked: EquivalenceClass[Record] = EquivalenceClass(RankSet([1]), Value(text="no"))
    many: EquivalenceClass[Record] = EquivalenceClass(
        RankSet([1]), Various(template=Failure(message=f"no {PLACEHOLDER}"))
    )
    assert failed.is_error and many.is_error and not worked.is_error


def test_a_record_without_slots_is_filled_by_itself() -> None:
    record = Value(text="7")
    assert fill_record(record, ()) is record


missings: Callable[[], st.SearchStrategy[Missing]] = lambda: st.builds(  # noqa: E731
    Missing, late=rank_sets, lost=rank_sets, running=rank_sets
)


@given(missings(), missings(), rank_sets)
def test_missing_ranks_as_sets(one: Missing, other: Missing, ranks: RankSet) -> None:
    assert (one | other).ranks == one.ranks | other.ranks
    assert (one - ranks).ranks == one.ranks - ranks
    assert one | Missing() == one
    assert not Missing() and one


# -- expanding a class ---------------------------------------------------------------------------


@given(said, st.randoms(use_true_random=False))
def test_what_is_not_summed_up_is_expanded_without_loss(
    records: list[Record], rng: random.Random
) -> None:
    # A class omits only the addresses in which its ranks differ, and it marks them.
    leaves = [answer_of(rank, record) for rank, record in enumerate(records)]
    for each in merge_by_a_tree(leaves, rng, sent):
        for rank in each.ranks:
            normalized = normalize_record(records[rank])
            filled = fill_record(each.record, normalized.slots)
            assert filled == fill_record(normalized.record, normalized.slots)
            if DIFFERENT_SLOT not in each.slots:
                assert each.filled == filled


# -- very many different answers -------------------------------------------------------------------

# Values of few templates and of many, with equal and different parts, texts, and addresses.
_parts = st.sampled_from(
    [
        *(
            "0",
            "0.0",
            "-0.0",
            "1",
            "1.0",
            "1e0",
            "2.5",
            "1e308",
            "-7",
            "18446744073709551615",
            "5e-324",
        ),
        *("nan(0x8000000000000)", "inf", "-inf", '"a"', '"b"', "0x5555555592a0"),
    ]
) | st.integers(-50, 50).map(str)
_templates = st.sampled_from(
    ["{}", "x = {}", "{{a = {}, b = {}}}", "{{{}, {}, {}}}", "<optimized out>", "y", "z{}"]
)
_values = st.tuples(_templates, st.tuples(_parts, _parts, _parts)).map(
    lambda drawn: Value(text=drawn[0].format(*drawn[1]))
)


def _frame(function: str, value: str) -> Stack:
    arguments = (Variable(name="x", value=value, is_argument=True),)
    return Stack(frames=(Frame(level=0, function=function, arguments=arguments),))


_diverse: st.SearchStrategy[Record] = st.one_of(
    _values,
    _values,
    st.builds(lambda value: Failure(message=f"no memory at {value.text}"), _values),
    st.builds(lambda value: Text(text=f"a {value.text}\nb {value.text}"), _values),
    st.builds(_frame, st.sampled_from("fgh"), _parts),
    st.builds(
        lambda one, other: Variables(
            items=(Variable(name="i", value=one), Variable(name="j", value=other))
        ),
        _parts,
        _parts,
    ),
)


@st.composite
def limits(draw: st.DrawFn) -> dict[str, object]:
    most_templates = {Stack: draw(st.integers(1, 4))} if draw(st.booleans()) else {}
    return {
        "MOST_DISTINCT": draw(st.integers(1, 6)),
        "FEW_OF_A_TEMPLATE": draw(st.integers(1, 4)),
        "MOST_TEMPLATES": most_templates,
        "MOST_COLUMNS": draw(st.sampled_from([0, 1, 2, 64])),
    }


@pytest.fixture(autouse=True)
def _own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the limits that :func:`set_limits` changes."""
    for name in ("MOST_DISTINCT", "FEW_OF_A_TEMPLATE", "MOST_TEMPLATES", "MOST_COLUMNS"):
        monkeypatch.setattr(answer, name, getattr(answer, name))


def set_limits(small: dict[str, object]) -> None:
    for name, value in small.items():
        setattr(answer, name, value)


many_said = st.lists(_diverse, min_size=1, max_size=40)


def assert_faithful(classes: Answer, records: Mapping[int, Record]) -> None:
    """Every rank is in one class, and the class agrees with the rank's own answer."""
    assert sum(len(each.ranks) for each in classes) == len(records)
    assert RankSet.union(each.ranks for each in classes) == RankSet(records)
    for each in classes:
        normalized = {rank: normalize_record(records[rank]) for rank in each.ranks}
        if not isinstance(each.record, Various):
            assert each.columns == ()
            assert all(found.record == each.record for found in normalized.values())
            continue
        template = each.record.template
        assert all(type(found.record) is type(template) for found in normalized.values())
        if template == nothing_common(type(template)):
            assert each.columns == ()
            continue
        templates = {rank: extract_template(found.record) for rank, found in normalized.items()}  # type: ignore[arg-type]
        assert all(found == template for found, _ in templates.values())
        placeholders = count_placeholders(template)
        assert len(each.columns) == (placeholders if placeholders <= answer.MOST_COLUMNS else 0)
        for number, column in enumerate(each.columns):
            expected = summarize(
                (RankSet([rank]), parts[number]) for rank, (_, parts) in templates.items()
            )
            assert repr(column) == repr(expected)


@settings(deadline=None)
@given(many_said, limits(), st.sampled_from([1, 100]), st.randoms(use_true_random=False))
def test_any_tree_sums_up_the_same(
    records: list[Record], small: dict[str, object], spread: int, rng: random.Random
) -> None:
    # Distant ranks share the cells of a profile.
    set_limits(small)
    by_rank = {rank * spread: record for rank, record in enumerate(records)}
    leaves = [answer_of(rank, record) for rank, record in by_rank.items()]
    at_once = merged(*leaves)
    assert_faithful(at_once, by_rank)
    assert bits(merge_by_a_tree(leaves, rng, lambda classes: classes)) == bits(at_once)
    assert bits(merge_by_a_tree(leaves, rng, sent)) == bits(at_once)
    assert merged(at_once, at_once) == at_once == merged(at_once, ())
    # Late duplicates, of single ranks and of whole branches.
    assert bits(merged(at_once, *rng.sample(leaves, min(3, len(leaves))))) == bits(at_once)


@settings(deadline=None)
@given(many_said, many_said, many_said, limits())
def test_the_laws_hold_where_answers_are_summed_up(
    one: list[Record], two: list[Record], three: list[Record], small: dict[str, object]
) -> None:
    set_limits(small)
    a, b, c = (
        merged(*(answer_of(100 * branch + rank, record) for rank, record in enumerate(records)))
        for branch, records in enumerate((one, two, three))
    )
    assert bits(merged(a, b)) == bits(merged(b, a))
    assert bits(merged(merged(a, b), c)) == bits(merged(a, merged(b, c)))
    assert merged(merged(a, b), a) == merged(a, b)


def numbers(count: int, start: int = 0) -> list[Answer]:
    return [answer_of(rank, Value(text=str(rank))) for rank in range(start, start + count)]


def test_as_many_different_values_as_allowed_are_reported_one_by_one() -> None:
    reported = merged(*numbers(answer.MOST_DISTINCT))
    assert len(reported) == answer.MOST_DISTINCT
    (summed,) = merged(reported, *numbers(1, answer.MOST_DISTINCT))
    assert summed.record == Various(template=Value(text=PLACEHOLDER))
    (column,) = summed.columns
    assert (column.count, column.low, column.high) == (1025, 0, 1024)
    assert (str(column.at_low), str(column.at_high), column.mean) == ("0", "1024", 512.0)


@pytest.mark.parametrize(("base", "form"), [(2, "b"), (8, "o")])
def test_numbers_in_another_base_are_summed_up_as_numbers(base: int, form: str) -> None:
    texts = [format(rank, form) for rank in range(answer.MOST_DISTINCT + 1)]
    said = [answer_of(rank, Value(text=text, base=base)) for rank, text in enumerate(texts)]
    (summed,) = merged(*said)
    (column,) = summed.columns
    assert (column.low, column.high, column.mean) == (0, 1024, 512.0)


def test_odd_ones_out_are_still_listed_among_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MOST_DISTINCT", 20)
    odd = [
        answer_of(100, Value(text="<optimized out>")),
        answer_of(101, Failure(message="Cannot access memory at address 0x10")),
        answer_of(102, Value(text="{1, 2}")),
    ]
    classes = merged(*odd, *numbers(50))
    assert [(str(each.ranks), each.record) for each in classes] == [
        ("0-49", Various(template=Value(text=PLACEHOLDER))),
        *((str(each[0].ranks), each[0].record) for each in odd),
    ]


def test_templates_without_end_are_mixed_and_other_kinds_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer, "MOST_DISTINCT", 10)
    words = [answer_of(rank, Value(text="w" * (rank + 1))) for rank in range(30)]
    failed = answer_of(40, Failure(message="no"))
    mixed, other = merged(*words, failed)
    assert mixed.record == Various(template=Value(text="")) and mixed.columns == ()
    assert str(mixed.ranks) == "0-29" and other == failed[0]
    (again, _) = merged((mixed, other), answer_of(41, Value(text="7")))
    assert str(again.ranks) == "0-29,41" and again.record == mixed.record


def test_stacks_are_reported_one_by_one_beyond_the_limit_for_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer, "MOST_DISTINCT", 10)
    stacks = [answer_of(rank, _frame(f"f{rank}", "x")) for rank in range(50)]
    assert len(merged(*stacks)) == 50


def test_templates_with_very_many_placeholders_have_no_summaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer, "MOST_DISTINCT", 10)
    placeholders = answer.MOST_COLUMNS + 1
    arrays = [
        answer_of(rank, Value(text=f"{{{', '.join([str(rank)] * placeholders)}}}"))
        for rank in range(12)
    ]
    (both,) = merged(merged(*arrays[:11]), arrays[11])
    assert (
        isinstance(both.record, Various)
        and count_placeholders(both.record.template) == placeholders
    )
    assert both.columns == () and len(both.ranks) == 12


def test_a_summary_of_ranks_that_are_known_in_part_is_not_counted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer, "MOST_DISTINCT", 10)
    summed = merged(*numbers(20))
    assert summed[0].columns
    # Its new ranks cannot be separated from the known ones: only the ranks themselves are certain.
    (found,) = merged(numbers(1)[0], summed)
    assert str(found.ranks) == "0-19" and found.columns == ()
    assert found.record == Various(template=Value(text=""))


@pytest.mark.parametrize("columns", [(), (Summary(), Summary())])
def test_summaries_that_do_not_fit_their_template_are_refused(columns: tuple[Summary, ...]) -> None:
    merger: Merger[Record] = Merger()
    with pytest.raises(ProtocolError, match=f"{len(columns)} summaries for 1 placeholders"):
        merger.add(RankSet([1]), Various(template=Value(text=PLACEHOLDER)), (), columns)


def test_slots_that_do_not_fit_are_refused() -> None:
    merger: Merger[Record] = Merger()
    normalized = normalize_record(Value(text="(int *) 0x5555555592a0")).record
    merger.add(RankSet([0]), Value(text=normalized.text), ("0x5555555592a0",))  # type: ignore[union-attr]
    with pytest.raises(ProtocolError, match="slots"):
        merger.add(RankSet([1]), Value(text=normalized.text), ())  # type: ignore[union-attr]


def test_slots_of_ranks_that_differ_are_reported_as_different() -> None:
    pointers = [Value(text=f"(int *) {address}") for address in ("0x5555555592a0", "0x7ffe1234567")]
    (both,) = merged(*(answer_of(rank, record) for rank, record in enumerate(pointers)))
    assert both.filled == Value(text=f"(int *) {DIFFERENT}")


@given(st.lists(records, max_size=5))
def test_what_is_merged_can_be_sent(said_records: list[Record]) -> None:
    reported = [each for each in said_records if not isinstance(each, Various)]
    classes = merged(*(answer_of(rank, record) for rank, record in enumerate(reported)))
    assert sent(classes) == classes
    for each in classes:
        assert msgspec.structs.replace(each) == each
