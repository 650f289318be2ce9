"""Where what we print goes: to a reader that pauses, and to a locale that lacks the signs."""

from __future__ import annotations

import fcntl
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.programs import wait_until
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    assert_nothing_left,
    assert_untouched,
    end_marked,
    environment,
    ex,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_a_reader_that_pauses_holds_nothing_up(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    """As `less` does, and whatever works between two lines."""
    mark, saved = uuid.uuid4().hex, tmp_path / "saved"
    with start_job(2, build("storm.c")) as job:
        lines = ex("info functions", "info functions", f"session save {saved}", "print 40 + 2")
        process = subprocess.Popen(
            [*PGDB, "attach", "--batch", *lines, str(job.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(mark),
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            room_bytes = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
            # What comes behind the long answers is carried out, though nobody has read those.
            wait_until(saved.exists, "the session is saved", DEADLINE_S)
            out, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, out[-2000:]
            assert len(out) > 4 * room_bytes
            assert b"[0-1] 40 + 2 = 42\n" in out[-500:]
            assert_nothing_left(mark)
        finally:
            end_marked(mark)
            process.kill()
            process.communicate()
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
