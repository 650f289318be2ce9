"""Lines for a dispatcher, as if they were typed."""

from __future__ import annotations

import asyncio
import io

from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from tests.fakes.session import FakeSession


class Typed:
    """A dispatcher whose session notes the lines for the GDBs."""

    def __init__(self) -> None:
        self.session = FakeSession()
        self.output = io.StringIO()
        self._lines: list[str] = []

        async def read(_: str) -> str | None:
            return self._lines.pop(0) if self._lines else None

        workspace = Workspace(self.session)  # type: ignore[arg-type]
        self.dispatcher = Dispatcher(workspace, TextDisplay(self.output), read_line=read)

    def __call__(self, text: str) -> list[str]:
        """Carry out lines; return what went to the GDBs."""
        before = len(self.session.lines)
        self._lines = text.strip("\n").split("\n")

        async def run() -> None:
            while self._lines:
                await self.dispatcher.run_line(self._lines.pop(0))

        asyncio.run(run())
        return self.session.lines[before:]

    @property
    def errors(self) -> str:
        return self.output.getvalue()
