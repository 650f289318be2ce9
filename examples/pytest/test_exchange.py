"""A two-rank test that deadlocks, to see the report of PGDB's pytest plugin.

Build the program with ``make`` in ``examples``, then run ``pytest examples/pytest``. The test
fails: each rank sends with a tag for which the other one does not wait. The failure has a section
with the report, and ``pgdb-reports`` has it as a page.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parent.parent / "build"
PROGRAM = os.environ.get("DEADLOCK_TAGS", str(BUILD / "deadlock_tags"))
MPIRUN = os.environ.get("MPIRUN", "mpirun").split()


def test_both_ranks_swap_their_values(pgdb: Any) -> None:
    job = pgdb([*MPIRUN, "-n", "2", PROGRAM])
    job.continue_(timeout_s=20).check()
