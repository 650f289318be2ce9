"""Failures of GDB's commands as records."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.queries import failure
from pgdb.backend.rank.protocol import NeedsStopError


def failed(message: str) -> Result:
    return Result(kind="error", payload={"msg": message})


def test_a_failure_has_gdbs_words() -> None:
    assert failure(failed('No symbol "x" in current context.\n')).message == (
        'No symbol "x" in current context.'
    )


def test_a_gdb_that_is_too_old_for_the_processor_is_named_with_the_way_out() -> None:
    message = failure(failed("Couldn't write extended state status: Bad address.")).message
    assert message.startswith("Couldn't write extended state status: Bad address: this GDB cannot")
    assert "GDB 14" in message and "--gdb" in message


def test_a_rank_that_runs_is_no_failure() -> None:
    with pytest.raises(NeedsStopError):
        failure(failed("Selected thread is running."))
