"""Rows of samples, and the ranks that fall behind."""

from __future__ import annotations

from pgdb.frontend.analysis.progress import Sample, progress
from pgdb.mpi_calls import Activity, CallSite, Communicator, MpiCall, MpiCallStatus
from pgdb.ranks import RankSet

ALL = RankSet.parse("0-7")
REST = RankSet.parse("0-6")
LATE = RankSet.parse("7")


def waits(line: int = 30, calls: int | None = None) -> MpiCallStatus:
    communicator = Communicator(name="MPI_COMM_WORLD", collectives=calls)
    call = MpiCall("MPI_Allreduce", kind="collective", communicator=communicator)
    where = CallSite("main", "step.c", line)
    return MpiCallStatus("in_call", where=where, calls=(call,))


def works(activity: Activity = "computing") -> MpiCallStatus:
    return MpiCallStatus("outside", where=CallSite("smooth", "step.c", 12), activity=activity)


def samples(*moments: tuple[tuple[MpiCallStatus, RankSet], ...]) -> list[Sample]:
    return [Sample(float(at), classes) for at, classes in enumerate(moments)]


def rows(taken: list[Sample]) -> dict[str, str]:
    return {str(each.ranks): each.symbols for each in progress(taken, ALL).rows}


def test_a_rank_that_computes_while_the_others_wait_is_behind() -> None:
    taken = samples(*[((waits(), REST), (works(), LATE))] * 4)
    assert rows(taken) == {"0-6": ">===", "7": "####"}
    found = progress(taken, ALL)
    assert found.behind == LATE and not found.stands_still
    assert found.rows[1].last == works()


def test_ranks_that_move_from_call_to_call_are_not_behind() -> None:
    taken = samples(
        ((waits(), ALL),),
        ((waits(), REST), (works(), LATE)),
        ((works(), REST), (waits(), LATE)),
        ((waits(31), ALL),),
    )
    assert rows(taken) == {"0-6": ">=#>", "7": ">#>>"}
    assert not progress(taken, ALL).behind


def test_counts_of_the_recorder_show_another_call_at_the_same_place() -> None:
    taken = samples(((waits(calls=4), ALL),), ((waits(calls=5), ALL),), ((waits(calls=5), ALL),))
    assert rows(taken) == {"0-7": ">>="}


def test_a_job_that_stands_still() -> None:
    found = progress(samples(*[((waits(), REST), (waits(40), LATE))] * 3), ALL)
    assert found.stands_still and not found.behind
    assert [each.symbols for each in found.rows] == [">=="]
    assert not progress(samples(((waits(), ALL),)), ALL).stands_still


def test_states_outside_of_mpi_and_ranks_that_are_not_seen() -> None:
    taken = [
        Sample(0.0, ((works("sleeping"), REST), (works("io"), LATE))),
        Sample(1.0, ((works("lock"), REST),), stopped=LATE),
        Sample(2.0, ((works("python"), RankSet.parse("0-5")),), ended=LATE),
    ]
    assert rows(taken) == {"0-5": "zlp", "6": "zl?", "7": "i-x"}


def test_most_ranks_computing_are_no_ranks_behind() -> None:
    taken = samples(*[((works(), REST), (waits(), LATE))] * 5)
    assert not progress(taken, ALL).behind


def test_a_recorder_says_whether_a_rank_has_moved() -> None:
    def recorded(moved: bool | None) -> MpiCallStatus:
        return MpiCallStatus("in_call", calls=(MpiCall("MPI_Recv"),), moved=moved)

    taken = samples(
        ((recorded(None), ALL),),
        ((recorded(True), REST), (recorded(False), LATE)),
        ((recorded(False), ALL),),
    )
    assert rows(taken) == {"0-6": ">>=", "7": ">=="}
