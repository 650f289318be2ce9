"""A ``pgdb run`` that runs beside a test."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path
from typing import Self

from tests.support.processes import wait_until
from tests.support.terminal import PGDB, Finished, end_marked, environment, marked

DEADLINE_S = 600.0


class Run:
    """A ``pgdb run`` that runs."""

    def __init__(self, folder: Path, *words: object) -> None:
        self.mark = uuid.uuid4().hex
        self.report = folder / "report.json"
        self.process = subprocess.Popen(
            [*PGDB, "run", "-o", str(self.report), *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(self.mark),
            start_new_session=True,
            cwd=folder,
        )

    def wait_ranks(self, count: int, program: Path) -> list[int]:
        """Wait until ranks run the program; return their processes."""

        def ranks() -> list[int]:
            return [
                pid
                for pid in marked(self.mark)
                if os.path.exists(f"/proc/{pid}/exe")
                and os.path.realpath(f"/proc/{pid}/exe") == str(program)
            ]

        wait_until(lambda: len(ranks()) == count, f"{count} ranks")
        return ranks()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_marked(self.mark)
        for each in (self.process.stdout, self.process.stderr):
            assert each is not None
            each.close()
        self.process.wait(DEADLINE_S)

    def finish(self) -> Finished:
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Finished(self.process.returncode, out, err, self.mark)
