"""Ranks in loops of several tests and probes: all of these are their calls."""

from __future__ import annotations

from pgdb.frontend.api.polls import with_polls
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import ANY_SOURCE, CallSite, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record
from tests.support.why_calls import outside, polls, request, waits
from tests.support.why_jobs import BARRIER, classes

PROBES = polls("MPI_Iprobe", "probe", source=0, tag=30)
SERVES = polls("MPI_Iprobe", "probe", source=ANY_SOURCE, tag=30)
TESTS = waits("MPI_Test", "any", request("collective", None))


def together(job: dict[str, Record], found: dict[str, Record]) -> dict[str, Record]:
    both = with_polls(classes(job), classes(found))
    return {str(each.ranks): each.record for each in both}


def names(record: Record) -> list[str]:
    assert isinstance(record, MpiCallStatus)
    return [each.function for each in record.calls]


def test_a_rank_is_in_all_of_its_polls() -> None:
    found = with_polls(
        classes({"0-1": PROBES, "2": TESTS, "3": BARRIER}),
        [*classes({"0-2": PROBES}), *classes({"1-2": TESTS}), *classes({"0-2": PROBES})],
    )
    assert {str(each.ranks): names(each.record) for each in found} == {
        "0": ["MPI_Iprobe"],
        "1": ["MPI_Iprobe", "MPI_Test"],
        "2": ["MPI_Iprobe", "MPI_Test"],
        "3": ["MPI_Barrier"],
    }


def test_a_probe_for_any_rank_is_named_last() -> None:
    (found,) = with_polls(classes({"0": SERVES}), [*classes({"0": SERVES}), *classes({"0": TESTS})])
    assert names(found.record) == ["MPI_Test", "MPI_Iprobe"]


def test_a_poll_elsewhere_has_its_place() -> None:
    there = CallSite(function="drain", file="/src/ring.c", line=70)
    other = MpiCallStatus(state="in_call", where=there, calls=TESTS.calls)
    (found,) = with_polls(classes({"0": PROBES}), [*classes({"0": PROBES}), *classes({"0": other})])
    assert isinstance(found.record, MpiCallStatus)
    assert [each.where for each in found.record.calls] == [None, there]


def test_a_rank_that_polls_no_longer_is_where_it_is() -> None:
    job: dict[str, Record] = {"0": BARRIER, "1": outside(), "2": outside("sleeping")}
    assert together(job, {"0-1": PROBES}) == {
        "0": BARRIER,
        "1": PROBES,
        "2": outside("sleeping"),
    }
    assert with_polls(classes(job), ()) == [
        EquivalenceClass(RankSet.parse(ranks), record) for ranks, record in job.items()
    ]
