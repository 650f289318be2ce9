"""PGDB's own output: to a reader that pauses, and in a locale that lacks the signs."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.terminal import (
    DEADLINE_S,
    FrontEnd,
    assert_nothing_left,
    assert_untouched,
    ex,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_a_reader_that_pauses_holds_nothing_up(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    """`less` reads so, like any reader that works between two lines."""
    saved = tmp_path / "saved"
    with start_job(2, build("storm.c")) as job:
        lines = ex("info functions", "info functions", f"session save {saved}", "print 40 + 2")
        with FrontEnd(
            "attach", "--batch", *lines, job.pid, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as front_end:
            assert front_end.stdout is not None
            room_bytes = fcntl.fcntl(front_end.stdout, fcntl.F_GETPIPE_SZ)
            # PGDB carries out the commands behind the long answers, though nobody has read those.
            wait_until(saved.exists, "the session is saved", DEADLINE_S)
            out, _ = front_end.communicate(timeout=DEADLINE_S)
            assert front_end.returncode == 0, out[-2000:]
            assert len(out) > 4 * room_bytes
            assert b"[0-1] 40 + 2 = 42\n" in out[-500:]
            assert_nothing_left(front_end.mark)
        assert_untouched(job.ranks)


def test_a_locale_that_lacks_a_sign_ends_nothing(build: Build, start_job: StartJob) -> None:
    plain = {"PYTHONIOENCODING": "ascii"}
    with start_job(2, build("storm.c")) as job:
        commands = ex('print "gr\u00fcn"', "print 40 + 2")
        finished = run_pgdb("attach", "--batch", *commands, job.pid, changes=plain)
        assert finished.status == 0, finished.out + finished.err
        assert "[0-1] 40 + 2 = 42\n" in finished.out
        assert "gr\\" in finished.out, "what the locale lacks is escaped"
        assert_untouched(job.ranks)
