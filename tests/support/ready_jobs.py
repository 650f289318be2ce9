"""Jobs of the programs of tests/why, whose ranks say when they are ready; some block at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.jobs import START_DEADLINE_S
from tests.support.processes import wait_until

END_TIMEOUT_S = 30.0


@contextlib.contextmanager
def started(
    line: Sequence[str],
    ranks: int,
    folder: Path,
    changes: Mapping[str, str] | None = None,
    output: int | None = None,
) -> Iterator[int]:
    """Run a job until *ranks* files are in the empty *folder*; yield the launcher's process id.

    *changes* are made to the environment. *output* is the file of the job's output, by default that
    of the caller.
    """
    environment = {**os.environ, **(changes or {}), "WHY_READY": str(folder)}
    job = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,
    )
    try:

        def are_up() -> bool:
            assert job.poll() is None, f"{line} ended, status {job.returncode}"
            return len(list(folder.iterdir())) == ranks

        wait_until(are_up, f"{ranks} ranks of {line} are up", START_DEADLINE_S)
        yield job.pid
    finally:
        job.terminate()
        try:
            job.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
