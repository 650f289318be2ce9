"""The ranks that later deaths name: those that died before, and those that left MPI."""

from __future__ import annotations

import pytest

from pgdb.frontend.api.first_deaths import MOST_LEAVING_S, FirstDeaths
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Stop
from tests.support.answers import ranks

KILLED = Exit(signal="SIGKILL")
TERMINATED = Stop(reason="signal-received", signal="SIGTERM")
LEFT = Exit(code=0)


class Job:
    """Ranks 0 to 3, whose events come at times."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.live = ranks("0-3")
        self._deaths = FirstDeaths(lambda: self.now_s)

    def named_at(self, *events: tuple[str, Event], killed: str = "") -> list[str]:
        """Apply events that come together; return the ranks that each one names."""
        by_user = ranks(killed) if killed else RankSet()
        classes = [EquivalenceClass(ranks(text), event) for text, event in events]
        self._deaths.begin(classes, self.live - by_user)
        named = []
        for each in classes:
            assert isinstance(each.record, Stop | Exit)
            named.append(self._deaths.with_first(each.record, each.ranks, by_user).after)
            if isinstance(each.record, Exit):
                self.live -= each.ranks
        return named


@pytest.mark.parametrize("end", [KILLED, TERMINATED])
def test_a_rank_that_left_mpi_is_named_where_its_launcher_ends_the_others(end: Event) -> None:
    assert Job().named_at(("0,2-3", end), ("1", LEFT)) == ["1", ""]
    job = Job()
    assert job.named_at(("1", LEFT)) == [""]
    assert job.named_at(("0,2", end)) == ["1"]
    # Events of another host come later.
    job.now_s += 2 * MOST_LEAVING_S
    assert job.named_at(("3", end)) == ["1"]


def test_the_last_rank_is_ended_alone() -> None:
    job = Job()
    assert job.named_at(("1-3", LEFT)) == [""]
    assert job.named_at(("0", KILLED)) == ["1-3"]


def test_a_good_end_long_before_is_no_reason() -> None:
    job = Job()
    job.named_at(("1", LEFT))
    job.now_s += 2 * MOST_LEAVING_S
    assert job.named_at(("0,2-3", KILLED)) == [""]


def test_one_rank_of_several_can_be_killed_for_another_reason() -> None:
    job = Job()
    job.named_at(("1", LEFT))
    assert job.named_at(("0", KILLED)) == [""]
    assert job.named_at(("2-3", KILLED)) == ["0-1"]


def test_ranks_that_are_ended_one_by_one_name_the_one_that_left() -> None:
    job = Job()
    job.named_at(("1", LEFT))
    assert job.named_at(("0", KILLED)) == [""]
    assert job.named_at(("2", KILLED)) == ["0-1"]
    job.now_s += 2 * MOST_LEAVING_S
    assert job.named_at(("3", KILLED)) == ["0-1"]


def test_ranks_that_are_ended_behind_a_killed_one_name_nobody() -> None:
    job = Job()
    assert job.named_at(("0", KILLED)) == [""]
    assert job.named_at(("2-3", KILLED)) == [""]


def test_a_rank_that_failed_comes_before_one_that_left() -> None:
    assert Job().named_at(("0,2", KILLED), ("1", LEFT), ("3", Exit(code=3))) == ["3", "", ""]


def test_ranks_that_the_user_kills_name_nobody() -> None:
    job = Job()
    job.named_at(("1", LEFT))
    assert job.named_at(("0,2-3", KILLED), killed="0,2-3") == [""]


@pytest.mark.parametrize(
    "later", [Stop(reason="death"), Stop(reason="signal-received", signal="SIGABRT")]
)
def test_each_death_names_all_before_it(later: Stop) -> None:
    job = Job()
    death = Stop(reason="death")
    assert job.named_at(("0", death)) == [""]
    assert job.named_at(("1", Exit(code=3))) == [""]
    assert job.named_at(("2", death)) == ["0-1"]
    assert job.named_at(("3", later)) == ["0-2"]


def test_the_ranks_that_are_named_end_with_some_moments() -> None:
    job = Job()
    job.live = RankSet.range(0, 100)
    named = {job.named_at((str(rank), Stop(reason="death")))[0] for rank in range(100)}
    assert len(named) < 12 and {"", "0", "0-1", "0-7"} <= named
