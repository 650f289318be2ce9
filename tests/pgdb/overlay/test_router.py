"""The bookkeeping of one node, with the test's own clock: deadlines, late answers, losses."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdb.merge import rankset_codec
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import from_graph, to_graph
from pgdb.overlay import router as router_module
from pgdb.overlay.messages import Detach, Reply, Request
from pgdb.overlay.router import LEVEL_MARGIN_S, Gathered, Router
from pgdb.ranks import RankSet
from pgdb.records import Record, Value


@pytest.fixture(autouse=True, params=["sets", "labels"])
def _kept_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receive and keep the children's answers as sets of ranks, or as labels."""
    if request.param == "labels":
        monkeypatch.setattr(router_module, "LARGE_RANKS", 1)
        monkeypatch.setattr(rankset_codec, "FEW_RANKS", 0)
        monkeypatch.setattr(rankset_codec, "SMALL_PARTITION_BYTES", -1)
        monkeypatch.setattr(rankset_codec, "FEW_BLOCKS", -1)
        monkeypatch.setattr(rankset_codec, "LONG_RUN", 1 << 30)
        monkeypatch.setattr(rankset_codec, "FEW_SETS", 0)


def request(ranks: str, *, number: int = 1, timeout_s: float = 10.0) -> Request:
    return Request(
        request_id=number, ranks=RankSet.parse(ranks), operation=Detach(), timeout_s=timeout_s
    )


def reply(ranks: str, text: str = "1", *, number: int = 1, late: bool = False) -> Reply:
    classes: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet.parse(ranks), Value(text=text)),
    )
    return Reply(request_id=number, graph=to_graph(classes), late=late)


def missing(*, late: str = "", lost: str = "", number: int = 1) -> Reply:
    def read(text: str) -> RankSet:
        return RankSet.parse(text) if text else RankSet()

    silent = Missing(late=read(late), lost=read(lost))
    return Reply(request_id=number, graph=to_graph((), silent))


def said(answer: Gathered) -> dict[str, str]:
    """Return the text of each class by its ranks."""
    found = {}
    for each in answer.classes:
        assert isinstance(each.record, Value)
        found[str(each.ranks)] = each.record.text
    return found


def answer(router: Router, rank: int, text: str = "1", *, number: int = 1) -> list[Gathered]:
    return router.add_answer(number, EquivalenceClass(RankSet([rank]), Value(text=text)))


def parent_of_two(*, own: str = "0") -> Router:
    """Return a router with own ranks, 1-3 through child 1 and 4-7 through child 2."""
    router = Router(height=1)
    router.own = RankSet.parse(own)
    router.set_child(1, RankSet.parse("1-3"))
    router.set_child(2, RankSet.parse("4-7"))
    return router


def test_a_request_is_divided_among_children_and_own_ranks() -> None:
    router = parent_of_two()
    onward, own = router.start(request("0,2-5"), 0.0)
    assert {child: str(part.ranks) for child, part in onward.items()} == {1: "2-3", 2: "4-5"}
    assert all(part.request_id == 1 and part.timeout_s == 10.0 for part in onward.values())
    assert str(own) == "0"
    assert list(router._open) == [1]


def test_a_child_without_ranks_of_the_request_is_left_alone() -> None:
    onward, own = parent_of_two().start(request("4"), 0.0)
    assert list(onward) == [2] and not own


def test_the_reply_goes_up_when_the_last_one_has_answered() -> None:
    router = parent_of_two()
    router.start(request("0-7"), 0.0)
    assert router.add_reply(reply("1-3", "a")) == []
    assert answer(router, 0, "b") == []
    (done,) = router.add_reply(reply("4-7", "a"))
    assert said(done) == {"0": "b", "1-7": "a"}
    assert not done.missing and not done.is_late
    assert not router._open and router.next_deadline_s() is None


def test_ranks_that_nobody_reaches_are_lost_at_once() -> None:
    router = parent_of_two()
    router.start(request("0,90-91"), 0.0)
    (done,) = answer(router, 0)
    assert done.missing == Missing(lost=RankSet([90, 91]))


def test_a_request_for_unreachable_ranks_alone_is_complete_at_once() -> None:
    router = parent_of_two()
    onward, own = router.start(request("90"), 0.0)
    assert not onward and not own
    (done,) = router.lose_ranks(RankSet())
    assert done.missing == Missing(lost=RankSet([90]))


def test_who_is_silent_at_the_deadline_is_late() -> None:
    router = parent_of_two()
    router.start(request("0-7"), 100.0)
    due = router.next_deadline_s()
    assert due == 110.0 + LEVEL_MARGIN_S  # one level below: its own partial reply comes first
    router.add_reply(reply("1-3", "a"))
    assert router.expire(due - 0.001) == []
    (partial,) = router.expire(due)
    assert said(partial) == {"1-3": "a"}
    assert partial.missing == Missing(late=RankSet.parse("0,4-7")) and not partial.is_late
    assert router.expire(due + 100) == [] and router.next_deadline_s() is None


def test_a_node_waits_longer_than_the_one_below() -> None:
    leaf, above = Router(height=0), Router(height=1)
    for each in (leaf, above):
        each.own = RankSet([0])
        each.start(request("0"), 0.0)
    below_s, above_s = leaf.next_deadline_s(), above.next_deadline_s()
    assert below_s is not None and above_s is not None and below_s < above_s


def test_an_answer_after_the_deadline_goes_up_marked_late_and_once() -> None:
    router = parent_of_two()
    router.start(request("0-7"), 0.0)
    router.add_reply(reply("1-3"))
    router.expire(1000.0)
    (late,) = router.add_reply(reply("4-5", "z"))
    assert late.is_late and said(late) == {"4-5": "z"} and not late.missing
    assert router.add_reply(reply("4-5", "y")) == []
    assert router.add_reply(reply("1-3", "y")) == []
    (own,) = answer(router, 0, "w")
    assert own.is_late and said(own) == {"0": "w"}
    assert answer(router, 0, "w") == []


def test_a_childs_partial_reply_completes_and_its_late_one_follows() -> None:
    router = parent_of_two()
    router.start(request("4-7"), 0.0)
    classes, _ = from_graph(reply("4-5").graph)
    partial = Reply(request_id=1, graph=to_graph(classes, Missing(late=RankSet([6, 7]))))
    (first,) = router.add_reply(partial)
    assert first.missing == Missing(late=RankSet([6, 7])) and not first.is_late
    (second,) = router.add_reply(reply("6", late=True))
    assert second.is_late and said(second) == {"6": "1"}


def test_a_late_answer_in_time_for_the_node_above_is_no_longer_late() -> None:
    router = parent_of_two()
    router.start(request("1-7"), 0.0)
    assert router.add_reply(missing(late="4-7")) == []
    assert router.add_reply(reply("4-7", "a", late=True)) == []
    (done,) = router.add_reply(reply("1-3", "a"))
    assert said(done) == {"1-7": "a"} and not done.missing and not done.is_late


def test_duplicates_are_dropped() -> None:
    router = parent_of_two()
    router.start(request("0-3"), 0.0)
    assert router.add_reply(reply("1-3", "first")) == []
    assert router.add_reply(reply("1-3", "second")) == []
    (done,) = answer(router, 0, "own")
    assert said(done) == {"0": "own", "1-3": "first"}
    assert router.add_reply(reply("1-3", "third")) == []


def test_answers_of_ranks_that_were_not_asked_are_dropped() -> None:
    router = parent_of_two()
    router.start(request("1"), 0.0)
    (done,) = router.add_reply(reply("1-3", "a"))
    assert said(done) == {"1": "a"}


def test_answers_to_unknown_requests_are_dropped() -> None:
    router = parent_of_two()
    assert router.add_reply(reply("1-3", number=99)) == []
    assert router.add_missing(99, Missing(lost=RankSet([1]))) == []


def test_a_lost_child_completes_what_waits_for_it() -> None:
    router = parent_of_two()
    router.start(request("0-7"), 0.0)
    router.start(request("1-3", number=2), 0.0)
    router.add_reply(reply("1-2", "a"))
    ranks, done = router.lose(1)
    assert str(ranks) == "1-3"
    assert [each.request_id for each in done] == [2]
    assert done[0].missing == Missing(lost=RankSet([1, 2, 3]))
    assert not (router.ranks & ranks)
    answer(router, 0)
    (rest,) = router.add_reply(reply("4-7", "a"))
    assert said(rest) == {"0": "1", "1-2,4-7": "a"}
    assert rest.missing == Missing(lost=RankSet([3]))


def test_losing_a_child_twice_loses_nothing_more() -> None:
    router = parent_of_two()
    router.lose(1)
    assert router.lose(1) == (RankSet(), [])


def test_grandchildren_that_come_back_through_another_child_are_not_lost_with_the_old_one() -> None:
    router = parent_of_two()
    router.start(request("1-3"), 0.0)
    router.set_child(2, RankSet.parse("2-7"))  # 2-3 came back before the loss of 1 was seen
    ranks, done = router.lose(1)
    assert str(ranks) == "1"
    assert done == []
    assert str(router.child_ranks(2)) == "2-7"
    (answered,) = router.add_reply(reply("2-3", "b"))
    assert answered.missing == Missing(lost=RankSet([1]))
    onward, _ = router.start(request("1-3", number=2), 0.0)
    assert {child: str(part.ranks) for child, part in onward.items()} == {2: "2-3"}


def test_an_answer_beats_the_word_that_there_would_be_none() -> None:
    router = parent_of_two()
    router.start(request("0-3"), 0.0)
    router.lose(1)
    router.set_child(3, RankSet.parse("1-3"))
    assert router.add_reply(reply("1-3", "a")) == []
    (done,) = answer(router, 0, "a")
    assert said(done) == {"0-3": "a"} and not done.missing


def test_an_answer_that_comes_another_way_after_all_others_is_late() -> None:
    router = parent_of_two()
    router.start(request("0-3"), 0.0)
    router.lose(1)
    (done,) = answer(router, 0, "a")
    assert done.missing == Missing(lost=RankSet.parse("1-3"))
    router.set_child(3, RankSet.parse("2-3"))
    (late,) = router.add_reply(reply("2-3", "a"))
    assert late.is_late and said(late) == {"2-3": "a"}
    assert router.add_reply(reply("2-3", "a")) == []


def test_a_rank_is_missing_for_one_reason_only() -> None:
    router = parent_of_two()
    router.start(request("0-3"), 0.0)
    router.lose(1)
    router.set_child(3, RankSet.parse("1-3"))
    router.add_reply(missing(late="1-3"))
    (done,) = answer(router, 0)
    assert_partition(done, RankSet.parse("0-3"))


def test_many_old_requests_are_forgotten() -> None:
    router = parent_of_two()
    for number in range(1, 1001):
        router.start(request("0", number=number), 0.0)
        router.expire(1000.0)
    assert answer(router, 0, number=1) == []
    (late,) = answer(router, 0, number=1000)
    assert late.is_late


def assert_partition(done: Gathered, asked: RankSet) -> None:
    """Every rank is in exactly one class or in one of the sets of missing ones."""
    lost = done.missing
    sets = [each.ranks for each in done.classes] + [lost.late, lost.lost, lost.running]
    assert RankSet.union(sets) == asked
    assert sum(len(each) for each in sets) == len(asked)


def several(ranks: RankSet, rng: random.Random) -> Reply:
    """Return the reply of ranks with different answers, or none."""
    members: dict[str, list[int]] = {}
    for rank in ranks:
        members.setdefault(rng.choice("abc-"), []).append(rank)
    silent = RankSet(members.pop("-", ()))
    classes = (EquivalenceClass(RankSet(each), Value(text=text)) for text, each in members.items())
    return Reply(request_id=1, graph=to_graph(classes, Missing(lost=silent)))


def disturbed(rng: random.Random, router: Router, asked: RankSet) -> Iterable[Gathered]:
    """Let children answer in parts, twice, not at all, be lost and come back, then time out."""
    for _ in range(rng.randint(0, 12)):
        some = RankSet(rng.sample(range(10), rng.randint(1, 5)))
        match rng.randrange(6):
            case 0:
                yield from router.add_reply(reply(str(some), rng.choice("ab")))
            case 1:
                yield from router.add_reply(several(some, rng))
            case 2:
                chosen = rng.choice(["late", "lost", "running"])
                part = some & asked
                yield from router.add_missing(1, Missing(**{chosen: part}))
            case 3:
                yield from router.lose(rng.choice([1, 2, 3]))[1]
            case 4:
                router.set_child(rng.choice([1, 2, 3]), some)
            case _:
                yield from answer(router, 0, rng.choice("ab"))
    yield from router.expire(1e9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_whatever_happens_every_rank_is_answered_for_once(rng: random.Random) -> None:
    router = parent_of_two()
    asked = RankSet(rng.sample(range(10), rng.randint(1, 10)))
    router.start(Request(request_id=1, ranks=asked, operation=Detach(), timeout_s=1.0), 0.0)
    first, *late = [*router.lose_ranks(RankSet()), *disturbed(rng, router, asked)]
    assert not first.is_late
    assert_partition(first, asked)
    came = RankSet()
    for each in late:
        assert each.is_late and not each.missing
        ranks = RankSet.union(part.ranks for part in each.classes)
        assert ranks <= first.missing.late | first.missing.lost and ranks.isdisjoint(came)
        came = came | ranks
