"""A process that looks like a rank without a launcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pgdb.jobs import procfs
from tests.support.mpir_launchers import CAT
from tests.support.processes import wait_until


@contextmanager
def alone(**env: str) -> Iterator[int]:
    """Run a process that no launcher has started, with the given environment."""
    assert CAT is not None
    process = subprocess.Popen([CAT], stdin=subprocess.PIPE, env=env)
    try:
        # Until then its environment is still ours.
        wait_until(lambda: procfs.executable(process.pid) == os.path.realpath(CAT), "cat runs")
        yield process.pid
    finally:
        process.communicate()
