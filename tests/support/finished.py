"""The result of a run of PGDB: its status and output, and questions to lines of JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pgdb.ranks import RankSet


@dataclass(frozen=True)
class Finished:
    """Result of a run of PGDB."""

    status: int
    stdout: bytes
    stderr: bytes
    mark: str

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    def ranks_reported(self, event: str) -> str:
        """Ranks that lines like ``[0-1] exited normally`` name, in as many lines as there are.

        Ranks that end at different moments have a line each.
        """
        lines = re.findall(rf"^\[([\d,-]+)\] +{re.escape(event)}", self.out, re.M)
        return str(RankSet.union(map(RankSet.parse, lines)))

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Output of a run with ``--json``."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["type"] == kind]

    def answers(self, command: str) -> list[dict[str, Any]]:
        return [each for each in self.of_type("answer") if each["command"] == command]

    def answer(self, command: str) -> dict[str, Any]:
        """The only answer to a command, as PGDB names it."""
        found = self.answers(command)
        assert len(found) == 1, (command, [each["command"] for each in self.of_type("answer")])
        return found[0]

    def texts(self, command: str) -> dict[str, str]:
        """Return the text of each class in the only answer to a command, by the class's ranks."""
        return {each["ranks"]: each["record"]["text"] for each in self.answer(command)["classes"]}

    def first_stops(self) -> dict[str, tuple[str, str]]:
        """Return reason and function of the first stop of each class, by the ranks of the class."""
        found: dict[str, tuple[str, str]] = {}
        for stop in self.of_type("stop"):
            for each in stop["classes"]:
                found.setdefault(each["ranks"], (each["reason"], each["frame"]["function"]))
        return found
