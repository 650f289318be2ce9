"""The frame that has called MPI is searched by all names that the function of MPI may have."""

from __future__ import annotations

from pgdb.frontend.api import call_frames, polls


def test_functions_for_large_counts_have_a_name_of_their_own() -> None:
    lines = list(call_frames.lines_to("MPI_Send", "exchange"))
    assert ("frame function PMPI_Send", polls.UP) in lines
    assert ("frame function PMPI_Send_c", polls.UP) in lines
    assert lines[-1] == ("frame function exchange",)


def test_a_call_of_pytorch_is_found_below_its_frames_alone() -> None:
    lines = list(call_frames.lines_to("all_reduce", "train"))
    assert lines and not any("all_reduce" in each or "train" in each for each, _ in lines)
