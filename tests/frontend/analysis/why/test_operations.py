"""Reductions of Python objects: a rank that leaves one out is missing from the operation."""

from __future__ import annotations

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.mpi_calls import Communicator, MpiCallStatus
from tests.support.why_calls import in_call, outside
from tests.support.why_jobs import BARRIER, FINALIZE, Job, explained

OWN = Communicator(members="0-3", identity="of mpi4py")


def receives(source: int, operation: str) -> MpiCallStatus:
    return in_call("MPI_Mrecv", "recv", source=source, tag=3, communicator=OWN, part_of=operation)


def gets(operation: str) -> MpiCallStatus:
    return in_call("MPI_Bcast", root=0, communicator=OWN, part_of=operation)


def only(job: Job) -> Verdict:
    (found,) = explained(job).verdicts
    return found


def test_a_rank_elsewhere_has_left_the_operation_out() -> None:
    found = only({"0": receives(2, "Comm.allreduce"), "1,3": gets("Comm.allreduce"), "2": BARRIER})
    assert (found.kind, str(found.ranks), str(found.victims)) == ("collective-order", "2", "0-1,3")
    assert "ranks 0-1,3 are in Comm.allreduce" in found.text


def test_a_rank_outside_mpi_is_missing_from_the_operation() -> None:
    found = only(
        {"0": receives(2, "Comm.allreduce"), "1,3": gets("Comm.allreduce"), "2": outside("lock")}
    )
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "2")
    assert str(found.victims) == "0-1,3"


def test_the_part_that_an_operation_lacks_names_the_rank() -> None:
    # Rank 1 has sent its part and left.
    found = only({"0": receives(2, "Comm.reduce"), "1,3": BARRIER, "2": receives(3, "Comm.reduce")})
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "3")
    assert str(found.victims) == "0-2"
    assert "for the part of rank 3" in found.text


def test_a_rank_that_has_left_mpi_is_named_by_a_scan_too() -> None:
    job: Job = {str(each): receives(1, "Comm.scan") for each in (0, 2, 3)}
    found = only({**job, "1": FINALIZE})
    assert (found.kind, str(found.ranks)) == ("rank-left", "1")


def test_messages_show_where_all_members_are_in_an_operation() -> None:
    found = only(
        {
            "0": receives(1, "Comm.reduce"),
            "1": receives(0, "Comm.reduce"),
            "2-3": receives(0, "Comm.reduce"),
        }
    )
    assert (found.kind, str(found.ranks), str(found.victims)) == ("cycle", "0-1", "2-3")


def test_a_call_names_the_operation_whose_part_it_is() -> None:
    (made,) = receives(2, "Comm.reduce").calls
    assert words.call(made).endswith("as a part of Comm.reduce")
