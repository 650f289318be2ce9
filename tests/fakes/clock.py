"""A clock that is set all the time, for the processes that have tests/programs/clock.c loaded."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

from tests.support.programs import Builder

YEARS_38_S = 1_200_000_000


class Clock:
    """Time of day for processes with `changes` in their environment."""

    def __init__(self, builder: Builder) -> None:
        self.library = builder.build_library("clock.c")
        self.file = builder.directory / f"clock-{uuid.uuid4().hex}"
        """File that says how the clock goes, for `set_clock`."""
        self.set(0)

    @property
    def changes(self) -> dict[str, str]:
        """Variables of a process that is to have this clock."""
        return {"LD_PRELOAD": str(self.library), "PGDB_TEST_CLOCK": str(self.file)}

    def set(self, step_s: int) -> None:
        """From now on be so much slow, right, and so much fast in turns, each time one looks."""
        set_clock(self.file, step_s)


def set_clock(file: Path, step_s: int) -> None:
    """Set a clock that somebody else has made, as :meth:`Clock.set` does."""
    with file.open("r+b" if file.exists() else "wb") as clock:
        clock.write(struct.pack("@l", step_s))
