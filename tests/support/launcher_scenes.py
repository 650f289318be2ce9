"""A launcher, on this host or on several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.hosts import Hosts
from tests.support.programs import Mpi
from tests.support.terminal import (
    PGDB,
    Finished,
    run_json,
)

START_DEADLINE_S = 120.0
"""For one run of PGDB; on a busy machine a launcher takes long to reach four hosts."""


@dataclass(frozen=True)
class Scene:
    """A launcher, and where it runs."""

    mpi: Mpi
    hosts: Hosts | None
    """None for this host."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.hosts.names if self.hosts is not None else ()

    @property
    def ranks(self) -> int:
        return 2 * len(self.names) or 3

    @property
    def shares(self) -> list[dict[str, str]]:
        """Output of ``hello`` about the hosts of a job with so many ranks."""
        if not self.names:
            return [{"host": os.uname().nodename, "ranks": f"0-{self.ranks - 1}"}]
        return [
            {"host": name, "ranks": f"{2 * number}-{2 * number + 1}"}
            for number, name in enumerate(self.names)
        ]

    def here(self, argv: Sequence[object]) -> list[str]:
        """Return what runs a command on the launcher's host."""
        if self.hosts is None:
            return [str(word) for word in argv]
        return self.hosts.command(self.names[0], argv)

    def json(self, *arguments: object) -> Finished:
        """Run PGDB there."""
        return run_json(*arguments, command=self.here(PGDB), deadline_s=START_DEADLINE_S)
