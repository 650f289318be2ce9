"""Reasons why arguments are unknown: they are shown, with their ranks, wherever they count."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.show.json import json_why
from pgdb.frontend.show.text import mpi_call_text, why_text
from pgdb.mpi_calls import MpiCallStatus
from tests.support.why_calls import recv, send
from tests.support.why_jobs import ALL, BARRIER, FINALIZE, explained

NOTE = "unknown MPI library: no end after 100000 instructions"
NAMELESS = "the program has no symbols"


def noted(status: MpiCallStatus) -> MpiCallStatus:
    """Return a status without arguments, for a reason."""
    bare = replace(status.calls[0], dest=None, source=None, tag=None, communicator=None)
    return replace(status, calls=(bare,), note=NOTE)


def test_a_verdict_without_arguments_has_the_reason_as_its_step() -> None:
    job = {"0": noted(send(1)), "1": noted(recv(0)), "2-3": noted(BARRIER)}
    found = explained(job)
    (only,) = found.verdicts
    assert (only.kind, only.confidence) == ("unknown", "cannot tell")
    assert only.decides == f"arguments of some calls are unknown: [0-3] {NOTE}"
    assert found.notes == (f"[0-3] {NOTE}",)
    text = why_text.text(found, ALL)
    assert text.count(NOTE) == 1
    line = json_why.why(found, "why")
    assert {each.note for each in line.waits} == {NOTE}


def test_a_reason_that_no_verdict_has_is_below_the_verdicts() -> None:
    found = explained({"0-2": BARRIER, "3": replace(FINALIZE, note=NOTE)})
    (only,) = found.verdicts
    assert (only.kind, only.confidence) == ("rank-left", "certain")
    assert f"\n  [3] {NOTE}\n" in why_text.text(found, ALL)


def test_a_program_without_symbols_may_use_mpi() -> None:
    plain = MpiCallStatus(state="no_mpi")
    assert "no rank is in a call of MPI" in explained({"0-3": plain}).summary
    nameless = replace(plain, note=NAMELESS)
    found = explained({"0-1": plain, "2-3": nameless})
    assert "no rank is known to use MPI" in found.summary
    text = why_text.text(found, ALL, full=True)
    assert "[2-3] run a program that may use MPI or not" in text
    assert "[0-1] run a program without MPI" in text
    assert mpi_call_text.status(nameless) == f"no call of MPI recognized ({NAMELESS})"
    assert mpi_call_text.status(plain) == "no MPI program"
